"""Operators from outside: loaded from files, or computed by Python functions."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import json
import os
from typing import TYPE_CHECKING, Any, TypeVar

from camshaft import _native
from camshaft._plugin_kernels import device_array, launch_entries
from camshaft._values import _NUMPY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from camshaft._types import Path, Record

    Body = TypeVar("Body", bound=Callable[..., Any])


#: What load_ort_custom_ops() loaded: ONNX Runtime needs these, too, where it judges.
ORT_LIBRARIES: list[str] = []


def load_plugin(source: Path) -> None:
    """Loads operators that models may use and engines may need, for the whole process: of a shared library (see
    camshaft/plugin.hpp), of an ONNX model whose functions are operators, or of one as text,
    "my::Scaled(x, alpha = 1) = alpha * tanh(x)"."""
    _native.load_plugin(os.fspath(source))


def load_ort_custom_ops(library: Path) -> None:
    """Loads the operators of a library that was made for ONNX Runtime (what SessionOptions.register_custom_ops_library
    takes), for the whole process. They run on the host."""
    _native.load_ort_custom_ops(os.fspath(library))
    path = os.path.abspath(library)
    if path not in ORT_LIBRARIES:
        ORT_LIBRARIES.append(path)


def plugins() -> list[Record]:
    """What is loaded: [{"name", "kind", "version", "file", "hash"}]."""
    return json.loads(_native.list_plugins())


def set_plugin_checks(*, guards: bool = False, verify: bool = False) -> None:
    """How plugins are checked from now on, for debugging. guards: they run on copies of their operands between guard
    zones, which find what they write where they must not. verify: builds run every tactic against its reference
    evaluation first, over sizes with tails."""
    _native.set_plugin_checks(guards, verify)


def plugin(
    name: str,
    *,
    version: str = "1",
    shape: Callable[..., Any] | None = None,
    cuda: str | bytes | None = None,
    launch: Callable[..., Any] | None = None,
    input_layouts: Sequence[str] = (),
    output_layouts: Sequence[str] = (),
) -> Callable[[Body], Body]:
    """Makes an operator of a function of NumPy arrays, which then computes the nodes of that domain and name:

        @camshaft.plugin("my::Softcap", shape=lambda x, limit: x.shape)
        def softcap(x: np.float32, limit=30.0):
            return limit * np.tanh(x / limit)

    Parameters without a default are operands (None for one that a node leaves out), those with one attributes. An
    operand's annotation, a type of NumPy, is what it may be; fp16 and bf16 are given as fp32 where that is.

    shape: the shape rule, called with Operands, whose `shape` has ints and Dims (expressions of the sizes that the model
        leaves open), and with the attributes. It returns a shape, or (dtype, shape), or a list of these for several
        results; None as a size is one that only running tells. Without it results are as operand 0 is.

    cuda: kernels for GPUs: CUDA C++ whose kernels are extern "C" __global__, which is compiled for the GPU at hand, or,
        as bytes, a cubin, a fat binary or PTX, as Triton and Numba make them (launched by triton_launch and
        numba_launch, which add the arguments that these add).
    launch: the launch rule, called with the operands and results as DeviceArrays, and with the attributes. It returns a
        Launch, or a list of these, which run one after the other. What it returns for the same sizes is repeated
        without calling it again. On the CPU, and to verify, the function itself runs.

    input_layouts, output_layouts: the order of axes of each operand and result, "channels_first" (as in the model) or
        "channels_last" (axis 1 behind the others: [n, h, w, c]), the last one for further ones. All functions see sizes
        in that order; what has fewer than three axes has one order alone.

    The function computes on copies of nothing: arrays are the engine's memory, valid during the call alone, and operands
    must not be written to. It is called with Python's lock, by any thread."""

    if (cuda is None) != (launch is None):
        raise TypeError(
            f"the plugin {name} has {'a launch rule' if launch else 'kernels'} alone: cuda and launch go together"
        )

    layouts = [_layouts_of(name, each) for each in (input_layouts, output_layouts)]

    def register(body: Body) -> Body:
        domain, _, operator = name.rpartition("::")
        rule = shape or _shape_of_first
        made = _Operator(body, rule, launch)
        code = hashlib.sha256("\0".join(_source_of(f) for f in (body, rule, *([launch] if launch else []))).encode())
        code.update(cuda.encode() if isinstance(cuda, str) else cuda or b"")
        if any(layouts):
            code.update(repr(layouts).encode())
        file = getattr(inspect.getmodule(body), "__name__", "Python") + "." + body.__name__
        text, module = (cuda, None) if isinstance(cuda, str) else (None, cuda)
        _native.register_plugin(
            domain,
            operator,
            str(version),
            file,
            code.hexdigest()[:16],
            made,
            made.types(),
            text,
            module,
            False,
            False,
            False,
            *layouts,
        )
        return body

    return register


