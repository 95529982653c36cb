"""Guesses of a draft model: the text is the text without them, however it is computed, and what does not fit is refused."""

import itertools
import json
import os
import random
import re
import shutil

import camshaft
import numpy as np
import pytest
import tiny_decoder
from camshaft.llm import LLM, SamplingParams, StructuredOutputsParams

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

VOCABULARY = 300
K = 3


def noisy(weights, amount, seed=5):
    """A draft of a model: it says the same now and then."""
    draws = np.random.default_rng(seed)
    return {
        name: value + (amount * value.std() * draws.standard_normal(value.shape)).astype(np.float32)
        for name, value in weights.items()
    }


@pytest.fixture(scope="module")
def weights():
    return tiny_decoder.weights_of(VOCABULARY)


@pytest.fixture(scope="module")
def engine(weights):
    return tiny_decoder.engine_of(weights, True)


@pytest.fixture(scope="module")
def draft(weights):
    return tiny_decoder.engine_of(noisy(weights, 0.1), True)


def write_folder(path, engine, words=("the engine turns", "red blue"), longest=128):
    path.mkdir()
    engine.save(path / "model.engine")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(list(words) * 2, trainer)
    made.save(str(path / "tokenizer.json"))
    (path / "llm.json").write_text(json.dumps({"max_length": longest, "eos_ids": [0], "vocabulary": VOCABULARY}))
    return path


@pytest.fixture(scope="module")
def folders(engine, draft, tmp_path_factory):
    place = tmp_path_factory.mktemp("draft")
    return write_folder(place / "model", engine), write_folder(place / "draft", draft, longest=96)


def drafted(model, **more):
    return {"speculative_config": {"method": "draft_model", "model": model, "num_speculative_tokens": K}, **more}


def greedy(count, **more):
    return SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, **more)


def token_ids(outputs):
    return [[sample.token_ids for sample in output.outputs] for output in outputs]


@pytest.mark.parametrize("finds_likeliest", [False, True])
@pytest.mark.parametrize("cache", ["f32", "i8"])
def test_greedy_text_is_that_of_a_plain_computation(engine, weights, finds_likeliest, cache):
    draft = tiny_decoder.engine_of(noisy(weights, 0.1), finds_likeliest, cache=cache)
    draws = np.random.default_rng(3)
    prompts = [draws.integers(1, VOCABULARY, n).tolist() for n in (1, 3, 4, 5, 17, 40)]
    expected = [[tiny_decoder.greedy_text(weights, prompt, 14)] for prompt in prompts]
    for setting in (
        {},
        {"max_num_seqs": 2, "max_num_batched_tokens": 7},
        {"num_blocks": 15, "enable_prefix_caching": False},
    ):
        model = LLM(engine, max_model_len=60, **drafted(draft, **setting))
        for _ in range(2):  # the second time beginnings of prompts are there
            assert token_ids(model.generate(prompts, greedy(14))) == expected, setting
        found = model.statistics()
        assert 0 < found["accepted"] < found["drafted"] <= K * found["drafts"], setting
        assert found["draft_free_blocks"] == found["draft_blocks"] > 0


def mixed_requests(seed, count):
    """Prompts with common beginnings; greedy, sampled, in several samples, with penalties and logprobs."""
    draws = random.Random(seed)
    beginnings = [[draws.randrange(1, VOCABULARY) for _ in range(draws.randrange(20))] for _ in range(4)]
    prompts, params = [], []
    for _ in range(count):
        prompts.append(
            draws.choice(beginnings) + [draws.randrange(1, VOCABULARY) for _ in range(draws.randrange(1, 9))]
        )
        more = {}
        if draws.random() < 0.5:
            more |= {"temperature": draws.uniform(0.3, 1.5), "seed": draws.randrange(1000), "n": draws.randrange(1, 4)}
            more |= {"top_k": draws.choice([-1, 5, 40]), "top_p": draws.choice([1.0, 0.9])}
        else:
            more["temperature"] = 0
        if draws.random() < 0.2:
            more["repetition_penalty"] = 1.2
        if draws.random() < 0.2:
            more["logprobs"] = 2
        params.append(SamplingParams(max_tokens=draws.randrange(1, 30), ignore_eos=draws.random() < 0.7, **more))
    return prompts, params


