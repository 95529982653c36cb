"""The quantised types of GGUF files, as blocks with the same values.

https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h has their layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camshaft.llm._blocks import Blocks, packed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy

    Array = numpy.ndarray[Any, Any]

# name: (elements, bytes) of a block in the file
SIZES = {"Q4_0": (32, 18), "Q8_0": (32, 34), "Q4_K": (256, 144), "Q6_K": (256, 210)}


def blocks_of(data: Array, dtype: str, rows: int) -> Blocks:
    """Of the tensor's bytes."""
    return _READERS[dtype](data.reshape(rows, -1, SIZES[dtype][1]))


def _f16(data: Array) -> Array:
    """The two bytes at the end of each row as fp32, without that axis."""
    import numpy

    return numpy.ascontiguousarray(data).view("<f2")[..., 0].astype(numpy.float32)


def _q4_0(data: Array) -> Blocks:
    """fp16 scale; 16 bytes: the codes 0 to 15 in the low bits, 16 to 31 in the high ones."""
    import numpy

    codes = numpy.concatenate([data[..., 2:] & 15, data[..., 2:] >> 4], axis=-1)
    return Blocks(packed(codes), _f16(data[..., :2]), None, 4, 32)


def _q8_0(data: Array) -> Blocks:
    """fp16 scale, 32 signed bytes."""
    return Blocks(data[..., 2:] ^ 128, _f16(data[..., :2]), None, 8, 32)


def _q4_k(data: Array) -> Blocks:
    """fp16 scales of 8 scales and of 8 minima, which have 6 bits each in 12 bytes, and 4 · 32 bytes: each has the codes of a
    block in the low bits, of the next one in the high ones."""
    import numpy

    rows, supers = data.shape[:2]
    lower, upper, rest = data[..., 4:8], data[..., 8:12], data[..., 12:16]
    steps = numpy.concatenate([lower & 63, (rest & 15) | (lower >> 6 << 4)], axis=-1)
    minima = numpy.concatenate([upper & 63, (rest >> 4) | (upper >> 6 << 4)], axis=-1)
    scales = (_f16(data[..., :2])[..., None] * steps).reshape(rows, supers * 8)
    lowest = (_f16(data[..., 2:4])[..., None] * minima).reshape(rows, supers * 8)
    halves = data[..., 16:].reshape(rows, supers, 4, 32)
    codes = numpy.stack([halves & 15, halves >> 4], axis=3).reshape(rows, supers * 8, 32)
    # A block of one value: a code of 1 at a scale that is the value.
    is_flat = scales == 0
    codes[is_flat] = 1
    with numpy.errstate(divide="ignore", invalid="ignore"):
        zeros = numpy.where(is_flat, numpy.float32(0), lowest / scales)
    return Blocks(packed(codes), numpy.where(is_flat, -lowest, scales), zeros, 4, 32)


def _q6_k(data: Array) -> Blocks:
    """128 bytes of the codes' lower 4 bits, 64 of their upper 2, 16 signed scales, and their fp16 scale: codes of 6 bits
    around 32 in blocks of 16, which are held in 8 around 128."""
    import numpy

    rows, supers = data.shape[:2]
    lower = data[..., :128].reshape(rows, supers, 2, 2, 32)
    upper = data[..., 128:192].reshape(rows, supers, 2, 1, 32)
    codes = numpy.concatenate([lower & 15, lower >> 4], axis=3)
    codes |= (upper >> numpy.array([0, 2, 4, 6], numpy.uint8)[:, None] & 3) << 4
    codes += 128 - 32
    scales = _f16(data[..., 208:])[..., None] * numpy.ascontiguousarray(data[..., 192:208]).view(numpy.int8)
    return Blocks(codes.reshape(rows, supers * 16, 16), scales.reshape(rows, supers * 16), None, 8, 16)


_READERS: dict[str, Callable[[Array], Blocks]] = {"Q4_0": _q4_0, "Q8_0": _q8_0, "Q4_K": _q4_k, "Q6_K": _q6_k}
