"""Text of sounds by a built Whisper, for many sounds at once."""

from __future__ import annotations

import collections
import dataclasses
import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from camshaft import _native
from camshaft._arrays import Memory
from camshaft._engine import Engine
from camshaft._errors import CorruptEngineError, Error, InvalidArgumentError
from camshaft.llm._folder import DESCRIPTION, ENCODER_ENGINE
from camshaft.llm._llm import LLM
from camshaft.llm._outputs import RequestOutput
from camshaft.llm._requests import Request
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._sound import Audio, read_sound
from camshaft.llm._speech_description import read_speech
from camshaft.llm._transcript import Segment, Stretch, Transcription, stretches_of

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath
    from camshaft.llm._sound import Sound


@dataclasses.dataclass
class _SpeechParams(SamplingParams):
    """With what Whisper's decoding has beside. timestamps: the token of 0 s, that of none, and the largest first step."""

    suppress_tokens: Sequence[int] = ()
    begin_suppress_tokens: Sequence[int] = ()
    timestamps: tuple[int, int, int] | None = None

    def _native(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("suppress_tokens", "begin_suppress_tokens", "timestamps")}
        return {**super()._native(), **own}


@dataclasses.dataclass(eq=False)
class _Task:
    """A sound on its way."""

    sound: Sound
    language: str | None
    segments: list[Segment] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class _Window:
    """A part of a sound, from the sample `begin` on. slot: where the encoder's keys and values of it are; -1: nowhere."""

    task: _Task
    begin: int
    slot: int = -1
    detects_language: bool = False
    request: Request | None = None


