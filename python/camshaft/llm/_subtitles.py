"""Transcriptions as files of subtitles: SubRip and WebVTT."""

from __future__ import annotations

from camshaft.llm._transcript import Segment, Transcription


def as_srt(result: Transcription) -> str:
    return "\n".join(
        f"{segment.id + 1}\n{_time(segment.start, ',')} --> {_time(segment.end, ',')}\n{_line(segment)}\n"
        for segment in result.segments
    )


def as_vtt(result: Transcription) -> str:
    def cue(segment: Segment) -> str:
        # A line with --> would be taken for another cue's times.
        return f"{_time(segment.start, '.')} --> {_time(segment.end, '.')}\n{_line(segment).replace('-->', '->')}\n"

    return "\n".join(["WEBVTT\n", *map(cue, result.segments)])


def _line(segment: Segment) -> str:
    """An empty line would end the cue."""
    return " ".join(segment.text.split())


def _time(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"
