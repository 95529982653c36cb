"""Steps of a generator, on a thread of their own, and what they give to requests."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Union

from camshaft import _native
from camshaft._errors import InvalidArgumentError
from camshaft.llm._beam_search import BeamRequest
from camshaft.llm._event_thread import Ended, EventThread, Told
from camshaft.llm._guide import MaskFiller, advance
from camshaft.llm._pooling import EmbeddingRequest
from camshaft.llm._requests import Request
from camshaft.llm._sampling_params import SamplingParams

if TYPE_CHECKING:
    from camshaft._types import Capsule

_T = TypeVar("_T")
_AnyRequest = Union[Request, EmbeddingRequest, BeamRequest]
_LONGEST_STEP = 60.0  # seconds that the end of a process waits for one


class StepLoop:
    """The thread runs steps as long as there are requests, waits a while for more, and ends. Any thread adds and ends
    requests between two steps."""

    def __init__(self, generator: Capsule, overlaps: bool = False) -> None:
        """overlaps: whether what a step gave is taken while the next one runs, which has to be elsewhere: on a GPU."""
        self.generator = generator
        self._overlaps = overlaps
        self._events = EventThread()
        self._later: list[Told] = []  # events of the last step that nothing of the next one depends on
        self._requests: dict[int, Any] = {}  # of Request or EmbeddingRequest
        self._filler = MaskFiller()
        # Of what is above, and of steps. Signals leave neither `with` of a lock nor SimpleQueue half done; they do so with
        # what threading has in Python, as Event and Condition.
        self._lock = threading.Lock()
        self._waiting: list[None] = []  # an item for each thread that waits for it, whom steps let go first
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()  # an item when there are requests
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()  # of the thread
        self._ended: list[None] = []  # an item when the process ends
        self._threads: list[threading.Thread] = []  # the one that was started last
        # When the process ends the last of these comes first: no step runs any more when what it waits for goes.
        weakref.finalize(self, self._filler.close)
        weakref.finalize(self, self._events.close)
        weakref.finalize(self, _end, self._ended, self._wakes, self._threads)

    def add(self, number: int, request: _AnyRequest) -> None:
        """A request that the generator has by this number. To be called between steps."""
        request.number = number
        self._requests[number] = request
        self._wakes.put(None)

    def between_steps(self, use: Callable[[], _T]) -> _T:
        """`use` while no step runs; the thread, which takes the lock again and again, lets it go first."""
        self._waiting.append(None)
        try:
            with self._lock:
                return use()
        finally:
            self._waiting.pop()

    def requests(self) -> list[_AnyRequest]:
        """Those that go on. To be called between steps."""
        return list(self._requests.values())

    def check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise InvalidArgumentError(
                "a token_mask cannot use its own LLM: the step that called it would wait for itself"
            )

    def _step(self) -> None:
        """One step for all, and what it gave to those whom it belongs to. On the thread: signals interrupt the main one, where
        events would be lost."""
        if self._waiting:
            time.sleep(1e-4)
        with self._lock:
            told: dict[int, Any] = {}
            later, self._later = self._later, []
            for event in self._run_beside([each for each in later if each[0].number in self._requests], told):
                request = self._requests.get(event[0])
                if request is None:  # whose caller was interrupted before it was known here
                    _native.generator_abort(self.generator, event[0], -1)
                    continue
                if self._overlaps and event[6] is None and _can_wait(request):
                    self._later.append((request, event))
                    continue
                told[request.number] = request
                try:
                    if request.matchers:
                        self._take_guided(request, event)
                    elif request.take(event):
                        _native.generator_abort(self.generator, request.number, event[1])
                    elif isinstance(request, Request) and event[6] is None and request.params.token_mask is not None:
                        mask = mask_of(request.params, list(request.outputs[event[1]].token_ids))
                        _native.generator_set_allowed_tokens(self.generator, request.number, event[1], mask)
                except BaseException as error:  # of the tokenizer or the caller's mask: its request's alone
                    request.failed = error
                    _native.generator_abort(self.generator, request.number, -1)
            for request in told.values():
                is_finished = request.finished
                if is_finished:
                    self._requests.pop(request.number, None)
                if is_finished or request.streams:
                    request.changed(request.failed or request.output())

    def _encode_next(self, told: dict[int, Any]) -> None:
        """Rows of the pictures of whose turn it is: a request's in a step, so that others go on between them."""
        number = _native.generator_wants_images(self.generator)
        request = self._requests.get(number)
        if request is None:
            if number != 0:  # whose caller was interrupted before it was known here
                _native.generator_abort(self.generator, number, -1)
            return
        try:
            request.encode()
        except Exception as error:  # of its pictures
            request.failed = error
            told[number] = request
            _native.generator_abort(self.generator, number, -1)

    def _run_beside(self, later: list[Told], told: dict[int, Any]) -> list[Any]:
        """The events of a step, which begins with rows of pictures. Those of the step before, `later`, are taken beside
        it."""
        ended: list[Ended] = []
        if later:
            self._events.start(later)
        try:
            self._encode_next(told)
            events = self._run_guided()
        finally:
            if later:
                ended = self._events.wait()
        for number, sample in ended:
            _native.generator_abort(self.generator, number, sample)
            if number in self._requests:
                told[number] = self._requests[number]
        return events

    def _run_guided(self) -> list[Any]:
        """The events of a step. Masks of guided requests are computed while the model runs."""
        address, bytes_of_one, count, rows = _native.generator_plan(self.generator)
        failed: BaseException | None = None
        is_filling = False
        try:
            known = [each for each in rows if each[0] in self._requests]
            if known:
                matchers = [
                    (self._requests[number].matchers[sample], row, guesses) for number, sample, guesses, row in known
                ]
                self._filler.start(matchers, address, bytes_of_one, count)
                is_filling = True
        except Exception as error:  # that of guided requests alone, whose masks stay 0
            failed = error
        try:
            _native.generator_run(self.generator)
        finally:
            if is_filling:
                failed = self._filler.wait() or failed
            events = _native.generator_finish(self.generator)
        if failed is not None:
            for number, *_ in rows:
                if number in self._requests:
                    self._requests[number].failed = failed
                    _native.generator_abort(self.generator, number, -1)
        return events

    def _take_guided(self, request: Request, event: Any) -> None:
        number, sample, tokens, logprobs, first, prompt_logprobs, finish, stop_token, error, *rest = event
        matcher = request.matchers[sample]
        if request.outputs[sample].finished():
            return
        if matcher.is_error():
            error = f"structured_outputs: {matcher.get_error().strip()}"
            request.finish(sample, "error", error)
            _native.generator_abort(self.generator, number, sample)
            return
        kept = len(tokens)
        if finish is None:
            kept, error = advance(matcher, tokens)
        width = len(logprobs) // max(len(tokens), 1)
        known = (number, sample, tokens[:kept], logprobs[: width * kept], first, prompt_logprobs)
        is_ended = request.take((*known, finish, stop_token, error, *rest))
        if finish is None and not is_ended and (error or matcher.is_stopped()):
            request.finish(sample, "error" if error else "stop", error)
            is_ended = True
        if is_ended:
            _native.generator_abort(self.generator, number, sample)

    def abort(self, requests: Sequence[_AnyRequest]) -> None:
        def end() -> None:
            for request in requests:
                if self._requests.pop(request.number, None) is not None:
                    _native.generator_abort(self.generator, request.number, -1)

        self.between_steps(end)

    def abort_named(self, request_id: str) -> bool:
        """Whether there was one of that name."""

        def end() -> bool:
            found = [request for request in self._requests.values() if request.id == request_id]
            for request in found:
                _native.generator_abort(self.generator, request.number, -1)
            return bool(found)

        return self.between_steps(end)

    def _fail_all(self, error: BaseException) -> None:
        with self._lock:
            self._later.clear()
            for request in self._requests.values():
                _native.generator_abort(self.generator, request.number, -1)
                if not request.finished:  # as a stop string ends a text beside the step that failed
                    request.failed = error
                request.changed(request.failed or request.output())
            self._requests.clear()

    def start_thread(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # a forked child has none
                arguments = (weakref.ref(self), self._wakes)
                self._thread = threading.Thread(target=_serve, args=arguments, name="camshaft.llm", daemon=True)
                self._threads[:] = [self._thread]
                self._thread.start()

    def _retire(self) -> bool:
        """Whether the thread may end, as there is nothing to do."""
        with self._starting:
            if not self._requests and self._wakes.empty():
                self._thread = None
            return self._thread is None

    def _run(self) -> None:
        while self._requests and not self._ended:
            try:
                self._step()
            except BaseException as error:  # nobody else would hear of it
                self._fail_all(error)


def _can_wait(request: Any) -> bool:
    """Whether no mask of the next step depends on what an event brings."""
    return isinstance(request, Request) and not request.matchers and request.params.token_mask is None


def _serve(reference: weakref.ref[StepLoop], wakes: queue.SimpleQueue[None]) -> None:
    """Steps, until there was nothing to do for a while, or nobody has the loop any more."""
    while True:
        is_idle = False
        try:
            wakes.get(timeout=10)
        except queue.Empty:
            is_idle = True
        loop = reference()
        if loop is None or loop._ended or (is_idle and loop._retire()):
            return
        loop._run()
        del loop


def _end(ended: list[None], wakes: queue.SimpleQueue[None], threads: list[threading.Thread]) -> None:
    """The thread sees that there is nobody any more. When the process ends it is waited for: a step that still ran while the
    library's own threads were taken down ended the process with SIGABRT."""
    ended.append(None)
    wakes.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(_LONGEST_STEP)


def mask_of(params: SamplingParams, tokens: list[int]) -> bytes:
    assert params.token_mask is not None
    mask = params.token_mask(tokens)
    if mask is None or isinstance(mask, bytes):
        return mask or b""
    if not hasattr(mask, "tobytes"):
        raise InvalidArgumentError(f"a token_mask gives bytes, an array or None, not {type(mask).__name__}")
    data: bytes = mask.tobytes()
    return data
