"""Whispers built into engines, and what they write of sounds. tests/python/pytorch/test_whisper.py compares them with
Transformers."""

import dataclasses
import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
import zlib

import camshaft
import camshaft.llm
import numpy as np
import pytest
from camshaft import CorruptEngineError, FileError, InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft.llm._folder import read_generation
from camshaft.llm._log_mel import LogMel
from camshaft.llm._network import network_of
from camshaft.llm._speech_description import speech_of
from camshaft.llm._transcript import Stretch, stretches_of
from camshaft_cli import BINARY, ROOT
from llm_folders import write_llama
from whisper_folders import (
    FIRST_TIME,
    GENERATION,
    RATE,
    VOCABULARY,
    WHISPER,
    sound,
    whisper_tensors,
    write_wav,
    write_whisper,
)
from whisper_reference import Reference, log_mel

ANY = [None, -1, 0, 10**20, 1e300, 1.5, True, "x", [], ["a"], {}, {"b": "x"}]
CONFIG = {**WHISPER, "vocab_size": VOCABULARY}
EN, TRANSCRIBE, START, PREVIOUS, NO_TIMES, END = 258, 261, 257, 262, 264, 256


def build(folder, output, **options):
    return camshaft.llm.build(folder, output, **{"tuning": "heuristic", "cache": "f32", **options})


@pytest.fixture(scope="module")
def tensors():
    return whisper_tensors(CONFIG, np.random.default_rng(0))


