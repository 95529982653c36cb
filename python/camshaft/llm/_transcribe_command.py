"""`camshaft llm transcribe`: what is said in WAV files."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from camshaft._errors import InvalidArgumentError
from camshaft.llm._transcript import Segment, Transcription
from camshaft.llm._whisper import Whisper


def add_transcribe(commands: Any) -> None:
    text = "Write down what is said in WAV files, by a built Whisper."
    command = commands.add_parser("transcribe", help=text, description=text, allow_abbrev=False)
    command.add_argument("folder", metavar="DIR", help="that `camshaft llm build` made")
    command.add_argument("files", metavar="FILE", nargs="+", help="a WAV file")
    command.add_argument("--language", metavar="X", help="a code as en; without it the model tells")
    command.add_argument(
        "--task", default="transcribe", metavar="X", help="transcribe, or translate into English (default: transcribe)"
    )
    command.add_argument("--timestamps", action="store_true", help="segments as the model hears them, not of 30 s")
    command.add_argument("--prompt", metavar="TEXT", help="words that come before, or may come")
    command.add_argument(
        "--temperature",
        type=float,
        nargs="+",
        default=[0.0],
        metavar="X",
        help="0: the likeliest token (default); of several the next one where a text repeats itself or is unlikely",
    )
    command.add_argument(
        "--condition-on-previous-text", action="store_true", help="windows know what was said in those before"
    )
    command.add_argument("--max-tokens", type=int, metavar="N", help="of 30 s; without it as many as there is room for")
    command.add_argument(
        "--beam-size",
        type=int,
        metavar="N",
        help="texts that are followed at once; without it the likeliest token is taken",
    )
    command.add_argument(
        "--format",
        choices=_WRITERS,
        default="text",
        help="text, json (a line for each file), or subtitles: srt, vtt (default: text)",
    )
    command.add_argument("--max-num-seqs", type=int, default=8, metavar="N", help="windows at once (default: 8)")
    command.add_argument("--device", metavar="X", help="cuda:N, where the engines are for GPUs")
    command.add_argument("--threads", type=int, metavar="N", help="one for each core without it")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    if options.format in ("srt", "vtt") and len(options.files) > 1:
        raise InvalidArgumentError(
            f"--format {options.format}: a file of subtitles is of one sound, not of {len(options.files)}; "
            "call it for each, or take json"
        )
    whisper = Whisper(options.folder, device=options.device, max_num_seqs=options.max_num_seqs, threads=options.threads)
    results = whisper.transcribe(
        list(options.files),
        language=options.language,
        task=options.task,
        timestamps=options.timestamps,
        prompt=options.prompt,
        condition_on_previous_text=options.condition_on_previous_text,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        beam_size=options.beam_size,
    )
    for result in results:
        print(_WRITERS[options.format](result))


def _as_json(result: Transcription) -> str:
    return json.dumps(dataclasses.asdict(result), ensure_ascii=False)


def _as_srt(result: Transcription) -> str:
    return "\n".join(
        f"{segment.id + 1}\n{_time(segment.start, ',')} --> {_time(segment.end, ',')}\n{_line(segment)}\n"
        for segment in result.segments
    )


def _as_vtt(result: Transcription) -> str:
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


_WRITERS = {"text": lambda result: result.text, "json": _as_json, "srt": _as_srt, "vtt": _as_vtt}
