"""Values of networks, constants for them, and operators of Python on them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from camshaft._arrays import capsule_of
from camshaft._errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from camshaft._network import Network
    from camshaft._types import Capsule, DType, Index, Operand, Record

# What NumPy has of the library's types.
_NUMPY = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
}
_OURS = {theirs: ours for ours, theirs in _NUMPY.items()} | {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn": "f4e2m1",
    "int4": "i4",
    "uint4": "u4",
    "int2": "i2",
    "uint2": "u2",
    "object": "string",
    "str": "string",
}
# As ONNX numbers element types.
_ONNX = {
    name: number
    for number, name in enumerate(
        "f32 u8 i8 u16 i16 i32 i64 string bool f16 f64 u32 u64 complex64 complex128 bf16 f8e4m3 f8e4m3fnuz f8e5m2 "
        "f8e5m2fnuz u4 i4 f4e2m1 f8e8m0 u2 i2".split(),
        1,
    )
}


def dtype_name(dtype: DType) -> str:
    """ "f32" for "f32", numpy.float32, numpy.dtype("float32"), torch.float32, a type of ml_dtypes, float."""
    if isinstance(dtype, str) and (dtype in _ONNX or "(" in dtype):
        return dtype
    text = str(dtype)
    if text.startswith("torch."):
        text = text[len("torch.") :]
    if text in _OURS:
        return _OURS[text]
    import numpy

    try:
        made = numpy.dtype(dtype)
    except TypeError:
        raise InvalidArgumentError(f"{dtype!r} is no type of elements: give one of {', '.join(_ONNX)}") from None
    if made.kind in "OSU":
        return "string"
    if made.name not in _OURS:
        raise InvalidArgumentError(f"values of a network cannot be {made.name}")
    return _OURS[made.name]


def onnx_number(dtype: DType) -> int:
    """What attributes like `to` of Cast have for a type."""
    return _ONNX[dtype_name(dtype)]


def _packed(array: Any, bits: int) -> Any:
    """Elements of 4 or 2 bits, the first in a byte's low ones."""
    import numpy

    flat = array.reshape(-1).view(numpy.uint8) & ((1 << bits) - 1)
    each = 8 // bits
    flat = numpy.concatenate([flat, numpy.zeros(-len(flat) % each, numpy.uint8)]).reshape(-1, each)
    return (flat << (bits * numpy.arange(each, dtype=numpy.uint8))).sum(axis=1, dtype=numpy.uint8)


# Bytes of a text that are not UTF-8 become these code points, and come back as they were.
TEXT_ERRORS = "surrogateescape"


def words_of(texts: NDArray[Any], what: str) -> list[bytes]:
    """The texts of an array, row-major; a TypeError, which begins with `what`, for elements that are none."""
    words = []
    for item in texts.reshape(-1).tolist():
        if not isinstance(item, (str, bytes)):
            raise TypeError(f"{what}: {item!r} is no text: give str or bytes")
        words.append(item.encode("utf-8", TEXT_ERRORS) if isinstance(item, str) else item)
    return words


def native_constant(array: Any) -> tuple[Capsule | list[bytes], str, Sequence[int]]:
    """(DLPack capsule or list of bytes, dtype or "", dims), without a copy where the array is dense."""
    if not hasattr(array, "dtype"):
        import numpy

        array = numpy.asarray(array)
    elif hasattr(array, "__dlpack_device__") and not hasattr(array, "__array_interface__"):
        return capsule_of(array), "", ()
    name = dtype_name(array.dtype)
    dims = array.shape
    if name == "string":
        return words_of(array, "a constant"), name, dims
    import numpy

    dense = numpy.asarray(array, order="C")
    if not dense.dtype.isnative:
        dense = dense.astype(dense.dtype.newbyteorder("="))
    if name in _NUMPY:
        return capsule_of(dense), "", dims
    bits = {"4": 4, "2": 2}.get(name[1])
    raw = _packed(dense, bits) if bits else dense.reshape(-1).view(numpy.uint8)
    return capsule_of(raw), name, dims


def literal(value: Any, dtype: str | None) -> Any:
    """A number, a list or text as an array, of the type where it is given."""
    import numpy

    array = numpy.asarray(value)
    if dtype in _NUMPY:
        if (
            array.dtype.kind == "f"
            and dtype[0] not in "f"
            and array.size
            and not numpy.all(array == array.astype("i8"))
        ):
            raise InvalidArgumentError(f"{value!r} is no value of {dtype}")
        return array.astype(_NUMPY[dtype])
    if dtype is not None and dtype != "string":
        raise InvalidArgumentError(f"{value!r} is to be {dtype}: give an array of that type")
    return array.astype(numpy.float32) if array.dtype == numpy.float64 else array


