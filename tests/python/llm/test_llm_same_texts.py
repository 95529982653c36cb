"""Greedy texts and their logprobs are the same, bit by bit, however their tokens are computed: with real engines on the
CPU, most of whose activations are rounded, so that the least difference between two steps would grow."""

import camshaft.llm
import llm_folders
import numpy as np
import pytest
from camshaft.llm import LLM, SamplingParams

PROMPTS = 40
GREEDY = SamplingParams(temperature=0, max_tokens=20, logprobs=1, ignore_eos=True)


@pytest.fixture(scope="module", params=["int8", "int4", "f32"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    # Wide enough that threads share products of few rows along K, too.
    sizes = {"hidden_size": 256, "intermediate_size": 1672, "vocab_size": 500, "max_position_embeddings": 1024}
    made = llm_folders.write_llama(path / "hf", **sizes)
    camshaft.llm.build(made, path / "engine", weights=request.param)
    return path / "engine"


def prompts():
    random = np.random.default_rng(11)
    shared = random.integers(3, 500, 40).tolist()
    lengths = random.choice([1, 2, 5, 9, 17, 33, 70, 300], PROMPTS)
    made = [random.integers(3, 500, n).tolist() for n in lengths]
    return [{"prompt_token_ids": (shared if i % 3 == 0 else []) + tokens} for i, tokens in enumerate(made)]


def texts(outputs):
    """Tokens, and the logprobs of these."""
    made = [output.outputs[0] for output in outputs]
    return [(o.token_ids, [step[t].logprob for step, t in zip(o.logprobs, o.token_ids)]) for o in made]


@pytest.fixture(scope="module")
def one_by_one(folder):
    llm = LLM(folder, enable_prefix_caching=False)
    return [texts(llm.generate([prompt], GREEDY))[0] for prompt in prompts()]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enable_prefix_caching": False},
        {"max_num_batched_tokens": 32},
        {"max_num_seqs": 3},
        {"num_blocks": 60},  # some lose their blocks, and are computed again
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}},
        {"threads": 1},
    ],
    ids=str,
)
def test_texts_are_the_same(folder, one_by_one, options):
    assert texts(LLM(folder, **options).generate(prompts(), GREEDY)) == one_by_one
