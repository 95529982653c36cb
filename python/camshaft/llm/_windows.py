"""The windows of the sounds of one call: which are decoded when, again where a text is no good, and what they say."""

from __future__ import annotations

import collections
import dataclasses
import math
import queue
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

from camshaft._errors import CancelledError, Error
from camshaft.llm._beam_search import BeamRequest, SearchedParams
from camshaft.llm._outputs import CompletionOutput, RequestOutput
from camshaft.llm._requests import Request
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._speech_description import Speech
from camshaft.llm._transcript import Segment, Stretch, stretches_of

if TYPE_CHECKING:
    from camshaft.llm._sound import Sound
    from camshaft.llm._whisper import Whisper


@dataclasses.dataclass
class SpeechParams(SearchedParams):
    """With what Whisper's decoding has beside. timestamps: the token of 0 s, that of none, and the largest first step."""

    suppress_tokens: Sequence[int] = ()
    begin_suppress_tokens: Sequence[int] = ()
    timestamps: tuple[int, int, int] | None = None

    def _native(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("suppress_tokens", "begin_suppress_tokens", "timestamps")}
        return {**super()._native(), **own}


@dataclasses.dataclass(frozen=True)
class Wishes:
    """Of a call. language: None where the model is to tell; before: the tokens in front of that of the language; after: those
    behind it; wants_no_speech: whether each window is asked how likely silence is; seed: of draws."""

    params: SpeechParams
    language: str | None
    temperatures: Sequence[float]
    before: Sequence[int]
    after: Sequence[int]
    compression_ratio_threshold: float | None
    logprob_threshold: float | None
    no_speech_threshold: float | None
    condition_on_previous_text: bool
    wants_no_speech: bool
    seed: int

    @property
    def is_sequential(self) -> bool:
        """Whether a window waits for what is said in the one before."""
        return self.params.timestamps is not None or self.condition_on_previous_text


@dataclasses.dataclass(eq=False)
class Task:
    """A sound on its way, of that number in its call. open: where windows begin that are not done; windows: how many were
    encoded; texts: the requests of texts so far; failed: why there is no text."""

    number: int
    sound: Sound
    language: str | None
    segments: list[Segment] = dataclasses.field(default_factory=list)
    open: set[int] = dataclasses.field(default_factory=set)
    windows: int = 0
    texts: list[Request | BeamRequest] = dataclasses.field(default_factory=list)
    failed: Exception | None = None

    @property
    def is_done(self) -> bool:
        return not self.open


@dataclasses.dataclass(eq=False)
class _Window:
    """A part of a sound, from the sample `begin` on. slot: where the encoder's keys and values of it are."""

    task: Task
    begin: int
    slot: int = -1
    asked: Literal["language", "text", "silence"] = "text"
    attempt: int = 0  # which of the temperatures
    request: Request | BeamRequest | None = None
    text: CompletionOutput | None = None
    no_speech: float | None = None


