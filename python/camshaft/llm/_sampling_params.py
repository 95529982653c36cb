"""How the text of a request is chosen, in vLLM's words."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from camshaft._errors import InvalidArgumentError
from camshaft.llm._absent import OF_SAMPLING, explains
from camshaft.llm._checks import check_flag, check_number, check_tokens, check_whole, plain_number, short
from camshaft.llm._structured_outputs import StructuredOutputsParams

#: Bits of the tokens that may come next, the lowest first, in words of 32 bits: bytes, or an array of these.
TokenMask = Union[bytes, Any]


_NUMBERS = ("presence_penalty", "frequency_penalty", "repetition_penalty", "temperature", "top_p", "min_p")


@explains(OF_SAMPLING)
@dataclasses.dataclass
class SamplingParams:
    """Names and defaults are those of vLLM's class of this name; docs/architecture/llm.md says in which order they work.

    truncate_prompt_tokens: how many of a prompt's last tokens are read; -1: as many as the model has room for."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    logit_bias: Mapping[int, float] | None = None
    allowed_token_ids: Sequence[int] | None = None
    truncate_prompt_tokens: int | None = None
    #: What the text must be like: by llguidance.
    structured_outputs: StructuredOutputsParams | None = None
    #: For guided decoding by others: called with the tokens of the text so far, gives those that may come next, or None for all.
    token_mask: Callable[[list[int]], TokenMask | None] | None = None

    def __post_init__(self) -> None:
        for name in ("n", "top_k", "min_tokens"):
            check_whole(name, getattr(self, name))
        for name in ("seed", "max_tokens", "logprobs", "prompt_logprobs", "truncate_prompt_tokens"):
            check_whole(name, getattr(self, name), may_be_none=True)
        for name in _NUMBERS:
            check_number(name, getattr(self, name))
        for name in ("ignore_eos", "detokenize", "skip_special_tokens", "include_stop_str_in_output"):
            check_flag(name, getattr(self, name))
        if (most := self.truncate_prompt_tokens) is not None and most != -1 and most < 1:
            raise InvalidArgumentError(f"truncate_prompt_tokens is {most}; -1, or a number from 1 on, is needed")
        stops = [self.stop] if self.stop is None or isinstance(self.stop, str) else self.stop
        if not isinstance(stops, Iterable) or not all(each is None or isinstance(each, str) for each in stops):
            raise InvalidArgumentError(f"stop is {short(self.stop)}; a text or a list of texts is needed")
        for name in ("stop_token_ids", "allowed_token_ids"):
            if (tokens := getattr(self, name)) is not None:
                check_tokens(name, tokens)
        bias = self.logit_bias or {}
        if not isinstance(bias, Mapping) or not all(map(_is_bias, bias.items())):
            raise InvalidArgumentError(f"logit_bias is {short(bias)}; a dict of tokens and numbers is needed")
        if self.stop_strings and not self.detokenize:
            raise ValueError("stop strings are looked for in the text: detokenize must be True")
        if "" in self.stop_strings:
            raise ValueError("a stop string is empty")
        if isinstance(self.structured_outputs, Mapping):
            self.structured_outputs = StructuredOutputsParams(**self.structured_outputs)
        if self.structured_outputs is not None and self.token_mask is not None:
            raise ValueError("structured_outputs and token_mask both say which tokens may come next: give one")

    @property
    def sequences(self) -> int:
        """That are computed for a prompt, at most."""
        return self.n

    def most_tokens(self, room: int) -> int | None:
        """Of a prompt, that are kept."""
        return room if self.truncate_prompt_tokens == -1 else self.truncate_prompt_tokens

    @property
    def stop_strings(self) -> list[str]:
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else list(self.stop)

    def _json(self) -> str:
        """What the generator reads."""
        native = self._native()
        try:
            return json.dumps(native, allow_nan=False, default=plain_number)
        except ValueError:
            raise InvalidArgumentError(f"sampling parameters: a number is NaN or infinite: {native}") from None

    def _native(self) -> dict[str, Any]:
        native = {
            name: getattr(self, name)
            for name in (
                *("n", "presence_penalty", "frequency_penalty", "repetition_penalty", "temperature", "top_p", "top_k"),
                *("min_p", "seed", "ignore_eos", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs"),
            )
        }
        native["is_guided"] = self.structured_outputs is not None
        native["stop_token_ids"] = [] if self.stop_token_ids is None else list(self.stop_token_ids)
        native["allowed_token_ids"] = [] if self.allowed_token_ids is None else list(self.allowed_token_ids)
        native["logit_bias"] = [[int(token), float(bias)] for token, bias in (self.logit_bias or {}).items()]
        return native


def _is_bias(pair: tuple[Any, Any]) -> bool:
    """A token, or its digits, with what is added to its logit."""
    try:
        int(pair[0]), float(pair[1])
    except (TypeError, ValueError):
        return False
    return True
