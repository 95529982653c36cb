"""What a step gave to requests, taken while the next one runs."""

from __future__ import annotations

import queue
import threading
from typing import Any

from camshaft.llm._requests import Request

#: A request and an event of its, which has not ended it.
Told = tuple[Request, Any]
#: A request's number, and the sample of it that has ended, or -1 for all.
Ended = tuple[int, int]


def take_events(told: list[Told]) -> list[Ended]:
    """What the generator has to be told: stop strings and errors end samples of which it knows nothing."""
    ended: list[Ended] = []
    streams: dict[int, Request] = {}
    for request, event in told:
        if request.failed is not None:
            continue
        try:
            if request.take(event):
                ended.append((request.number, event[1]))
        except BaseException as error:  # of the tokenizer: its request's alone
            request.failed = error
            ended.append((request.number, -1))
        if request.streams:
            streams[request.number] = request
    for request in streams.values():
        if not request.finished:
            request.changed(request.output())
    return ended


class EventThread:
    """A thread beside that of the steps. (With 32 texts on an H200 a step took 1,420 us, of which 110 went by between
    the end of one run and the start of the next.)"""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[list[Told] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[list[Ended] | BaseException] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, told: list[Told]) -> None:
        """wait() comes next."""
        if self._thread is None or not self._thread.is_alive():  # a forked child has none
            self._jobs, self._results = queue.SimpleQueue(), queue.SimpleQueue()
            arguments = (self._jobs, self._results)
            self._thread = threading.Thread(target=_take, args=arguments, name="camshaft.llm.events", daemon=True)
            self._thread.start()
        self._jobs.put(told)

    def wait(self) -> list[Ended]:
        """What take_events() gave, or threw."""
        result = self._results.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        self._jobs.put(None)


def _take(jobs: queue.SimpleQueue[list[Told] | None], results: queue.SimpleQueue[list[Ended] | BaseException]) -> None:
    while (told := jobs.get()) is not None:
        result: list[Ended] | BaseException
        try:
            result = take_events(told)
        except BaseException as error:
            result = error
        told = []  # requests are nobody's once they have ended
        results.put(result)
        result = []  # and an error's frames have them
