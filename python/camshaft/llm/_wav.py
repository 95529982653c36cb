"""WAV files: RIFF with a chunk that says what the samples are, and one that has them.

"Multimedia Programming Interface and Data Specifications 1.0", IBM and Microsoft, 1991; WAVE_FORMAT_EXTENSIBLE is of
Microsoft's mmreg.h, A-law and µ-law of ITU-T G.711."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, BinaryIO

from camshaft._errors import UnsupportedError

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_PCM, _FLOAT, _A_LAW, _MU_LAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_WIDTHS = {_PCM: (1, 2, 3, 4), _FLOAT: (4, 8), _A_LAW: (1,), _MU_LAW: (1,)}  # bytes of a sample
_NAMES = {_PCM: "PCM", _FLOAT: "floats", _A_LAW: "A-law", _MU_LAW: "µ-law"}
_SUBFORMAT = bytes.fromhex("000000001000800000aa00389b71")  # of a GUID, behind the two bytes of the format
_MOST_CHUNKS = 1024  # which are gone through one by one
#: What files of other formats begin with, at a place.
_OTHERS = (
    (0, b"ID3", "an MP3"),
    (0, b"\xff\xfb", "an MP3"),
    (0, b"\xff\xf3", "an MP3"),
    (0, b"fLaC", "a FLAC"),
    (0, b"OggS", "an Ogg"),
    (4, b"ftyp", "an MP4 or M4A"),
    (0, b"\x1aE\xdf\xa3", "a WebM or Matroska"),
    (0, b"FORM", "an AIFF"),
    (0, b"RF64", "an RF64"),
    (0, b"#!AMR", "an AMR"),
)
CONVERT = "convert it, as by `ffmpeg -i FILE -ar 16000 -ac 1 -c:a pcm_s16le NEW.wav`"


def read_wav(file: BinaryIO, name: str, most: int) -> tuple[Array, int]:
    """f32 [samples], the mean of all channels, and samples of a second. most: values that are read of all channels. Of a
    file that is cut off, or whose length was not known when it was begun, all that is there is read. Raises
    UnsupportedError, which says what to run, for what is no such file."""
    import numpy

    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        what = next((kind for at, mark, kind in _OTHERS if head[at : at + len(mark)] == mark), None)
        _refuse(name, f"it is {what} file" if what else "it is empty" if not head else "it begins as none")
    described: bytes | None = None
    for _ in range(_MOST_CHUNKS):
        chunk = file.read(8)
        if len(chunk) < 8:
            _refuse(name, "it ends before its samples")
        kind, size = chunk[:4], int.from_bytes(chunk[4:], "little")
        if kind == b"data" and described is not None:
            break
        kept = file.read(min(size, 40)) if kind == b"fmt " else b""
        described = kept if kind == b"fmt " else described
        _skip(file, size + size % 2 - len(kept))
    else:
        _refuse(name, f"it has no samples within its first {_MOST_CHUNKS} chunks")
    assert described is not None
    tag, channels, rate, width = _format_of(described, name)
    data = file.read(min(size, most * width))
    values = _decoded(data[: len(data) // (width * channels) * width * channels], tag, width)
    if channels > 1:
        values = values.reshape(-1, channels).mean(axis=1, dtype=numpy.float32)
    return numpy.ascontiguousarray(values), rate


def _skip(file: BinaryIO, count: int) -> None:
    """By reading, which pipes can do too."""
    while count > 0 and (data := file.read(min(count, 1 << 20))):
        count -= len(data)


def _format_of(described: bytes, name: str) -> tuple[int, int, int, int]:
    """The kind of numbers, channels, samples of a second, and bytes of a number."""
    if len(described) < 16:
        _refuse(name, "what its samples are is cut off")
    tag, channels, rate, _, _, bits = struct.unpack("<HHIIHH", described[:16])
    if tag == _EXTENSIBLE:
        if len(described) < 40 or described[26:40] != _SUBFORMAT:
            _refuse(name, "its samples are of a format that has no number")
        tag = int.from_bytes(described[24:26], "little")
    if tag not in _WIDTHS:
        _refuse(name, f"its samples are of the format {tag:#06x}")
    width = (bits + 7) // 8  # what is narrower stands in the upper bits
    if channels < 1 or width not in _WIDTHS[tag]:
        read = ", ".join(str(8 * each) for each in _WIDTHS[tag])
        _refuse(name, f"it has {channels} channels of {_NAMES[tag]} in {bits} bits; of {read} bits they are read")
    return tag, channels, rate, width


def _decoded(data: bytes, tag: int, width: int) -> Array:
    """f32 from -1 to 1."""
    import numpy

    if tag == _FLOAT:
        with numpy.errstate(over="ignore"):  # what becomes infinite is refused with what was
            return numpy.frombuffer(data, f"<f{width}").astype(numpy.float32)
    if tag in (_A_LAW, _MU_LAW):
        codes = numpy.frombuffer(data, numpy.uint8)
        return _law_values(tag)[codes]
    if width == 1:
        return numpy.frombuffer(data, numpy.uint8).astype(numpy.float32) / 128 - 1
    if width == 3:  # the upper bytes of 32 bits
        wide = numpy.zeros((len(data) // 3, 4), numpy.uint8)
        wide[:, 1:] = numpy.frombuffer(data, numpy.uint8).reshape(-1, 3)
        return wide.view("<i4").reshape(-1).astype(numpy.float32) / 2**31
    return numpy.frombuffer(data, f"<i{width}").astype(numpy.float32) / 2 ** (8 * width - 1)


def _law_values(tag: int) -> Array:
    """f32 [256]: a sign, three bits of an exponent and four of a mantissa, of 13 bits (A-law) or 14 (µ-law), as numbers of
    16."""
    import numpy

    codes = numpy.arange(256) ^ (0x55 if tag == _A_LAW else 0xFF)
    exponents, mantissas = codes >> 4 & 7, codes & 15
    if tag == _A_LAW:
        steps = numpy.where(exponents == 0, 2 * mantissas + 1, (2 * mantissas + 33) << numpy.maximum(exponents - 1, 0))
        values = 8 * steps
        signs = numpy.where(codes & 0x80, 1, -1)
    else:
        values = (((2 * mantissas + 33) << exponents) - 33) * 4
        signs = numpy.where(codes & 0x80, -1, 1)
    return (signs * values / 32768).astype(numpy.float32)


def _refuse(name: str, why: str) -> Any:
    raise UnsupportedError(f"{name}: no WAV file that is read, as {why}: {CONVERT}")