def test_mixed_requests_have_the_same_texts(engine, draft):
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED") or random.randrange(2**31))
    print(f"CAMSHAFT_TEST_SEED={seed}")
    prompts, params = mixed_requests(seed, 120)
    expected = token_ids(LLM(engine, max_model_len=64).generate(prompts, params))
    for setting in ({}, {"num_blocks": 24, "max_num_seqs": 6, "max_num_batched_tokens": 19}):
        model = LLM(engine, max_model_len=64, **drafted(draft, **setting))
        assert token_ids(model.generate(prompts, params)) == expected, setting
        assert model.statistics()["accepted"] > 0
        assert model.statistics()["draft_free_blocks"] == model.statistics()["draft_blocks"]
    assert model.statistics()["preemptions"] > 0


def test_the_model_itself_guesses_all(engine):
    model = LLM(engine, max_model_len=64, **drafted(engine))
    model.generate([[5, 6, 7]], greedy(1 + 6 * (K + 1)))
    found = model.statistics()
    assert (found["steps"], found["generated"]) == (1 + 6, 1 + 6 * (K + 1))
    assert found["accepted"] == found["drafted"] == 6 * K and found["drafts"] == 6
    assert found["draft_steps"] == 6 * K


def test_guided_texts_are_the_same(folders):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    params = [
        SamplingParams(max_tokens=60, seed=seed, temperature=1.5, structured_outputs=StructuredOutputsParams(**of))
        for seed, of in enumerate(
            [{"regex": "(the engine turns )+"}, {"choice": ["red", "blue"]}, {"regex": "[a-c]{9}"}] * 3
        )
    ]
    prompts = [[1, 2, 3]] * len(params)
    model, draft = folders
    plain = LLM(model).generate(prompts, params)
    guessing = LLM(model, **drafted(draft))
    outputs = guessing.generate(prompts, params)
    assert token_ids(outputs) == token_ids(plain)
    assert [o.outputs[0].text for o in outputs] == [o.outputs[0].text for o in plain]
    assert all(re.fullmatch("[a-c]{9}", o.outputs[0].text) for o in outputs[2::3])
    assert guessing.statistics()["drafted"] > 0


