"""`camshaft llm transcribe`: what is said in WAV files."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import Any

from camshaft._errors import InvalidArgumentError
from camshaft._exit_codes import exit_code
from camshaft.llm._standard_streams import complain, say
from camshaft.llm._subtitles import as_srt, as_vtt
from camshaft.llm._transcript import Transcription
from camshaft.llm._whisper import Whisper
from camshaft.llm._windows import Task


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
        "--format",
        choices=_WRITERS,
        default="text",
        help="text, json (a line for each file), or subtitles: srt, vtt (default: text)",
    )
    command.add_argument("--max-num-seqs", type=int, default=8, metavar="N", help="windows at once (default: 8)")
    command.add_argument("--device", metavar="X", help="cuda:N, where the engines are for GPUs")
    command.add_argument("--threads", type=int, metavar="N", help="one for each core without it")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    """What is wrong with a file is said, and the others are written. The exit code is that of the first one."""
    if options.format in ("srt", "vtt") and len(options.files) > 1:
        raise InvalidArgumentError(
            f"--format {options.format}: a file of subtitles is of one sound, not of {len(options.files)}; "
            "call it for each, or take json"
        )
    whisper = Whisper(options.folder, device=options.device, max_num_seqs=options.max_num_seqs, threads=options.threads)
    wishes = whisper._wishes(
        language=options.language,
        task=options.task,
        timestamps=options.timestamps,
        prompt=options.prompt,
        condition_on_previous_text=options.condition_on_previous_text,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
    )
    code, at = 0, 0
    ended: dict[int, Task] = {}
    for task in whisper._listen(whisper._tasks(options.files, wishes, raises=False), wishes).run():
        if task.is_done:
            ended[task.number] = task
        while (each := ended.pop(at, None)) is not None:  # in their order
            name = options.files[at]
            if each.failed is None:
                say(_WRITERS[options.format](whisper._transcription(each), name))
            else:
                text = str(each.failed) or type(each.failed).__name__
                complain(f"camshaft: error: {text if text.startswith(name) else f'{name}: {text}'}")
                code = code or exit_code(each.failed)
            at += 1
    return code


def _as_json(result: Transcription, file: str) -> str:
    return json.dumps({"file": file, **dataclasses.asdict(result)}, ensure_ascii=False)


_WRITERS: dict[str, Callable[[Transcription, str], str]] = {
    "text": lambda result, file: result.text,
    "json": _as_json,
    "srt": lambda result, file: as_srt(result),
    "vtt": lambda result, file: as_vtt(result),
}
