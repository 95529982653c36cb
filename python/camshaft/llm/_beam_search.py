"""Beam search, in vLLM's words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from camshaft._errors import Error, InvalidArgumentError
from camshaft.llm._detokenizer import Detokenizer
from camshaft.llm._outputs import CompletionOutput, RequestOutput
from camshaft.llm._requests import TextRequest
from camshaft.llm._sampling_params import SamplingParams

if TYPE_CHECKING:
    from camshaft.llm._outputs import Logprob


@dataclasses.dataclass
class BeamSearchParams:
    """Names and defaults are those of vLLM's class of this name.

    beam_width: texts that are followed and given back. max_tokens: of a text. ignore_eos: whether texts go on behind the
    token that ends them. temperature: divides the logits; 0 is taken for 1. length_penalty: the power of a text's length,
    with its prompt, that its logarithm of probability is divided by: the score. include_stop_str_in_output: whether `text`
    shows the token that ended it. early_stopping: whether the first beam_width texts that end are the last ones, as in
    Transformers; without it no text that would score better is missed, as in vLLM."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False
    early_stopping: bool = False

    def _searched(self) -> SearchedParams:
        return SearchedParams(
            beam_search={
                "beam_width": self.beam_width,
                "length_penalty": self.length_penalty,
                "early_stopping": self.early_stopping,
            },
            max_tokens=self.max_tokens,
            ignore_eos=self.ignore_eos,
            temperature=self.temperature,
            include_stop_str_in_output=self.include_stop_str_in_output,
            detokenize=False,
        )


@dataclasses.dataclass
class BeamSearchSequence:
    """tokens: the prompt's and the text's, with the token that ended it. cum_logprob: the logarithm of the text's
    probability. text: of all tokens; None without a tokenizer. finish_reason: "stop" or "length"; stop_reason: a token
    that ended it other than the model's own."""

    tokens: list[int]
    cum_logprob: float = 0.0
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclasses.dataclass
class BeamSearchOutput:
    """The texts of a prompt, the one with the best score first: beam_width, or fewer where there are no others."""

    sequences: list[BeamSearchSequence]


@dataclasses.dataclass
class SearchedParams(SamplingParams):
    """SamplingParams of texts that are searched for. beam_search: beam_width, and what else the generator knows of beams;
    None where tokens are drawn after all."""

    beam_search: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beam_search is None:
            return
        for name, given in (("stop", self.stop_strings), ("token_mask", self.token_mask)):
            if given:
                raise ValueError(f"{name} does not go with beam search: leave it out")

    @property
    def sequences(self) -> int:
        return super().sequences if self.beam_search is None else int(self.beam_search["beam_width"])

    def _native(self) -> dict[str, Any]:
        return {**super()._native(), "beam_search": self.beam_search and dict(self.beam_search)}


class BeamRequest(TextRequest):
    """A request between the generator's events and what its caller sees: Request, of a search. All of its texts come at
    once, at its end."""

    prompt_logprobs: list[dict[int, Logprob] | None] | None = None

    def __init__(
        self,
        request_id: str,
        prompt: str | None,
        tokens: Sequence[int],
        params: SamplingParams,
        decode: Callable[[list[int], bool], str] | None,
        changed: Callable[[RequestOutput | BaseException], object],
    ) -> None:
        super().__init__(request_id, prompt, tokens, params, changed)
        self.outputs: list[CompletionOutput] = []  #: by rank
        self._decode = decode if params.detokenize else None

    @property
    def finished(self) -> bool:
        return self.failed is not None or bool(self.outputs)

    def take(self, event: Any) -> bool:
        """An event of the generator. False: there is nothing left that could be ended."""
        _, rank, tokens, _, _, _, finish, stop_token, error, _, cached, cumulative = event
        if cached >= 0:
            self.num_cached_tokens = cached
        shown = tokens[:-1] if finish == "stop" and not self.params.include_stop_str_in_output else tokens
        stop = stop_token if stop_token >= 0 else None
        text = self._text_of(shown)
        self.outputs.append(CompletionOutput(rank, text, tokens, cumulative, None, finish, stop, error or None))
        return False

    def output(self) -> RequestOutput:
        return RequestOutput(
            self.id, self.prompt, list(self.tokens), list(self.outputs), None, self.finished, self.num_cached_tokens
        )

    def _text_of(self, tokens: Sequence[int]) -> str:
        decode = self._decode
        if decode is None:
            return ""
        text = Detokenizer(lambda ids: decode(ids, self.params.skip_special_tokens), self.tokens)
        for token in tokens:
            text.add(token)
        text.finish()
        return text.text


def searched_params(params: Any, count: int) -> list[SearchedParams]:
    """Of so many prompts."""
    listed = list(params) if isinstance(params, Sequence) else [params] * count
    if len(listed) != count:
        raise InvalidArgumentError(f"params has {len(listed)} items for {count} prompts")
    for each in listed:
        if not isinstance(each, BeamSearchParams):
            raise InvalidArgumentError(f"params are BeamSearchParams(...), not {each!r}")
    return [each._searched() for each in listed]


def beam_search_output(result: RequestOutput, params: SamplingParams, tokenizer: Any) -> BeamSearchOutput:
    made = []
    for output in result.outputs:
        if output.error is not None or output.finish_reason == "abort":
            raise Error(output.error or "the request was aborted")
        tokens = result.prompt_token_ids + output.token_ids
        text = None
        if tokenizer is not None:
            is_left_out = output.finish_reason == "stop" and not params.include_stop_str_in_output
            text = tokenizer.decode(tokens[:-1] if is_left_out else tokens, skip_special_tokens=False)
        made.append(
            BeamSearchSequence(tokens, output.cumulative_logprob or 0.0, text, output.finish_reason, output.stop_reason)
        )
    return BeamSearchOutput(made)