def test_requests_that_end_early_and_masks(engine, draft):
    plain, model = LLM(engine, max_model_len=64), LLM(engine, max_model_len=64, **drafted(draft))
    [whole] = plain.generate([[1, 2, 3]], greedy(40))
    for stream in (model.stream([1, 2, 3], greedy(40)) for _ in range(5)):
        for output in itertools.islice(stream, 3):
            ids = output.outputs[0].token_ids
            assert ids == whole.outputs[0].token_ids[: len(ids)]
        stream.close()
    mask = np.full((VOCABULARY + 31) // 32, 0xAAAAAAAA, np.uint32)
    odd = greedy(10, token_mask=lambda tokens: mask if len(tokens) % 2 else None)
    prompts, params = [[7, 8], [1, 2, 3]], [odd, greedy(40)]
    assert token_ids(model.generate(prompts, params)) == token_ids(plain.generate(prompts, params))
    found = model.statistics()
    assert found["running"] == 0 and found["draft_free_blocks"] == found["draft_blocks"]


def test_a_folder_names_the_draft(folders, engine):
    model, draft = folders
    prompts = [[1, 2, 3], list(range(1, 91))]  # the draft is for 96 tokens
    expected = token_ids(LLM(model).generate(prompts, greedy(30)))
    for config in ({"model": str(draft)}, {"method": "draft_model", "model": draft, "num_speculative_tokens": 2}):
        guessing = LLM(model, speculative_config=config)
        assert token_ids(guessing.generate(prompts, greedy(30))) == expected
        assert guessing.statistics()["drafted"] > 0 and guessing.draft_engine is not None
    short = LLM(model, speculative_config={"model": draft})
    short.generate([prompts[1]], greedy(30))
    assert 0 < short.statistics()["drafted"] <= 6 * 4


def test_what_does_not_fit_together_is_refused(folders, engine, tmp_path):
    model, draft = folders
    others = tiny_decoder.engine_of(tiny_decoder.weights_of(310))
    words = write_folder(tmp_path / "words", engine, words=("quite other words", "than those"))
    for config, message in (
        ({"model": others}, "the draft model has a vocabulary of 310 tokens, the model one of 300"),
        ({"model": words}, "has other tokens than .*: '.*' is number .* there, .* here, and .* more differ"),
        ({"method": "draft_model"}, "the method draft_model needs the key model"),
        ({"method": "ngram", "model": draft}, "the method ngram has no model"),
        ({"method": "eagle", "model": draft}, "the method 'eagle' is none; ngram and draft_model"),
        ({"model": draft, "prompt_lookup_max": 3}, "prompt_lookup_max is of the method ngram"),
        ({"model": draft, "draft_model": 1}, "speculative_config has no draft_model"),
        ({"model": 7}, "model is 7, not the folder of a built model"),
        (
            {"model": draft, "num_speculative_tokens": 0},
            "num_speculative_tokens is 0: a draft model must guess 1 or more",
        ),
        ({"model": draft, "num_speculative_tokens": 2000}, "num_speculative_tokens is 2000, at most 1024"),
        ({"model": draft, "num_speculative_tokens": 2.5}, "num_speculative_tokens is 2.5: an integer is needed"),
    ):
        with pytest.raises(camshaft.InvalidArgumentError, match=message):
            LLM(model, speculative_config=config)
    with pytest.raises(camshaft.FileError, match="nowhere.*camshaft llm build"):
        LLM(model, speculative_config={"model": tmp_path / "nowhere"})
    broken = tmp_path / "broken"
    shutil.copytree(draft, broken)
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises(camshaft.CorruptEngineError, match=r"broken/tokenizer\.json: "):
        LLM(model, speculative_config={"model": broken})
    (broken / "tokenizer.json").unlink()  # without one there is nothing to compare
    assert LLM(model, speculative_config={"model": broken}).draft_engine is not None


def test_guesses_that_are_drawn_come_true_more_often(engine, draft):
    """Greedy texts are those without guesses; what is drawn is the same again for the same calls."""
    draws = np.random.default_rng(3)
    prompts = [draws.integers(1, VOCABULARY, 12).tolist() for _ in range(24)]
    params = [SamplingParams(temperature=1.5, seed=s, max_tokens=30, ignore_eos=True) for s in range(24)]
    shares = {}
    for method in ("greedy", "probabilistic"):
        settings = drafted(draft)
        settings["speculative_config"]["draft_sample_method"] = method
        llm = LLM(engine, max_model_len=64, **settings)
        plain = LLM(engine, max_model_len=64).generate(prompts, greedy(12))
        assert [o.outputs[0].token_ids for o in llm.generate(prompts, greedy(12))] == [
            o.outputs[0].token_ids for o in plain
        ]
        before = llm.statistics()
        first = [o.outputs[0].token_ids for o in llm.generate(prompts, params)]
        after = llm.statistics()
        assert first == [o.outputs[0].token_ids for o in llm.generate(prompts, params)]
        shares[method] = (after["accepted"] - before["accepted"]) / (after["drafted"] - before["drafted"])
    assert shares["probabilistic"] > 1.2 * shares["greedy"], shares


@pytest.mark.parametrize(
    "config, words",
    [
        ({"method": "ngram", "draft_sample_method": "greedy"}, "draft_sample_method is of the method draft_model"),
        ({"method": "draft_model", "draft_sample_method": "best"}, "draft_sample_method is 'best'; greedy or prob"),
        ({"method": "draft_model", "draft_sample_method": 1}, "draft_sample_method is 1; greedy or prob"),
    ],
)
def test_ways_of_guessing_that_are_wrong(engine, draft, config, words):
    model = {"model": draft} if config["method"] == "draft_model" else {}
    with pytest.raises(camshaft.InvalidArgumentError, match=words):
        LLM(engine, max_model_len=64, speculative_config={**config, **model})


def test_memory_is_of_both_caches(engine, draft):
    plain = LLM(engine, max_model_len=64, kv_cache_memory_bytes=40 * 1024).statistics()
    both = LLM(engine, max_model_len=64, kv_cache_memory_bytes=40 * 1024, **drafted(draft)).statistics()
    assert (plain["blocks"], plain["draft_blocks"]) == (40, 0)
    assert both["blocks"] == both["draft_blocks"] == 20
    with pytest.raises(camshaft.InvalidArgumentError, match="kv_cache_memory_bytes is 4095: .* 4096 bytes are needed"):
        LLM(engine, max_model_len=64, kv_cache_memory_bytes=4095, **drafted(draft))


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_does_not_grow(engine, draft):
    model = LLM(engine, max_model_len=64, num_blocks=40, **drafted(draft))
    draws = np.random.default_rng(7)

    def run():
        prompts = [draws.integers(1, VOCABULARY, draws.integers(1, 40)).tolist() for _ in range(250)]
        model.generate(prompts, greedy(12))

    run()
    before = resident()
    for _ in range(8):
        run()
    assert resident() - before < 8 << 20
    assert model.statistics()["draft_free_blocks"] == model.statistics()["draft_blocks"]
