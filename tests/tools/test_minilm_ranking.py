"""MiniLM ranks sentences by meaning through an engine, in the order that ONNX Runtime gives."""

import camshaft_cli
import minilm
import numpy as np
import rivals
from catalog import MODELS

QUERIES = ["How do I change a flat tyre?", "What makes bread rise?", "Best time to see the northern lights"]
SENTENCES = [
    "Loosen the nuts before you lift the car with the jack.",
    "Yeast eats sugar and gives off gas, which lifts the dough.",
    "In winter, far from the city, the aurora shows between ten and two.",
    "A sourdough starter needs flour, water and patience.",
    "The spare wheel lies under the floor of the boot.",
    "Solar storms make the sky glow green over Norway.",
    "The parliament will vote on the budget on Thursday.",
    "She plays the cello in the city's orchestra.",
    "Tyre pressure should be checked once a month.",
    "The recipe asks for a hot oven and a bowl of steam.",
    "Rainfall in March was twice the average.",
    "The museum opens at nine except on Mondays.",
]


def ranking(vectors):
    scores = vectors[: len(QUERIES)] @ vectors[len(QUERIES) :].T
    return np.argsort(-scores, axis=1, kind="stable")


def test_ranks_as_onnxruntime(engines):
    feed = minilm.tokenize(QUERIES + SENTENCES)
    engine = engines.get("minilm")
    ours = ranking(camshaft_cli.run(engine, feed)["sentence_embedding"])
    theirs = ranking(rivals.onnxruntime_session(MODELS["minilm"].path(), 2).run(["sentence_embedding"], feed)[0])
    camshaft_cli.record(
        "minilm",
        "ranking",
        {
            "queries": len(QUERIES),
            "sentences": len(SENTENCES),
            "same": int((ours == theirs).all(axis=1).sum()),
            "first": [[query, SENTENCES[row[0]]] for query, row in zip(QUERIES, ours)],
        },
    )
    assert ours.tolist() == theirs.tolist()
    assert [SENTENCES[row[0]].split()[0] for row in ours] == ["Tyre", "Yeast", "In"]
