"""on_gpu_streaming.py MODEL PRECISION PART...: what test_streaming_gpu.py has run on the emulated GPU."""

import json
import sys

import camshaft
import numpy as np
from catalog import EVERY


def results(context, feed):
    return {name: np.from_dlpack(array).copy() for name, array in context.run(feed).items()}


def main(name, precision, *parts):
    model = EVERY[name]
    options = {"device": "cuda", "tuning": "heuristic", "verify": False}
    engine = camshaft.build(model.path(), **options, fp16=precision == "fp16")
    feed = model.feed()
    expected = results(engine.create_context(), feed)
    figures = []
    for part in parts:
        whole = engine.weight_streaming()
        engine.set_weight_budget(max(int(float(part) * whole["weight_bytes"]), whole["least_budget"]))
        context = engine.create_context()
        for _ in range(4):  # by steps, recorded, and replayed twice
            for output, array in results(context, feed).items():
                np.testing.assert_array_equal(array, expected[output])
        figures.append(engine.weight_streaming())
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
