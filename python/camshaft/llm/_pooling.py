"""Embeddings of prompts, in vLLM's words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from camshaft._errors import Error, InvalidArgumentError
from camshaft.llm._requests import ModelRequest

if TYPE_CHECKING:
    import numpy

    from camshaft._engine import Engine


@dataclasses.dataclass
class PoolingParams:
    """dimensions: so many of an embedding's first elements (Matryoshka; Kusupati et al., 2022), all without it; what is
    left is normalized anew where the model's are. normalize: to a length of 1; as the model was built without it.
    truncate_prompt_tokens: the most that prompts are cut to, -1 for max_model_len; those that are longer are refused
    without it. Texts keep their beginning and the special tokens, lists of tokens their end."""

    dimensions: int | None = None
    normalize: bool | None = None
    truncate_prompt_tokens: int | None = None

    def __post_init__(self) -> None:
        known = self.dimensions
        if known is not None and (isinstance(known, bool) or not isinstance(known, int) or known < 1):
            raise InvalidArgumentError(f"dimensions is {known!r}, it must be a number of elements, 1 or more")

        most = self.truncate_prompt_tokens
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or (most < 1 and most != -1)):
            raise InvalidArgumentError(f"truncate_prompt_tokens is {most!r}, it must be 1 or more, or -1")

    def most_tokens(self, longest: int) -> int | None:
        """What prompts are cut to."""
        most = self.truncate_prompt_tokens
        if most is not None and most > longest:
            raise InvalidArgumentError(f"truncate_prompt_tokens is {most}; max_model_len is {longest}")
        return longest if most == -1 else most

    def check_fits(self, size: int) -> None:
        if self.dimensions is not None and self.dimensions > size:
            raise InvalidArgumentError(f"dimensions is {self.dimensions}; the model's embeddings have {size} elements")


@dataclasses.dataclass
class EmbeddingOutput:
    """Numbers of fp32, so many as the model's hidden states have, or as PoolingParams.dimensions asks for."""

    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)


@dataclasses.dataclass
class EmbeddingRequestOutput:
    request_id: str
    outputs: EmbeddingOutput
    prompt_token_ids: list[int]
    finished: bool = True


@dataclasses.dataclass
class PooledSample:
    """What metrics read of a request, as of a text's sample."""

    finish_reason: str | None = None
    token_ids: tuple[int, ...] = ()


class EmbeddingRequest(ModelRequest):
    """A request between the generator's event and what its caller sees, of an embedding. normalizes: the model's
    embeddings."""

    def __init__(
        self,
        request_id: str,
        tokens: Sequence[int],
        params: PoolingParams,
        normalizes: bool,
        changed: Callable[[Any], object],
    ) -> None:
        super().__init__(request_id, tokens, changed)
        self.params = params
        self.outputs = [PooledSample()]
        self._normalizes = normalizes if params.normalize is None else params.normalize
        self._embedding: numpy.ndarray[Any, Any] | None = None

    @property
    def finished(self) -> bool:
        return self.failed is not None or self.outputs[0].finish_reason is not None

    def take(self, event: Any) -> bool:
        """The generator's one event of it. False: there is nothing left that could be ended."""
        finish, error, data = event[6], event[8], event[9]
        self.outputs[0].finish_reason = finish
        if data is None:
            self.failed = Error(error or "the request was aborted")
        else:
            self._embedding = finished_embedding(data, self.params.dimensions, self._normalizes)
        return False

    def output(self) -> EmbeddingRequestOutput:
        assert self._embedding is not None
        return EmbeddingRequestOutput(self.id, EmbeddingOutput(self._embedding.tolist()), list(self.tokens))


# Tokens that see those behind them are computed together, and leave nothing for others.
_OF_ENCODERS = {"enable_chunked_prefill": False, "enable_prefix_caching": False}


def pooling_configuration(
    engine: Engine, description: dict[str, Any], longest: int, max_num_batched_tokens: int
) -> dict[str, Any]:
    """Of a generator, what is another for embeddings."""
    for name in ("vocabulary", "pooling_type"):
        if name not in description:
            raise InvalidArgumentError(f"the description has no '{name}', which an engine of embeddings needs")
    has_cache = any(info.name == "key_cache.0" for info in engine.inputs)
    return {
        "pooling_type": description["pooling_type"],
        "vocab_size": description["vocabulary"],
        "eos_token_ids": [],
        **({} if has_cache else _OF_ENCODERS | {"max_num_batched_tokens": max(max_num_batched_tokens, longest)}),
    }


def finished_embedding(data: bytes, dimensions: int | None, normalizes: bool) -> numpy.ndarray[Any, Any]:
    """What was pooled, in fp32, as it is given back. A vector of zeros stays one."""
    import numpy

    made = numpy.frombuffer(data, numpy.float32)[:dimensions]
    if not normalizes:
        return made
    wide = made.astype(numpy.float64)  # whose squares stay finite
    length = math.sqrt(float(wide @ wide))
    return (wide / max(length, 1e-12)).astype(numpy.float32)
