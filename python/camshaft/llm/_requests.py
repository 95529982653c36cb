"""A request between the generator's events and what its caller sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from camshaft.llm._detokenizer import Detokenizer
from camshaft.llm._outputs import CompletionOutput, Logprob, RequestOutput
from camshaft.llm._sampling_params import SamplingParams


class ModelRequest:
    """What requests of all kinds have."""

    streams = False  #: whether `changed` is called after steps, too
    first_token_at: float | None = None  #: of a text, by time.monotonic()
    last_token_at: float | None = None

    def __init__(self, request_id: str, tokens: Sequence[int], changed: Callable[[Any], object]) -> None:
        self.id, self.tokens = request_id, list(tokens)
        self.number = 0  #: the generator's
        self.lora: int | None = None  #: the place of its adapter
        self.changed = changed  #: called with its output, or with what went wrong, at its end
        self.failed: BaseException | None = None
        self.matchers: list[Any] = []  #: of each sample, where the text is guided


class TextRequest(ModelRequest):
    """What requests of texts have, whether these are drawn or searched for."""

    def __init__(
        self,
        request_id: str,
        prompt: str | None,
        tokens: Sequence[int],
        params: SamplingParams,
        changed: Callable[[RequestOutput | BaseException], object],
    ) -> None:
        super().__init__(request_id, tokens, changed)
        self.prompt, self.params = prompt, params
        self.num_cached_tokens: int | None = None  #: of the prompt
        #: Computes the rows of its pictures, where these wait for its turn.
        self.encode: Callable[[], None] | None = None


class Request(TextRequest):
    """decode: of tokens to text; None without a tokenizer."""

    def __init__(
        self,
        request_id: str,
        prompt: str | None,
        tokens: Sequence[int],
        params: SamplingParams,
        decode: Callable[[list[int], bool], str] | None,
        changed: Callable[[RequestOutput | BaseException], object],
        streams: bool,
    ) -> None:
        super().__init__(request_id, prompt, tokens, params, changed)
        self.streams = streams
        self.outputs = [CompletionOutput(index) for index in range(params.n)]
        self._open = params.n  # samples that go on
        self.prompt_logprobs: list[dict[int, Logprob] | None] | None = None
        if params.prompt_logprobs is not None:
            self.prompt_logprobs = [None]
        self._decode = decode
        self._texts: list[Detokenizer] | None = None
        if decode is not None and params.detokenize:
            self._texts = [
                Detokenizer(
                    lambda ids: decode(ids, params.skip_special_tokens),
                    self.tokens,
                    params.stop_strings,
                    params.include_stop_str_in_output,
                )
                for _ in self.outputs
            ]
        if params.logprobs is not None:
            for output in self.outputs:
                output.logprobs, output.cumulative_logprob = [], 0.0

    @property
    def finished(self) -> bool:
        return self.failed is not None or self._open == 0

    def take(self, event: Any) -> bool:
        """An event of the generator. True where a stop string has ended the sample, of which the generator knows nothing."""
        _, sample, tokens, logprobs, _, prompt_logprobs, finish, stop_token, error, _, cached, *_ = event
        if cached >= 0:
            self.num_cached_tokens = cached
        output = self.outputs[sample]
        if tokens:
            self.last_token_at = time.monotonic()
            self.first_token_at = self.first_token_at or self.last_token_at
        if self.prompt_logprobs is not None and prompt_logprobs:
            self.prompt_logprobs += self._by_token(prompt_logprobs, 1 + (self.params.prompt_logprobs or 0))
        if output.finish_reason is not None:  # by a stop string, in a step before
            return False
        if (
            finish is None and self._texts is None and output.logprobs is None
        ):  # most of what 32 requests take of a step
            output.token_ids += tokens
            return False
        by_token = self._by_token(logprobs, 1 + (self.params.logprobs or 0))
        text = None if self._texts is None else self._texts[sample]
        for place, token in enumerate(tokens):
            output.token_ids.append(token)
            if output.logprobs is not None:
                output.logprobs.append(by_token[place])
                output.cumulative_logprob = (output.cumulative_logprob or 0.0) + by_token[place][token].logprob
            # The token that ends the text is no part of it.
            is_end = finish == "stop" and place == len(tokens) - 1
            if text is None or (is_end and not self.params.include_stop_str_in_output):
                continue
            found = text.add(token, len(output.token_ids) > self.params.min_tokens)
            if found is not None:
                output.text, output.finish_reason, output.stop_reason = text.text, "stop", found
                self._open -= 1
                return finish is None
        if finish is not None:
            if text is not None:
                text.finish()
            output.finish_reason = finish
            self._open -= 1
            output.stop_reason = stop_token if stop_token >= 0 else None
            output.error = error or None
        if text is not None:
            output.text = text.text
        return False

    def finish(self, sample: int, reason: str, error: str | None = None) -> None:
        """Ends a sample for what the generator does not know."""
        output = self.outputs[sample]
        if self._texts is not None:
            self._texts[sample].finish()
            output.text = self._texts[sample].text
        if output.finish_reason is None:
            self._open -= 1
        output.finish_reason, output.error = reason, error

    def output(self) -> RequestOutput:
        """As of now: a copy."""
        return RequestOutput(
            self.id,
            self.prompt,
            list(self.tokens),
            [
                CompletionOutput(
                    o.index,
                    o.text,
                    list(o.token_ids),
                    o.cumulative_logprob,
                    None if o.logprobs is None else list(o.logprobs),
                    o.finish_reason,
                    o.stop_reason,
                    o.error,
                )
                for o in self.outputs
            ],
            None if self.prompt_logprobs is None else list(self.prompt_logprobs),
            self.finished,
            self.num_cached_tokens,
        )

    def _by_token(self, flat: list[tuple[int, float, int]], width: int) -> list[dict[int, Logprob]]:
        """The chosen token first, then the likeliest; those that the model excludes have no number."""
        return [
            {
                token: Logprob(value, rank, self._word(token))
                for token, value, rank in flat[at : at + width]
                if token >= 0
            }
            for at in range(0, len(flat), width)
        ]

    def _word(self, token: int) -> str | None:
        return None if self._decode is None else self._decode([token], False)
