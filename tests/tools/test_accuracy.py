"""One engine of each model equals ONNX Runtime at several batch sizes, lengths and picture sizes."""
import camshaft_cli
import interleave
import pytest
from catalog import MODELS

BUDGET = 1e-4  # of each output's scale


def names():
    return [pytest.param(model.name, marks=[] if model.quick else pytest.mark.large) for model in MODELS.values()]


@pytest.mark.parametrize("name", names())
def test_equals_onnxruntime(name, engines):
    model = MODELS[name]
    # The comparison below judges the engine; what `build` verifies by itself has tests of its own.
    engine = engines.get(name, "--no-verify")
    judge = interleave.session(model.path(), threads=2)
    outputs = [output.name for output in judge.get_outputs()]
    worst = {}
    for label in model.feeds:
        feed = model.feed(label)
        wanted = dict(zip(outputs, judge.run(None, feed)))
        got = camshaft_cli.run(engine, feed)
        assert sorted(got) == sorted(wanted)
        worst[label] = max(camshaft_cli.worst_error(got[output], wanted[output]) for output in outputs)
    camshaft_cli.record("accuracy", name, worst)
    assert max(worst.values()) <= BUDGET, worst