@pytest.fixture(scope="module")
def built(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("whisper")
    write_whisper(folder / "hf", tensors=tensors)
    build(folder / "hf", folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def whisper(built):
    return camshaft.llm.Whisper(built, max_num_seqs=3)


@pytest.fixture(scope="module")
def reference(tensors):
    return Reference(CONFIG, tensors)


def states_of(reference, samples, bins=WHISPER["num_mel_bins"]):
    filters = LogMel(RATE, 400, 160, bins, RATE).filters()
    return reference.states(log_mel(np.pad(samples, (0, RATE - len(samples))), filters))


def greedy(reference, states, prompt, count):
    never, not_first = GENERATION["suppress_tokens"], GENERATION["begin_suppress_tokens"]
    return reference.greedy(states, prompt, count, never, not_first, END)


def tokens_of(result):
    return [token for segment in result.segments for token in segment.tokens]


def test_texts_are_the_references(whisper, reference):
    sounds = [sound(1, 1), sound(0.4, 2), sound(0.99, 3), sound(0.05, 4)]
    results = whisper.transcribe(sounds, language="en", max_tokens=20)
    for samples, result in zip(sounds, results):
        wanted = greedy(reference, states_of(reference, samples), [START, EN, TRANSCRIBE, NO_TIMES], 20)
        assert tokens_of(result) == wanted
        assert result.language == "en"
        assert result.duration == len(samples) / RATE
        assert (result.segments[0].start, result.segments[0].end) == (0, result.duration)
        assert result.segments[0].avg_logprob < 0
    assert len({tuple(tokens_of(result)) for result in results}) > 1


def beams_of(reference, states, prompt, count, size):
    """What openai/whisper's BeamSearchDecoder and MaximumLikelihoodRanker make of a window: tokens, mean logarithm."""
    beams, finished = [([], 0.0)], []
    for _ in range(count):
        going, candidates = [], []
        for text, so_far in beams:
            row = reference.logits(states, [*prompt, *text])[-1]
            row[[*GENERATION["suppress_tokens"], *(() if text else GENERATION["begin_suppress_tokens"])]] = -np.inf
            row -= row.max()
            row -= np.log(np.exp(row).sum())
            order = np.argsort(-row, kind="stable")[: 2 * size]
            candidates += [([*text, int(token)], so_far + row[token]) for token in order if row[token] > -np.inf]
        for text, logprob in sorted(candidates, key=lambda each: each[1], reverse=True):
            if len(going) == size:
                break
            (finished if text[-1] == END else going).append((text, logprob))
        beams = going
        if len(finished) >= size:
            break
    finished += beams[: max(size - len(finished), 0)]
    text, logprob = max(finished, key=lambda each: each[1] / max(len(each[0]) - (each[0][-1] == END), 1))
    return text, logprob / len(text)


def test_beams(whisper, reference):
    sounds, firsts = [sound(1, 1), sound(0.4, 2), sound(0.99, 3), sound(0.7, 6)], [START, EN, TRANSCRIBE, NO_TIMES]
    differ = 0
    for size in (1, 2, 3):
        results = whisper.transcribe(sounds, language="en", max_tokens=12, beam_size=size)
        for samples, result in zip(sounds, results):
            states = states_of(reference, samples)
            text, mean = beams_of(reference, states, firsts, 12, size)
            assert tokens_of(result) == [token for token in text if token != END]
            assert math.isclose(result.segments[0].avg_logprob, mean, abs_tol=1e-3)
            differ += tokens_of(result) != greedy(reference, states, firsts, 12)
    assert differ
    for size in (0, 4):
        with pytest.raises(
            camshaft.InvalidArgumentError, match=f"beam_size is {size}, it must be from 1 to max_num_seqs, 3"
        ):
            whisper.transcribe(sounds[0], beam_size=size)
    # With times the rules hold for each beam; where texts are drawn there are none.
    [timed] = whisper.transcribe(sounds[0], language="en", timestamps=True, beam_size=3)
    check_times([token for segment in timed.segments for token in segment.tokens])
    drawn = {"language": "en", "max_tokens": 9, "temperature": 0.8}
    [one], [other] = (whisper.transcribe(sounds[0], **drawn, beam_size=size) for size in (None, 3))
    assert tokens_of(one) == tokens_of(other)


def test_the_language_is_the_likeliest(whisper, reference):
    for seed in range(6):
        samples = sound(1, seed)
        row = reference.logits(states_of(reference, samples), [START])[-1]
        [result] = whisper.transcribe(samples, max_tokens=1)
        assert result.language == ("en" if row[258] > row[259] else "de")


def test_a_prompt_stands_before(whisper, reference):
    samples = sound(1, 5)
    words = [whisper._llm.tokenizer.token_to_id(letter) for letter in "Ġoil"]  # a blank and three letters
    wanted = greedy(reference, states_of(reference, samples), [PREVIOUS, *words, START, EN, TRANSCRIBE, NO_TIMES], 9)
    [result] = whisper.transcribe(samples, language="en", prompt=" oil ", max_tokens=9)
    assert tokens_of(result) == wanted
    [long] = whisper.transcribe(samples, language="en", prompt="x" * 500 + "oil", max_tokens=9)
    half = [whisper._llm.tokenizer.token_to_id("x")] * 16 + words[1:]
    wanted = greedy(reference, states_of(reference, samples), [PREVIOUS, *half, START, EN, TRANSCRIBE, NO_TIMES], 9)
    assert tokens_of(long) == wanted


def test_windows_of_a_long_sound(whisper, reference):
    samples = np.concatenate([sound(1, seed) for seed in range(5)])[: int(4.3 * RATE)]
    [result] = whisper.transcribe(samples, language="de", task="translate", max_tokens=8)
    assert [(segment.id, segment.start, segment.end) for segment in result.segments] == [
        (0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 4, 4.3)
    ]  # fmt: skip
    for i, segment in enumerate(result.segments):
        part = samples[i * RATE : (i + 1) * RATE]
        assert segment.tokens == greedy(reference, states_of(reference, part), [START, 259, 260, NO_TIMES], 8)
    assert result.text == "".join(segment.text for segment in result.segments).strip()


def check_times(tokens):
    """Times stand in pairs around words, and do not decrease."""
    times = [token for token in tokens if token >= FIRST_TIME]
    assert tokens[0] >= FIRST_TIME
    assert times == sorted(times)
    assert NO_TIMES not in tokens


def test_timestamps(whisper):
    samples = np.concatenate([sound(1, seed) for seed in range(3)])
    [result] = whisper.transcribe(samples, language="en", timestamps=True)
    assert len(result.segments) >= 3
    for segment in result.segments:
        assert 0 <= segment.start <= segment.end <= 3
        check_times(segment.tokens)
        assert "<|" not in segment.text
    starts = [segment.start for segment in result.segments]
    assert starts == sorted(starts)
    # Windows begin where the text of the one before says: each alone gives the same.
    first = [segment for segment in result.segments if segment.start < 1]
    [alone] = whisper.transcribe(samples[:RATE], language="en", timestamps=True)
    same = min(len(first), len(alone.segments))
    assert same > 0
    assert [segment.tokens for segment in first[:same]] == [segment.tokens for segment in alone.segments[:same]]


def test_stretches_of_windows():
    def times(*tokens):
        return [FIRST_TIME + int(token[1:]) if isinstance(token, str) else token for token in tokens]

    def cut(*tokens):
        return stretches_of(times(*tokens), FIRST_TIME, 50)

    assert cut("t0", 1, 2, "t20", "t20", 3, "t40", "t40") == (
        [Stretch(0, 20, times("t0", 1, 2, "t20")), Stretch(20, 40, times("t20", 3, "t40"))], 40)  # fmt: skip
    # What is said behind the last pair has no end yet, and is heard again.
    assert cut("t0", 1, "t20", "t22", 3) == ([Stretch(0, 20, times("t0", 1, "t20"))], 20)
    # With one time at the end nothing is said behind it.
    assert cut("t2", 1, "t20", "t21", 3, "t45") == (
        [Stretch(2, 20, times("t2", 1, "t20")), Stretch(21, 45, times("t21", 3, "t45"))], 50)  # fmt: skip
    assert cut("t2", 1, "t20") == ([Stretch(2, 20, times("t2", 1, "t20"))], 50)
    assert cut("t2", 1, 2) == ([Stretch(0, 2, times("t2", 1, 2))], 50)
    assert cut("t0", 1, 2) == ([Stretch(0, 50, times("t0", 1, 2))], 50)
    assert cut(1, 2) == ([Stretch(0, 50, [1, 2])], 50)
    assert cut() == ([Stretch(0, 50, [])], 50)
    assert cut("t0", "t0", 4) == ([Stretch(0, 0, times("t0"))], 50)  # which would not go on


def test_many_sounds_of_several_callers_are_as_one_by_one(whisper):
    sounds = [sound(0.2 + 0.13 * seed, seed) for seed in range(12)]
    alone = [tokens_of(whisper.transcribe(each, language="en", max_tokens=12)[0]) for each in sounds]
    assert [tokens_of(each) for each in whisper.transcribe(sounds, language="en", max_tokens=12)] == alone
    results = {}

    def call(part):
        results[part] = whisper.transcribe(sounds[part::3], language="en", max_tokens=12)

    threads = [threading.Thread(target=call, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[tokens_of(each) for each in results[part]] for part in range(3)] == [alone[part::3] for part in range(3)]


def test_draws_are_of_the_seed(built):
    samples = sound(1, 7)
    made = [
        tokens_of(camshaft.llm.Whisper(built, seed=seed).transcribe(samples, language="en", temperature=1.5)[0])
        for seed in (1, 1, 2)
    ]
    assert made[0] == made[1] != made[2]
    assert not set(made[0]) & set(GENERATION["suppress_tokens"])


def compression(text):
    return len(text.encode()) / len(zlib.compress(text.encode()))


def test_unlikely_texts_are_written_again(whisper):
    samples = sound(1, 3)
    [first] = whisper.transcribe(samples, language="en", max_tokens=10)
    segment = first.segments[0]
    assert segment.temperature == 0
    assert segment.compression_ratio == pytest.approx(compression(segment.text))
    assert 0 < segment.no_speech_prob < 0.6  # asked, as the text is unlikely
    limit = segment.avg_logprob

    def temperature_of(**options):
        [result] = whisper.transcribe(samples, language="en", max_tokens=10, temperature=(0, 0, 0.5), **options)
        return result.segments[0].temperature, result.segments[0].no_speech_prob

    assert temperature_of(logprob_threshold=limit + 0.01)[0] == 0.5  # no second attempt at 0 is better
    assert temperature_of(logprob_threshold=limit - 0.01) == (0, None)
    assert temperature_of(logprob_threshold=None) == (0, None)
    repeated = compression(segment.text)
    assert temperature_of(logprob_threshold=None, compression_ratio_threshold=repeated - 0.01)[0] == 0.5
    assert temperature_of(logprob_threshold=None, compression_ratio_threshold=repeated + 0.01)[0] == 0
    # The last one stays, however it is.
    [last] = whisper.transcribe(samples, language="en", max_tokens=10, temperature=[0.0, 0.1], logprob_threshold=-0.01)
    assert last.segments[0].temperature == 0.1


def test_silence_is_what_the_model_says(whisper, reference):
    samples = sound(1, 3)
    row = reference.logits(states_of(reference, samples), [START])[-1]
    silence = np.exp(row[NO_TIMES - 1] - row.max()) / np.exp(row - row.max()).sum()
    [result] = whisper.transcribe(samples, language="en", max_tokens=4, no_speech_threshold=silence * 1.01)
    assert result.segments[0].no_speech_prob == pytest.approx(silence, rel=1e-3)
    [result] = whisper.transcribe(samples, language="en", max_tokens=4, no_speech_threshold=silence * 0.99)
    assert (result.text, result.segments) == ("", [])
    [result] = whisper.transcribe(
        samples, language="en", max_tokens=4, no_speech_threshold=silence * 0.99, logprob_threshold=None
    )
    assert result.segments
    long = np.concatenate([samples, sound(1, 4), samples])  # what is around silence is heard
    results = [
        whisper.transcribe(long, language="en", max_tokens=4, no_speech_threshold=silence * 0.999, timestamps=timed)[0]
        for timed in (False, True)
    ]
    assert [segment.start for segment in results[0].segments] == [1]
    for result in results:
        assert all(segment.end - segment.start <= 1 for segment in result.segments)


def test_windows_know_what_was_said(whisper, reference):
    samples = np.concatenate([sound(1, 1), sound(1, 2), sound(0.5, 3)])
    [result] = whisper.transcribe(samples, language="en", max_tokens=9, condition_on_previous_text=True, prompt="x")
    said = []
    for i, segment in enumerate(result.segments):
        before = [PREVIOUS, *said[-19:]] if said else [PREVIOUS, *(whisper._llm.tokenizer.token_to_id(c) for c in "Ġx")]
        states = states_of(reference, samples[i * RATE : (i + 1) * RATE])
        assert segment.tokens == greedy(reference, states, [*before, START, EN, TRANSCRIBE, NO_TIMES], 9)
        said += segment.tokens
    assert len(result.segments) == 3 and len(said) > 19


@pytest.mark.parametrize("cache", ["f16", "int8", "fp8"])
@pytest.mark.parametrize("block_size", [16, 3])
def test_narrow_caches_and_odd_blocks(tmp_path, tensors, reference, cache, block_size):
    write_whisper(tmp_path / "hf", tensors=tensors)
    build(tmp_path / "hf", tmp_path / "out", cache=cache, block_size=block_size)
    samples = sound(1, 1)
    [result] = camshaft.llm.Whisper(tmp_path / "out").transcribe(samples, language="en", max_tokens=1)
    logits = reference.logits(states_of(reference, samples), [START, EN, TRANSCRIBE, NO_TIMES])[-1]
    logits[[*GENERATION["suppress_tokens"], *GENERATION["begin_suppress_tokens"]]] = -np.inf
    # One of the likeliest tokens, by what a cache of 8 bits loses.
    assert logits[tokens_of(result)[0]] > logits.max() - 0.2


@pytest.mark.parametrize("weights", ["f16", "int8", "int4"])
def test_narrow_weights_build(tmp_path, tensors, weights):
    write_whisper(tmp_path / "hf", tensors=tensors)
    build(tmp_path / "hf", tmp_path / "out", weights=weights)
    assert camshaft.llm.Whisper(tmp_path / "out").transcribe(sound(0.5), max_tokens=3)[0].segments


def test_what_is_written(built):
    assert sorted(os.listdir(built)) == [
        "encoder.engine", "generation_config.json", "llm.json", "model.engine", "preprocessor_config.json", "tokenizer.json"
    ]  # fmt: skip
    described = json.loads((built / "llm.json").read_text())
    assert (described["model_type"], described["layers"], described["max_length"]) == ("whisper", 2, 40)
    assert described["speech"] == {
        "sampling_rate": RATE,
        "samples": RATE,
        "states": 50,
        "start_id": START,
        "no_timestamps_id": NO_TIMES,
        "previous_id": PREVIOUS,
        "languages": {"en": 258, "de": 259},
        "tasks": {"translate": 260, "transcribe": TRANSCRIBE},
        "suppress_tokens": GENERATION["suppress_tokens"],
        "begin_suppress_tokens": GENERATION["begin_suppress_tokens"],
        "max_initial_timestamp": 10,
    }
    encoder = camshaft.Engine(built / "encoder.engine")
    assert [(info.name, info.dtype) for info in encoder.inputs][:2] == [("audio", "f32"), ("block_table", "i32")]
    assert {info.name: info.aliased_input for info in encoder.outputs} == {
        "cross_seqlens": "",
        **{f"cross_{kind}_cache_out.{i}": f"cross_{kind}_cache.{i}" for kind in ("key", "value") for i in range(2)},
    }


def test_a_model_of_one_language(tmp_path, tensors):
    """As whisper-tiny.en: no languages, no tasks."""
    folder = write_whisper(tmp_path / "hf", tensors=tensors, generation={"lang_to_id": None, "task_to_id": None})
    build(folder, tmp_path / "out")
    whisper, reference = camshaft.llm.Whisper(tmp_path / "out"), Reference(CONFIG, tensors)
    samples = sound(1, 2)
    [result] = whisper.transcribe(samples, max_tokens=9)
    assert result.language is None
    assert tokens_of(result) == greedy(reference, states_of(reference, samples), [START, NO_TIMES], 9)
    with pytest.raises(InvalidArgumentError, match="language is 'en'; the model has none, as it is of one language"):
        whisper.transcribe(samples, language="en")
    with pytest.raises(InvalidArgumentError, match="task is 'translate'; the model has transcribe"):
        whisper.transcribe(samples, task="translate")


def test_nothing_to_hear(whisper):
    assert whisper.transcribe([]) == []
    [result] = whisper.transcribe(np.zeros(0, np.float32), timestamps=True)
    assert (result.text, result.segments, result.duration) == ("", [], 0)
    [result] = whisper.transcribe(np.zeros(RATE, np.float32), language="en", max_tokens=4)
    assert len(tokens_of(result)) <= 4


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_files(tmp_path, whisper, width, channels):
    from camshaft.llm._sound import read_sound

    samples = sound(0.3, 9)
    several = np.stack([samples * (1 + 0.2 * c) for c in range(channels)], axis=1)
    path = write_wav(tmp_path / "x.wav", several, width=width, channels=channels)
    read = read_sound(path, RATE)
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, several.mean(axis=1), atol=2.0 ** (1 - 8 * width) + 1e-6)
    [of_file], [of_array] = (whisper.transcribe(each, language="en", max_tokens=6) for each in (path, read))
    assert of_file == of_array


def test_texts_come_as_windows_are_done(whisper):
    samples = np.concatenate([sound(1, seed) for seed in range(5)])
    for options in ({}, {"timestamps": True}, {"condition_on_previous_text": True}):
        [whole] = whisper.transcribe(samples, max_tokens=8, **options)
        texts = [each.text for each in whisper.stream(samples, max_tokens=8, **options)]
        assert texts[-1] == whole.text and len(texts) >= 4
        assert all(later.startswith(text) for text, later in itertools.pairwise(texts))
        assert len(set(texts)) > 2
    assert [each.text for each in whisper.stream(np.zeros(0, np.float32))] == [""]
    # One that is left ends what it has begun.
    stream = whisper.stream(samples, max_tokens=8)
    next(stream)
    stream.close()
    assert len(whisper._slots._free) == len(set(whisper._slots._free)) and not whisper._slots._waiting
    assert whisper.transcribe(samples, max_tokens=8)[0].text


def test_long_sounds_do_not_hold_up_short_ones(built):
    """There is one slot, of which a long sound has the first turn: a short one has the next."""
    whisper = camshaft.llm.Whisper(built, max_num_seqs=1)
    ended, begun = [], threading.Event()

    def hear(seconds):
        for _ in whisper.stream(sound(seconds, 1), language="en", max_tokens=4, temperature=0):
            begun.set()
        ended.append(seconds)

    threads = [threading.Thread(target=hear, args=[30])]
    threads[0].start()
    begun.wait(60)
    threads.append(threading.Thread(target=hear, args=[0.5]))
    threads[1].start()
    for thread in threads:
        thread.join(120)
    assert ended == [0.5, 30]
    assert whisper._slots._free == [0]


@pytest.mark.parametrize("rate", [8000, 11025, 15999, 22050, 44100, 48000, 96000])
def test_other_rates(rate):
    """Tones that both rates hold stay as they are, and others are gone."""
    from camshaft.llm._resample import resampled

    def tones(frequencies, times):
        return sum(0.2 * np.sin(2 * np.pi * f * times + f) for f in frequencies)

    times, wanted_times = np.arange(3 * rate + 7) / rate, np.arange(-(-(3 * rate + 7) * RATE // rate)) / RATE
    kept = [f for f in (90, 1000, 3300, 5000, 6600) if f < 0.42 * min(rate, RATE)]
    lost = [f for f in (9000, 13000, 17000, 30000) if f < 0.5 * rate]
    made = resampled(tones([*kept, *lost], times).astype(np.float32), rate, RATE)
    assert made.shape == wanted_times.shape
    inside = slice(2000, -2000)
    assert np.abs(made - tones(kept, wanted_times))[inside].max() < 1e-4
    constant = resampled(np.ones(rate, np.float32), rate, RATE)
    np.testing.assert_allclose(constant[1000:-1000], 1, atol=1e-4)


def test_other_rates_are_heard_as_the_models(whisper, tmp_path):
    fast = np.interp(np.arange(3 * RATE) / 3, np.arange(RATE), sound(1, 6)).astype(np.float32)
    path = write_wav(tmp_path / "fast.wav", fast, rate=3 * RATE, width=4)
    [of_file], [of_pair] = (whisper.transcribe(each, language="en", max_tokens=6) for each in (path, (fast, 3 * RATE)))
    assert of_file.duration == of_pair.duration == 1
    assert tokens_of(of_file) == tokens_of(of_pair)
    from camshaft.llm._resample import resampled

    assert tokens_of(of_file) == tokens_of(
        whisper.transcribe(resampled(fast, 3 * RATE, RATE), language="en", max_tokens=6)[0]
    )


def test_sounds_that_are_none(tmp_path, whisper):
    for rate in (0, -1, 16000.5, 999, 1 << 21, True, None):
        with pytest.raises(InvalidArgumentError, match=f"a sound has {rate} samples a second"):
            whisper.transcribe((sound(0.2), rate))
    with pytest.raises(InvalidArgumentError, match="a sound of 70000 s is longer than what can be held"):
        whisper.transcribe((np.broadcast_to(np.float32(0), 70_000_000), 1000))
    with pytest.raises(FileError, match="no path"):
        whisper.transcribe("a\0b.wav")
    with pytest.raises(FileError, match="gone.wav: No such file"):
        whisper.transcribe(tmp_path / "gone.wav")
    for content in (b"", b"RIFF", b"RIFF\x10\0\0\0WAVEfmt ", b"ID3 no wave", os.urandom(300)):
        (tmp_path / "bad.wav").write_bytes(content)
        with pytest.raises(UnsupportedError, match="bad.wav: no WAV file .*: convert it, as by `ffmpeg"):
            whisper.transcribe(tmp_path / "bad.wav")
    whole = write_wav(tmp_path / "cut.wav", sound(0.2)).read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:1001])  # its header says more: what is there is heard
    assert whisper.transcribe(tmp_path / "cut.wav", language="en", max_tokens=1)[0].duration == 478 / RATE
    for wrong, words in [
        (np.zeros((2, 50), np.float32), r"not float32\[2, 50\]"),
        (np.zeros(50, np.int16), "floats from -1 to 1, not int16"),
        (np.array([0, np.nan]), "NaN or infinite"),
        (np.full(500, 1e30, np.float32), r"beyond 1e\+06; they go from -1 to 1"),
        (np.array(["a"]), "not <U1"),
        (None, "not object"),
        ([[[0.0], [0.0, 1.0]]], "not a list"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            whisper.transcribe(wrong)


def test_wishes_that_are_wrong(whisper, built, tmp_path):
    samples = sound(0.2)
    for options, words in [
        ({"language": "xx"}, "language is 'xx'; the model has en, de"),
        ({"task": "sing"}, "task is 'sing'; the model has translate, transcribe"),
        ({"temperature": -1}, "temperature is -1"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": ()}, "temperature is an empty list"),
        ({"temperature": "hot"}, "temperature is 'hot'; a number is needed"),
        ({"temperature": [0, None]}, "temperature is None; a number is needed"),
        ({"logprob_threshold": float("nan")}, "logprob_threshold is nan; a number is needed"),
        ({"language": ["en"]}, r"language is \['en'\]; a text is needed"),
        ({"task": {}}, "task is {}; a text is needed"),
        ({"prompt": 3}, "prompt is 3; a text is needed"),
        ({"max_tokens": "3"}, "max_tokens is '3'; a whole number is needed"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            whisper.transcribe(samples, **{"language": "en", **options})
    with pytest.raises(InvalidArgumentError, match="a model of speech: camshaft.llm.Whisper or"):
        camshaft.llm.LLM(built)
    camshaft.llm.build(write_llama(tmp_path / "llama"), tmp_path / "text", tuning="heuristic")
    with pytest.raises(InvalidArgumentError, match=f"speculative_config: {built} has an encoder"):
        camshaft.llm.LLM(tmp_path / "text", speculative_config={"model": built})
    with pytest.raises(InvalidArgumentError, match="no model of speech; camshaft.llm.LLM runs it"):
        camshaft.llm.Whisper(tmp_path / "text")
    with pytest.raises(InvalidArgumentError, match="max_num_seqs is 0"):
        camshaft.llm.Whisper(built, max_num_seqs=0)
    # All slots are free again.
    assert len(whisper.transcribe([samples] * 7, language="en", max_tokens=2)) == 7


def test_a_failure_gives_its_slots_back(built, monkeypatch):
    whisper = camshaft.llm.Whisper(built, max_num_seqs=2)
    encode, calls = whisper._encode, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        encode(*arguments)

    monkeypatch.setattr(whisper, "_encode", failing)
    with pytest.raises(KeyboardInterrupt):
        whisper.transcribe([sound(1, seed) for seed in range(5)], language="en")
    assert len(whisper.transcribe([sound(1, seed) for seed in range(5)], language="en", max_tokens=3)) == 5
    assert sorted(whisper._slots._free) == [0, 1]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"states": 51}, "'states' is 51, and 50 of the encoder beside it"),
        ({"samples": 8000}, "'states' is 50, and 25 of the encoder beside it"),
        ({"states": "many"}, "'states' is \"many\""),
        ({"samples": 0}, "'samples' is 0"),
        ({"start_id": VOCABULARY}, "'start_id'"),
        ({"languages": {"en": -1}}, "field 'en' is -1"),
        ({"suppress_tokens": [VOCABULARY]}, "suppress_tokens"),
        ({"no_timestamps_id": VOCABULARY - 1}, "no_timestamps_id"),
        ({"max_initial_timestamp": None}, "max_initial_timestamp"),
    ],
)
def test_descriptions_that_lie(tmp_path, built, changes, words):
    out = tmp_path / "out"
    out.mkdir()
    for name in os.listdir(built):
        (out / name).symlink_to(built / name)
    described = json.loads((built / "llm.json").read_text())
    described["speech"] |= changes
    (out / "llm.json").unlink()
    (out / "llm.json").write_text(json.dumps(described))
    with pytest.raises(CorruptEngineError, match=words) as error:
        camshaft.llm.Whisper(out).transcribe(sound(0.2))
    assert "\n" not in str(error.value)


def test_any_value_of_any_field_of_a_built_model_is_read_or_refused(tmp_path, built):
    out = tmp_path / "out"
    out.mkdir()
    for name in os.listdir(built):
        if name != "llm.json":
            (out / name).symlink_to(built / name)
    described = json.loads((built / "llm.json").read_text())
    speech = described["speech"]
    changed = [{**described, field: value} for field in described for value in ANY]
    changed += [{**described, "speech": {**speech, field: value}} for field in speech for value in ANY]
    changed += [{**described, "speech": {n: v for n, v in speech.items() if n != field}} for field in speech]
    changed += [{name: value for name, value in described.items() if name != field} for field in described]
    heard = 0
    for each in changed:
        (out / "llm.json").write_text(json.dumps(each))
        try:
            camshaft.llm.Whisper(out, max_num_seqs=1, threads=1).transcribe(sound(0.1), max_tokens=1)
            heard += 1
        except camshaft.Error as error:
            assert "\n" not in str(error)
    assert 50 < heard < len(changed)


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"preprocessor": {"feature_size": 80}}, InvalidModelError, r"'feature_size' is 80; the encoder's num_mel_bins \(20\)"),
        ({"preprocessor": {"chunk_length": 2}}, InvalidModelError, "sounds of 32000 samples have 100 states, and 'max_source_positions'"),
        ({"preprocessor": {"n_fft": 401}}, InvalidModelError, "'n_fft' is 401"),
        ({"preprocessor": {"dither": 0.1}}, UnsupportedError, "'dither' is 0.1"),
        ({"preprocessor": {"do_normalize": True}}, UnsupportedError, "'do_normalize' is true"),
        ({"encoder_attention_heads": 5}, InvalidModelError, "'encoder_attention_heads' is 5"),
        ({"decoder_attention_heads": 5}, InvalidModelError, "'decoder_attention_heads' is 5"),
        ({"decoder_layers": None}, InvalidModelError, "decoder_layers"),
        ({"generation": {"lang_to_id": {"<|en|>": 999}}}, InvalidModelError, r"field '<\|en\|>' is 999"),
        ({"generation": {"suppress_tokens": "all"}}, InvalidModelError, "'suppress_tokens' is \"all\""),
    ],
)  # fmt: skip
def test_folders_that_are_wrong(tmp_path, options, kind, words):
    with pytest.raises(kind, match=words) as error:
        build(write_whisper(tmp_path / "hf", **options), tmp_path / "out")
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["hf"]


