"""Sounds as NumPy arrays: of WAV files, or as they are given."""

from __future__ import annotations

import io
import operator
import os
from typing import TYPE_CHECKING, Any, Union

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.llm._resample import resampled
from camshaft.llm._wav import read_wav

if TYPE_CHECKING:
    import numpy

    Sound = numpy.ndarray[Any, numpy.dtype[numpy.float32]]

#: The path of a WAV file, its bytes, samples from -1 to 1 at the model's rate, or a pair of samples and their rate.
Audio = Union[str, "os.PathLike[str]", Any]

_LONGEST = 1 << 30  # samples
_SLOWEST, _FASTEST = 1000, 384_000  # samples a second
#: Of samples: those of whole numbers that were not scaled are still heard. Squares of more are beyond fp32.
_LOUDEST = 1e6


def read_sound(audio: Audio, rate: int, name: str = "a sound", most: int | None = None) -> Sound:
    """f32 [samples] of one channel, the mean of several, at `rate` samples a second. name: in errors, of one without a path;
    most: samples that it may have then."""
    if isinstance(audio, (str, os.PathLike)):
        name = os.fspath(audio)
        try:
            with open(name, "rb") as file:
                samples, given = read_wav(file, name, _LONGEST)
        except OSError as error:
            raise FileError(f"{name}: {error.strerror}") from None
        except ValueError:  # of open()
            raise FileError(f"{name!r}: no path: it has a character that no path has") from None
    elif isinstance(audio, (bytes, bytearray, memoryview)):
        samples, given = read_wav(io.BytesIO(audio), name, _LONGEST)
    else:
        pair = isinstance(audio, tuple) and len(audio) == 2
        samples, given = audio[0] if pair else audio, audio[1] if pair else rate
    samples = _as_samples(samples, name)
    if isinstance(given, bool) or not hasattr(given, "__index__") or not _SLOWEST <= given <= _FASTEST:
        raise InvalidArgumentError(f"{name} has {given!r} samples a second; {_SLOWEST} to {_FASTEST} are possible")
    given = operator.index(given)
    if len(samples) * rate > _LONGEST * given:
        raise InvalidArgumentError(f"{name} of {len(samples) / given:.0f} s is longer than what can be held: cut it")
    if most is not None and len(samples) * rate > most * given:
        raise InvalidArgumentError(f"{name} has {len(samples) / given:.0f} s; {most / rate:.0f} s are the most: cut it")
    return resampled(samples, given, rate)


def _as_samples(given: Any, name: str) -> Sound:
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
        raise InvalidArgumentError(f"{name} has samples that are NaN or infinite")
    if numpy.abs(samples).max(initial=0) > _LOUDEST:
        raise InvalidArgumentError(f"{name} has samples beyond {_LOUDEST:g}; they go from -1 to 1")
    return samples
