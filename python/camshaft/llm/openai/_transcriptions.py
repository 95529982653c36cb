"""/v1/audio/transcriptions and /v1/audio/translations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from camshaft._errors import InvalidArgumentError
from camshaft.llm._subtitles import as_srt, as_vtt
from camshaft.llm._transcript import Segment, Transcription
from camshaft.llm.openai._answer import JSON, Answer
from camshaft.llm.openai._call import Call
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._form import Form
from camshaft.llm.openai._listening import Heard, Listening
from camshaft.llm.openai._sampling import SEEDS, take_idle
from camshaft.llm.openai._served import ServedSpeech

_FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
_WITH_TIMES = ("srt", "verbose_json", "vtt")
#: Of a temperature of 0, by OpenAI's description and openai/whisper: the next one where a text repeats itself or is unlikely.
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
#: What errors of transcribe() call otherwise.
_FIELDS = {"max_tokens": "max_completion_tokens", "timestamps": "response_format"}


class Transcriptions(Call):
    """task: of the model. sound: the file as it came."""

    task = "transcribe"

    def __init__(self, served: ServedSpeech, form: Form) -> None:
        super().__init__(served)
        served.check_task("transcribe")
        take_idle(form)
        self.sound = form.file("file")
        self.held_bytes = len(self.sound.content)
        self._format = form.text("response_format", "json", options=_FORMATS)
        self.is_stream = form.flag("stream")
        form.flag("stream_include_usage")  # of vLLM: here the last event always has it
        if self.is_stream and self._format in _WITH_TIMES:
            raise RequestError(f"'stream' gives text, and not '{self._format}': take json or text", "stream")
        temperature = form.number("temperature", 0.0, 0.0, 2.0)
        seed = form.integer("seed", None, -SEEDS, SEEDS - 1)
        self._read_granularities(form)
        form.text("chunking_strategy", options=("auto",))
        options = {
            "task": self.task,
            "language": self._language(form),
            "prompt": form.text("prompt"),
            "timestamps": self._format in _WITH_TIMES,
            "temperature": temperature or _TEMPERATURES,
            "max_tokens": form.integer("max_completion_tokens", None, 1, 1 << 31),
            "wants_no_speech": self._format == "verbose_json",
            "seed": seed,
            "sampling": {
                "top_p": form.number("top_p", 1.0, 1e-6, 1.0),
                "top_k": max(form.integer("top_k", 0, -1), 0),
                "min_p": form.number("min_p", 0.0, 0.0, 1.0),
                "presence_penalty": form.number("presence_penalty", 0.0, -2.0, 2.0),
                "frequency_penalty": form.number("frequency_penalty", 0.0, -2.0, 2.0),
                "repetition_penalty": form.number("repetition_penalty", 1.0, 1e-6),
            },
        }
        form.finish()
        try:
            self.wishes = served.whisper._wishes(**options)
        except InvalidArgumentError as error:
            param = str(error).split(" ", 1)[0].rstrip(":")
            raise RequestError(str(error), _FIELDS.get(param, param)) from None
        self._shown = 0  # characters

    @property
    def sequences(self) -> int:
        return 1  # it has no prompts

    def running(self, served: Any, loop: Any) -> Listening:
        return Listening(served, loop, self)

    def answer_with(self, answer: Answer, outputs: Sequence[Heard]) -> None:
        [heard] = outputs
        result = heard.transcription
        if self._format == "text":
            answer.reply(result.text + "\n", content_type="text/plain; charset=utf-8")
        elif self._format == "srt":
            answer.reply(as_srt(result), content_type="application/x-subrip; charset=utf-8")
        elif self._format == "vtt":
            answer.reply(as_vtt(result), content_type="text/vtt; charset=utf-8")
        else:
            answer.reply(self._document(result), content_type=JSON)

    def events(self, place: int, output: Heard) -> list[dict[str, Any]]:
        text = output.transcription.text
        new, self._shown = text[self._shown :], max(self._shown, len(text))
        made: list[dict[str, Any]] = [{"type": "transcript.text.delta", "delta": new}] if new else []
        if output.finished:
            usage: dict[str, Any] = {
                "type": "tokens",
                "input_tokens": output.prompt_tokens + output.states,
                "input_token_details": {"audio_tokens": output.states, "text_tokens": output.prompt_tokens},
                "output_tokens": output.generated_tokens,
                "total_tokens": output.prompt_tokens + output.states + output.generated_tokens,
            }
            made.append({"type": "transcript.text.done", "text": text, "usage": usage})
        return made

    def _document(self, result: Transcription) -> dict[str, Any]:
        usage = {"type": "duration", "seconds": math.ceil(result.duration)}
        if self._format != "verbose_json":
            return {"text": result.text, "usage": usage}
        return {
            "task": self.task,
            "language": self._said_in(result),
            "duration": result.duration,
            "text": result.text,
            "segments": [_segment(segment) for segment in result.segments],
            "usage": usage,
        }

    def _said_in(self, result: Transcription) -> str | None:
        return result.language

    def _language(self, form: Form) -> str | None:
        given = form.text("language")
        return given.strip().lower() or None if given is not None else None

    def _read_granularities(self, form: Form) -> None:
        for given in form.texts("timestamp_granularities"):
            if given != "segment":
                raise RequestError(
                    f"'timestamp_granularities' is '{given[:80]}'; segment is what there is", "timestamp_granularities"
                )
            if self._format != "verbose_json":
                raise RequestError(
                    "'timestamp_granularities' goes with the 'response_format' verbose_json alone",
                    "timestamp_granularities",
                )


class Translations(Transcriptions):
    """Into English."""

    task = "translate"

    def __init__(self, served: ServedSpeech, form: Form) -> None:
        form.text("to_language", "en", options=("en",))
        super().__init__(served, form)

    def _said_in(self, result: Transcription) -> str | None:
        return "en"


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "id": segment.id,
        "seek": segment.seek,
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": segment.tokens,
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob or 0.0,
    }
