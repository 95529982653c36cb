"""Text of sounds by a built Whisper, for many sounds at once."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _native
from camshaft._errors import CorruptEngineError, InvalidArgumentError
from camshaft.llm._checks import check_positive, check_whole
from camshaft.llm._encoder_context import EncoderContext
from camshaft.llm._folder import DESCRIPTION
from camshaft.llm._llm import LLM
from camshaft.llm._slots import Slots
from camshaft.llm._sound import Audio, read_sound
from camshaft.llm._speech_description import read_speech
from camshaft.llm._transcript import Transcription
from camshaft.llm._windows import SpeechParams, Task, Windows, Wishes

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath
    from camshaft.llm._sound import Sound

_NO_PREVIOUS = "the model has no token for what was said before (prev_sot_token_id)"


class Whisper:
    """The model of speech of a folder that `camshaft llm build` made.

    [result] = Whisper("whisper-small").transcribe("talk.wav", timestamps=True)
    for segment in result.segments:
        print(segment.start, segment.end, segment.text)

    max_num_seqs: windows of sound that are decoded at once, each of which has memory for the encoder's keys and values.
    seed: of draws, which are the same for a sound at the same place of a call; threads: of the engines, one for each core without it; device: where these are for GPUs.

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
        check_positive("max_num_seqs", max_num_seqs)
        self._llm = LLM(
            folder,
            device=device,
            max_num_seqs=max_num_seqs,
            enable_prefix_caching=False,  # what is said after the same words is another thing with each sound
            threads=threads,
            max_encoder_seqs=max_num_seqs,
        )
        self._seed, self._most = seed, max_num_seqs
        self.description = self._llm.description
        if "speech" not in self.description:
            runs = "EncoderDecoderLLM" if "encoder" in self.description else "LLM"
            raise InvalidArgumentError(f"{folder}: no model of speech; camshaft.llm.{runs} runs it")
        self._speech = read_speech(self.description, folder / DESCRIPTION)
        if self._llm.tokenizer is None:
            raise InvalidArgumentError(f"{folder}: text of sounds needs the model's tokenizer.json")
        self._where = folder / DESCRIPTION
        # The half of the longest text, with the token in front, as Whisper was trained.
        self._most_before = max(self._llm.description["max_length"] // 2 - 1, 1)
        self._end_ids = frozenset(self.description.get("eos_ids") or ())
        self._blocks_of_one, _, _ = _native.generator_cross_cache(self._llm.engine._engine)
        if self._blocks_of_one == 0:
            raise CorruptEngineError(f"{self._where}: 'speech' is there, and the engine beside it sees no encoder")
        self._encoder = EncoderContext(self._llm, folder, device, threads or 0)
        self._slots = Slots(max_num_seqs)

    def transcribe(
        self,
        audio: Audio | list[Audio],
        *,
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool = False,
        prompt: str | None = None,
        condition_on_previous_text: bool = False,
        temperature: float | Sequence[float] = 0.0,
        compression_ratio_threshold: float | None = 2.4,
        logprob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        max_tokens: int | None = None,
        beam_size: int | None = None,
    ) -> list[Transcription]:
        """What is said in sounds, in their order.

        audio: the path of a WAV file, its bytes, an array f32 [samples] from -1 to 1 at the model's rate (16,000 a second), a pair of
            such an array and its rate, or a list of these. Other rates are resampled.
        language: a code as "en"; without it the model tells by the beginning of each sound.
        task: "transcribe", or "translate", which is into English.
        timestamps: whether segments are as the model hears them; without they are the windows of 30 s.
        prompt: words that come before, or may come, for names and spelling.
        condition_on_previous_text: whether a window knows what was said in those before, instead of the prompt.
        temperature: 0 takes the likeliest token. Of several the next one is taken where a text compresses by more than
            compression_ratio_threshold, as it says the same again and again, or has a mean logarithm of its tokens'
            probabilities below logprob_threshold.
        no_speech_threshold: where a text is that unlikely, and silence likelier than this, nothing was said.
        max_tokens: of a window's text; without it as many as there is room for.
        beam_size: texts of a window that are followed at once, at temperature 0, of which the first ones that end compete by
            their mean logarithm of probability, as in openai/whisper; without it the likeliest token is taken. A window counts
            as so many of max_num_seqs.

        Windows of one sound run one after the other with timestamps, as the text says where the next one begins, and with
        condition_on_previous_text, else all at once. Thresholds are openai/whisper's; None: there is none. Raises
        UnsupportedError for files of other formats than WAV."""
        wishes = self._wishes(
            language=language,
            task=task,
            timestamps=timestamps,
            prompt=prompt,
            condition_on_previous_text=condition_on_previous_text,
            temperature=temperature,
            compression_ratio_threshold=compression_ratio_threshold,
            logprob_threshold=logprob_threshold,
            no_speech_threshold=no_speech_threshold,
            max_tokens=max_tokens,
            beam_size=beam_size,
        )
        tasks = list(self._tasks(audio if isinstance(audio, list) else [audio], wishes, raises=True))
        for each in self._listen(tasks, wishes).run():
            if each.failed is not None:
                raise each.failed
        return [self._transcription(each) for each in tasks]

    def stream(self, audio: Audio, **options: Any) -> Iterator[Transcription]:
        """What is said in one sound, while it is heard: whenever a window more is done, with what is said up to there, and
        the whole at last. What was given stays as it is. options: those of transcribe()."""
        wishes = self._wishes(**options)
        [task] = self._tasks([audio], wishes, raises=True)
        for _ in self._listen([task], wishes).run():
            if task.failed is not None:
                raise task.failed
            yield self._transcription(task)

    def _listen(self, tasks: Iterable[Task], wishes: Wishes) -> Windows:
        return Windows(self, self._speech, wishes, tasks)

    def _tasks(
        self, sounds: Iterable[Audio], wishes: Wishes, raises: bool, name: str = "a sound", most: int | None = None
    ) -> Iterator[Task]:
        """raises: what is wrong with a sound; else its task has failed. name: in errors; most: samples of one."""
        import numpy

        for number, each in enumerate(sounds):
            try:
                sound = read_sound(each, self._speech.sampling_rate, name, most)
            except Exception as error:
                if raises:
                    raise
                yield Task(number, numpy.zeros(0, numpy.float32), wishes.language, failed=error)
            else:
                yield Task(number, sound, wishes.language)

    def _wishes(
        self,
        *,
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool = False,
        prompt: str | None = None,
        condition_on_previous_text: bool = False,
        temperature: float | Sequence[float] = 0.0,
        compression_ratio_threshold: float | None = 2.4,
        logprob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        max_tokens: int | None = None,
        beam_size: int | None = None,
        wants_no_speech: bool = False,
        seed: int | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> Wishes:
        """sampling: what else SamplingParams has for draws. Raises InvalidArgumentError, which begins with the option's name."""
        temperatures: tuple[Any, ...] = (temperature,)
        if isinstance(temperature, Sequence) and not isinstance(temperature, str):
            temperatures = tuple(temperature)
        if not temperatures:
            raise InvalidArgumentError("temperature is an empty list: one or more are needed")
        limits = {
            "compression_ratio_threshold": compression_ratio_threshold,
            "logprob_threshold": logprob_threshold,
            "no_speech_threshold": no_speech_threshold,
        }
        for name, value in (*(("temperature", each) for each in temperatures), *limits.items()):
            _check_number(name, value, may_be_none=name != "temperature")
        check_whole("max_tokens", max_tokens, may_be_none=True)
        check_whole("beam_size", beam_size, may_be_none=True)
        self._check_words(language, task, prompt)
        if condition_on_previous_text and self._speech.previous_id is None:
            raise InvalidArgumentError(f"condition_on_previous_text: {_NO_PREVIOUS}")
        before, after = self._prompt_parts(prompt, task, timestamps)
        return Wishes(
            self._params(timestamps, max_tokens, sampling or {}, beam_size),
            language,
            temperatures,
            before,
            after,
            **limits,
            condition_on_previous_text=condition_on_previous_text,
            wants_no_speech=wants_no_speech,
            seed=self._seed if seed is None else seed,
        )

    def _params(
        self, timestamps: bool, max_tokens: int | None, sampling: Mapping[str, Any], beam_size: int | None
    ) -> SpeechParams:
        speech, rules, beams = self._speech, None, None
        if beam_size is not None:
            if not 1 <= beam_size <= self._most:
                raise InvalidArgumentError(f"beam_size is {beam_size}, it must be from 1 to max_num_seqs, {self._most}")
            beams = {"beam_width": beam_size, "early_stopping": True, "counts_prompt": False}
        if timestamps:
            if speech.no_timestamps_id is None or speech.timestamp_begin is None:
                raise InvalidArgumentError("timestamps: the model has no tokens for them (no_timestamps_token_id)")
            rules = speech.timestamp_begin, speech.no_timestamps_id, speech.max_initial_timestamp
        return SpeechParams(
            max_tokens=max_tokens,
            detokenize=False,
            beam_search=beams,
            suppress_tokens=speech.suppress_tokens,
            begin_suppress_tokens=speech.begin_suppress_tokens,
            timestamps=rules,
            **sampling,
        )

    def _check_words(self, language: Any, task: Any, prompt: Any) -> None:
        for name, given in (("language", language), ("task", task), ("prompt", prompt)):
            if given is not None and not isinstance(given, str):
                raise InvalidArgumentError(f"{name} is {given!r}; a text is needed")
        languages, tasks = self._speech.languages, self._speech.tasks or {"transcribe": -1}
        if task not in tasks:
            raise InvalidArgumentError(f"task is {task!r}; the model has {', '.join(tasks)}")
        if language is not None and language not in languages:
            known = ", ".join(languages) or "none, as it is of one language"
            raise InvalidArgumentError(f"language is {language!r}; the model has {known}")

    def _prompt_parts(self, prompt: str | None, task: str, timestamps: bool) -> tuple[list[int], list[int]]:
        """The tokens before that of the language, and behind it."""
        speech, before = self._speech, []
        if prompt is not None and prompt.strip():
            if speech.previous_id is None:
                raise InvalidArgumentError(f"prompt: {_NO_PREVIOUS}")
            words = self._llm.tokenizer.encode(" " + prompt.strip(), add_special_tokens=False).ids
            before = [speech.previous_id, *words[-self._most_before :]]
        before.append(speech.start_id)
        after = [speech.tasks[task]] if speech.tasks else []
        if not timestamps and speech.no_timestamps_id is not None:
            after.append(speech.no_timestamps_id)
        return before, after

    def _transcription(self, task: Task) -> Transcription:
        """Of what stands: up to the first window that is not done."""
        end = min(task.open, default=len(task.sound)) * 100 // self._speech.sampling_rate
        known = task.segments if task.is_done else [each for each in task.segments if each.seek < end]
        segments = sorted(known, key=lambda segment: segment.start)
        for number, segment in enumerate(segments):
            segment.id = number
        text = "".join(segment.text for segment in segments).strip()
        return Transcription(text, task.language, len(task.sound) / self._speech.sampling_rate, segments)

    def _encode(self, sound: Sound, slot: int) -> None:
        """sound: of a window at most, which silence fills."""
        import numpy

        samples = numpy.zeros((1, self._speech.samples), numpy.float32)
        samples[0, : len(sound)] = sound
        table = numpy.array([self._blocks_of(slot)], numpy.int32)
        [lengths] = self._encoder.run({"audio": samples, "block_table": table}, "cross_seqlens")
        [states] = lengths.tolist()
        if states != self._speech.states:
            raise CorruptEngineError(
                f"{self._where}: 'states' is {self._speech.states}, and {states} of the encoder beside it"
            )

    def _blocks_of(self, slot: int) -> range:
        return range(slot * self._blocks_of_one, (slot + 1) * self._blocks_of_one)


def _check_number(name: str, value: Any, may_be_none: bool) -> None:
    if may_be_none and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise InvalidArgumentError(f"{name} is {value!r}; a number is needed")
