"""Values that are no arrays of numbers: texts, sequences, optionals and maps, as inputs and outputs of engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from camshaft._arrays import Array, Exported, capsule_of
from camshaft._values import _NUMPY, TEXT_ERRORS, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from camshaft._types import Capsule, Native

# What TensorInfo.dtype has of them.
OBJECTS = ("string", "seq", "opt", "map")


def native_value(value: Any, type_: str, what: str) -> Capsule | Native:
    """What _native takes for a value. `type_` is TensorInfo.type ("seq[?]<map<i64, f32>>"), or "" where that is not known:
    then lists are sequences and dicts maps. `what` begins the message of a TypeError."""
    kind, inner = _taken_apart(type_) if type_ else (_kind_of(value), "")
    if kind == "opt":
        return kind, [] if value is None else [native_value(value, inner, what)]
    if kind == "seq":
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{what}: a sequence is given as a list, not as {type(value).__name__}")
        return kind, [native_value(element, inner, f"{what}, element {i}") for i, element in enumerate(value)]
    if kind == "map":
        if not isinstance(value, Mapping):
            raise TypeError(f"{what}: a map is given as a dict, not as {type(value).__name__}")
        of_keys, _, of_values = inner.partition(", ")
        keys, values = list(value.keys()), list(value.values())
        return kind, [_column(keys, of_keys, f"{what}, keys"), _column(values, of_values, f"{what}, values")]
    if kind == "string":
        return _texts(value, what)
    if kind and not hasattr(value, "__dlpack__"):
        value = _numbers(value, kind, what)
    elif hasattr(value, "__array_interface__"):  # the library wants NumPy's row-major
        import numpy

        value = numpy.asarray(value, order="C")
    return capsule_of(value, what)


def python_value(given: Capsule | Native) -> Any:
    """The inverse, as ONNX Runtime gives them: arrays of NumPy, of texts with str as elements, lists, dicts, None."""
    import numpy

    if not isinstance(given, tuple):
        return numpy.from_dlpack(Exported(lambda: given)).copy()
    kind, *rest = given
    if kind == "string":
        dims, texts = rest
        array = numpy.empty(len(texts), object)
        array[:] = [text.decode("utf-8", TEXT_ERRORS) for text in texts]
        return array.reshape(dims)
    elements = [python_value(element) for element in rest[0]]
    if kind == "opt":
        return elements[0] if elements else None
    if kind == "map":
        keys, values = elements
        return dict(zip(keys.tolist(), values.tolist()))
    return elements


def of_caller(output: Any) -> Any:
    """An output of a context as the caller's own: a NumPy array, or a value that is one already."""
    import numpy

    return numpy.from_dlpack(output).copy() if isinstance(output, Array) else output


def _taken_apart(type_: str) -> tuple[str, str]:
    """("seq", "f32[2]") for "seq[?]<f32[2]>", ("f32", "") for "f32[2]"."""
    head, _, inner = type_.partition("<")
    return head.partition("[")[0], inner[: inner.rfind(">")]


def _kind_of(value: Any) -> str:
    if value is None:
        return "opt"
    if isinstance(value, (list, tuple)):
        return "seq"
    if isinstance(value, Mapping):
        return "map"
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return "string" if isinstance(value, (str, bytes)) or kind in ("O", "S", "T", "U") else ""


def _texts(value: Any, what: str) -> Native:
    import numpy

    array = numpy.asarray(value, object)
    return "string", list(array.shape), words_of(array, what)


def _numbers(value: Any, dtype: str, what: str) -> NDArray[Any]:
    """Of numbers and lists of them, in the type that is wanted, or in ONNX's usual ones: f32 and i64."""
    import numpy

    try:
        if dtype:
            return numpy.asarray(value, _NUMPY[dtype], order="C")
        array: NDArray[Any] = numpy.asarray(value, order="C")
        return array.astype(numpy.float32) if array.dtype == numpy.float64 else array
    except (KeyError, TypeError, ValueError):
        raise TypeError(f"{what}: {value!r} is no array of {dtype or 'numbers'}") from None


def _column(values: list[Any], dtype: str, what: str) -> Capsule | Native:
    is_text = dtype == "string" or (not dtype and bool(values) and isinstance(values[0], (str, bytes)))
    if is_text:
        return _texts(values, what)
    return capsule_of(_numbers(values, dtype, what), what)
