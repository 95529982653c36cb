"""T5s built into engines, and what they write, beside a plain computation in fp64. tests/python/pytorch/test_t5.py compares
them with Transformers."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time

import camshaft.llm
import numpy as np
import pytest
from camshaft import CorruptEngineError, InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft.llm import BeamSearchParams, EncoderDecoderLLM, SamplingParams, _encoder_decoder_run
from camshaft_cli import BINARY
from t5_folders import GATED, T5, Reference, t5_tensors, write_t5

pytest.importorskip("tokenizers", reason="tokenizers is not installed")

KINDS = {"original": {}, "gated": GATED}


def prompts_of(seed, lengths):
    random = np.random.default_rng(seed)
    return [[*random.integers(2, T5["vocab_size"], length - 1).tolist(), 1] for length in lengths]


def build(folder, output, **options):
    camshaft.llm.build(folder, output, **{"tuning": "heuristic", "cache": "f32", **options})
    return output


def greedy(count, **more):
    return SamplingParams(temperature=0, max_tokens=count, **more)


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return {**T5, **KINDS[request.param]}


@pytest.fixture(scope="module")
def tensors(kind):
    return t5_tensors(kind, np.random.default_rng(3))


@pytest.fixture(scope="module")
def built(tmp_path_factory, kind, tensors):
    source = write_t5(tmp_path_factory.mktemp("t5") / "hf", tensors=tensors, **kind)
    return build(source, source.parent / "model")


@pytest.fixture(scope="module")
def reference(kind, tensors):
    return Reference(kind, tensors)


def test_texts_are_the_references(built, reference):
    prompts = prompts_of(1, [1, 2, 5, 17, 33, 64, 9, 3])
    expected = [reference.greedy(prompt, 30) for prompt in prompts]
    assert len({tuple(text) for text in expected}) > 4
    for setting in ({}, {"max_num_seqs": 3}, {"max_num_seqs": 2, "max_encoder_seqs": 5, "max_num_batched_tokens": 4}):
        outputs = EncoderDecoderLLM(built, **setting).generate(prompts, greedy(30))
        assert [output.outputs[0].token_ids for output in outputs] == expected, setting
        assert [output.prompt_token_ids for output in outputs] == prompts
        for output, text in zip(outputs, expected):
            assert output.finished and output.outputs[0].finish_reason == ("stop" if text[-1] == 1 else "length")


def test_words_go_in_and_come_out(built, reference):
    [output] = EncoderDecoderLLM(built).generate("w5 w9 w33", greedy(12))
    assert output.prompt == "w5 w9 w33" and output.prompt_token_ids == [5, 9, 33, 1]
    text = reference.greedy([5, 9, 33, 1], 12)
    assert output.outputs[0].token_ids == text
    assert output.outputs[0].text == " ".join(f"w{token}" for token in text if token > 1)


def test_beams(built, reference):
    [prompt] = prompts_of(5, [12])
    states, width = reference.states(prompt), 3
    beams, completed = [([0], 0.0)], []
    for _ in range(10):
        going = []
        for tokens, so_far in beams:
            row = reference.logits(states, tokens)[-1]
            row = row - row.max() - np.log(np.exp(row - row.max()).sum())
            for token in np.argsort(-row, kind="stable")[: 2 * width].tolist():
                (completed if token == 1 else going).append(([*tokens, token], so_far + row[token]))
        beams = sorted(going, key=lambda beam: beam[1], reverse=True)[:width]

    def score(beam):
        return beam[1] / (len(beam[0]) - (beam[0][-1] == 1))

    expected = sorted(completed + beams, key=score, reverse=True)[:width]
    [output] = EncoderDecoderLLM(built).beam_search([prompt], BeamSearchParams(width, 10))
    assert [sequence.tokens for sequence in output.sequences] == [tokens for tokens, _ in expected]
    np.testing.assert_allclose([s.cum_logprob for s in output.sequences], [p for _, p in expected], atol=1e-3)


def test_callers_run_together_and_draws_are_of_the_seed(built):
    llm = EncoderDecoderLLM(built, max_num_seqs=4)
    prompts = prompts_of(7, [3, 30, 8, 1, 12, 5])
    drawn = [SamplingParams(max_tokens=15, seed=seed, ignore_eos=True) for seed in range(6)]
    alone = [llm.generate([prompt], [one])[0].outputs[0].token_ids for prompt, one in zip(prompts, drawn)]
    found = {}

    def call(part):
        found[part] = [o.outputs[0].token_ids for o in llm.generate(prompts[part:], drawn[part:])]

    threads = [threading.Thread(target=call, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {part: alone[part:] for part in range(3)}
    assert llm.generate([]) == []


def test_streams_grow_to_the_texts(built):
    llm = EncoderDecoderLLM(built, max_num_seqs=2)
    prompts = prompts_of(9, [5, 30, 2])
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
    expected = [output.outputs[0].token_ids for output in llm.generate(prompts, params)]
    seen = {}
    for output in llm.stream(prompts, params):
        tokens = output.outputs[0].token_ids
        place = prompts.index(output.prompt_token_ids)
        before = seen.setdefault(place, [])
        assert tokens[: len(before)] == before
        seen[place] = list(tokens)
    assert [seen[place] for place in range(3)] == expected
    growing = llm.stream(prompts, params)
    next(growing)
    growing.close()  # which gives slots back, and ends what runs
    assert len(llm.generate(prompts, greedy(2))) == 3
    assert llm._llm.statistics()["running"] == 0


def test_event_loops_follow_texts(built):
    llm = EncoderDecoderLLM(built, max_num_seqs=2)
    prompts = prompts_of(4, [5, 9, 17, 3])
    params = SamplingParams(temperature=0, max_tokens=10, ignore_eos=True)
    expected = [output.outputs[0].token_ids for output in llm.generate(prompts, params)]

    async def follow(prompt):
        lengths = []
        async for output in llm.generate_async(prompt, params):
            lengths.append(len(output.outputs[0].token_ids))
            assert output.prompt_token_ids == prompt
        assert lengths == sorted(lengths) and output.finished
        return output.outputs[0].token_ids

    async def leave(prompt):
        async for _ in llm.generate_async(prompt, params):
            break

    async def all_of_them():
        found = await asyncio.gather(*map(follow, prompts))
        await asyncio.gather(*map(leave, prompts))
        with pytest.raises(InvalidArgumentError, match="the prompt is empty"):
            await follow([])
        return found

    assert asyncio.run(all_of_them()) == expected
    assert len(llm.generate(prompts, greedy(2))) == 4  # slots came back


def test_prompts_are_cut_where_that_is_asked_for(built):
    llm = EncoderDecoderLLM(built, max_num_seqs=2)
    long = [3 + i % 50 for i in range(70)]
    for most, kept in ((4, 4), (-1, 64)):
        params = SamplingParams(temperature=0, max_tokens=8, truncate_prompt_tokens=most)
        [cut], [expected] = llm.generate([long], params), llm.generate([long[-kept:]], greedy(8))
        assert cut.prompt_token_ids == long[-kept:]
        assert cut.outputs[0].token_ids == expected.outputs[0].token_ids


def test_prompts_that_cannot_be_read(built, tmp_path):
    llm = EncoderDecoderLLM(built, max_num_seqs=2)
    for prompts, options, words in (
        ([[]], {}, "the prompt is empty"),
        ([[5] * 65], {}, "65 tokens; the model was built for 64"),
        ([[70]], {}, "token 70, the vocabulary has tokens 0 to 69"),
        ([[5], [6]], {"sampling_params": [SamplingParams()]}, "sampling_params has 1 items for 2 prompts"),
        ([[5]], {"priority": [1, 2]}, "priority has 2 items for 1 prompts"),
        ([[5]], {"priority": 3}, "priority is 3; a list of whole numbers is needed"),
        ([[5]], {"priority": ["x"]}, "priority is 'x'; a whole number is needed"),
        ([[5]], {"sampling_params": {"n": 1}}, "sampling_params are SamplingParams"),
        (None, {}, "prompts are texts or lists"),
        ([[1.5]], {}, "a prompt is a text or a list"),
        ([{"prompt_token_ids": [5], "multi_modal_data": {"image": "cat.png"}}], {}, "brings pictures, and the model"),
        ([[5]], {"sampling_params": SamplingParams(prompt_logprobs=1)}, "prompt_logprobs is 1: the model does not"),
        ([[5]], {"sampling_params": SamplingParams(n=3)}, "n is 3, at most max_num_seqs, 2"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            llm.generate(prompts, **options)
    assert len(llm.generate(prompts_of(1, [4] * 5), greedy(3))) == 5  # slots came back
    with pytest.raises(InvalidArgumentError, match="EncoderDecoderLLM or .* runs it"):
        camshaft.llm.LLM(built)
    with pytest.raises(InvalidArgumentError, match="no model of speech; camshaft.llm.EncoderDecoderLLM runs it"):
        camshaft.llm.Whisper(built)
    with pytest.raises(InvalidArgumentError, match="max_encoder_seqs is 0"):
        EncoderDecoderLLM(built, max_encoder_seqs=0)
    for name in ("max_num_seqs", "max_encoder_seqs"):
        with pytest.raises(InvalidArgumentError, match=f"{name} is '8'; a whole number is needed"):
            EncoderDecoderLLM(built, **{name: "8"})
    with pytest.raises(InvalidArgumentError, match="max_length is 65537: an encoder reads 65536 tokens at most"):
        build(write_t5(tmp_path / "hf"), tmp_path / "long", max_length=65537)


@pytest.mark.parametrize("command, words", [
    (["bench"], "the model has an encoder, and what is measured is text of decoders alone"),
    (["chat"], "camshaft.llm.EncoderDecoderLLM or `camshaft llm serve` runs it"),
    (["transcribe", "talk.wav"], "no model of speech; camshaft.llm.EncoderDecoderLLM runs it"),
])  # fmt: skip
def test_commands_that_do_not_run_it_say_what_does(built, command, words):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    arguments = [BINARY, "llm", command[0], built, *command[1:]]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode != 0 and words in done.stderr and done.stderr.count("\n") == 1, done


def test_prompts_are_encoded_in_runs(built, reference, monkeypatch):
    prompts = prompts_of(11, [30, 30, 4, 64, 1, 9, 9, 9, 40])
    expected = [reference.greedy(prompt, 6) for prompt in prompts]
    llm = EncoderDecoderLLM(built)
    monkeypatch.setattr(_encoder_decoder_run, "MOST_TOKENS", 64)
    runs, run = [], llm._encoder.run
    monkeypatch.setattr(llm._encoder, "run", lambda inputs: (runs.append(len(inputs["input_ids"])), run(inputs)))
    outputs = llm.generate(prompts, greedy(6))
    assert [output.outputs[0].token_ids for output in outputs] == expected
    assert runs == [64, 64, 28, 40]


def test_a_caller_of_many_holds_nobody_up(built):
    llm = EncoderDecoderLLM(built, max_num_seqs=1)
    slow = SamplingParams(max_tokens=6, ignore_eos=True, token_mask=lambda tokens: time.sleep(0.02))
    began = threading.Event()
    first = SamplingParams(max_tokens=6, ignore_eos=True, token_mask=lambda tokens: began.set() or time.sleep(0.02))
    many = threading.Thread(target=llm.generate, args=(prompts_of(2, [5] * 12), [first, *[slow] * 11]))
    many.start()
    assert began.wait(20)
    assert len(llm.generate([[5, 1]], greedy(2))) == 1
    assert many.is_alive()
    many.join()
    with pytest.raises(RuntimeError, match="enough"):  # which leaves no slot behind
        llm.generate(prompts_of(3, [5] * 3), greedy(4, token_mask=_enough))
    assert len(llm.generate(prompts_of(3, [5] * 3), greedy(2))) == 3


def _enough(tokens):
    raise RuntimeError("enough")


@pytest.mark.parametrize("changes, words", [
    ({"encoder": None}, "no model with an encoder of text"),
    ({"encoder": {"max_tokens": 64}}, "field 'start_id' is missing"),
    ({"encoder": {"max_tokens": 65, "start_id": 0}}, "'max_tokens' of 'encoder' is 65"),
    ({"encoder": {"max_tokens": 9, "start_id": 70}}, "field 'start_id' is 70"),
])  # fmt: skip
def test_descriptions_that_lie(built, tmp_path, changes, words):
    for path in built.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "llm.json").unlink()
    described = json.loads((built / "llm.json").read_text()) | changes
    (tmp_path / "llm.json").write_text(json.dumps({k: v for k, v in described.items() if v is not None}))
    with pytest.raises((CorruptEngineError, InvalidArgumentError), match=words):
        EncoderDecoderLLM(tmp_path)


@pytest.mark.parametrize("options", [{"cache": "int8"}, {"cache": "f16", "block_size": 5}, {"weights": "int8"}])
def test_narrow_weights_and_caches_build(tmp_path, options):
    source = write_t5(tmp_path / "hf", seed=2, d_model=64, **GATED)
    outputs = EncoderDecoderLLM(build(source, tmp_path / "model", **options)).generate(
        prompts_of(2, [9, 40]), greedy(8)
    )
    assert all(1 <= len(output.outputs[0].token_ids) <= 8 for output in outputs)


@pytest.mark.parametrize("changes, kind, words", [
    ({"feed_forward_proj": "double-relu"}, UnsupportedError, "feed_forward_proj 'double-relu'"),
    ({"feed_forward_proj": "mish"}, UnsupportedError, "activation 'mish'"),
    ({"relative_attention_max_distance": 3}, InvalidModelError, "relative_attention_max_distance"),
    ({"relative_attention_num_buckets": 6}, InvalidModelError, "relative_attention_bias.weight' is \\[8, 3\\]"),
    ({"num_layers": None}, InvalidModelError, "num_layers"),
    ({"decoder_start_token_id": 99}, InvalidModelError, "decoder_start_token_id"),
])  # fmt: skip
def test_folders_that_are_wrong(tmp_path, changes, kind, words):
    tensors = t5_tensors(T5, np.random.default_rng(0))
    source = write_t5(tmp_path / "hf", tensors=tensors, **changes)
    with pytest.raises(kind, match=words):
        build(source, tmp_path / "model")
    assert not (tmp_path / "model").exists()