class Whisper:
    """The model of speech of a folder that `camshaft llm build` made.

    [result] = Whisper("whisper-small").transcribe("talk.wav", timestamps=True)
    for segment in result.segments:
        print(segment.start, segment.end, segment.text)

    max_num_seqs: windows of sound that are decoded at once, each of which has memory for the encoder's keys and values.
    seed: of draws; threads: of the engines, one for each core without it; device: where these are for GPUs.

    May be used from several threads, whose sounds run together."""

    def __init__(
        self,
        model: AnyPath,
        *,
        device: str | None = None,
        max_num_seqs: int = 8,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        folder = Path(os.fspath(model))
        if max_num_seqs < 1:
            raise InvalidArgumentError(f"max_num_seqs is {max_num_seqs}, it must be 1 or more")
        self._llm = LLM(
            folder,
            device=device,
            max_num_seqs=max_num_seqs,
            enable_prefix_caching=False,  # what is said after the same words is another thing with each sound
            seed=seed,
            threads=threads,
            max_encoder_seqs=max_num_seqs,
        )
        self.description = self._llm.description
        if "speech" not in self.description:
            raise InvalidArgumentError(f"{folder}: no model of speech; camshaft.llm.LLM runs it")
        self._speech = read_speech(self.description, folder / DESCRIPTION)
        if self._llm.tokenizer is None:
            raise InvalidArgumentError(f"{folder}: text of sounds needs the model's tokenizer.json")
        self._where = folder / DESCRIPTION
        self._blocks_of_one, _, _ = _native.generator_cross_cache(self._llm.engine._engine)
        self._encoder = self._encoder_context(Engine(folder / ENCODER_ENGINE, device), threads or 0, folder)
        self._encoding = threading.Lock()
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(max_num_seqs):
            self._slots.put(slot)

    def transcribe(
        self,
        audio: Audio | list[Audio],
        *,
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool = False,
        prompt: str | None = None,
        temperature: float = 0.0,
        max_tokens: int | None = None,
    ) -> list[Transcription]:
        """What is said in sounds, in their order.

        audio: the path of a WAV file, an array f32 [samples] from -1 to 1 at the model's rate (16,000 a second), a pair of
            such an array and its rate, or a list of these.
        language: a code as "en"; without it the model tells by the beginning of each sound.
        task: "transcribe", or "translate", which is into English.
        timestamps: whether segments are as the model hears them; without they are the windows of 30 s.
        prompt: words that come before, or may come, for names and spelling.
        temperature: 0 takes the likeliest token. max_tokens: of a window's text; without it as many as there is room for.

        Windows of one sound run one after the other with timestamps, as the text says where the next one begins, else all
        at once. Raises UnsupportedError for files that are no WAV files of the model's rate."""
        params = self._params(timestamps, temperature, max_tokens)
        self._check_words(language, task)
        sounds = [
            read_sound(each, self._speech.sampling_rate) for each in (audio if isinstance(audio, list) else [audio])
        ]
        before, after = self._prompt_parts(prompt, task, timestamps)
        tasks = [_Task(sound, language) for sound in sounds]
        run = _Run(self, params, before, after, timestamps)
        run.finish(tasks)
        return [self._transcription(each) for each in tasks]

    def _params(self, timestamps: bool, temperature: float, max_tokens: int | None) -> _SpeechParams:
        speech = self._speech
        rules = None
        if timestamps:
            if speech.no_timestamps_id is None or speech.timestamp_begin is None:
                raise InvalidArgumentError("timestamps: the model has no tokens for them (no_timestamps_token_id)")
            rules = speech.timestamp_begin, speech.no_timestamps_id, speech.max_initial_timestamp
        return _SpeechParams(
            temperature=temperature,
            max_tokens=max_tokens,
            logprobs=0,
            detokenize=False,
            suppress_tokens=speech.suppress_tokens,
            begin_suppress_tokens=speech.begin_suppress_tokens,
            timestamps=rules,
        )

    def _check_words(self, language: str | None, task: str) -> None:
        languages, tasks = self._speech.languages, self._speech.tasks or {"transcribe": -1}
        if task not in tasks:
            raise InvalidArgumentError(f"task is {task!r}; the model has {', '.join(tasks)}")
        if language is not None and language not in languages:
            known = ", ".join(languages) or "none, as it is of one language"
            raise InvalidArgumentError(f"language is {language!r}; the model has {known}")

    def _prompt_parts(self, prompt: str | None, task: str, timestamps: bool) -> tuple[list[int], list[int]]:
        """The tokens before that of the language, and behind it."""
        speech, before = self._speech, []
        if prompt is not None:
            if speech.previous_id is None:
                raise InvalidArgumentError(
                    "prompt: the model has no token for what was said before (prev_sot_token_id)"
                )
            words = self._llm.tokenizer.encode(" " + prompt.strip(), add_special_tokens=False).ids
            # The half of the longest text, as Whisper was trained.
            before = [speech.previous_id, *words[-(int(self.description["max_length"]) // 2 - 1) :]]
        before.append(speech.start_id)
        after = [speech.tasks[task]] if speech.tasks else []
        if not timestamps and speech.no_timestamps_id is not None:
            after.append(speech.no_timestamps_id)
        return before, after

    def _transcription(self, task: _Task) -> Transcription:
        segments = sorted(task.segments, key=lambda segment: segment.start)
        for number, segment in enumerate(segments):
            segment.id = number
        text = "".join(segment.text for segment in segments).strip()
        return Transcription(text, task.language, len(task.sound) / self._speech.sampling_rate, segments)

    def _encoder_context(self, engine: Engine, threads: int, folder: Path) -> Any:
        """Of an encoder that writes into the memory which the decoder reads."""
        context = engine.create_context(threads)
        names = {info.name for info in engine.inputs}
        for name, address, dtype, sizes, device in _native.generator_cross_memory(self._llm._generator):
            if name not in names:
                raise CorruptEngineError(
                    f"{folder / ENCODER_ENGINE}: no encoder of the engine beside it: it has no {name}"
                )
            memory = Memory(address, dtype, sizes, device, owner=self._llm)
            kind, _, layer = name.rpartition(".")
            context.set_input(name, memory)
            context.bind_output(f"{kind}_out.{layer}", memory)
        return context

    def _encode(self, sound: Sound, slot: int) -> None:
        """sound: of a window at most, which silence fills."""
        import numpy

        samples = numpy.zeros((1, self._speech.samples), numpy.float32)
        samples[0, : len(sound)] = sound
        table = numpy.array([self._blocks_of(slot)], numpy.int32)
        with self._encoding:
            outputs = self._encoder.run({"audio": samples, "block_table": table})
            [states] = numpy.from_dlpack(outputs["cross_seqlens"]).tolist()
        if states != self._speech.states:
            raise CorruptEngineError(
                f"{self._where}: 'states' is {self._speech.states}, and {states} of the encoder beside it"
            )

    def _blocks_of(self, slot: int) -> range:
        return range(slot * self._blocks_of_one, (slot + 1) * self._blocks_of_one)


class _Run:
    """The sounds of one call."""

    def __init__(
        self, whisper: Whisper, params: _SpeechParams, before: list[int], after: list[int], timestamps: bool
    ) -> None:
        self._of, self._speech = whisper, whisper._speech
        self._params, self._before, self._after = params, before, after
        self._timestamps = timestamps
        self._waiting: collections.deque[_Window] = collections.deque()
        self._running: list[_Window] = []
        self._results: queue.SimpleQueue[tuple[_Window, Union[RequestOutput, BaseException]]] = queue.SimpleQueue()

    def finish(self, tasks: list[_Task]) -> None:
        for task in tasks:
            self._wait_for(task, 0)
        try:
            while self._waiting or self._running:
                self._begin_all()
                window, result = self._results.get()
                if isinstance(result, BaseException):
                    raise result
                self._take(window, result)
        finally:
            self._of._llm._abort([window.request for window in self._running if window.request is not None])
            for window in self._running:
                self._of._slots.put(window.slot)

    def _wait_for(self, task: _Task, begin: int) -> None:
        if begin >= len(task.sound):
            return
        self._waiting.append(_Window(task, begin))
        if begin == 0 and self._is_known(task):
            self._wait_for_others(task)

    def _is_known(self, task: _Task) -> bool:
        return task.language is not None or not self._speech.languages

    def _wait_for_others(self, task: _Task) -> None:
        """The windows behind the first one, where no text says where they begin."""
        if not self._timestamps:
            starts = range(self._speech.samples, len(task.sound), self._speech.samples)
            self._waiting.extend(_Window(task, begin) for begin in starts)

    def _begin_all(self) -> None:
        """As many windows as there are slots for: where none runs it waits for one, of another call."""
        while self._waiting:
            try:
                slot = self._of._slots.get(block=not self._running)
            except queue.Empty:
                return
            window = self._waiting.popleft()
            window.slot = slot
            self._running.append(window)
            self._of._encode(window.task.sound[window.begin : window.begin + self._speech.samples], slot)
            self._decode(window)

    def _decode(self, window: _Window) -> None:
        languages, task, llm = self._speech.languages, window.task, self._of._llm
        params: SamplingParams = self._params
        window.detects_language = not self._is_known(task)
        if window.detects_language:
            allowed = list(languages.values())
            params = SamplingParams(
                temperature=0, max_tokens=1, ignore_eos=True, allowed_token_ids=allowed, detokenize=False
            )
            tokens = [self._speech.start_id]
        else:
            spoken = [] if task.language is None else [languages[task.language]]
            tokens = [*self._before, *spoken, *self._after]

        def changed(result: RequestOutput | BaseException) -> None:
            self._results.put((window, result))

        cross = self._of._blocks_of(window.slot), self._speech.states
        window.request = llm._between_steps(llm._prepared(tokens, params, 0, changed, False, cross=cross))
        llm._start_thread()

    def _take(self, window: _Window, result: RequestOutput) -> None:
        output = result.outputs[0]
        if output.finish_reason == "error":
            raise Error(output.error)
        task = window.task
        if window.detects_language:
            [token] = output.token_ids
            task.language = next(name for name, each in self._speech.languages.items() if each == token)
            self._wait_for_others(task)
            self._decode(window)
            return
        self._running.remove(window)
        self._of._slots.put(window.slot)
        tokens = [token for token in output.token_ids if token not in self._of.description["eos_ids"]]
        logprob = (output.cumulative_logprob or 0.0) / max(len(output.token_ids), 1)
        states = self._speech.states
        stretches, heard = [Stretch(0, states, tokens)], states
        if self._timestamps:
            stretches, heard = stretches_of(tokens, self._speech.timestamp_begin or 0, states)
        task.segments += self._segments(window, stretches, logprob)
        if self._timestamps:
            self._wait_for(task, window.begin + heard * (self._speech.samples // states))

    def _segments(self, window: _Window, stretches: list[Stretch], logprob: float) -> list[Segment]:
        rate, end = self._speech.sampling_rate, len(window.task.sound)
        step = self._speech.samples // self._speech.states
        first_time = self._speech.timestamp_begin
        made = []
        for stretch in stretches:
            start, stop = (min(window.begin + at * step, end) / rate for at in (stretch.start, stretch.end))
            words = [token for token in stretch.tokens if first_time is None or token < first_time]
            text = self._of._llm.tokenizer.decode(words, skip_special_tokens=True)
            made.append(Segment(0, start, stop, text, stretch.tokens, logprob))
        return made
