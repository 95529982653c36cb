"""From the graph that PyTorch traced, in operators of aten, to a network: node by node, by the table of converters."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from camshaft import Network, UnsupportedError, Value
from camshaft._errors import InvalidArgumentError
from camshaft._values import literal
from camshaft.torch._registry import UnsupportedNode, arity, bound_arguments, table
from camshaft.torch._sizes import Sizes, expression_of, is_symbolic, symbol_of

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
_SIZES = (torch.SymInt, torch.SymBool, torch.SymFloat)

#: In the meta of a slice: its first columns are a view of what an engine gives, which has more and copies none.
NARROWED = "camshaft_narrowed"


def metadata_of(node: Node) -> Any:
    return node.meta.get("val")


def given_of(result: Node) -> Node:
    """What an engine gives for a result: more columns than it has, where it is marked as a view of them."""
    return result.args[0] if result.meta.get(NARROWED) else result  # type: ignore[return-value]


def is_empty(tensor: torch.Tensor) -> bool:
    """Whether a size is known to be zero."""
    return any(not is_symbolic(size) and size == 0 for size in tensor.shape)


def layout_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The axes from the outermost in memory to the innermost, where that is not their own order and the memory is
    dense: images that are channels-last, results of transposes. None for row-major tensors and what is not dense."""
    if tensor.ndim < 2 or any(is_symbolic(size) for size in (*tensor.shape, *tensor.stride())):
        return None
    if tensor.is_contiguous() or not torch.ops.aten.is_non_overlapping_and_dense(tensor):
        return None
    order = sorted(range(tensor.ndim), key=lambda axis: (-tensor.stride(axis), -tensor.shape[axis]))
    return tuple(order)


def _declared(tensor: torch.Tensor) -> list[int | str | None]:
    """Sizes as an input of a network has them: numbers, names of symbols, or None for what is neither."""
    return [symbol_of(size) if is_symbolic(size) else int(size) for size in tensor.shape]


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


