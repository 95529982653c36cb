"""Text of an encoder-decoder model (T5), for many prompts at once."""

from __future__ import annotations

import collections
import dataclasses
import os
import queue
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from camshaft import _native
from camshaft._errors import CorruptEngineError, InvalidArgumentError, InvalidModelError
from camshaft.llm._beam_search import (
    BeamSearchOutput,
    BeamSearchParams,
    beam_search_output,
    searched_params,
)
from camshaft.llm._checks import check_positive, listed_priorities, short
from camshaft.llm._encoder_context import EncoderContext
from camshaft.llm._fields import Fields
from camshaft.llm._folder import DESCRIPTION
from camshaft.llm._image_encoder import pictures_of
from camshaft.llm._llm import LLM
from camshaft.llm._outputs import RequestOutput
from camshaft.llm._prompts import Prompt, listed_prompts
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._slots import Slots
from camshaft.llm._text_encoder import MOST_TOKENS

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath


@dataclasses.dataclass(eq=False)
class _Asked:
    """A prompt on its way. slot: where the encoder's keys and values of it are."""

    place: int
    text: str | None
    tokens: list[int]
    params: SamplingParams
    priority: int
    slot: int = -1
    request: Any = None


class EncoderDecoderLLM:
    """The model of a folder that `camshaft llm build` made of a T5: an encoder reads a prompt, and a decoder, which sees what
    it made of it, writes the text.

    llm = EncoderDecoderLLM("flan-t5-small")
    for output in llm.generate(["Translate to German: The house is small."], SamplingParams(temperature=0, max_tokens=64)):
        print(output.outputs[0].text)

    max_num_seqs: texts that are decoded at once; max_encoder_seqs: prompts that have memory for the encoder's keys and
        values, as many as these without it. seed: of requests that have none; threads: of the engines, one for each core
        without it; device: where these are for GPUs.

    May be used from several threads, whose requests run together."""

    def __init__(
        self,
        model: AnyPath,
        *,
        device: str | None = None,
        max_num_seqs: int = 32,
        max_encoder_seqs: int | None = None,
        max_num_batched_tokens: int = 512,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        folder = Path(os.fspath(model))
        slots = max_num_seqs if max_encoder_seqs is None else max_encoder_seqs
        check_positive("max_num_seqs", max_num_seqs)
        check_positive("max_encoder_seqs", slots)
        self._llm = LLM(
            folder,
            device=device,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            enable_prefix_caching=False,  # what follows the same words is another thing with each prompt
            seed=seed,
            threads=threads,
            max_encoder_seqs=slots,
        )
        self.description = self._llm.description
        if "encoder" not in self.description:
            raise InvalidArgumentError(
                f"{folder}: no model with an encoder of text; camshaft.llm.LLM or Whisper runs it"
            )
        where = folder / DESCRIPTION
        try:
            whole = Fields(self.description, str(where))
            fields = whole.within("encoder")
            self._longest = fields.integer("max_tokens", high=MOST_TOKENS)
            self._start = fields.integer("start_id", low=0, high=whole.integer("vocabulary", high=1 << 24) - 1)
        except InvalidModelError as error:
            raise CorruptEngineError(str(error)) from None
        self._blocks_of_one, self._block_size, _ = _native.generator_cross_cache(self._llm.engine._engine)
        if self._longest > self._blocks_of_one * self._block_size:
            raise CorruptEngineError(
                f"{where}: 'max_tokens' of 'encoder' is {self._longest}, and the engine beside it has room for "
                f"{self._blocks_of_one * self._block_size}"
            )
        self._encoder = EncoderContext(self._llm, folder, device, threads or 0)
        self._slots = Slots(slots)

    @property
    def tokenizer(self) -> Any:
        """Of the package `tokenizers`; None where the folder has no tokenizer.json."""
        return self._llm.tokenizer

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """The texts for prompts, in their order. A prompt is a text, whose special tokens are added as its tokenizer has
        them, or a list of tokens' numbers; sampling_params one for all, or one for each; priority, where lower ones run
        first, one for each. An output's `prompt_token_ids` are what the encoder has read.

        Raises InvalidArgumentError for what could never run; what else goes wrong later is in the output's `error`."""
        listed = listed_prompts(prompts)
        params = sampling_params or SamplingParams()
        chosen = list(params) if isinstance(params, Sequence) else [params] * len(listed)
        asked, results = self._run(listed, chosen, priority, "sampling_params")
        return [
            dataclasses.replace(result, prompt=one.text, prompt_token_ids=one.tokens)
            for one, result in zip(asked, results)
        ]

    def beam_search(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: BeamSearchParams | Sequence[BeamSearchParams],
        *,
        priority: Sequence[int] | None = None,
    ) -> list[BeamSearchOutput]:
        """The likeliest texts for prompts that beam search finds, each prompt's by their score; a sequence's `tokens` are the
        decoder's. The rest is as in generate() and LLM.beam_search()."""
        listed = listed_prompts(prompts)
        searched = searched_params(params, len(listed))
        _, results = self._run(listed, searched, priority, "params")
        return [beam_search_output(result, one, self.tokenizer) for result, one in zip(results, searched)]

    def _run(
        self, prompts: Sequence[Prompt], params: Sequence[Any], priority: Sequence[int] | None, name: str
    ) -> tuple[list[_Asked], list[RequestOutput]]:
        self._llm._steps.check_thread()
        priorities = listed_priorities(priority, len(prompts))
        for what, given in ((name, params), ("priority", priorities)):
            if len(given) != len(prompts):
                raise InvalidArgumentError(f"{what} has {len(given)} items for {len(prompts)} prompts")
        if wrong := next((one for one in params if not isinstance(one, SamplingParams)), None):
            raise InvalidArgumentError(f"sampling_params are SamplingParams(...), not {short(wrong)}")
        asked = [
            _Asked(place, *self._read(prompt), one, urgency)
            for place, (prompt, one, urgency) in enumerate(zip(prompts, params, priorities))
        ]
        results: list[Any] = [None] * len(asked)
        waiting, running = collections.deque(asked), dict[int, _Asked]()
        # What a prompt's request gives; with no prompt a slot's number.
        told: queue.SimpleQueue[tuple[int | None, Union[RequestOutput, BaseException, int]]] = queue.SimpleQueue()
        free: list[int] = []  # slots that are this call's, and nobody's of its prompts
        asks_for_slot = False

        def take_slot(slot: int) -> None:
            told.put((None, slot))

        try:
            while waiting or running:
                if waiting and not asks_for_slot:
                    asks_for_slot = True
                    self._slots.take(take_slot)
                for place, result in _all_of(told):
                    if isinstance(result, BaseException):
                        raise result
                    if isinstance(result, int):
                        asks_for_slot = False
                        free.append(result)
                    else:
                        assert place is not None
                        results[place] = result
                        self._slots.put(running.pop(place).slot)
                if free:
                    self._begin(waiting, running, free, told)
        finally:
            self._slots.leave(take_slot)
            self._llm._steps.abort([one.request for one in running.values() if one.request is not None])
            while not told.empty():
                if isinstance(result := told.get()[1], int):
                    free.append(result)
            for slot in [*free, *(one.slot for one in running.values())]:
                self._slots.put(slot)
        return asked, results

    def _read(self, prompt: Prompt) -> tuple[str | None, list[int]]:
        text, tokens = self._llm._text_and_tokens(prompt)
        pictures_of(None, prompt, tokens)  # which it does not read
        if not tokens:
            raise InvalidArgumentError("the prompt is empty: it must have a token at least")
        if len(tokens) > self._longest:
            raise InvalidArgumentError(
                f"the prompt has {len(tokens)} tokens; the model was built for {self._longest} at most (--max-length)"
            )
        vocabulary = self.description["vocabulary"]
        wrong = next((token for token in tokens if not 0 <= token < vocabulary), None)
        if wrong is not None:
            raise InvalidArgumentError(f"the prompt has token {wrong}, the vocabulary has tokens 0 to {vocabulary - 1}")
        return text, tokens

    def _begin(
        self, waiting: collections.deque[_Asked], running: dict[int, _Asked], free: list[int], told: Any
    ) -> None:
        """As many as there are slots for, whose prompts are read together. free: slots, which are all taken."""
        begun: list[_Asked] = []
        while free and waiting:
            one = waiting.popleft()
            one.slot = free.pop()
            running[one.place] = one
            begun.append(one)
            if waiting and not free and (slot := self._slots.take_free()) is not None:
                free.append(slot)
        for some in _runs_of(begun):
            self._encode(some)

        def changed(one: _Asked) -> Any:
            return lambda result: told.put((one.place, result))

        ready = [
            self._llm._prepared([self._start], one.params, one.priority, changed(one), False, cross=self._keys_of(one))
            for one in begun
        ]

        def add_all() -> None:
            for one, add in zip(begun, ready):
                one.request = add()

        self._llm._steps.between_steps(add_all)
        self._llm._steps.start_thread()

    def _keys_of(self, one: _Asked) -> tuple[range, int]:
        """The blocks of the encoder's keys, and the number of these."""
        first = one.slot * self._blocks_of_one
        return range(first, first - len(one.tokens) // -self._block_size), len(one.tokens)

    def _encode(self, begun: Sequence[_Asked]) -> None:
        import numpy

        lengths = [len(one.tokens) for one in begun]
        rows = [one.slot * self._blocks_of_one * self._block_size + numpy.arange(len(one.tokens)) for one in begun]
        self._encoder.run(
            {
                "input_ids": numpy.concatenate([one.tokens for one in begun]).astype(numpy.int32),
                "cumulative_sequence_length": numpy.cumsum([0, *lengths]).astype(numpy.int32),
                "slots": numpy.concatenate(rows).astype(numpy.int32),
            }
        )


def _all_of(told: queue.SimpleQueue[Any]) -> Iterator[Any]:
    """What there is, for the first of which it waits."""
    yield told.get()
    while not told.empty():
        yield told.get()


def _runs_of(begun: Sequence[_Asked]) -> Iterator[list[_Asked]]:
    """Of as many tokens as the encoder takes at once."""
    some: list[_Asked] = []
    tokens = 0
    for one in begun:
        if some and tokens + len(one.tokens) > MOST_TOKENS:
            yield some
            some, tokens = [], 0
        some.append(one)
        tokens += len(one.tokens)
    if some:
        yield some
