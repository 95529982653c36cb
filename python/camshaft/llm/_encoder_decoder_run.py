"""Prompts of one call on their way through an encoder and a decoder."""

from __future__ import annotations

import collections
import dataclasses
import queue
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

from camshaft._errors import CancelledError, InvalidArgumentError
from camshaft.llm._checks import listed_priorities, short
from camshaft.llm._outputs import RequestOutput
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._text_encoder import MOST_TOKENS

if TYPE_CHECKING:
    from camshaft.llm._encoder_decoder import EncoderDecoderLLM
    from camshaft.llm._prompts import Prompt


@dataclasses.dataclass(eq=False)
class Asked:
    """slot: where the encoder's keys and values of the prompt are."""

    place: int
    text: str | None
    tokens: list[int]
    params: SamplingParams
    priority: int
    slot: int = -1
    request: Any = None


class EncoderDecoderRun:
    """streams: whether outputs come after each step, too, each with all of its text so far. name: of its requests.

    Raises InvalidArgumentError for what could never run."""

    def __init__(
        self,
        llm: EncoderDecoderLLM,
        prompts: Sequence[Prompt],
        params: Sequence[Any],
        priority: Sequence[int] | None,
        params_name: str = "sampling_params",
        streams: bool = False,
        name: str | None = None,
    ) -> None:
        llm._llm._steps.check_thread()
        priorities = listed_priorities(priority, len(prompts))
        for what, given in ((params_name, params), ("priority", priorities)):
            if len(given) != len(prompts):
                raise InvalidArgumentError(f"{what} has {len(given)} items for {len(prompts)} prompts")
        if wrong := next((one for one in params if not isinstance(one, SamplingParams)), None):
            raise InvalidArgumentError(f"sampling_params are SamplingParams(...), not {short(wrong)}")
        self.asked = [
            Asked(place, *llm._read(prompt, one), one, urgency)
            for place, (prompt, one, urgency) in enumerate(zip(prompts, params, priorities))
        ]
        self._llm, self._streams, self._name = llm, streams, name
        self._waiting = collections.deque(self.asked)
        self._running: dict[int, Asked] = {}
        # What a prompt's request gives; with no prompt a slot's number.
        self._told: queue.SimpleQueue[tuple[int | None, Union[RequestOutput, BaseException, int]]] = queue.SimpleQueue()
        self._free: list[int] = []  # slots that are this call's, and nobody's of its prompts

    def outputs(self) -> Iterator[tuple[int, RequestOutput]]:
        """By the prompts' places, as the decoder sees them. Prompts are encoded on the thread that asks; with the iterator all
        of the call ends. Raises what ends all of it."""
        slots, asks_for_slot = self._llm._slots, False
        take_slot = self._take_slot
        try:
            while self._waiting or self._running:
                if self._waiting and not asks_for_slot:
                    asks_for_slot = True
                    slots.take(take_slot)
                for place, result in self._all_told():
                    if isinstance(result, BaseException):
                        raise result
                    if isinstance(result, int):
                        asks_for_slot = False
                        self._free.append(result)
                        continue
                    assert place is not None
                    if result.finished:
                        slots.put(self._running.pop(place).slot)
                    yield place, result
                if self._free:
                    self._begin()
        finally:
            slots.leave(take_slot)
            self._llm._llm._steps.abort([one.request for one in self._running.values() if one.request is not None])
            while not self._told.empty():
                if isinstance(result := self._told.get()[1], int):
                    self._free.append(result)
            for slot in [*self._free, *(one.slot for one in self._running.values())]:
                slots.put(slot)

    def shown(self, place: int, output: RequestOutput) -> RequestOutput:
        """With the prompt that the encoder has read."""
        one = self.asked[place]
        return dataclasses.replace(output, prompt=one.text, prompt_token_ids=list(one.tokens))

    def cancel(self) -> None:
        """outputs() raises CancelledError. Any thread may."""
        self._told.put((None, CancelledError("the call was cancelled")))

    def _take_slot(self, slot: int) -> None:
        self._told.put((None, slot))

    def _all_told(self) -> Iterator[Any]:
        """What there is, for the first of which it waits."""
        yield self._told.get()
        while not self._told.empty():
            yield self._told.get()

    def _begin(self) -> None:
        """As many as there are slots for, whose prompts are read together."""
        llm, begun = self._llm, list[Asked]()
        while self._free and self._waiting:
            one = self._waiting.popleft()
            one.slot = self._free.pop()
            self._running[one.place] = one
            begun.append(one)
            if self._waiting and not self._free and (slot := llm._slots.take_free()) is not None:
                self._free.append(slot)
        for some in _runs_of(begun):
            llm._encode([(one.slot, one.tokens) for one in some])
        ready = [
            llm._llm._requests.prepared(
                [llm._start],
                one.params,
                one.priority,
                self._changed(one.place),
                self._streams,
                self._name,
                cross=llm._keys_of(one.slot, len(one.tokens)),
            )
            for one in begun
        ]

        def add_all() -> None:
            for one, add in zip(begun, ready):
                one.request = add()

        llm._llm._steps.between_steps(add_all)
        llm._llm._steps.start_thread()

    def _changed(self, place: int) -> Any:
        return lambda result: self._told.put((place, result))


def _runs_of(begun: Sequence[Asked]) -> Iterator[list[Asked]]:
    """Of as many tokens as the encoder takes at once."""
    some: list[Asked] = []
    tokens = 0
    for one in begun:
        if some and tokens + len(one.tokens) > MOST_TOKENS:
            yield some
            some, tokens = [], 0
        some.append(one)
        tokens += len(one.tokens)
    if some:
        yield some
