"""Requests of a model, out of what its callers give."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from camshaft import _native
from camshaft._errors import InvalidArgumentError
from camshaft.llm._beam_search import BeamRequest, SearchedParams
from camshaft.llm._guide import Guides
from camshaft.llm._image_encoder import ImageEncoder, pictures_of
from camshaft.llm._lora_request import LoRARequest, Loras, place_of
from camshaft.llm._pooling import EmbeddingRequest, PoolingParams
from camshaft.llm._prompts import Prompt, parts_of, text_tokens, tokens_of
from camshaft.llm._requests import Request
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._step_loop import StepLoop, mask_of


class RequestMaker:
    """description: of the model; longest: tokens of a sequence; hidden_size: of a model that gives embeddings, else 0."""

    def __init__(
        self,
        steps: StepLoop,
        description: Mapping[str, Any],
        longest: int,
        hidden_size: int,
        loras: Loras | None,
        image_encoder: ImageEncoder | None,
        tokenizer_of: Callable[[], Any],
    ) -> None:
        self._steps, self._description, self._longest, self.hidden_size = steps, description, longest, hidden_size
        self._loras, self._image_encoder, self._tokenizer_of = loras, image_encoder, tokenizer_of
        self.task = "embed" if hidden_size else "generate"
        self._guides: Guides | None = None
        self._making = threading.Lock()  # of what is made when it is needed
        self._numbers = itertools.count()

    def prepared(
        self,
        prompt: Prompt,
        params: SamplingParams | PoolingParams,
        priority: int,
        changed: Any,
        streams: bool,
        name: str | None = None,
        cross: tuple[Sequence[int], int] = ((), 0),
        lora: LoRARequest | None = None,
        matcher: Any = None,
    ) -> Callable[[], Any]:
        """What adds the request, to be called between steps. cross: blocks of an encoder's keys, and the number of these.
        matcher: of a guided text's beginning, which is made without it."""
        if isinstance(params, PoolingParams):
            return self._prepared_embedding(prompt, params, priority, changed, name)
        if not isinstance(params, SamplingParams):
            raise InvalidArgumentError(f"sampling_params are SamplingParams(...), not {params!r}")
        self.check_task("generate")
        guided = params.structured_outputs
        text, tokens = self.text_and_tokens(prompt)
        if (most := params.most_tokens(self._longest - 1)) is not None:
            tokens = tokens[-most:]
        tokens, pictures, waiting = pictures_of(self._image_encoder, prompt, tokens)
        tokenizer = self._tokenizer_of() if text is not None or params.detokenize or guided else None
        decode = None
        if tokenizer is not None:

            def decode(ids: list[int], skip_special_tokens: bool) -> str:
                return tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

        elif params.stop_strings:
            raise InvalidArgumentError("stop strings are looked for in text, and the model has no tokenizer.json")
        encoder = self._image_encoder
        matchers = []
        if guided is not None:
            first = self.guides().matcher(guided) if matcher is None else matcher
            matchers = [first.deep_copy() for _ in range(params.n)]
        masks = [mask_of(params, []) for _ in range(params.n if params.token_mask is not None else 0)]

        adapter = place_of(self._loras, lora, self._steps)

        def add() -> Request | BeamRequest:
            place, salt = adapter()
            number = _native.generator_add(
                self._steps.generator, tokens, params._json(), priority, salt, *cross, pictures, place
            )
            try:
                known_as = name or str(next(self._numbers))
                request: Request | BeamRequest
                if isinstance(params, SearchedParams) and params.beam_search is not None:
                    request = BeamRequest(known_as, text, tokens, params, decode, changed)
                else:
                    request = Request(known_as, text, tokens, params, decode, changed, streams)
                request.matchers = matchers
                if waiting and encoder is not None:
                    request.encode = functools.partial(encoder.fill, waiting)
                request.lora = None if place < 0 else place
                for sample, mask in enumerate(masks):
                    _native.generator_set_allowed_tokens(self._steps.generator, number, sample, mask)
            except BaseException:
                _native.generator_abort(self._steps.generator, number, -1)
                raise
            self._steps.add(number, request)
            return request

        return add

    def text_and_tokens(self, prompt: Prompt, most: int | None = None) -> tuple[str | None, list[int]]:
        """most: that are kept."""
        shown: str | None = None
        if isinstance(prompt, Mapping):
            shown, prompt = parts_of(prompt)
        if not isinstance(prompt, str):
            tokens = tokens_of(prompt)
            return shown, tokens if most is None else tokens[-most:]
        if (tokenizer := self._tokenizer_of()) is None:
            raise InvalidArgumentError("the model has no tokenizer.json: give the prompt as a list of tokens' numbers")
        return prompt, text_tokens(tokenizer, prompt, most)

    def _prepared_embedding(
        self, prompt: Prompt, params: PoolingParams, priority: int, changed: Any, name: str | None
    ) -> Callable[[], EmbeddingRequest]:
        self.check_task("embed")
        params.check_fits(self.hidden_size)
        _, tokens = self.text_and_tokens(prompt, params.most_tokens(self._longest))
        pictures_of(None, prompt, tokens)  # of which there are no embeddings

        def add() -> EmbeddingRequest:
            number = _native.generator_add(self._steps.generator, tokens, "{}", priority, 0)
            normalizes = bool(self._description.get("normalize"))
            request = EmbeddingRequest(name or str(next(self._numbers)), tokens, params, normalizes, changed)
            self._steps.add(number, request)
            return request

        return add

    def check_task(self, task: str) -> None:
        if task == self.task:
            return
        if task == "embed":
            raise InvalidArgumentError(
                "the model generates text: embeddings are of one that was built with task='embed'"
            )
        raise InvalidArgumentError(
            "the model gives embeddings, by embed(): text is of one that was built with task='generate'"
        )

    def guides(self) -> Guides:
        """Of guided texts. Raises InvalidArgumentError without a tokenizer."""
        tokenizer = self._tokenizer_of()
        if tokenizer is None:
            raise InvalidArgumentError("structured_outputs are of text, and the model has no tokenizer.json")
        with self._making:
            if self._guides is None:
                eos_ids = list(self._description.get("eos_ids") or ())
                self._guides = Guides(tokenizer, self._description["vocabulary"], eos_ids)
            return self._guides