def test_any_value_of_any_field_is_read_or_refused(tmp_path):
    folder = write_whisper(tmp_path / "hf")
    read = 0
    for name in ("config.json", "preprocessor_config.json", "generation_config.json"):
        fields = json.loads((folder / name).read_text())
        for field in [*fields, "n_samples", "dither", "do_normalize"]:
            for value in ANY:
                (folder / name).write_text(json.dumps({**fields, field: value}))
                try:
                    made = network_of(folder)
                    assert made.encoder is not None
                    speech_of(made.encoder[1], made.decoder, made.config, read_generation(folder))
                    read += 1
                except camshaft.Error as error:
                    assert "\n" not in str(error)
        (folder / name).write_text(json.dumps(fields))
    assert read > 100


@pytest.mark.parametrize(
    "name",
    [
        "model.encoder.conv2.bias",
        "model.encoder.layers.1.fc1.weight",
        "model.decoder.layers.0.encoder_attn.k_proj.weight",
    ],
)
def test_tensors_that_are_missing(tmp_path, tensors, name):
    left = {each: value for each, value in tensors.items() if each != name}
    with pytest.raises(InvalidModelError, match=re.escape(f"tensor '{name}' is missing")):
        build(write_whisper(tmp_path / "hf", tensors=left), tmp_path / "out")
    more = {**tensors, "model.encoder.layers.7.fc1.weight": np.zeros((1, 1), np.float32)}
    with pytest.raises(UnsupportedError, match=r"'model.encoder.layers.7.fc1.weight' is of no part"):
        build(write_whisper(tmp_path / "more", tensors=more), tmp_path / "out")


