"""GGUF files: their fields, and their tensors, mapped. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from camshaft._errors import FileError, InvalidModelError
from camshaft.llm._blocks import Blocks
from camshaft.llm._fields import LONGEST_NAME
from camshaft.llm._gguf_blocks import SIZES, blocks_of

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 8: "Q8_0", 12: "Q4_K", 14: "Q6_K", 28: "F64", 30: "BF16"}
_NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "BF16": "<u2"}
_MOST_COUNT = 1 << 24  # of fields, tensors and elements of lists: vocabularies have 256,000 words


class GgufEntry(NamedTuple):
    dtype: str  # "type 11" where it is none that is read
    shape: tuple[int, ...]
    offset: int
    bytes: int


class GgufFile:
    """`fields` has numbers and texts, and of lists their lengths alone."""

    def __init__(self, path: Path) -> None:
        import numpy

        self.path = path
        try:
            size = os.stat(path).st_size
            # Copied where it is written, which nobody does: NumPy before 2.1 gives nobody memory that is read-only.
            self._map: Array = (
                numpy.memmap(path, numpy.uint8, "c").view(numpy.ndarray) if size else numpy.empty(0, "u1")
            )
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from None
        self._data, self._at = self._map.data, 0
        if bytes(self._data[:4]) != b"GGUF":
            self._refuse("it does not begin with GGUF")
        self._at = 4
        version = self._scalar("I")
        if version not in (2, 3):
            self._refuse(f"version {version}; 2 and 3 are read")
        tensors, fields = self._count(), self._count()
        self.fields: dict[str, Any] = {}
        for _ in range(fields):
            name = self._text()
            if name in self.fields:
                self._refuse(f"it has two fields '{name}'")
            self.fields[name] = self._value(self._scalar("I"))
        described = [self._tensor() for _ in range(tensors)]
        alignment = self.fields.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
            self._refuse(f"general.alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        self.entries: dict[str, GgufEntry] = {}
        for name, dtype, shape, offset in described:
            if name in self.entries:
                self._refuse(f"it has two tensors '{name}'")
            self.entries[name] = self._entry(name, dtype, shape, start + offset)

    def array(self, name: str) -> Array:
        """As SafetensorsFolder.array does: BF16 as u16."""
        import numpy

        entry = self.entries[name]
        data = self._map[entry.offset : entry.offset + entry.bytes]
        return numpy.require(data.view(_NUMPY[entry.dtype]), requirements="A").reshape(entry.shape)

    def blocks(self, name: str) -> Blocks | None:
        """Of a tensor that is quantised."""
        entry = self.entries[name]
        if entry.dtype not in SIZES:
            return None
        data = self._map[entry.offset : entry.offset + entry.bytes]
        return blocks_of(data, entry.dtype, math.prod(entry.shape[:-1]))

    def _entry(self, name: str, dtype: int, shape: tuple[int, ...], offset: int) -> GgufEntry:
        kind = _TYPES.get(dtype, f"type {dtype}")
        elements, size = SIZES.get(kind, (1, 2 if kind.endswith("F16") else 8 if kind == "F64" else 4))
        if kind in SIZES and (not math.prod(shape) or not shape or shape[-1] % elements != 0):
            self._refuse(f"tensor '{name}' is {kind}{list(shape)}, and it is no rows of whole blocks of {elements}")
        count = math.prod(shape) // elements * size if kind in SIZES or kind in _NUMPY else 0
        if offset + count > len(self._data):
            self._refuse(f"tensor '{name}' ends at {offset + count}, the file at {len(self._data)}: it is cut")
        return GgufEntry(kind, shape, offset, count)

    def _tensor(self) -> tuple[str, int, tuple[int, ...], int]:
        name, axes = self._text(), self._scalar("I")
        if len(name) > LONGEST_NAME or not name.isprintable():
            self._refuse("a tensor has no proper name")
        if axes > 8:
            self._refuse(f"tensor '{name}' has {axes} axes")
        shape = tuple(self._scalar("Q") for _ in range(axes))[::-1]  # they come with the innermost one first
        return name, self._scalar("I"), shape, self._scalar("Q")

    def _scalar(self, code: str) -> Any:
        size = struct.calcsize(f"<{code}")
        if self._at + size > len(self._data):
            self._refuse("it is cut within its header")
        (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
        self._at += size
        return value

    def _count(self) -> int:
        count: int = self._scalar("Q")
        if count > _MOST_COUNT:
            self._refuse(f"a list of {count} in its header")
        return count

    def _text(self) -> str:
        length: int = self._scalar("Q")
        if self._at + length > len(self._data):
            self._refuse("it is cut within its header")
        text = bytes(self._data[self._at : self._at + length])
        self._at += length
        return text.decode(errors="replace")

    def _value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            self._refuse(f"a field of the unknown type {kind}")
        inner, count = self._scalar("I"), self._count()
        if inner in _SCALARS:
            size = struct.calcsize(f"<{_SCALARS[inner]}") * count
            if self._at + size > len(self._data):
                self._refuse("it is cut within its header")
            self._at += size
        elif inner == _TEXT:
            for _ in range(count):
                self._text()
        else:
            self._refuse(f"a list of elements of the type {inner}")
        return count

    def _refuse(self, why: str) -> Any:
        raise InvalidModelError(f"{self.path}: {why}")
