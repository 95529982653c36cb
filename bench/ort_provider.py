"""The time that a model takes in ONNX Runtime's execution provider, beside Camshaft's own interface and ONNX Runtime's CPU.

usage: ort_provider.py [MODEL...] [--rounds N] [--cpu-time] [--json FILE]

Models are the catalog's, by their names; without any, the quick ones. One thread, outputs of fresh memory where the interface
gives them so. Rounds are interleaved in one process; a time is the least of all rounds. The engine of the provider and that of
Camshaft's interface are the same file: what differs is the way to it. --cpu-time takes the calling thread's time instead of
the clock's, for a machine that others use, too.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")),
    str(ROOT / "tests/models"),
    str(ROOT / "tests/zoo"),
    str(ROOT / "scripts"),
    str(ROOT / "examples/ocr"),
]

import camshaft
import camshaft.ort
import numpy as np
import onnxruntime
from catalog import MODELS

ROUND_SECONDS = 0.15


def tiny():
    """One Relu of 2x4: what a call costs beside the computing."""
    from onnx import TensorProto, helper

    sizes = ["n", 4]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString(), {"x": np.ones((2, 4), np.float32)}


def ways_to_run(model, folder):
    """{name: function of a feed}"""
    so = onnxruntime.SessionOptions()
    so.intra_op_num_threads = 1
    options = {"tuning-seconds": 10, "verify": False, "engine-cache": True, "engine-cache-path": folder}
    provider = onnxruntime.InferenceSession(
        model, so, providers=[(camshaft.ort.PROVIDER, options), "CPUExecutionProvider"]
    )
    [engine] = Path(folder).glob("*.engine")  # one: it runs the whole model
    context = camshaft.Engine(engine).create_context(threads=1)
    plain = onnxruntime.InferenceSession(model, so, providers=["CPUExecutionProvider"])
    return {
        "camshaft": lambda feed: context.run(feed),
        "provider": lambda feed: provider.run(None, feed),
        "onnxruntime": lambda feed: plain.run(None, feed),
    }


def measured(ways, feed, rounds, clock):
    """{name: seconds}, the least mean of a round."""
    least = dict.fromkeys(ways, math.inf)
    counts = {}
    for name, way in ways.items():
        way(feed)
        start = clock()
        way(feed)
        counts[name] = max(1, int(ROUND_SECONDS / max(clock() - start, 1e-6)))
    for _ in range(rounds):
        for name, way in ways.items():
            start = clock()
            for _ in range(counts[name]):
                way(feed)
            least[name] = min(least[name], (clock() - start) / counts[name])
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    clock = time.thread_time if arguments.cpu_time else time.perf_counter
    camshaft.ort.register()
    names = arguments.models or [name for name, model in MODELS.items() if model.quick]
    results = {}
    print(f"{'model':30} {'own API':>12} {'provider':>12} {'lost':>8} {'of it':>7} {'ORT CPU':>12} {'times':>6}")
    for name in ["one Relu", *names]:
        with tempfile.TemporaryDirectory() as folder:
            model, feed = tiny() if name == "one Relu" else (str(MODELS[name].path()), MODELS[name].feed())
            found = measured(ways_to_run(model, folder), feed, arguments.rounds, clock)
        own, provider, plain = (found[way] * 1e6 for way in ("camshaft", "provider", "onnxruntime"))
        results[name] = {"own_us": own, "provider_us": provider, "onnxruntime_us": plain}
        share = (provider - own) / own
        print(
            f"{name:30} {own:9.1f} us {provider:9.1f} us {provider - own:5.1f} us {share:6.1%} {plain:9.1f} us "
            f"{plain / provider:6.2f}",
            flush=True,
        )
    ratios = [r["onnxruntime_us"] / r["provider_us"] for name, r in results.items() if name != "one Relu"]
    if ratios:
        print(f"beside ONNX Runtime's CPU provider, geometric mean: {math.exp(np.mean(np.log(ratios))):.2f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
