"""Beam search beside Transformers' generate(num_beams=...), for what both define alike: without an end the texts and their
probabilities, with early stopping the best text."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
llm = pytest.importorskip("camshaft.llm", reason="the Python module was not built: no Python headers")
from test_language_models import GROUPED, VOCABULARY, make  # noqa: E402

PROMPTS = [
    np.random.default_rng(seed).integers(3, VOCABULARY, length).tolist() for seed, length in enumerate((1, 4, 17, 40))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("beams")


@pytest.fixture(scope="module")
def model(folder):
    return make(folder / "hf", "LlamaConfig", GROUPED)


@pytest.fixture(scope="module")
def built(model, folder):
    llm.build(folder / "hf", folder / "model", tuning="heuristic", cache="f32")
    return llm.LLM(folder / "model", max_num_seqs=12)


def theirs(model, prompt, width, count, **options):
    """The texts that Transformers finds, and their scores."""
    with torch.no_grad():
        found = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            num_beams=width,
            num_return_sequences=width,
            max_new_tokens=count,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            pad_token_id=0,
            **options,
        )
    return [row.tolist() for row in found.sequences], found.sequences_scores.tolist()


@pytest.mark.parametrize("width", [2, 4, 7])
def test_without_an_end_all_texts_are_theirs(model, built, width):
    params = llm.BeamSearchParams(width, 24, ignore_eos=True)
    for prompt, output in zip(PROMPTS, built.beam_search(PROMPTS, params)):
        texts, scores = theirs(model, prompt, width, 24, eos_token_id=None, length_penalty=0.0)
        assert [sequence.tokens for sequence in output.sequences] == texts
        np.testing.assert_allclose([sequence.cum_logprob for sequence in output.sequences], scores, atol=1e-3)


@pytest.mark.parametrize("width", [2, 3, 5])
def test_with_early_stopping_the_best_text_is_theirs(model, built, folder, width):
    # A token that likely texts have, so that they end.
    eos = built.beam_search([PROMPTS[1]], llm.BeamSearchParams(2, 5, ignore_eos=True))[0].sequences[0].tokens[-1]
    described = json.loads((folder / "model/llm.json").read_text()) | {"eos_ids": [eos]}
    ending = llm.LLM(built.engine, description=described)
    params = llm.BeamSearchParams(width, 16, length_penalty=0.0, early_stopping=True)
    ends = 0
    for prompt, output in zip(PROMPTS, ending.beam_search(PROMPTS, params)):
        texts, scores = theirs(model, prompt, width, 16, early_stopping=True, length_penalty=0.0, eos_token_id=eos)
        text = texts[0][len(prompt) :]
        best = text[: text.index(eos) + 1] if eos in text else text
        assert output.sequences[0].tokens == prompt + best
        assert abs(output.sequences[0].cum_logprob - scores[0]) < 1e-3
        ends += output.sequences[0].finish_reason == "stop"
    assert ends
