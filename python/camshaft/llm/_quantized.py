"""Checkpoints that AWQ, GPTQ and compressed-tensors have quantised: their tensors as blocks with the same values.

Lin et al., "AWQ", 2023; Frantar et al., "GPTQ", 2022. Their layouts are those of the packages autoawq, gptqmodel and
compressed-tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from camshaft._errors import InvalidModelError, UnsupportedError
from camshaft.llm._blocks import Blocks, packed
from camshaft.llm._fields import Fields
from camshaft.llm._safetensors import SafetensorsFolder

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

# What a quantised product has instead of its weight: the codes, and the rest.
_CODES = {"awq": "qweight", "gptq": "qweight", "compressed-tensors": "weight_packed"}
_BESIDE = {
    "awq": ("qzeros", "scales"),
    "gptq": ("qzeros", "scales", "g_idx"),
    "compressed-tensors": ("weight_scale", "weight_shape", "weight_g_idx"),
}
# The columns that the codes of an AWQ word are of, from its low bits on.
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


class QuantizedEntry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


class QuantizedFolder:
    """A source of weights over the tensors of a folder."""

    def __init__(self, source: SafetensorsFolder, quantization: Fields, where: str) -> None:
        self._source, self._where = source, where
        self._method = quantization.text("quant_method")
        self._bits, self._group, self._has_one_more = _scheme(quantization, self._method)
        self.entries: dict[str, Any] = dict(source.entries)
        codes = f".{_CODES[self._method]}"
        for name in source.entries:
            if name.endswith(codes):
                stem = name.removesuffix(codes)
                shape = self._shape(name)
                for part in (_CODES[self._method], *_BESIDE[self._method]):
                    self.entries.pop(f"{stem}.{part}", None)
                self.entries[f"{stem}.weight"] = QuantizedEntry(self._method, shape)

    def array(self, name: str) -> Array:
        return self._source.array(name)

    def blocks(self, name: str) -> Blocks | None:
        entry = self.entries[name]
        if not isinstance(entry, QuantizedEntry):
            return None
        rows, columns = entry.shape
        stem, size = name.removesuffix(".weight"), self._group or columns
        if columns % size != 0 or size * self._bits % 8 != 0:
            self._refuse(name, f"{columns} columns are no whole groups of {size}")
        read = {"awq": self._awq, "gptq": self._gptq, "compressed-tensors": self._compressed}[self._method]
        codes, scales, zeros = read(stem, rows, columns, columns // size)
        order = self._order(stem, columns, size)
        codes = (codes if order is None else codes[:, order]).reshape(rows, columns // size, size)
        return Blocks(packed(codes) if self._bits == 4 else codes, scales, zeros, self._bits, size, order)

    def _shape(self, name: str) -> tuple[int, int]:
        shape = self._source.entries[name].shape
        if len(shape) != 2 or self._source.entries[name].dtype != "I32":
            self._refuse(name, "a matrix of I32 is needed")
        in_word = 32 // self._bits
        if self._method == "awq":
            return shape[1] * in_word, shape[0]
        return (shape[1], shape[0] * in_word) if self._method == "gptq" else (shape[0], shape[1] * in_word)

    def _awq(self, stem: str, rows: int, columns: int, groups: int) -> tuple[Array, Array, Array]:
        codes = _words_in_columns(self._words(f"{stem}.qweight", (columns, rows // 8)), 4, _AWQ_ORDER)
        zeros = _words_in_columns(self._words(f"{stem}.qzeros", (groups, rows // 8)), 4, _AWQ_ORDER)
        return codes.T, self._scales(f"{stem}.scales", (groups, rows)).T, zeros.T.astype("float32")

    def _gptq(self, stem: str, rows: int, columns: int, groups: int) -> tuple[Array, Array, Array]:
        in_word, plain = 32 // self._bits, range(32 // self._bits)
        words = self._words(f"{stem}.qweight", (columns // in_word, rows))
        codes = _words_in_columns(words.T, self._bits, plain)
        zeros = _words_in_columns(self._words(f"{stem}.qzeros", (groups, rows // in_word)), self._bits, plain)
        moved = zeros.T.astype("float32") + (1 if self._has_one_more else 0)
        return codes, self._scales(f"{stem}.scales", (groups, rows)).T, moved

    def _compressed(self, stem: str, rows: int, columns: int, groups: int) -> tuple[Array, Array, None]:
        words = self._words(f"{stem}.weight_packed", (rows, columns * self._bits // 32))
        codes = _words_in_columns(words, self._bits, range(32 // self._bits))
        return codes, self._scales(f"{stem}.weight_scale", (rows, groups)), None

    def _order(self, stem: str, columns: int, size: int) -> Array | None:
        """Of columns that lie in groups of their own choice: by their groups."""
        import numpy

        name = f"{stem}.{'weight_g_idx' if self._method == 'compressed-tensors' else 'g_idx'}"
        if self._method == "awq" or name not in self._source.entries:
            return None
        groups = self._words(name, (columns,)).view(numpy.int32)
        order: Array = numpy.argsort(groups, kind="stable")
        if not numpy.array_equal(groups[order], numpy.arange(columns) // size):
            self._refuse(name, f"it does not give every group {size} columns")
        return None if numpy.array_equal(order, numpy.arange(columns)) else order

    def _words(self, name: str, shape: tuple[int, ...]) -> Array:
        return self._tensor(name, shape, ("I32",)).view("<u4")

    def _scales(self, name: str, shape: tuple[int, ...]) -> Array:
        import numpy

        scales = self._tensor(name, shape, ("F16", "F32", "BF16"))
        if self._source.entries[name].dtype == "BF16":
            return (scales.astype(numpy.uint32) << 16).view(numpy.float32)
        return scales.astype(numpy.float32)

    def _tensor(self, name: str, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> Array:
        entry = self._source.entries.get(name)
        if entry is None:
            raise InvalidModelError(f"{self._where}: tensor '{name}' is missing")
        if entry.shape != shape or entry.dtype not in dtypes:
            self._refuse(name, f"it is {entry.dtype}{list(entry.shape)}; {' or '.join(dtypes)}{list(shape)} is needed")
        return self._source.array(name)

    def _refuse(self, name: str, why: str) -> None:
        raise InvalidModelError(f"{self._where}: tensor '{name}' of weights quantised by {self._method}: {why}")


def _words_in_columns(words: Array, bits: int, order: Any) -> Array:
    """[rows, words] of u32 -> [rows, codes] of u8, where code i of a word is of its column order[i]."""
    import numpy

    shifts = numpy.empty(32 // bits, numpy.uint32)
    shifts[list(order)] = numpy.arange(32 // bits, dtype=numpy.uint32) * bits
    codes = words[:, :, None] >> shifts & ((1 << bits) - 1)
    return codes.astype(numpy.uint8).reshape(len(words), -1)


def _scheme(of: Fields, method: str) -> tuple[int, int, bool]:
    """Bits, columns of a group (0: all), and whether zeros are one more than what is stored."""
    if method not in _CODES:
        raise UnsupportedError(f"{of.where}: weights quantised by '{method}'; {', '.join(_CODES)} are read")
    one_more = False
    if method == "compressed-tensors":
        if (layout := of.text("format", default="pack-quantized")) != "pack-quantized":
            raise UnsupportedError(f"{of.where}: field 'format' is '{layout}'; pack-quantized is read")
        groups = list(of.within("config_groups").values)
        if len(groups) != 1:
            raise UnsupportedError(f"{of.where}: {len(groups)} config_groups; one is read")
        group = of.within("config_groups").within(groups[0])
        if group.has("input_activations"):
            raise UnsupportedError(f"{group.where}: field 'input_activations' is set; weights alone may be quantised")
        of = group.within("weights")
        if not of.flag("symmetric", default=True) or of.text("type", default="int") != "int":
            raise UnsupportedError(f"{of.where}: symmetric weights of the type int are read")
        bits = of.integer("num_bits")
    else:
        bits = of.integer("bits", "w_bit")
        version = of.text("version", default="gemm").lower()
        if method == "awq" and (version != "gemm" or not of.flag("zero_point", default=True)):
            raise UnsupportedError(f"{of.where}: AWQ's version '{version}'; gemm with zero_point is read")
        one_more = method == "gptq" and of.text("checkpoint_format", default="gptq") == "gptq"
    if bits not in ((4,) if method == "awq" else (4, 8)):
        raise UnsupportedError(f"{of.where}: weights of {bits} bits; 4 are read, and of gptq and compressed-tensors 8")
    group_size = of.raw("group_size", "q_group_size", default=-1)
    return bits, 0 if group_size == -1 else of.integer("group_size", "q_group_size"), one_more
