"""What a request gives, in vLLM's words."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Logprob:
    """The logarithm of a token's probability; rank 1 is the likeliest."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclasses.dataclass
class CompletionOutput:
    """One sample's text so far. finish_reason: "stop", "length", "abort", "error", or None while it goes on; stop_reason:
    the stop string or stop token that ended it; error: what went wrong."""

    index: int
    text: str = ""
    token_ids: list[int] = dataclasses.field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Logprob]] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    error: str | None = None

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclasses.dataclass
class RequestOutput:
    """All samples of a request. prompt_logprobs: for each token of the prompt, None for the first; num_cached_tokens: tokens
    of the prompt that the prefix cache had, None until it runs."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    finished: bool = False
    num_cached_tokens: int | None = None
