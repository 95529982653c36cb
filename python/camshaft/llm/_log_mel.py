"""Log-mel spectrograms as nodes of a network: what Whisper reads of a sound.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022. The filters are those of Slaney's
Auditory Toolbox (1998), each of the same area, as librosa and Transformers' WhisperFeatureExtractor have them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from camshaft._errors import UnsupportedError
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._fields import Fields

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_QUIETEST = 1e-10  # power below which nothing is told apart
_RANGE = 8.0  # powers of ten below the loudest that are kept


@dataclass(frozen=True)
class LogMel:
    """The fields of preprocessor_config.json, in samples."""

    rate: int  # samples of a second
    window: int  # of a Fourier transform
    hop: int  # from one window to the next
    bins: int  # of mel frequencies
    samples: int  # of the longest sound

    def filters(self) -> Array:
        """f32 [window / 2 + 1, bins]: triangles between neighbours that are as far apart on the mel scale."""
        import numpy

        highest = self.rate / 2
        frequencies = numpy.linspace(0, highest, self.window // 2 + 1)
        corners = _hertz(numpy.linspace(_mel(numpy.array(0.0)), _mel(numpy.array(highest)), self.bins + 2))
        below, above = corners[:-2], corners[2:]
        rising = (frequencies[:, None] - below) / (corners[1:-1] - below)
        falling = (above - frequencies[:, None]) / (above - corners[1:-1])
        made = numpy.maximum(0, numpy.minimum(rising, falling)) * (2 / (above - below))
        return made.astype(numpy.float32)


def read_log_mel(fields: Fields, bins: int) -> LogMel:
    """fields: of preprocessor_config.json; bins: what the encoder takes."""
    rate, hop = fields.integer("sampling_rate", default=16000), fields.integer("hop_length", default=160)
    made = LogMel(
        rate,
        fields.integer("n_fft", default=400, low=2, high=1 << 16),
        hop,
        fields.integer("feature_size", default=80, high=1 << 10),
        fields.integer("n_samples", default=rate * fields.integer("chunk_length", default=30, high=3600), high=1 << 28),
    )
    if made.bins != bins:
        fields.wrong(("feature_size",), f"the encoder's num_mel_bins ({bins})", made.bins)
    if made.window % 2 != 0 or made.hop > made.window:
        fields.wrong(("n_fft",), f"an even number, not less than hop_length ({made.hop})", made.window)
    if made.samples <= made.window or made.samples % (2 * hop) != 0:
        fields.wrong(
            ("chunk_length",),
            f"a time of more than n_fft ({made.window}) samples, in pairs of hop_length ({hop})",
            made.samples / rate,
        )
    for name, usual in (("dither", 0.0), ("padding_value", 0.0)):
        if fields.number(name, default=usual, low=-1e9) != usual:
            raise UnsupportedError(f"{fields.where}: field '{name}' is {fields.raw(name)}; {usual:g} is supported")
    if fields.flag("do_normalize", default=False):
        raise UnsupportedError(f"{fields.where}: field 'do_normalize' is true, which is not supported")
    return made


def log_mel(net: Network, sound: Value, of: LogMel) -> Value:
    """[batch, samples] in f32, of 1 as the loudest, -> [batch, bins, samples / hop]: logarithms of the power, down to 8
    powers of ten below the loudest of each sound, about 0 and 1."""
    import numpy

    half = of.window // 2
    # The sound goes on as its mirror image, so that windows stand around their first sample.
    around = net.Pad(sound, [half, half], axes=[1], mode="reflect")
    turns = numpy.arange(of.window) / of.window
    hann = (0.5 - 0.5 * numpy.cos(2 * numpy.pi * turns)).astype(numpy.float32)
    waves = net.STFT(net.Unsqueeze(around, [-1]), numpy.int64(of.hop), hann, numpy.int64(of.window), onesided=1)
    frames = net.Slice(waves, [0], [-1], [1])  # Whisper leaves the last one out
    power = net.ReduceSumSquare(frames, [-1], keepdims=0)
    mel = net.MatMul(power, of.filters())
    levels = net.Log(net.Max(mel, _QUIETEST)) * (1 / math.log(10.0))
    loudest = net.ReduceMax(levels, [1, 2], keepdims=1)
    scaled = (net.Max(levels, loudest - _RANGE) + 4.0) / 4.0
    return net.Transpose(scaled, perm=[0, 2, 1])


# Of Slaney: in proportion to the frequency up to 1000 Hz, where 15 mel are; beyond in proportion to its logarithm.
_CORNER, _CORNER_MEL, _STEPS_OF_LOG = 1000.0, 15.0, 27.0


def _mel(hertz: Array) -> Array:
    import numpy

    beyond = _CORNER_MEL + numpy.log(numpy.maximum(hertz, _CORNER) / _CORNER) * (_STEPS_OF_LOG / numpy.log(6.4))
    made: Array = numpy.where(hertz < _CORNER, hertz * (_CORNER_MEL / _CORNER), beyond)
    return made


def _hertz(mel: Array) -> Array:
    import numpy

    beyond = _CORNER * numpy.exp((numpy.maximum(mel, _CORNER_MEL) - _CORNER_MEL) * (numpy.log(6.4) / _STEPS_OF_LOG))
    made: Array = numpy.where(mel < _CORNER_MEL, mel * (_CORNER / _CORNER_MEL), beyond)
    return made
