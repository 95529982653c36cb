"""What was said, with when: from the tokens that Whisper writes of a window of sound.

The way of times is that of openai/whisper's transcribe()."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass
class Segment:
    """What is said from `start` to `end`, in seconds of the sound. avg_logprob: the mean logarithm of its window's tokens'
    probabilities, as the model gives them; temperature: that they were drawn at; compression_ratio: of the text's bytes by
    zlib; no_speech_prob: of silence, None where nobody asked; seek: where its window begins, in hundredths of a second."""

    id: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 0.0
    no_speech_prob: float | None = None
    seek: int = 0


@dataclasses.dataclass
class Transcription:
    """language: its code, None of a model of one language; duration: seconds of the sound."""

    text: str
    language: str | None
    duration: float
    segments: list[Segment]


@dataclasses.dataclass
class Stretch:
    """A part of a window's text. Times are in states from the window's beginning."""

    start: int
    end: int
    tokens: list[int]


def stretches_of(tokens: Sequence[int], timestamp_begin: int, states: int) -> tuple[list[Stretch], int]:
    """The parts of a window's text, which times stand around, and how many states the window is done with: up to where
    something was said that it has not heard the end of. states: of the window."""
    is_time = [token >= timestamp_begin for token in tokens]
    # Where one part ends and the next begins there are two times.
    cuts = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    ends_by_itself = is_time[-2:] == [False, True]
    if not cuts:
        times = [token - timestamp_begin for token in tokens if token >= timestamp_begin]
        end = times[-1] if times and times[-1] > 0 else states
        start = times[0] if is_time[:1] == [True] and times[0] < end else 0
        return [Stretch(start, end, list(tokens))], states
    if ends_by_itself:
        cuts.append(len(tokens))
    parts = [list(tokens[begin:end]) for begin, end in zip([0, *cuts], cuts)]
    made = [Stretch(max(part[0] - timestamp_begin, 0), part[-1] - timestamp_begin, part) for part in parts]
    heard = states if ends_by_itself else tokens[cuts[-1] - 1] - timestamp_begin
    return made, heard if 0 < heard < states else states
