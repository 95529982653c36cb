"""One engine of each model equals ONNX Runtime at several batch sizes, lengths and picture sizes."""

import camshaft_cli
import pytest
import rivals
import rounding
from catalog import EVERY


def names():
    return [pytest.param(model.name, marks=[] if model.quick else pytest.mark.large) for model in EVERY.values()]


def worst_error(got, want):
    return max(map(camshaft_cli.worst_error, got, want))


@pytest.mark.parametrize("name", names())
def test_equals_onnxruntime(name, engines):
    model = EVERY[name]
    engine = engines.get(name)
    judge, plain = (rivals.onnxruntime_session(model.path(), 2, optimised) for optimised in (True, False))
    outputs = [output.name for output in judge.get_outputs()]
    sizes = {}
    for label in model.feeds:
        feed = model.feed(label)
        got = camshaft_cli.run(engine, feed)
        assert sorted(got) == sorted(outputs)
        want = judge.run(outputs, feed)
        distance = camshaft_cli.worst_ranked_error if model.ranked else worst_error
        error = distance([got[output] for output in outputs], want)
        sizes[label] = {"error": error, "spread": distance(plain.run(outputs, feed), want)}
    camshaft_cli.record("accuracy", name, sizes)
    # None amplifies rounding: the zoo's weights are conditioned.
    assert all(size["error"] <= rounding.BUDGET for size in sizes.values()), sizes
