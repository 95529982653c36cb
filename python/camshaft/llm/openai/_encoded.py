"""The prompts of one call while an encoder and a decoder run them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from camshaft._errors import CancelledError
from camshaft.llm._encoder_decoder_run import EncoderDecoderRun
from camshaft.llm.openai._metrics import Work
from camshaft.llm.openai._running import Running, work_of

if TYPE_CHECKING:
    from camshaft.llm.openai._call import Call
    from camshaft.llm.openai._served import ServedEncoderDecoder


class EncodedRunning(Running):
    """Prompts are encoded on one of the model's threads; calls wait in front of them."""

    def __init__(self, served: ServedEncoderDecoder, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        super().__init__(served.llm, loop, call)
        self._served = served
        self._run: EncoderDecoderRun | None = None

    def start(self) -> None:
        call, count = self._call, len(self._call.prompts)
        run = EncoderDecoderRun(
            self._served.model,
            call.prompts,
            [call.params] * count,
            [call.priority] * count,
            streams=call.is_stream,
            name=call.id,
        )
        with self._lock:
            if self._is_ended:
                return
            self._run = run
            self._served.readers.submit(self._follow, run)

    def end(self) -> None:
        with self._lock:
            self._is_ended = True
            if self._run is not None:
                self._run.cancel()

    def work(self) -> list[Work]:
        asked = () if self._run is None else self._run.asked
        return [work_of(one.request, len(one.tokens)) for one in asked if one.request is not None]

    def _follow(self, run: EncoderDecoderRun) -> None:
        try:
            for place, output in run.outputs():
                self._tell(place, run.shown(place, output))
        except CancelledError:
            pass  # nobody waits
        except BaseException as error:  # of a thread that nobody else looks at
            self._tell(0, error)

    def _tell(self, place: int, result: Any) -> None:
        self._loop.call_soon_threadsafe(self._take, place, result)
