"""What calls that take a model share: its forms, options by name, and ranges of shapes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft._errors import InvalidArgumentError
from camshaft._network import Network
from camshaft._objects import native_value

if TYPE_CHECKING:
    from camshaft._types import Capsule, Inputs, Native, Profile, Shape

_Range = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def bytes_of_model(model: Any) -> bytes | None:
    """The file that an onnx.ModelProto is, or bytes as they are; None for a path."""
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    return None


@contextlib.contextmanager
def path_of_model(model: Any) -> Iterator[str]:
    """A path, for the time of the call."""
    data = None if isinstance(model, Network) else bytes_of_model(model)
    if data is None and not isinstance(model, Network):
        yield os.fspath(model)
        return
    with tempfile.TemporaryDirectory(prefix="camshaft-") as folder:
        path = Path(folder) / "model.onnx"
        if data is None:
            model.save(path)  # of any size
        else:
            path.write_bytes(data)
        yield str(path)


def options_with_precision(precision: str | Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """precision="fp16", or several, as the options of these names."""
    names = [precision] if isinstance(precision, str) else precision
    return {**options, **{name: True for name in names if name != "fp32"}}


def pairs_of_options(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """[(name, value)] as the library takes them: fp16=True is "fp16"; each item of a list is set on its own."""
    pairs = []
    for keyword, value in options.items():
        if value is None:
            continue
        name = keyword.replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            pairs.append((name, item if isinstance(item, (bool, int, float, str)) else _text(keyword, item)))
    return pairs


def _text(keyword: str, value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of NumPy's
        return value.item()
    raise TypeError(f"{keyword} is a {type(value).__name__}: give a number, text, a path, or a list of these")


def list_of_profiles(
    profiles: Profile | Sequence[Profile] | None, shapes: Mapping[str, Shape] | None
) -> list[list[_Range]]:
    """[[(input, smallest, optimum, largest)]] of {input: (smallest, optimum, largest)}, where {"min", "opt", "max"} may
    stand for the three, or several of these, and of fixed shapes {input: shape}."""
    if profiles is not None and shapes is not None:
        raise InvalidArgumentError("give profiles, or shapes for a profile of one size, not both")
    if shapes is not None:
        fixed = {name: _shape(name, shape) for name, shape in shapes.items()}
        return [[(name, shape, shape, shape) for name, shape in fixed.items()]]
    listed = [profiles] if isinstance(profiles, Mapping) else list(profiles or [])
    return [[(name, *_range(name, given)) for name, given in profile.items()] for profile in listed]


def _range(
    name: str, shapes: Sequence[Shape] | Mapping[str, Shape]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    if isinstance(shapes, Mapping):  # as engines tell theirs
        if set(shapes) != {"min", "opt", "max"}:
            raise InvalidArgumentError(
                f"the profile of input '{name}' has the shapes min, opt and max, not {', '.join(map(str, shapes))}"
            )
        shapes = [shapes[which] for which in ("min", "opt", "max")]
    given = tuple(shapes)
    if len(given) != 3 or any(not hasattr(shape, "__len__") for shape in given):
        raise InvalidArgumentError(
            f"the profile of input '{name}' is three shapes, the smallest, the usual and the largest one, not {given}"
        )
    smallest, usual, largest = (_shape(name, shape) for shape in given)
    return smallest, usual, largest


def _shape(name: str, shape: Shape) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in shape)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"a shape of input '{name}' is a tuple of sizes, not {shape!r}") from None


def list_of_inputs(inputs: Inputs | Sequence[Inputs] | None) -> list[list[tuple[str, Capsule | Native]]]:
    sets = [inputs] if isinstance(inputs, Mapping) else list(inputs or ())
    return [[(name, native_value(value, "", f"input '{name}'")) for name, value in each.items()] for each in sets]
