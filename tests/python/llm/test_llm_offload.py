"""Blocks that leave the cache for the host's memory and come back: texts are the same bit by bit, and less is computed."""

import camshaft
import numpy as np
import pytest
from camshaft.llm import LLM, SamplingParams, build
from llm_folders import write_llama

GREEDY = SamplingParams(temperature=0, max_tokens=24, logprobs=1, ignore_eos=True)
CACHES = ("f32", "f16", "int8", "fp8")


@pytest.fixture(scope="module", params=CACHES)
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    build(write_llama(path / "hf"), path / "model", cache=request.param, weights="int8", tuning="heuristic")
    return path / "model"


def prompts(count=12):
    random = np.random.default_rng(3)
    return [random.integers(3, 80, length).tolist() for length in random.integers(20, 60, count)]


def texts(outputs):
    made = [output.outputs[0] for output in outputs]
    return [(o.token_ids, [step[t].logprob for step, t in zip(o.logprobs, o.token_ids)]) for o in made]


def test_texts_are_the_same_and_less_is_computed(folder):
    few = {"max_model_len": 96, "max_num_seqs": 6, "num_blocks": 14}
    expected = texts(LLM(folder, max_model_len=96).generate(prompts(), GREEDY))
    again, offloading = LLM(folder, **few), LLM(folder, **few, kv_offloading_size=0.01)
    for _ in range(2):  # what was read comes again
        assert texts(again.generate(prompts(), GREEDY)) == expected
        assert texts(offloading.generate(prompts(), GREEDY)) == expected
    without, with_host = again.statistics(), offloading.statistics()
    assert without["preemptions"] > 0 and with_host["preemptions"] > 0
    assert with_host["restored"] > 20 and with_host["offloaded"] > 20 and with_host["host_blocks"] > 100
    assert without["restored"] == without["offloaded"] == without["host_blocks"] == 0
    assert with_host["tokens"] < without["tokens"] - 16 * 10
    cached = [output.num_cached_tokens for output in offloading.generate(prompts(), GREEDY)]
    assert cached == [(len(prompt) - 1) // 16 * 16 for prompt in prompts()]


def test_guesses_samples_and_beams_beside_it(folder):
    few = {"max_model_len": 96, "max_num_seqs": 6, "num_blocks": 20, "kv_offloading_size": 0.01}
    guesses = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}
    drawn = [SamplingParams(seed=seed, n=1 + seed % 3, max_tokens=20, ignore_eos=True) for seed in range(12)]
    expected = LLM(folder, max_model_len=96).generate(prompts(), drawn)
    llm = LLM(folder, **few, **guesses)
    for _ in range(2):
        for ours, theirs in zip(llm.generate(prompts(), drawn), expected):
            assert [o.token_ids for o in ours.outputs] == [o.token_ids for o in theirs.outputs]
    assert llm.statistics()["restored"] > 0


def test_sizes(folder):
    _, _, block_bytes = camshaft._native.generator_cache(LLM(folder).engine._engine)
    one = LLM(folder, kv_offloading_size=block_bytes / 2**30).statistics()
    assert one["host_blocks"] == 1
    assert LLM(folder, kv_offloading_size=0).statistics()["host_blocks"] == 0


def test_ranks_offload_together(tmp_path):
    build(write_llama(tmp_path / "hf"), tmp_path / "two", tensor_parallel_size=2, tuning="heuristic")
    expected = texts(LLM(tmp_path / "two", max_model_len=96).generate(prompts(), GREEDY))
    llm = LLM(tmp_path / "two", max_model_len=96, max_num_seqs=6, num_blocks=14, kv_offloading_size=0.01)
    for _ in range(2):
        assert [tokens for tokens, _ in texts(llm.generate(prompts(), GREEDY))] == [tokens for tokens, _ in expected]
    assert llm.statistics()["restored"] > 0
