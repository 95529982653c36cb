"""One engine of each model equals ONNX Runtime at several batch sizes, lengths and picture sizes."""

import json

import camshaft_cli
import numpy as np
import pytest
import rivals
from catalog import EVERY

BUDGET = 1e-4  # of each output's scale

# Some of the zoo's random weights amplify rounding: an input changed in its seventh digit moves EfficientNet-B0's output by
# 3e-3, and ONNX Runtime with and without its graph optimisations differs from itself by 5e-3 (a gate of its late
# squeeze-and-excite blocks then opens or closes). Where a model's own spread is larger than the budget there is no answer
# to be nearer to; four times the spread is allowed then, as `camshaft build` does.
SPREADS = 4


def nudged(feed, seed):
    """The feed with every float moved by one part in 2^23, up or down."""
    rng = np.random.default_rng(seed)
    sign = {name: rng.choice([-1, 1], array.shape) for name, array in feed.items()}
    return {
        name: (array * (1 + sign[name] * 2.0**-23)).astype(array.dtype) if array.dtype.kind == "f" else array
        for name, array in feed.items()
    }


def sensitivity(model, feed, folder):
    """How far the f64 reference moves when every operator's result moves by one part in 2^22, as `build` measures it: on
    `feed`, or on what `build` makes up if it moves further on that.

    Detectors need the second: where the number of samples of a region or its pyramid level changes with the last bit of a
    box, noise may or may not hit one.
    """
    np.savez(folder / "feed.npz", **feed)
    moved = []
    for inputs in (("--inputs", folder / "feed.npz"), ()):
        done = camshaft_cli.camshaft("build", model.path(), "-o", folder / "verified.engine", "--json", *inputs)
        moved.append(json.loads(done.stdout)["sensitivity"])
    return max(moved)


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
        spread = distance(plain.run(outputs, feed))
        if error > BUDGET:
            spread = max(spread, *(distance(judge.run(outputs, nudged(feed, seed))) for seed in range(4)))
        if error > max(BUDGET, SPREADS * spread):
            spread = max(spread, sensitivity(model, feed, tmp_path))
        sizes[label] = {"error": error, "spread": spread}
    camshaft_cli.record("accuracy", name, sizes)
    assert all(np.isfinite(size["error"]) for size in sizes.values()), sizes
    assert all(size["error"] <= max(BUDGET, SPREADS * size["spread"]) for size in sizes.values()), sizes
