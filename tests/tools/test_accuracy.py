"""One engine of each model equals ONNX Runtime at several batch sizes, lengths and picture sizes."""

import camshaft_cli
import numpy as np
import pytest
import rivals
import rounding
from catalog import EVERY


def names():
    return [pytest.param(model.name, marks=[] if model.quick else pytest.mark.large) for model in EVERY.values()]


@pytest.mark.parametrize("name", names())
def test_equals_onnxruntime(name, engines, tmp_path):
    model = EVERY[name]
    # The comparison below judges the engine; what `build` verifies by itself has tests of its own.
    engine = engines.get(name, "--no-verify")
    judge, plain = (rivals.onnxruntime_session(model.path(), 2, optimised) for optimised in (True, False))
    outputs = [output.name for output in judge.get_outputs()]
    sizes = {}
    for label in model.feeds:
        feed = model.feed(label)
        got = camshaft_cli.run(engine, feed)
        assert sorted(got) == sorted(outputs)
        want = judge.run(outputs, feed)

        def distance(answers, want=want):
            if model.ranked:
                return camshaft_cli.worst_ranked_error(answers, want)
            return max(map(camshaft_cli.worst_error, answers, want))

        error = distance([got[output] for output in outputs])
        spread = rounding.spread(model.path(), feed, error, judge, plain, distance, tmp_path)
        sizes[label] = {"error": error, "spread": spread}
    camshaft_cli.record("accuracy", name, sizes)
    assert all(np.isfinite(size["error"]) for size in sizes.values()), sizes
    assert all(size["error"] <= max(rounding.BUDGET, rounding.SPREADS * size["spread"]) for size in sizes.values()), (
        sizes
    )