class Value:
    """A tensor in a network: what add an input, a constant or a node gave. `shape` has numbers, names of sizes ("batch") and
    expressions of them. + - * / ** @ % & | ^ ~ < <= > >=, - and abs() are NumPy's, [] too; so are they between a value and
    a number or an array. == compares which value it is."""

    __array_ufunc__ = None  # NumPy's arrays leave operators to this class

    def __init__(self, network: Network, described: Record) -> None:
        self.network = network
        self.name: str = described["name"]
        self.dtype: str = described["dtype"]
        self.type: str = described["type"]
        numbers = zip(described["dims"], described["dim_names"])
        self.shape: tuple[int | str, ...] | None = (
            tuple(size if size >= 0 else text for size, text in numbers) if described["ranked"] else None
        )

    @property
    def ndim(self) -> int:
        if self.shape is None:
            raise TypeError(f"{self.name} has an unknown number of axes")
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<camshaft.Value {self.name}: {self.type}>"

    def __add__(self, other: Operand) -> Value:
        return self.network.Add(self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.network.Add(other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.network.Sub(self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.network.Sub(other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.network.Mul(self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.network.Mul(other, self)

    def __truediv__(self, other: Operand) -> Value:
        self._need("/", "f", "ONNX's Div cuts quotients of integers: call Div, or Cast first")
        return self.network.Div(self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        self._need("/", "f", "ONNX's Div cuts quotients of integers: call Div, or Cast first")
        return self.network.Div(other, self)

    def __mod__(self, other: Operand) -> Value:
        self._need("%", "iu", "of floats ONNX's Mod has the dividend's sign: call Mod(…, fmod=1)")
        return self.network.Mod(self, other)

    def __pow__(self, other: Operand) -> Value:
        return self.network.Pow(self, other)

    def __matmul__(self, other: Operand) -> Value:
        return self.network.MatMul(self, other)

    def __rmatmul__(self, other: Operand) -> Value:
        return self.network.MatMul(other, self)

    def __neg__(self) -> Value:
        return self.network.Neg(self)

    def __abs__(self) -> Value:
        return self.network.Abs(self)

    def __lt__(self, other: Operand) -> Value:
        return self.network.Less(self, other)

    def __le__(self, other: Operand) -> Value:
        return self.network.LessOrEqual(self, other)

    def __gt__(self, other: Operand) -> Value:
        return self.network.Greater(self, other)

    def __ge__(self, other: Operand) -> Value:
        return self.network.GreaterOrEqual(self, other)

    def __and__(self, other: Operand) -> Value:
        return self._bitwise("And", other)

    def __or__(self, other: Operand) -> Value:
        return self._bitwise("Or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._bitwise("Xor", other)

    def __invert__(self) -> Value:
        return self.network.Not(self) if self.dtype == "bool" else self.network.BitwiseNot(self)

    def _bitwise(self, name: str, other: Operand) -> Value:
        result: Value = getattr(self.network, name if self.dtype == "bool" else f"Bitwise{name}")(self, other)
        return result

    def _need(self, symbol: str, kinds: str, otherwise: str) -> None:
        if not self.dtype.startswith(tuple(kinds)) and self.dtype != "bf16":
            raise TypeError(f"{symbol} of {self.type} is not as in NumPy: {otherwise}")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"what {self.name} is, only running tells: use If or Where")

    def __iter__(self) -> Iterator[Value]:
        raise TypeError(f"{self.name} is not iterable: use Split, or index it")

    def __getitem__(self, at: Index | tuple[Index, ...]) -> Value:
        index: tuple[Any, ...] = at if isinstance(at, tuple) else (at,)
        if self.shape is None:
            raise TypeError(f"{self.name} has an unknown number of axes")
        taken = sum(item is not None and item is not Ellipsis for item in index)
        if taken > self.ndim:
            raise IndexError(f"{taken} indices for {self.type}")
        if sum(item is Ellipsis for item in index) > 1:
            raise IndexError("more than one ... in an index")
        if Ellipsis in [item for item in index if not isinstance(item, Value)]:
            place = next(i for i, item in enumerate(index) if item is Ellipsis)
            index = index[:place] + (slice(None),) * (self.ndim - taken) + index[place + 1 :]
        return _indexed(self, index)


def _indexed(value: Value, index: tuple[Any, ...]) -> Value:
    """Slices first, then what takes axes away, from the last one on, then what adds some."""
    network, shape = value.network, value.shape or ()
    slices: list[tuple[int, int, int, int]] = []
    taken: list[tuple[int, Any]] = []
    added: list[int] = []
    axis = results = 0
    for item in index:
        if item is None:
            added.append(results)
            results += 1
            continue
        if isinstance(item, slice):
            if item != slice(None):
                slices.append((axis, *_bounds(item)))
            results += 1
        elif isinstance(item, Value):
            taken.append((axis, item))
            results += item.ndim
        else:
            number, size = operator.index(item), shape[axis]
            if isinstance(size, int) and not -size <= number < size:
                raise IndexError(f"index {number} of axis {axis} of {value.type}")
            taken.append((axis, literal(number, "i64")))
        axis += 1
    if len(taken) > 1 and any(isinstance(item, Value) for _, item in taken):
        raise TypeError("a value as an index stands alone beside slices: use GatherND for several")
    if slices:
        axes, starts, ends, steps = zip(*slices)
        value = network.Slice(value, starts, ends, axes, steps)
    for axis, item in reversed(taken):
        value = network.Gather(value, item, axis=axis)
    return network.Unsqueeze(value, added) if added else value


def _bounds(item: slice) -> tuple[int, int, int]:
    step = 1 if item.step is None else operator.index(item.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    first, last = (0, 2**63 - 1) if step > 0 else (2**63 - 1, -(2**63) + 1)
    start = first if item.start is None else operator.index(item.start)
    return start, last if item.stop is None else operator.index(item.stop), step
