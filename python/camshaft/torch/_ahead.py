"""Compiling before the first call: a module and the shapes that it is to take, to a module of engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from camshaft._errors import InvalidArgumentError, UnsupportedError
from camshaft.torch._graph import compiled_graph, copied
from camshaft.torch._lowering import decompositions
from camshaft.torch._options import parsed
from camshaft.torch._region import Region
from camshaft.torch._sizes import is_symbolic

Sizes = Sequence[int]


class Input:
    """An input of a module: its shape, or the smallest, the usual and the largest one, and its type."""

    def __init__(
        self,
        shape: Sizes | None = None,
        *,
        min_shape: Sizes | None = None,
        opt_shape: Sizes | None = None,
        max_shape: Sizes | None = None,
        dtype: torch.dtype = torch.float32,
        name: str = "",
        device: Any = None,
        format: Any = None,
    ) -> None:
        """`device`: where it is to be; the CPU without one, or where the module's parameters are. `format` is not needed:
        memory in any order is taken."""
        if (shape is None) == (min_shape is None):
            raise InvalidArgumentError("an Input has a shape, or min_shape, opt_shape and max_shape")
        ranges = [shape] * 3 if shape is not None else [min_shape, opt_shape or max_shape, max_shape]
        if any(sizes is None for sizes in ranges):
            raise InvalidArgumentError("an Input with min_shape has opt_shape and max_shape, too")
        self.min_shape, self.opt_shape, self.max_shape = (tuple(map(int, sizes)) for sizes in ranges)  # type: ignore
        self.dtype, self.name, self.device = dtype, name, device
        if not len(self.min_shape) == len(self.opt_shape) == len(self.max_shape):
            raise InvalidArgumentError(f"{self!r}: the three shapes differ in length")
        if any(not low <= usual <= high for low, usual, high in zip(self.min_shape, self.opt_shape, self.max_shape)):
            raise InvalidArgumentError(f"{self!r}: opt_shape lies between min_shape and max_shape")

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor) -> Input:
        return cls(tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)

    @property
    def dynamic_axes(self) -> list[int]:
        return [axis for axis, size in enumerate(self.min_shape) if size < self.max_shape[axis]]

    def example(self, device: torch.device) -> torch.Tensor:
        """A tensor of the usual shape; of ones, which are valid indices of most tables."""
        return torch.ones(self.opt_shape, dtype=self.dtype, device=self.device or device)

    def __repr__(self) -> str:
        if self.min_shape == self.max_shape:
            return f"Input({self.opt_shape}, dtype={self.dtype})"
        shapes = f"min_shape={self.min_shape}, opt_shape={self.opt_shape}, max_shape={self.max_shape}"
        return f"Input({shapes}, dtype={self.dtype})"


class CompiledModule(torch.nn.Module):
    """A module of engines. Its arguments are those of the module that it was made from; it pickles."""

    def __init__(self, run: torch.nn.Module, specs: list[tuple[Any, Any]], in_spec: Any, out_spec: Any) -> None:
        """`specs`: (type, ranges of sizes, device) of each tensor among the arguments, (None, value) of others."""
        super().__init__()
        self.run, self._specs = run, specs
        self._in_spec, self._out_spec = in_spec, out_spec
        self.training = False

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_in_spec"], state["_out_spec"] = (pytree.treespec_dumps(s) for s in (self._in_spec, self._out_spec))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._in_spec, self._out_spec = (pytree.treespec_loads(text) for text in (self._in_spec, self._out_spec))

    def train(self, mode: bool = True) -> CompiledModule:
        if mode:
            raise UnsupportedError("a compiled module is for inference: train the module that it was made from")
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        given, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            from torch.export._tree_utils import reorder_kwargs

            if set(kwargs) == set(self._in_spec.child(1).context):
                given, spec = pytree.tree_flatten((args, reorder_kwargs(kwargs, self._in_spec)))
            if spec != self._in_spec:
                raise InvalidArgumentError(f"the module was compiled for arguments {self._in_spec}, not {spec}")
        for place, (value, wanted) in enumerate(zip(given, self._specs)):
            if wanted[0] is not None:
                _check(place, value, *wanted)
            elif value != wanted[1]:
                raise InvalidArgumentError(
                    f"argument {place} is {value!r}; the module was compiled for {wanted[1]!r} alone"
                )
        return pytree.tree_unflatten(self.run(*given), self._out_spec)


def _check(place: int, value: Any, dtype: torch.dtype, ranges: tuple[tuple[int, int], ...], device: str) -> None:
    if not isinstance(value, torch.Tensor) or value.dtype != dtype or value.ndim != len(ranges):
        found = f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise InvalidArgumentError(f"argument {place} is {found}; the module takes {dtype}, {len(ranges)} axes")
    if value.device != torch.device(device):
        raise InvalidArgumentError(f"argument {place} is on {value.device}; the module was compiled for {device}")
    for axis, (size, (low, high)) in enumerate(zip(value.shape, ranges)):
        if not low <= size <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise InvalidArgumentError(
                f"axis {axis} of argument {place} is {size}; the module was compiled for {wanted}"
            )


def compile(
    module: Any,
    inputs: Sequence[Any] | None = None,
    *,
    arg_inputs: Sequence[Any] | None = None,
    kwarg_inputs: Mapping[str, Any] | None = None,
    ir: str = "dynamo",
    **options: Any,
) -> CompiledModule:
    """A module of engines, for inference.

    module: a torch.nn.Module in eval mode, a function, or what torch.export.export() gave.
    inputs, kwarg_inputs: an Input or a tensor for each tensor among the arguments, in their order; other arguments are
        constants. `arg_inputs` is the same as `inputs`.
    options: those of torch.compile(backend="camshaft"): enabled_precisions={torch.float16}, optimization_level=5, …

    What torch.export cannot capture whole raises its error: use torch.compile, which breaks the graph there."""
    chosen = parsed(options)
    if ir not in ("dynamo", "default"):
        raise UnsupportedError(f"ir='{ir}' is not there: PyTorch's TorchScript is at its end, use ir='dynamo'")
    positional = list(arg_inputs if inputs is None else inputs) if (inputs or arg_inputs) else []
    if isinstance(module, torch.export.ExportedProgram):
        program, described = module, None
    else:
        if isinstance(module, torch.nn.Module) and module.training:
            raise InvalidArgumentError("the module is in training mode: call module.eval() first")
        program, described = _exported(module, positional, dict(kwarg_inputs or {}))
    return compiled_program(program, described, chosen)


def _exported(module: Any, positional: list[Any], named: dict[str, Any]) -> tuple[Any, list[Any]]:
    parameters = module.parameters() if isinstance(module, torch.nn.Module) else iter(())
    device = next((parameter.device for parameter in parameters), torch.device("cpu"))
    if not isinstance(module, torch.nn.Module):
        module = _Function(module)
    described: list[Any] = []

    def example(given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            given = Input.from_tensor(given)
        described.append(given if isinstance(given, Input) else None)
        return given.example(device) if isinstance(given, Input) else given

    def dynamic(given: Any) -> Any:
        if not isinstance(given, Input) or not given.dynamic_axes:
            return None
        return {
            axis: torch.export.Dim.AUTO(min=given.min_shape[axis], max=given.max_shape[axis])
            for axis in given.dynamic_axes
        }

    leaf = lambda given: isinstance(given, Input)  # noqa: E731
    args = tuple(pytree.tree_map(example, given, is_leaf=leaf) for given in positional)
    kwargs = {name: pytree.tree_map(example, given, is_leaf=leaf) for name, given in named.items()}
    shapes: Any = tuple(pytree.tree_map(dynamic, given, is_leaf=leaf) for given in positional)
    if named:
        import inspect

        names = list(inspect.signature(module.forward).parameters)[: len(positional)]
        of_names = {name: pytree.tree_map(dynamic, given, is_leaf=leaf) for name, given in named.items()}
        shapes = {**dict(zip(names, shapes)), **of_names}
    with torch.no_grad():
        program = torch.export.export(module, args, kwargs or None, dynamic_shapes=shapes, strict=False)
    return program, described


class _Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def compiled_program(program: Any, described: list[Any] | None, options: Any) -> CompiledModule:
    from torch.export.graph_signature import InputKind, OutputKind

    with torch.no_grad():
        program = program.run_decompositions(decompositions())
    written = [spec.target for spec in program.graph_signature.output_specs if spec.kind is not OutputKind.USER_OUTPUT]
    if written:
        raise UnsupportedError(
            f"the module writes {', '.join(map(str, written))} when it is called: make that an input and an output"
        )
    gm = copied(program.graph_module)  # as one that pickles
    users = []
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs):
        if spec.kind is InputKind.USER_INPUT:
            users.append((node, spec))
            continue
        held = program.state_dict.get(spec.target, program.constants.get(spec.target))
        _embed(gm, node, f"constant_{node.name}", held)
    specs, profiles = _specs(program, users, described)
    with torch.no_grad():
        run = compiled_graph(gm, {}, options, profiles)
    if not isinstance(run, Region):
        _drop_unread(run)
    return CompiledModule(run, specs, program.call_spec.in_spec, program.call_spec.out_spec)


def _embed(gm: GraphModule, node: Any, name: str, held: Any) -> None:
    """A parameter or buffer as an attribute of the graph, no longer an argument."""
    gm.register_buffer(name, held.detach())
    with gm.graph.inserting_before(node):
        made = gm.graph.get_attr(name)
    made.meta.update(node.meta)
    node.replace_all_uses_with(made)
    gm.graph.erase_node(node)


def _drop_unread(gm: GraphModule) -> None:
    """Weights that engines hold now."""
    gm.graph.eliminate_dead_code()
    gm.recompile()
    read = {str(node.target) for node in gm.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in gm.named_buffers() if name.startswith("constant_") and name not in read]:
        delattr(gm, name)


def _specs(program: Any, users: list[Any], described: list[Any] | None) -> tuple[list[Any], dict[str, Any]]:
    """What each argument may be, and the profile of the engine's inputs."""
    ranges = program.range_constraints
    specs: list[Any] = []
    profiles: dict[str, Any] = {}
    dynamic = False
    for place, (node, _) in enumerate(users):
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            specs.append((None, fake))
            continue
        given = None if described is None else described[place]
        sizes = []
        for axis, size in enumerate(fake.shape):
            if not is_symbolic(size):
                if given is not None and axis in given.dynamic_axes:
                    raise UnsupportedError(
                        f"{given!r}: the module has axis {axis} of argument {place} at {size} alone "
                        "(torch.export finds no way for others)"
                    )
                sizes.append((int(size), int(size)))
                continue
            dynamic = True
            if given is not None:
                sizes.append((given.min_shape[axis], given.max_shape[axis]))
            else:
                found = ranges.get(size.node.expr)
                high = 2**31 if found is None or found.upper > 2**31 else int(found.upper)
                sizes.append((1 if found is None else max(1, int(found.lower)), high))
        specs.append((fake.dtype, tuple(sizes), str(fake.device)))
        if given is not None:
            profiles[node.name] = (given.min_shape, given.opt_shape, given.max_shape)
    return specs, profiles if dynamic and len(profiles) == sum(spec[0] is not None for spec in specs) else {}
