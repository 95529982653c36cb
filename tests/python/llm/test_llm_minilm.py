"""all-MiniLM-L6-v2, with its own weights, tokenizer and modules.json: the vectors of a plain evaluation in NumPy."""

import json

import minilm
import numpy as np
import pytest
from camshaft.llm import LLM, build

pytestmark = pytest.mark.skipif(not minilm.FOLDER.exists(), reason="scripts/setup.sh has brought no MiniLM")

TEXTS = [
    "A cat sits on the mat.",
    "A kitten rests on the rug.",
    "Interest rates rose.",
    "Shares fell sharply on Monday after the bank raised its rates again. " * 6,
    "Yes.",
    "",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("minilm") / "model"
    build(minilm.FOLDER, path, task="embed")
    return path


def test_vectors_are_those_of_numpy(folder):
    wanted = minilm.evaluate(**minilm.tokenize(TEXTS))[1]
    for setting in ({}, {"max_num_seqs": 2, "threads": 1}):
        got = np.array([output.outputs.embedding for output in LLM(folder, **setting).embed(TEXTS)])
        assert np.abs(got - wanted).max() < 1e-5
    described = json.loads((folder / "llm.json").read_text())
    assert (described["pooling_type"], described["normalize"], described["max_length"]) == ("mean", True, 256)


@pytest.mark.parametrize("weights, most", [("int8", 5e-3), ("int4", 0.25)])
def test_weights_of_few_bits_keep_what_is_near(folder, tmp_path, weights, most):
    build(minilm.FOLDER, tmp_path / "narrow", task="embed", weights=weights)
    exact, narrow = (
        np.array([output.outputs.embedding for output in LLM(path).embed(TEXTS)])
        for path in (folder, tmp_path / "narrow")
    )
    assert 1 - (exact * narrow).sum(-1).min() < most
    assert narrow[0] @ narrow[1] > narrow[0] @ narrow[2] + 0.2
