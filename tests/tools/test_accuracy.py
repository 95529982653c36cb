"""One engine of each model equals ONNX Runtime at several batch sizes, lengths and picture sizes."""

import camshaft_cli
import interleave
import pytest
from catalog import MODELS

BUDGET = 1e-4  # of each output's scale

# Some of the zoo's random weights amplify rounding: an input changed in its seventh digit moves EfficientNet-B0's output by
# 3e-3, and ONNX Runtime with and without its graph optimisations differs from itself by 5e-3. Where that spread is larger
# than the budget there is no answer to be nearer to, and twice the spread is the budget.
SPREADS = 2


def names():
    return [pytest.param(model.name, marks=[] if model.quick else pytest.mark.large) for model in MODELS.values()]


@pytest.mark.parametrize("name", names())
def test_equals_onnxruntime(name, engines):
    model = MODELS[name]
    # The comparison below judges the engine; what `build` verifies by itself has tests of its own.
    engine = engines.get(name, "--no-verify")
    judge, plain = (interleave.session(model.path(), 2, optimised) for optimised in (True, False))
    outputs = [output.name for output in judge.get_outputs()]
    sizes = {}
    for label in model.feeds:
        feed = model.feed(label)
        got = camshaft_cli.run(engine, feed)
        assert sorted(got) == sorted(outputs)
        answers = list(zip((got[output] for output in outputs), judge.run(outputs, feed), plain.run(outputs, feed)))
        sizes[label] = {
            "error": max(camshaft_cli.worst_error(ours, theirs) for ours, theirs, _ in answers),
            "spread": max(camshaft_cli.worst_error(unoptimised, theirs) for _, theirs, unoptimised in answers),
        }
    camshaft_cli.record("accuracy", name, sizes)
    assert all(size["error"] <= max(BUDGET, SPREADS * size["spread"]) for size in sizes.values()), sizes
