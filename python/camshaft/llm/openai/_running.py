"""The requests of one call while the model runs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from camshaft.llm._beam_search import BeamRequest
from camshaft.llm._llm import LLM
from camshaft.llm._outputs import RequestOutput
from camshaft.llm._requests import Request
from camshaft.llm.openai._metrics import Work

if TYPE_CHECKING:
    from camshaft.llm.openai._call import Call


class Running:
    """Outputs have all of the text so far: of several that came since the last look the newest counts, so that a slow reader
    makes no queue."""

    def __init__(self, llm: LLM, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        self._llm, self._loop, self._call = llm, loop, call
        self._latest: dict[int, RequestOutput | BaseException] = {}
        self._changed = asyncio.Event()
        self._lock = threading.Lock()
        self.requests: list[Request | BeamRequest] = []
        self._matcher: Any = None  # where texts of the call's grammar begin
        self._is_ended = False  # maybe before all of it was begun

    def read_grammar(self) -> None:
        """Of a guided call, for start(). Not on the loop. Raises what is wrong with it."""
        if self._matcher is None:
            self._matcher = self._llm._requests.guides().matcher(self._call.params.structured_outputs)

    def start(self) -> None:
        """Not on the loop: it may wait for a step. Raises what is wrong with the call. All of its prompts begin together."""
        call = self._call
        if call.is_guided:
            self.read_grammar()
        ready = [
            self._llm._requests.prepared(
                prompt,
                call.params,
                call.priority,
                self._callback(place),
                call.is_stream,
                call.id,
                lora=call.lora_request,
                matcher=self._matcher,
            )
            for place, prompt in enumerate(call.prompts)
        ]

        def add_all() -> None:
            for add in ready:
                self.requests.append(add())

        with self._lock:
            if self._is_ended:
                return
            self._llm._steps.between_steps(add_all)
        self._llm._steps.start_thread()

    def end(self) -> None:
        """Likewise: what runs of it ends."""
        with self._lock:
            self._is_ended = True
            self._llm._steps.abort([request for request in self.requests if not request.finished])

    async def outputs(self) -> AsyncIterator[tuple[int, RequestOutput]]:
        left = len(self._call.prompts)
        while left > 0:
            await self._changed.wait()
            self._changed.clear()
            latest, self._latest = self._latest, {}
            for place, output in sorted(latest.items()):
                if isinstance(output, BaseException):
                    raise output
                left -= output.finished
                yield place, output
        self._is_ended = True

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def work(self) -> list[Work]:
        return [work_of(each, len(each.tokens)) for each in self.requests]

    def _callback(self, place: int) -> Any:
        def changed(output: RequestOutput | BaseException) -> None:
            self._loop.call_soon_threadsafe(self._take, place, output)

        return changed

    def _take(self, place: int, output: RequestOutput | BaseException) -> None:
        self._latest[place] = output
        self._changed.set()


def work_of(request: Request | BeamRequest, prompt_tokens: int) -> Work:
    return Work(
        prompt_tokens,
        [len(sample.token_ids) for sample in request.outputs],
        [sample.finish_reason or "abort" for sample in request.outputs],
        request.first_token_at,
        request.last_token_at,
    )
