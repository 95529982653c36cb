"""The MiniLM that the tests use is MiniLM: its ONNX equals a numpy evaluation of the same weights."""

import minilm
import numpy as np
import rivals
from catalog import MODELS

SENTENCES = ["A cat sits on the mat.", "Shares fell sharply on Monday after the bank raised its rates again.", "Yes."]


def test_onnx_equals_numpy():
    feed = minilm.tokenize(SENTENCES)
    assert not feed["attention_mask"].all(), "the sentences must differ in length, so that the mask matters"
    got = rivals.onnxruntime_session(MODELS["minilm"].path(), 1).run(["token_embeddings", "sentence_embedding"], feed)
    want = minilm.evaluate(**feed)
    assert np.abs(got[0] - want[0]).max() < 1e-5 * np.abs(want[0]).max()
    assert np.abs(got[1] - want[1]).max() < 1e-6


def test_related_sentences_are_near():
    vectors = minilm.evaluate(
        **minilm.tokenize(["A cat sits on a mat.", "A kitten rests on the rug.", "Interest rates rose."])
    )[1]
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > far + 0.3