def command(*arguments):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    return subprocess.run([BINARY, "llm", *map(str, arguments)], capture_output=True, text=True, env=environment)


def test_the_command(tmp_path, built, whisper):
    samples = sound(1.5, 3)
    path = write_wav(tmp_path / "talk.wav", samples)
    [wanted] = whisper.transcribe(path, language="en", max_tokens=5)
    done = command("transcribe", built, path, path, "--language", "en", "--max-tokens", "5", "--format", "json")
    assert done.returncode == 0, done.stderr
    written = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(written) == 2
    for each in written:
        assert list(each) == ["file", *dataclasses.asdict(wanted)] and each["file"] == str(path)
        assert (each["text"], each["language"], each["duration"]) == (wanted.text, "en", 1.5)
        for segment, other in zip(each["segments"], wanted.segments):
            other = dataclasses.asdict(other)
            assert segment.pop("avg_logprob") == pytest.approx(other.pop("avg_logprob"), rel=1e-4)
            assert segment.pop("no_speech_prob") == pytest.approx(other.pop("no_speech_prob"), rel=1e-4)
            assert segment == other
    done = command("transcribe", built, path, "--language", "en", "--max-tokens", "5", "--format", "srt")
    assert done.stdout.startswith("1\n00:00:00,000 --> 00:00:01,000\n")
    assert "\n2\n00:00:01,000 --> 00:00:01,500\n" in done.stdout
    done = command("transcribe", built, path, "--language", "en", "--timestamps", "--format", "vtt")
    assert done.stdout.startswith("WEBVTT\n\n00:00:0")
    done = command("transcribe", built, path, path, "--format", "vtt")
    assert done.returncode == 2 and "a file of subtitles is of one sound, not of 2" in done.stderr, done
    # What is wrong with a file is told of, and the others are written.
    (tmp_path / "talk.mp3").write_bytes(b"ID3\3" + bytes(100))
    files = [tmp_path / "gone.wav", path, tmp_path / "talk.mp3", path]
    done = command("transcribe", built, *files, "--language", "en", "--max-tokens", "5")
    assert done.stdout == f"{wanted.text}\n" * 2 and done.returncode == 5
    gone, other = done.stderr.splitlines()
    assert gone == f"camshaft: error: {tmp_path}/gone.wav: No such file or directory"
    assert f"{tmp_path}/talk.mp3: no WAV file that is read, as it is an MP3 file: convert it, as by `ffmpeg" in other
    done = command("transcribe", built, tmp_path / "gone.wav")
    assert (done.returncode, done.stderr) == (5, f"camshaft: error: {tmp_path}/gone.wav: No such file or directory\n")


def test_the_documentations_python_runs(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs/llm_speech.md").read_text()
    monkeypatch.chdir(tmp_path)
    write_whisper(tmp_path / "build/hf-whisper")
    write_wav(tmp_path / "build/talk.wav", sound(2.5))
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if "import openai" not in block:  # which asks a server: tests/server/test_openai_speech.py has one
            exec(block, {})
    assert capsys.readouterr().out.strip()