class Windows:
    """tasks: read one ahead of what there is room for; those that have failed already are told of in their turn."""

    def __init__(self, whisper: Whisper, speech: Speech, wishes: Wishes, tasks: Iterable[Task]) -> None:
        self._of, self._speech, self._wishes, self._tasks = whisper, speech, wishes, iter(tasks)
        self._waiting: collections.deque[_Window] = collections.deque()
        self._running: list[_Window] = []
        self._told: collections.deque[Task] = collections.deque()  # of which there is news
        self._asks_for_slot = False
        # What a window's request gives; with no window a slot's number, or what ends all.
        self._results: queue.SimpleQueue[tuple[_Window | None, Union[RequestOutput, BaseException, int]]]
        self._results = queue.SimpleQueue()

    def run(self) -> Iterator[Task]:
        """Gives a task whenever one of its windows is done, and once when the whole of it is, or has failed."""
        try:
            while True:
                if not self._asks_for_slot and self._has_more():
                    self._asks_for_slot = True
                    self._of._slots.take(self._take_slot)
                while self._told:
                    yield self._told.popleft()
                if not self._running and not self._asks_for_slot:
                    return
                window, result = self._results.get()
                if isinstance(result, BaseException):
                    raise result
                if isinstance(result, int):
                    self._begin(result)
                elif window in self._running:  # and not of a sound that has failed
                    self._take(window, result.outputs[0])
        finally:
            self._of._slots.leave(self._take_slot)
            self._end_all(self._running)
            while not self._results.empty():
                _, result = self._results.get()
                if isinstance(result, int):
                    self._of._slots.put(result)

    def cancel(self) -> None:
        """run() raises CancelledError; from any thread."""
        self._results.put((None, CancelledError("nobody wants the text any more")))

    def _take_slot(self, slot: int) -> None:
        self._results.put((None, slot))

    def _end_all(self, windows: Sequence[_Window]) -> None:
        self._of._llm._steps.abort([window.request for window in windows if window.request is not None])
        for window in list(windows):
            self._running.remove(window)
            self._of._slots.put(window.slot)

    def _has_more(self) -> bool:
        while not self._waiting:
            task = next(self._tasks, None)
            if task is None:
                return False
            if task.failed is None:
                self._wait_for(task, 0)
            if task.is_done:
                self._told.append(task)
        return True

    def _wait_for(self, task: Task, begin: int) -> None:
        if begin >= len(task.sound):
            return
        task.open.add(begin)
        self._waiting.append(_Window(task, begin))

    def _is_known(self, task: Task) -> bool:
        return task.language is not None or not self._speech.languages

    def _wait_for_others(self, task: Task) -> None:
        """The windows behind the first one, where no text says where they begin, or what was said before."""
        if not self._wishes.is_sequential:
            for begin in range(self._speech.samples, len(task.sound), self._speech.samples):
                self._wait_for(task, begin)

    def _begin(self, slot: int) -> None:
        self._asks_for_slot = False
        if not self._waiting:
            self._of._slots.put(slot)
            return
        window = self._waiting.popleft()
        window.slot = slot
        window.task.windows += 1
        self._running.append(window)
        self._of._encode(window.task.sound[window.begin : window.begin + self._speech.samples], slot)
        is_known = self._is_known(window.task)
        if window.begin == 0 and is_known:
            self._wait_for_others(window.task)
        self._ask(window, "text" if is_known else "language")

    def _fail(self, task: Task, error: Exception) -> None:
        task.failed = error
        self._end_all([window for window in self._running if window.task is task])
        self._waiting = collections.deque(window for window in self._waiting if window.task is not task)
        task.open.clear()
        self._told.append(task)

    def _ask(self, window: _Window, what: Literal["language", "text", "silence"]) -> None:
        window.asked = what
        tokens, params = self._question(window)
        llm = self._of._llm

        def changed(result: RequestOutput | BaseException) -> None:
            self._results.put((window, result))

        cross = self._of._blocks_of(window.slot), self._speech.states
        window.request = llm._steps.between_steps(
            llm._requests.prepared(tokens, params, 0, changed, False, cross=cross)
        )
        llm._steps.start_thread()

    def _question(self, window: _Window) -> tuple[list[int], SamplingParams]:
        speech, wishes, task = self._speech, self._wishes, window.task
        if window.asked != "text":
            # One token, of the languages, or that of silence, whose probability is what is asked for.
            allowed = list(speech.languages.values())
            if window.asked == "silence":
                allowed = [speech.no_speech_id or 0]
            one = SamplingParams(
                temperature=0, max_tokens=1, ignore_eos=True, allowed_token_ids=allowed, logprobs=0, detokenize=False
            )
            return [speech.start_id], one
        before = list(wishes.before)
        if wishes.condition_on_previous_text and task.segments and speech.previous_id is not None:
            said = [token for segment in task.segments for token in segment.tokens]
            before = [speech.previous_id, *said[-self._of._most_before :], speech.start_id]
        spoken = [] if task.language is None else [speech.languages[task.language]]
        # Draws do not depend on what else runs, or ends first.
        place = f"{wishes.seed} {task.number} {window.begin} {window.attempt}"
        temperature = wishes.temperatures[window.attempt]
        params = dataclasses.replace(wishes.params, temperature=temperature, seed=zlib.crc32(place.encode()))
        # Where texts are drawn there are no beams, as in openai/whisper.
        if params.beam_search is None or temperature > 0:
            params = dataclasses.replace(params, beam_search=None, logprobs=0)
        return [*before, *spoken, *wishes.after], params

    def _take(self, window: _Window, output: CompletionOutput) -> None:
        if output.finish_reason == "error":
            self._fail(window.task, Error(output.error))
            return
        if window.asked == "language":
            [token] = output.token_ids
            names = {number: name for name, number in self._speech.languages.items()}
            window.task.language = names[token]
            self._wait_for_others(window.task)
            self._ask(window, "text")
            return
        if window.asked == "silence":
            window.no_speech = math.exp(output.cumulative_logprob or 0.0)
        else:
            window.text = output
            if window.request is not None:
                window.task.texts.append(window.request)
        self._judge(window)

    def _judge(self, window: _Window) -> None:
        """By openai/whisper's rules: an unlikely text is none where silence is likely, and else written again, as is one that
        says the same again and again, at the next temperature."""
        wishes, output = self._wishes, window.text
        assert output is not None
        if wishes.wants_no_speech and window.no_speech is None and self._speech.no_speech_id is not None:
            self._ask(window, "silence")
            return
        is_unlikely = wishes.logprob_threshold is not None and _mean_logprob(output) < wishes.logprob_threshold
        if is_unlikely and wishes.no_speech_threshold is not None and self._speech.no_speech_id is not None:
            if window.no_speech is None:
                self._ask(window, "silence")
                return
            if window.no_speech > wishes.no_speech_threshold:
                self._end(window, [], self._speech.states)
                return
        repeats = wishes.compression_ratio_threshold is not None and (
            _compression_ratio(self._text_of(self._spoken(output))) > wishes.compression_ratio_threshold
        )
        if (is_unlikely or repeats) and window.attempt + 1 < len(wishes.temperatures):
            window.attempt += 1
            self._ask(window, "text")
            return
        tokens = self._spoken(output)
        if wishes.params.timestamps is None:
            self._end(window, [Stretch(0, self._speech.states, tokens)], self._speech.states)
        else:
            self._end(window, *stretches_of(tokens, wishes.params.timestamps[0], self._speech.states))

    def _end(self, window: _Window, stretches: Sequence[Stretch], heard: int) -> None:
        """heard: states that the window is done with."""
        self._running.remove(window)
        self._of._slots.put(window.slot)
        window.task.segments += self._segments(window, stretches)
        if self._wishes.is_sequential:
            self._wait_for(window.task, window.begin + heard * (self._speech.samples // self._speech.states))
        window.task.open.discard(window.begin)
        self._told.append(window.task)

    def _segments(self, window: _Window, stretches: Sequence[Stretch]) -> list[Segment]:
        rate, end = self._speech.sampling_rate, len(window.task.sound)
        step = self._speech.samples // self._speech.states
        output, made = window.text, []
        assert output is not None
        for stretch in stretches:
            start, stop = (min(window.begin + at * step, end) / rate for at in (stretch.start, stretch.end))
            text = self._text_of(stretch.tokens)
            made.append(
                Segment(
                    id=0,
                    start=start,
                    end=stop,
                    text=text,
                    tokens=stretch.tokens,
                    temperature=self._wishes.temperatures[window.attempt],
                    avg_logprob=_mean_logprob(output),
                    compression_ratio=_compression_ratio(text),
                    no_speech_prob=window.no_speech,
                    seek=window.begin * 100 // rate,
                )
            )
        return made

    def _spoken(self, output: CompletionOutput) -> list[int]:
        """Without the token that ends the text."""
        return [token for token in output.token_ids if token not in self._of._end_ids]

    def _text_of(self, tokens: Sequence[int]) -> str:
        first_time = self._speech.timestamp_begin
        words = [token for token in tokens if first_time is None or token < first_time]
        text: str = self._of._llm.tokenizer.decode(words, skip_special_tokens=True)
        return text


def _mean_logprob(output: CompletionOutput) -> float:
    return (output.cumulative_logprob or 0.0) / max(len(output.token_ids), 1)


def _compression_ratio(text: str) -> float:
    data = text.encode()
    return len(data) / len(zlib.compress(data))