class _Recorded(Network):
    """A network that knows its constants, by their names: those that converters write as numbers, too."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.constants: dict[str, Any] = {}

    def constant(self, array: Any, name: str | None = None) -> Value:
        held = array if hasattr(array, "__dlpack__") else literal(array, None)
        value = super().constant(held, name)
        self.constants[value.name] = held
        return value


class Conversion:
    """A network under construction. What the nodes of a graph compute is in `values`; what a converter does not take is
    in `refused`, with the reason, and is an input of the network if `lenient`, or else raised."""

    def __init__(self, gm: GraphModule, constants: Mapping[str, torch.Tensor], options: Any, lenient: bool) -> None:
        self.gm, self.constants, self.options, self.lenient = gm, constants, options, lenient
        self.net = _Recorded("torch")
        self.sizes = Sizes(self.net)
        self.values: dict[Node, Any] = {}
        self.refused: dict[Node, str] = {}
        self.inputs: list[tuple[Node, tuple[int, ...] | None]] = []  # with the layout of each
        self.outputs: list[tuple[Any, tuple[int, ...] | None]] = []
        self.scalars: set[Node] = set()  # sizes that the network reads as inputs
        self.fakes: dict[str, torch.Tensor] = {}
        self.node: Node = next(iter(gm.graph.nodes))

    # What the graph says.

    def run(self) -> Conversion:
        for node in self.gm.graph.nodes:
            self.node = node
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "output":
                self._output(node)
            else:
                self._call(node)
        return self

    def _placeholder(self, node: Node) -> None:
        if node.name in self.constants:
            if node.users:
                self._refuse_or(node, lambda: self._keep(node, self.constant(self.constants[node.name], node)))
        elif isinstance(metadata_of(node), torch.Tensor):
            if node.users:
                self._refuse_or(node, lambda: self._input(node))
            self.inputs.append((node, layout_of(metadata_of(node))))
        else:
            self.inputs.append((node, None))
            if isinstance(metadata_of(node), torch.SymInt):
                self.values[node] = metadata_of(node)
                self.sizes.learn_scalar(metadata_of(node), lambda: self._scalar(node))

    def _input(self, node: Node) -> None:
        fake = metadata_of(node)
        dtype = self.dtype_name(fake.dtype, narrowed=False)
        check_place(fake)
        if is_empty(fake):
            raise UnsupportedNode("an empty tensor")
        layout = layout_of(fake)
        shape = _declared(fake)
        stored = shape if layout is None else [shape[axis] for axis in layout]
        value = self.net.input(node.name, dtype, stored)
        if layout is not None:
            value = self.net.Transpose(value, perm=inverse(layout))
        if dtype != self.dtype_name(fake.dtype):
            value = self.net.Cast(value, to=self.dtype_name(fake.dtype))
        self._keep(node, value)
        self.sizes.learn(value, fake.shape)

    def _scalar(self, node: Node) -> Value:
        self.scalars.add(node)
        return self.net.input(node.name, "i64", ())

    def _attribute(self, node: Node) -> None:
        held = operator.attrgetter(str(node.target))(self.gm)
        if not isinstance(held, torch.Tensor):
            self.refused[node] = f"an attribute of type {type(held).__name__}"
            return
        self._refuse_or(node, lambda: self._keep(node, self.constant(held, node)))

    def _output(self, node: Node) -> None:
        for number, result in enumerate(node.args[0]):  # type: ignore[union-attr,arg-type]
            if not isinstance(result, Node) or result not in self.values:
                self.outputs.append((result, None))
                continue
            source = given_of(result)
            fake, value = metadata_of(source), self.values[source]
            if not isinstance(value, Value):
                self.outputs.append((result, None))
                continue
            layout = layout_of(fake)
            if layout is not None:
                value = self.net.Transpose(value, perm=layout)
            kept = self.dtype_name(fake.dtype, narrowed=False)
            if value.dtype != kept:
                value = self.net.Cast(value, to=kept)
            # An output that is an input, a constant or given twice has a node of its own.
            self.net.output(self.net.Identity(value), f"output{number}")
            self.outputs.append((result, layout))

    def _call(self, node: Node) -> None:
        if isinstance(metadata_of(node), _SIZES):
            self.values[node] = metadata_of(node)
            return
        self._refuse_or(node, lambda: self._converted(node))

    def _refuse_or(self, node: Node, convert: Any) -> None:
        try:
            convert()
        except Exception as error:  # whatever it is, PyTorch can run the node
            known = isinstance(error, (UnsupportedNode, UnsupportedError, InvalidArgumentError))
            reason = f"{'' if known else f'{type(error).__name__} in its converter: '}{error}"
            if not self.lenient:
                raise UnsupportedNode(f"{node.name} ({node.target}): {reason}") from error
            self.refused[node] = next(iter(reason.splitlines()), "")
            self._stand_in(node)

    def _stand_in(self, node: Node) -> None:
        """Inputs instead of results, so that what comes after the node is tried all the same."""
        results = metadata_of(node)
        several = isinstance(results, (tuple, list))
        made = []
        for number, fake in enumerate(results if several else [results]):
            value = None
            if isinstance(fake, torch.Tensor) and fake.dtype in DTYPES and not is_empty(fake):
                value = self.net.input(f"refused.{node.name}.{number}", self.dtype_name(fake.dtype), _declared(fake))
                self.sizes.learn(value, fake.shape)
                self.fakes[value.name] = fake
            made.append(value)
        self.values[node] = tuple(made) if several else made[0]

    def _converted(self, node: Node) -> None:
        if node.target is operator.getitem:
            results = self.values.get(node.args[0])  # type: ignore[arg-type]
            value = None if results is None else results[node.args[1]]
            if value is None:
                raise UnsupportedNode("a result that is not computed here")
            self._keep(node, value)
            return
        convert = table().get(node.target)
        if convert is None:
            raise UnsupportedNode("no converter")
        if str(node.target) in self.options.torch_executed_ops:
            raise UnsupportedNode("listed in torch_executed_ops")
        for fake in _tensors([_read_results(node), *(metadata_of(read) for read in node.all_input_nodes)]):
            self.dtype_name(fake.dtype)
            check_place(fake)
            if is_empty(fake):
                raise UnsupportedNode("an empty tensor")
        given = bound_arguments(node.target, node.args, dict(node.kwargs))
        given = given[: arity(convert)] if arity(convert) is not None else given
        results = convert(self, *(self._resolved(argument) for argument in given))
        if isinstance(results, Value):
            self._keep(node, results)
        else:
            self.values[node] = tuple(results)

    def _resolved(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            value = self.values.get(argument)
            if value is None:
                raise UnsupportedNode(f"it reads {argument.name}, which is not computed here")
            return expression_of(value) if isinstance(value, torch.SymInt) else value
        if isinstance(argument, (list, tuple)):
            return [self._resolved(item) for item in argument]
        return argument

    def _keep(self, node: Node, value: Value) -> None:
        fake = metadata_of(node)
        if isinstance(fake, torch.Tensor):
            if value.dtype != self.dtype_name(fake.dtype):
                raise UnsupportedNode(f"the converter made {value.type} where PyTorch has {fake.dtype}")
            self.fakes.setdefault(value.name, fake)
        self.values[node] = value

    # What converters use.

    @property
    def out(self) -> Any:
        """What PyTorch says of the node's results: a tensor without data, or a tuple of them."""
        return metadata_of(self.node)

    def results_read(self) -> set[int]:
        """Which of the node's several results are read."""
        return {user.args[1] for user in self.node.users}  # type: ignore[misc]

    @property
    def out_dtype(self) -> str:
        return self.dtype_name(self.out.dtype)

    def dtype_name(self, dtype: torch.dtype, narrowed: bool = True) -> str:
        """Ours for PyTorch's; f32 for f64 with the option truncate_long_and_double."""
        if dtype not in DTYPES:
            raise UnsupportedNode(f"elements of type {str(dtype).removeprefix('torch.')}")
        name = DTYPES[dtype]
        return "f32" if name == "f64" and narrowed and self.options.truncate_long_and_double else name

    def constant(self, tensor: torch.Tensor, node: Node | None = None) -> Value:
        """A constant over the tensor's own memory where it is dense."""
        check_place(tensor)
        if tensor.numel() == 0:
            raise UnsupportedNode("an empty tensor")
        wanted = self.dtype_name(tensor.dtype)
        held = tensor.detach()
        if DTYPES[held.dtype] != wanted:
            held = held.to(torch.float32)
        held = held.cpu().contiguous()
        value = self.net.constant(held)
        self.fakes[value.name] = metadata_of(node) if node is not None else held
        return value

    def number(self, value: Any, dtype: str) -> Value:
        """A scalar constant of a type; the numbers of other types are converted as PyTorch does."""
        theirs = next(key for key, name in DTYPES.items() if name == dtype)
        return self.constant(torch.tensor(value).to(theirs))

    def cast(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else self.net.Cast(value, to=dtype)

    def operand(self, value: Any, dtype: str) -> Value:
        """A tensor, number or size in a type."""
        if isinstance(value, Value):
            return self.cast(value, dtype)
        if isinstance(value, (bool, int, float)):
            return self.number(value, dtype)
        if isinstance(value, complex):
            raise UnsupportedNode("a complex number")
        return self.cast(self.net.Squeeze(self.sizes.vector(value), [0]), dtype)

    def joint_dtype(self, *positions: int) -> str:
        """What PyTorch computes in with the node's arguments at these places."""
        operands = []
        for position in positions:
            argument = self.node.args[position]
            found = metadata_of(argument) if isinstance(argument, Node) else argument
            operands.append(1 if isinstance(found, torch.SymInt) else found)
        dtype = torch.result_type(*operands) if len(operands) == 2 else operands[0].dtype
        return self.dtype_name(dtype)

    def shape(self, value: Value) -> list[Any]:
        """Sizes of a value: numbers, and expressions where they are known only at run time."""
        fake = self.fakes.get(value.name)
        if fake is not None:
            return [expression_of(size) for size in fake.shape]
        if value.shape is None or any(not isinstance(size, int) for size in value.shape):
            raise UnsupportedNode(f"the sizes of {value.type} are known only at run time")
        return list(value.shape)

    def static_shape(self, value: Value) -> list[int]:
        shape = self.shape(value)
        if any(not isinstance(size, int) for size in shape):
            raise UnsupportedNode(f"sizes that are known only at run time ({value.type})")
        return shape

    def out_shape(self, number: int | None = None) -> list[Any]:
        fake = self.out if number is None else self.out[number]
        return [expression_of(size) for size in fake.shape]

    def dims(self, sizes: Sequence[Any]) -> Value:
        """Sizes as a vector i64."""
        if all(isinstance(size, int) for size in sizes):
            return self.constant(torch.tensor(list(sizes), dtype=torch.int64))
        parts = [self.sizes.vector(size) for size in sizes]
        return parts[0] if len(parts) == 1 else self.net.Concat(*parts, axis=0)

    def reshape(self, value: Value, sizes: Sequence[Any]) -> Value:
        """The same elements in other sizes, with one -1 for what only running tells where that is enough."""
        sizes = list(sizes)
        if not sizes:
            return self.net.Reshape(value, torch.empty(0, dtype=torch.int64))
        unknown = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
        if len(unknown) == 1 and -1 not in sizes:
            sizes[unknown[0]] = -1
        return self.net.Reshape(value, self.dims(sizes))

    def axis(self, dim: int, rank: int) -> int:
        return dim % rank if rank else 0

    def axes(self, dims: Any, rank: int) -> list[int]:
        """Axes from zero on; all of them for None and []."""
        if dims is None or dims == []:
            return list(range(rank))
        return [self.axis(dim, rank) for dim in (dims if isinstance(dims, list) else [dims])]

    def count(self, value: Value, axes: Sequence[int]) -> Any:
        """How many elements there are along axes: a number, or an expression."""
        shape = self.shape(value)
        return math.prod(shape[axis] for axis in axes)

    def lowest(self, dtype: str) -> Any:
        return self._limits(dtype).min

    def highest(self, dtype: str) -> Any:
        return self._limits(dtype).max

    def _limits(self, dtype: str) -> Any:
        theirs = next(key for key, name in DTYPES.items() if name == dtype)
        return torch.finfo(theirs) if theirs.is_floating_point else torch.iinfo(theirs)


def check_place(tensor: torch.Tensor) -> None:
    """Raises UnsupportedNode for a tensor on a device that has no engines: "meta", for one, has no numbers."""
    if tensor.device.type not in ("cpu", "cuda"):
        raise UnsupportedNode(f"a tensor on the device {tensor.device}")


def _read_results(node: Node) -> Any:
    """What there is of the node's results that other nodes read."""
    results = metadata_of(node)
    if not isinstance(results, (tuple, list)):
        return results
    read = {user.args[1] for user in node.users if user.target is operator.getitem}
    return [result for number, result in enumerate(results) if number in read]


def _tensors(found: Any) -> list[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        return [found]
    if isinstance(found, (list, tuple)):
        return [tensor for item in found for tensor in _tensors(item)]
    return []
