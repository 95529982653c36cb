"""Sounds at another rate, by a bank of low-pass filters, one for each place between two samples.

Crochiere and Rabiner, "Multirate Digital Signal Processing", 1983; the window is Kaiser's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

    Sound = numpy.ndarray[Any, numpy.dtype[numpy.float32]]

_CROSSINGS = 32  # of zero by the filter, on each side of its middle
_SHAPE = 9.0  # of the window: what is beyond the lower rate's half is 90 dB down
_CUTOFF = 0.94  # as a part of the lower rate's half: the filter falls around it
_AT_A_TIME = 1 << 21  # products


def resampled(sound: Sound, given: int, wanted: int) -> Sound:
    """[samples] at `given` samples a second -> [ceil(samples · wanted / given)] at `wanted`; silence is around it."""
    import numpy

    up, down = wanted // math.gcd(given, wanted), given // math.gcd(given, wanted)
    if up == down:
        return sound
    widening = max(1.0, down / up)  # of the filter, where it must leave frequencies out
    reach = math.ceil(_CROSSINGS * widening)
    offsets = numpy.arange(-reach + 1, reach + 1)  # of the samples around a place
    padded = numpy.pad(sound, (reach, reach + 1))
    count = -(-len(sound) * up // down)
    step = max(1, _AT_A_TIME // len(offsets))

    def taps_of(phases: Any) -> Any:
        distances = (offsets[None, :] - (phases / up)[:, None]) / widening
        taps = numpy.sinc(_CUTOFF * distances) * _kaiser(distances / _CROSSINGS) * (_CUTOFF / widening)
        return taps.astype(numpy.float32)

    # All phases come again and again in a sound that is long enough. (60 s at 47,999 samples a second took 15 s when each
    # part of it had its own bank.)
    bank = None
    if count >= up:
        bank = numpy.concatenate([taps_of(numpy.arange(at, min(at + step, up))) for at in range(0, up, step)])
    made = numpy.empty(count, numpy.float32)
    for begin in range(0, count, step):
        places = numpy.arange(begin, min(begin + step, count), dtype=numpy.int64) * down
        whole, parts = numpy.divmod(places, up)
        taps = taps_of(parts) if bank is None else bank[parts]
        around = padded[whole[:, None] + (offsets + reach)[None, :]]
        made[begin : begin + len(places)] = numpy.einsum("pk,pk->p", around, taps)
    return made


def _kaiser(x: Any) -> Any:
    """Of places from -1 to 1."""
    import numpy

    return numpy.i0(_SHAPE * numpy.sqrt(numpy.maximum(0, 1 - x * x))) / numpy.i0(_SHAPE)