def _layouts_of(name: str, words: Sequence[str]) -> list[int]:
    known = ("channels_first", "channels_last")
    if isinstance(words, str) or any(word not in known for word in words):
        raise ValueError(f"the layouts of the plugin {name} are {words!r}: a list of {' and '.join(known)} is wanted")
    return [known.index(word) for word in words]


def _shape_of_first(x: Operand, *_: Any, **__: Any) -> tuple[int | Dim, ...]:
    return x.shape


def _source_of(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = function.__code__
        return repr((code.co_code, code.co_consts, code.co_names))


class Dim:
    """A size of expressions of symbols: n + 1, 2 * n, n // 2, Dim.min(n, m), …"""

    def __init__(self, text: object) -> None:
        self._text = str(text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Dim({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self._text)

    @staticmethod
    def min(a: int | Dim, b: int | Dim) -> Dim:
        return Dim(f"min({a}, {b})")

    @staticmethod
    def max(a: int | Dim, b: int | Dim) -> Dim:
        return Dim(f"max({a}, {b})")

    def __add__(self, other: int | Dim) -> Dim:
        return Dim(f"({self}) + ({other})")

    def __radd__(self, other: int | Dim) -> Dim:
        return Dim(f"({other}) + ({self})")

    def __sub__(self, other: int | Dim) -> Dim:
        return Dim(f"({self}) - ({other})")

    def __rsub__(self, other: int | Dim) -> Dim:
        return Dim(f"({other}) - ({self})")

    def __mul__(self, other: int | Dim) -> Dim:
        return Dim(f"({self}) * ({other})")

    def __rmul__(self, other: int | Dim) -> Dim:
        return Dim(f"({other}) * ({self})")

    def __floordiv__(self, other: int | Dim) -> Dim:
        return Dim(f"floor_div({self}, {other})")

    def __rfloordiv__(self, other: int | Dim) -> Dim:
        return Dim(f"floor_div({other}, {self})")

    def __mod__(self, other: int | Dim) -> Dim:
        return Dim(f"mod({self}, {other})")


def _dim(text: str) -> int | Dim:
    """A size as the library writes it."""
    return int(text) if text.isdigit() else Dim(text)


class Operand:
    """What a shape rule sees of an operand: `dtype` ("f32"), `shape`, and `values`, the elements of a small one of
    integers that is known before running, else None."""

    def __init__(self, dtype: str, dims: Sequence[str], values: list[int] | None) -> None:
        self.dtype = dtype
        self.shape: tuple[int | Dim, ...] = tuple(_dim(d) for d in dims)
        self.values = values


class _Operator:
    """What the native module calls: see PythonPlugin in plugin_functions.cpp."""

    def __init__(
        self, body: Callable[..., Any], rule: Callable[..., Any], launch: Callable[..., Any] | None = None
    ) -> None:
        parameters = _signature_of(body).parameters.values()
        self._body, self._rule, self._launch = body, rule, launch
        self._attributes = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._operands = [p for p in parameters if p.default is p.empty]

    def types(self) -> list[list[str]]:
        """[[dtype]] that each operand may have."""
        return [_types_of(p.annotation) for p in self._operands] or [list(_NUMPY)]

    def create(self, given: dict[str, list[Any]]) -> _Instance:
        unknown = given.keys() - self._attributes.keys()
        if unknown:
            raise ValueError(f"there is no attribute {', '.join(sorted(unknown))}; there are {list(self._attributes)}")
        values = {key: _attribute(values, self._attributes[key]) for key, values in given.items()}
        return _Instance(self._body, self._rule, self._launch, {**self._attributes, **values})


class _Instance:
    def __init__(
        self,
        body: Callable[..., Any],
        rule: Callable[..., Any],
        launch: Callable[..., Any] | None,
        attributes: dict[str, Any],
    ) -> None:
        self._body, self._rule, self._launch, self._attributes = body, rule, launch, attributes

    def infer(self, operands: list[Any], count: int) -> list[tuple[str, list[str | None]]]:
        given = [None if o is None else Operand(*o) for o in operands]
        results = self._rule(*given, **self._attributes)
        first = next((o.dtype for o in given if o is not None), "f32")
        listed = results if isinstance(results, list) else [results]
        if len(listed) != count:
            raise ValueError(f"the shape rule gives {len(listed)} results, the node has {count}")
        return [_result(r, first) for r in listed]

    def run(self, inputs: list[Any], outputs: list[Any]) -> list[tuple[int, list[int], bytes]]:
        import numpy

        results = self._body(*[None if i is None else _memory(i) for i in inputs], **self._attributes)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(outputs):
            raise ValueError(f"the function gives {len(results)} results, the node has {len(outputs)}")
        late = []
        for index, (result, output) in enumerate(zip(results, outputs)):
            result = numpy.asarray(result)
            if isinstance(output, str):
                result = result.astype(_of_numpy(output), casting="same_kind", copy=False)
                late.append((index, list(result.shape), numpy.ascontiguousarray(result).tobytes()))
                continue
            to = _memory(output)
            if result.shape != to.shape:
                raise ValueError(f"result {index} has the shape {result.shape}, its shape rule says {to.shape}")
            numpy.copyto(to, result, casting="same_kind")
        return late

    def launches(self, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        assert self._launch is not None
        arrays = [device_array(operand) for operand in (*inputs, *outputs)]
        return launch_entries(self._launch(*arrays, **self._attributes))


def _signature_of(body: Callable[..., Any]) -> inspect.Signature:
    """With annotations as objects, also those that a module keeps as text."""
    try:
        return inspect.signature(body, eval_str=True)
    except (NameError, SyntaxError, TypeError):  # TypeError: Python 3.9 has no eval_str
        return inspect.signature(body)


def _types_of(annotation: Any) -> list[str]:
    import numpy

    if annotation is inspect.Parameter.empty:
        return list(_NUMPY)
    text = str(annotation)
    try:  # torch.float32 is no type of NumPy's, and has the name of one
        wanted = text[len("torch.") :] if text.startswith("torch.") else numpy.dtype(annotation).name
    except TypeError:
        wanted = text
    found = [ours for ours, theirs in _NUMPY.items() if theirs == wanted]
    if not found:
        raise TypeError(f"operands cannot be {annotation}: {', '.join(_NUMPY.values())} are possible")
    return found


def _attribute(values: list[Any], default: Any) -> Any:
    """As the default is: a list, or its only element. A tensor is (dtype, dims, bytes)."""
    import numpy

    values = [numpy.frombuffer(v[2], dtype=_NUMPY[v[0]]).reshape(v[1]) if isinstance(v, tuple) else v for v in values]
    return values if isinstance(default, (list, tuple)) or len(values) != 1 else values[0]


def _result(result: Any, first: str) -> tuple[str, list[str | None]]:
    import numpy

    dtype, shape = first, result
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], (str, type, numpy.dtype)):
        dtype, shape = result
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"the shape rule gives a shape, (dtype, shape) or a list of these, and not {result!r}")
    if not isinstance(dtype, str) or dtype not in _NUMPY.keys() | {"bf16"}:  # a type of NumPy, or its name
        dtype = _types_of(dtype)[0]
    return dtype, [None if d is None else str(d) for d in shape]


def _of_numpy(dtype: str) -> str:
    """Its name of a type that a function's operand or result has."""
    if dtype not in _NUMPY:
        raise TypeError(
            f"NumPy has no {dtype}: let the annotation be float32, and the shape rule give f32, which becomes it"
        )
    return _NUMPY[dtype]


def _memory(operand: tuple[int, str, list[int]]) -> NDArray[Any]:
    """The memory of an operand, as it is."""
    import numpy

    address, dtype, dims = operand
    kind = numpy.dtype(_of_numpy(dtype))
    count = kind.itemsize
    for d in dims:
        count *= d
    if count == 0:
        return numpy.empty(dims, kind)
    memory = memoryview((ctypes.c_uint8 * count).from_address(address)).cast("B")
    return numpy.frombuffer(memory, dtype=kind).reshape(dims)
