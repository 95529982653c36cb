"""What rounding alone does to a model's results: what an engine's difference from ONNX Runtime is held against.

Some models amplify rounding: with plain random weights an input changed in its seventh digit moves EfficientNet-B0's
output by 3e-3, and ONNX Runtime with and without its graph optimisations differs from itself by 5e-3 (a gate of its late
squeeze-and-excite blocks then opens or closes); the zoo's weights are conditioned (tests/zoo/conditioning.py). Where a
model's own spread is larger than the budget there is no answer to be nearer to; four times the spread is allowed then,
as `camshaft build` does.
"""

import json

import camshaft_cli
import numpy as np

BUDGET = 1e-4  # of each output's scale, of models that do not amplify rounding
SPREADS = 4  # how many times a model's own spread an engine may differ by


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
        done = camshaft_cli.camshaft("build", model, "-o", folder / "verified.engine", "--json", *inputs)
        moved.append(json.loads(done.stdout)["sensitivity"])
    return max(moved)


def spread(model, feed, error, optimised, plain, distance, folder):
    """The model's own spread, by as many measures as an engine's `error` asks for: how far ONNX Runtime is from itself
    without its graph optimisations (the session `plain`), then how far nudged inputs move it, then sensitivity().
    `distance` says how far a list of outputs is from those of the session `optimised`."""
    outputs = [output.name for output in optimised.get_outputs()]
    found = distance(plain.run(outputs, feed))

    def moved(seeds):
        return max(distance(optimised.run(outputs, nudged(feed, seed))) for seed in seeds)

    if error > BUDGET:
        found = max(found, moved(range(4)))
    # Spreads have long tails: of 16 nudges of EfficientNet-B0's images one moves an output by 9.6e-3, most by 1e-3.
    if error > max(BUDGET, SPREADS * found):
        found = max(found, moved(range(4, 20)))
    if error > max(BUDGET, SPREADS * found):
        found = max(found, sensitivity(model, feed, folder))
    return found
