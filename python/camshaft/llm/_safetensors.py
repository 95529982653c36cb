"""Tensors of .safetensors files, mapped: an array reads its file when it is used, and only there.

The format: https://github.com/huggingface/safetensors#format. A file is 8 bytes of length, a header in JSON of that length,
and the tensors' bytes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from camshaft._errors import FileError, InvalidModelError
from camshaft.llm._blocks import Blocks
from camshaft.llm._fields import LONGEST_NAME, Fields, read_json

if TYPE_CHECKING:
    import numpy

LARGEST_HEADER = 100_000_000  # bytes, of the format
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2"}
_NUMPY |= {"I8": "i1", "U8": "u1", "BOOL": "?"}


class Entry(NamedTuple):
    """A tensor: where its bytes are. `dtype` is the format's name ("BF16")."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class SafetensorsFolder:
    """All tensors of a folder: of its model.safetensors, or of the files that model.safetensors.index.json names; or of some
    files in it."""

    def __init__(self, folder: Path, files: Sequence[Path] = ()) -> None:
        self._maps: dict[Path, Any] = {}
        self.entries: dict[str, Entry] = {}
        index = folder / "model.safetensors.index.json"
        if not files and index.exists():
            self._read_index(folder, index)
            return
        files = files or sorted(folder.glob("*.safetensors"))
        if not files:
            others = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind))
            why = f"; {others[0]} is of another format: save the model with safetensors" if others else ""
            raise FileError(f"{folder}: no file *.safetensors{why}")
        for path in files:
            for name, entry in _read_header(path):
                if name in self.entries:
                    raise InvalidModelError(f"{path}: tensor '{name}' is also in {self.entries[name].path.name}")
                self.entries[name] = entry

    def _read_index(self, folder: Path, index: Path) -> None:
        places = Fields(read_json(index), str(index)).within("weight_map").values
        headers: dict[str, dict[str, Entry]] = {}
        for name, file in places.items():
            if not isinstance(file, str) or Path(file).name != file or not file:
                raise InvalidModelError(
                    f"{index}: the file of tensor '{name}' must be a name in this folder, not {file!r}"
                )
            if file not in headers:
                headers[file] = dict(_read_header(folder / file))
            if name not in headers[file]:
                raise InvalidModelError(f"{folder / file}: tensor '{name}' is missing, which {index.name} has there")
            self.entries[name] = headers[file][name]

    def array(self, name: str) -> numpy.ndarray[Any, Any]:
        """The tensor over the file's bytes; BF16 as the u16 that have its bits."""
        import numpy

        entry = self.entries[name]
        if entry.path not in self._maps:
            # Copied where it is written, which nobody does: NumPy before 2.1 gives nobody memory that is read-only.
            self._maps[entry.path] = numpy.memmap(entry.path, numpy.uint8, "c").view(numpy.ndarray)
        count = math.prod(entry.shape)
        data = self._maps[entry.path][entry.offset : entry.offset + count * _BYTES[entry.dtype]]
        return numpy.require(data.view(_NUMPY[entry.dtype]), requirements="A").reshape(entry.shape)

    def blocks(self, name: str) -> Blocks | None:
        """Of a tensor that is quantised: none is."""
        return None


def _read_header(path: Path) -> Iterator[tuple[str, Entry]]:
    try:
        size = os.stat(path).st_size
        with open(path, "rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or length > min(size - 8, LARGEST_HEADER):
                raise InvalidModelError(
                    f"{path}: {size} bytes cannot hold a header of {length}: the file is cut, or none"
                )
            text = file.read(length)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidModelError(f"{path}: the header is no JSON") from None
    for name, described in Fields(header, f"{path}, header").values.items():
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise InvalidModelError(f"{path}: a tensor has no proper name")
        if name != "__metadata__":
            yield name, _entry(path, Fields(described, f"{path}, tensor '{name}'"), 8 + length, size)


def _entry(path: Path, fields: Fields, start: int, size: int) -> Entry:
    dtype, shape, offsets = fields.text("dtype"), fields.raw("shape"), fields.raw("data_offsets")
    if not _are_sizes(shape):
        fields.wrong(("shape",), "a list of sizes", shape)
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1]:
        fields.wrong(("data_offsets",), "the begin and the end of its bytes", offsets)
    begin, end = offsets
    if start + end > size:
        raise InvalidModelError(f"{fields.where}: its bytes end at {start + end}, the file at {size}: it is cut")
    # Types that nothing here reads (F8_E4M3, …) are named by who asks for such a tensor.
    if dtype in _BYTES and math.prod(shape) * _BYTES[dtype] != end - begin:
        raise InvalidModelError(
            f"{fields.where}: {dtype}{shape} takes {math.prod(shape) * _BYTES[dtype]} bytes, not {end - begin}"
        )
    return Entry(path, dtype, tuple(shape), start + begin)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in values)
