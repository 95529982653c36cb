"""Weights of few bits in blocks along a row, each with a scale: what com.microsoft's MatMulNBits takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from camshaft.llm._rows import for_rows, widened

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

BLOCK = 32  # elements, of what is quantised here


class Blocks(NamedTuple):
    """Elements are scale · (code - zero)."""

    codes: Array  # u8 [rows, blocks, size · bits / 8], the first of two codes in a byte's low bits
    scales: Array  # f32 [rows, blocks]
    zeros: Array | None  # f32 [rows, blocks]; None: the middle of the codes
    bits: int
    size: int  # elements of a block
    columns: Array | None = None  # which column each code of a row is of; None: its own

    def rows(self, order: Array) -> Blocks:
        zeros = None if self.zeros is None else self.zeros[order]
        return Blocks(self.codes[order], self.scales[order], zeros, self.bits, self.size, self.columns)

    def in_columns(self, columns: Array) -> Blocks:
        """Of some columns one behind the other, which are whole blocks; of those without an order of their own."""
        first, last = columns[0] // self.size, (columns[-1] + 1) // self.size
        zeros = None if self.zeros is None else self.zeros[:, first:last]
        return Blocks(self.codes[:, first:last], self.scales[:, first:last], zeros, self.bits, self.size)

    def values(self, columns: int) -> Array:
        """f32 [rows, columns]"""
        import numpy

        made = numpy.empty((len(self.codes), columns), numpy.float32)
        own = slice(None) if self.columns is None else self.columns

        def fill(part: slice) -> None:
            codes = self.codes[part]
            if self.bits == 4:
                codes = numpy.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:2], self.size)
            steps = codes.astype(numpy.float32)
            steps -= numpy.float32(1 << (self.bits - 1)) if self.zeros is None else self.zeros[part, :, None]
            steps *= self.scales[part, :, None]
            made[part, own] = steps.reshape(len(codes), -1)[:, :columns]

        for_rows(len(made), columns, fill)
        return made


def in_blocks(weights: Array, bits: int, dtype: str = "F32") -> Blocks:
    """Of [rows, columns], of a type as widened() takes it; the last block of a row is filled with zeros. A block's largest
    value by magnitude gets the most negative code, as in Q4_0 of llama.cpp. Scales are values of fp16, so that packing may
    keep them in 16 bits."""
    import numpy

    rows, columns = weights.shape
    blocks = -(-columns // BLOCK)
    codes = numpy.empty((rows, blocks, BLOCK * bits // 8), numpy.uint8)
    scales = numpy.empty((rows, blocks), numpy.float32)

    def fill(part: slice) -> None:
        values = widened(weights[part], dtype)
        if columns % BLOCK != 0:
            values = numpy.pad(values, ((0, 0), (0, blocks * BLOCK - columns)))
        codes[part], scales[part] = _coded(numpy.ascontiguousarray(values).reshape(-1, blocks, BLOCK), bits)

    for_rows(rows, columns, fill)
    return Blocks(codes, scales, None, bits, BLOCK)


def _coded(blocks: Array, bits: int) -> tuple[Array, Array]:
    import numpy

    middle = 1 << (bits - 1)
    low, high = blocks.min(axis=2), blocks.max(axis=2)
    extreme = numpy.where(-low >= high, low, high)
    scales = (extreme / numpy.float32(-middle)).astype(numpy.float16).astype(numpy.float32)
    with numpy.errstate(divide="ignore"):
        inverse = numpy.where(scales == 0, numpy.float32(0), numpy.float32(1) / scales)
    steps = numpy.rint(blocks * inverse[:, :, None])
    steps += middle
    codes = numpy.clip(steps, 0, 2 * middle - 1, out=steps).astype(numpy.uint8)
    return packed(codes) if bits == 4 else codes, scales


def packed(codes: Array) -> Array:
    """Two codes of 4 bits in a byte, along the last axis."""
    return codes[..., 0::2] | codes[..., 1::2] << 4
