"""Kernels of a GPU that plugins in Python launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_LaunchEntry = tuple[str, list[int], list[int], int, list[bytes]]


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel of `plugin(..., cuda=...)`: so many blocks of so many threads, one number or up to three,
    with so much dynamic shared memory. `arguments` are of its parameters: a DeviceArray is its address, NumPy's numbers
    are of their type, an int is an int64 (long long), a float a double, and None a null pointer."""

    kernel: str
    blocks: int | Sequence[int]
    threads: int | Sequence[int]
    arguments: Sequence[Any]
    shared_bytes: int = 0


@dataclass(frozen=True)
class DeviceArray:
    """An operand or a result in a GPU's memory, row-major and dense."""

    address: int
    dtype: str
    """As Camshaft names it: "f32"."""
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements."""
        count = 1
        for d in self.shape:
            count *= d
        return count


def device_array(operand: tuple[int, str, list[int]] | None) -> DeviceArray | None:
    return None if operand is None else DeviceArray(operand[0], operand[1], tuple(operand[2]))


def launch_entries(launches: Any) -> list[_LaunchEntry]:
    """What the native module takes, of one Launch or several."""
    listed = [launches] if isinstance(launches, Launch) else list(launches or [])
    for launch in listed:
        if not isinstance(launch, Launch):
            raise TypeError(f"the launch rule gives {launch!r}, where a camshaft.Launch is wanted, or a list of them")
    return [
        (
            launch.kernel,
            _sizes(launch.blocks, "blocks"),
            _sizes(launch.threads, "threads"),
            launch.shared_bytes,
            [argument_bytes(launch.kernel, i, a) for i, a in enumerate(launch.arguments)],
        )
        for launch in listed
        if 0 not in _sizes(launch.blocks, "blocks")  # of an operand without elements
    ]


def _sizes(sizes: int | Sequence[int], what: str) -> list[int]:
    listed = [sizes] if isinstance(sizes, int) else [int(size) for size in sizes]
    if not 1 <= len(listed) <= 3:
        raise ValueError(f"{what} are one number, two or three, not {sizes!r}")
    return listed + [1] * (3 - len(listed))


def argument_bytes(kernel: str, index: int, argument: Any) -> bytes:
    import numpy

    if argument is None:
        return bytes(8)
    if isinstance(argument, DeviceArray):
        return argument.address.to_bytes(8, "little")
    if isinstance(argument, numpy.generic):
        return argument.tobytes()
    if isinstance(argument, bool):
        return numpy.bool_(argument).tobytes()
    if isinstance(argument, int):
        return numpy.int64(argument).tobytes()
    if isinstance(argument, float):
        return numpy.float64(argument).tobytes()
    raise TypeError(
        f"argument {index} of the kernel '{kernel}' is {type(argument).__name__}: operands, results and numbers"
    )
