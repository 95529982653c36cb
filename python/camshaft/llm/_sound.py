"""Sounds as NumPy arrays: of WAV files, or as they are given."""

from __future__ import annotations

import operator
import os
import wave
from typing import TYPE_CHECKING, Any, Union

from camshaft._errors import FileError, InvalidArgumentError, UnsupportedError
from camshaft.llm._resample import resampled

if TYPE_CHECKING:
    import numpy

    Sound = numpy.ndarray[Any, numpy.dtype[numpy.float32]]

#: The path of a WAV file, samples from -1 to 1 at the model's rate, or a pair of samples and their rate.
Audio = Union[str, "os.PathLike[str]", Any]

_LONGEST = 1 << 30  # samples
_SLOWEST, _FASTEST = 1000, 384_000  # samples a second


def read_sound(audio: Audio, rate: int) -> Sound:
    """f32 [samples] of one channel, the mean of several, at `rate` samples a second."""
    if isinstance(audio, (str, os.PathLike)):
        samples, given = _read_wav(os.fspath(audio))
    else:
        pair = isinstance(audio, tuple) and len(audio) == 2
        samples, given = _as_samples(audio[0] if pair else audio), audio[1] if pair else rate
    if isinstance(given, bool) or not hasattr(given, "__index__") or not _SLOWEST <= given <= _FASTEST:
        raise InvalidArgumentError(f"a sound has {given!r} samples a second; {_SLOWEST} to {_FASTEST} are possible")
    given = operator.index(given)
    if len(samples) * rate > _LONGEST * given:
        raise InvalidArgumentError(f"a sound of {len(samples) / given:.0f} s is longer than what can be held: cut it")
    return resampled(samples, given, rate)


def _as_samples(given: Any) -> Sound:
    import numpy

    try:
        array = numpy.asarray(given)
    except (TypeError, ValueError):  # of lists of several lengths
        raise InvalidArgumentError(
            f"a sound is a path, an array [samples], or a pair of such an array and its rate, not a {type(given).__name__}"
        ) from None
    if array.ndim != 1 or array.dtype.kind not in "fiu" or array.size > _LONGEST:
        raise InvalidArgumentError(
            f"a sound is a path, an array [samples], or a pair of such an array and its rate, not {array.dtype}{list(array.shape)}"
        )
    if array.dtype.kind != "f":
        raise InvalidArgumentError(
            f"samples of a sound are floats from -1 to 1, not {array.dtype}: divide by the largest"
        )
    samples = numpy.ascontiguousarray(array, numpy.float32)
    if not numpy.isfinite(samples).all():
        raise InvalidArgumentError("a sound has samples that are NaN or infinite")
    return samples


def _read_wav(path: str) -> tuple[Sound, int]:
    import numpy

    try:
        with wave.open(path, "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(min(file.getnframes(), _LONGEST // max(channels, 1)))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except (wave.Error, EOFError, RuntimeError, ValueError, ZeroDivisionError) as error:
        raise UnsupportedError(
            f"{path}: no WAV file of PCM ({error or 'it ends too early'}): convert it, as by "
            "`ffmpeg -i FILE -c:a pcm_s16le NEW.wav`"
        ) from None
    if width not in (1, 2, 3, 4) or channels < 1:
        raise UnsupportedError(f"{path}: {channels} channels of {8 * width} bits; 8, 16, 24 and 32 bits are read")
    data = data[: len(data) // (width * channels) * width * channels]
    if width == 1:
        values = numpy.frombuffer(data, numpy.uint8).astype(numpy.float32) / 128 - 1
    elif width == 3:  # the upper bytes of 32 bits
        wide = numpy.zeros((len(data) // 3, 4), numpy.uint8)
        wide[:, 1:] = numpy.frombuffer(data, numpy.uint8).reshape(-1, 3)
        values = wide.view("<i4").reshape(-1).astype(numpy.float32) / 2**31
    else:
        values = numpy.frombuffer(data, f"<i{width}").astype(numpy.float32) / 2 ** (8 * width - 1)
    return numpy.ascontiguousarray(values.reshape(-1, channels).mean(axis=1, dtype=numpy.float32)), rate
