"""What completions and chat completions have in common: prompts go in, and a reply or the chunks of a stream come out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from camshaft.llm._outputs import CompletionOutput, RequestOutput
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm.openai._answer import Answer
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._served import Served, ServedSpeech


class Call:
    """prefix, kind, chunk_kind: of the reply's id and of its "object"; prompt_field: of the body, that has the prompts."""

    prefix, kind, chunk_kind = "", "", ""
    prompt_field = "prompt"
    has_done_mark = True  #: whether a stream ends with an event that is no document

    def __init__(self, served: Served | ServedSpeech) -> None:
        self.model, self.lora_request = served.name, served.lora_request
        self.id = self.prefix + uuid.uuid4().hex
        self.created = int(time.time())
        self.prompts: list[dict[str, Any]] = []
        self.params: Any = SamplingParams()  # or PoolingParams, of embeddings
        self.guide_field = "structured_outputs"  # of the body, that says what the text is to be
        self.priority = 0
        self.is_stream = self.include_usage = False
        self.held_bytes = 0  # of what waits, where that is large
        self._begun: set[int] = set()  # prompts of which a stream has shown something

    @property
    def sequences(self) -> int:
        return len(self.prompts) * (self.params.sequences if isinstance(self.params, SamplingParams) else 1)

    @property
    def has_images(self) -> bool:
        return any(prompt.get("multi_modal_data", {}).get("image") for prompt in self.prompts)

    @property
    def is_guided(self) -> bool:
        return isinstance(self.params, SamplingParams) and self.params.structured_outputs is not None

    def running(self, served: Any, loop: Any) -> Any:
        """What runs it."""
        return served.running(loop, self)

    def answer_with(self, answer: Answer, outputs: Sequence[Any]) -> None:
        """outputs: of all prompts, when all have ended."""
        answer.reply(self.reply(outputs))

    def events(self, prompt: int, output: Any) -> list[dict[str, Any]]:
        """Of a stream: what is new of a prompt."""
        made = []
        is_first = prompt not in self._begun
        self._begun.add(prompt)
        for sample in output.outputs:
            check_sample(sample)
            if is_first:
                made += [self.chunk(choice) for choice in self.first_deltas(self.index_of(prompt, sample))]
            made += [self.chunk(choice) for choice in self.deltas(prompt, output, sample)]
        return made

    def last_events(self, outputs: Sequence[Any]) -> list[dict[str, Any]]:
        return [self.usage_chunk(outputs)] if self.include_usage else []

    def error_event(self, error: RequestError) -> dict[str, Any]:
        """Of a stream that has begun."""
        return error.document

    def choice(self, prompt: int, output: RequestOutput, sample: CompletionOutput) -> dict[str, Any]:
        """Of a reply."""
        raise NotImplementedError

    def first_deltas(self, index: int) -> list[dict[str, Any]]:
        """Choices of chunks in front of a sample's text."""
        return []

    def deltas(self, prompt: int, output: RequestOutput, sample: CompletionOutput) -> list[dict[str, Any]]:
        """Choices of chunks with what is new since the last time."""
        raise NotImplementedError

    def index_of(self, prompt: int, sample: CompletionOutput) -> int:
        return prompt * self.params.sequences + sample.index

    def reply(self, outputs: Sequence[Any]) -> dict[str, Any]:
        choices = []
        for prompt, output in enumerate(outputs):
            for sample in output.outputs:
                check_sample(sample)
                choices.append(self.choice(prompt, output, sample))
        return {**self._head(self.kind), "choices": choices, "usage": self.usage(outputs)}

    def chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        usage = {"usage": None} if self.include_usage else {}
        return {**self._head(self.chunk_kind), "choices": [choice], **usage}

    def usage_chunk(self, outputs: Sequence[RequestOutput]) -> dict[str, Any]:
        return {**self._head(self.chunk_kind), "choices": [], "usage": self.usage(outputs)}

    def usage(self, outputs: Sequence[RequestOutput]) -> dict[str, Any]:
        prompt = sum(len(output.prompt_token_ids) for output in outputs)
        completion = sum(self.completion_tokens(sample) for output in outputs for sample in output.outputs)
        cached = sum(output.num_cached_tokens or 0 for output in outputs)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def completion_tokens(self, sample: CompletionOutput) -> int:
        return len(sample.token_ids)

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def check_sample(sample: CompletionOutput) -> None:
    if sample.finish_reason == "error":
        text = sample.error or "the model failed"
        # A grammar that turns out too large while its text grows is the client's.
        raise RequestError(text, status=400 if text.startswith("structured_outputs:") else 500)


class Progress:
    """How much of a sample was shown."""

    def __init__(self) -> None:
        self.characters = self.tokens = 0
        self.finished = self.echoed = False

    def text(self, text: str) -> str:
        new, self.characters = text[self.characters :], max(self.characters, len(text))
        return new

    def token_range(self, sample: CompletionOutput) -> slice:
        new, self.tokens = slice(self.tokens, len(sample.token_ids)), len(sample.token_ids)
        return new
