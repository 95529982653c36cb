"""The time that a model takes in ONNX Runtime's execution provider, beside Camshaft's own interface, ONNX Runtime's CPU
provider and, where it is installed, OpenVINO's runtime.

usage: ort_provider.py [MODEL...] [--all] [--seconds N] [--cpu-time] [--json FILE] [--engines FOLDER]

Models are the catalog's, by their names; without any, those that bench/compare measures, and with --all every one. All get
the same file, with the sizes of the inputs fixed, one thread and f32. Outputs are of fresh memory where the interface gives
them so, which OpenVINO's does not. They take turns in one process; a time is the least of all turns. The engine of the
provider and that of Camshaft's interface are the same file: what differs is the way to it. --cpu-time takes the calling
thread's time instead of the clock's, for a machine that others use, too. What --json names is gone on with: models that it
has are left out.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")),
    str(ROOT / "tests/models"),
    str(ROOT / "tests/zoo"),
    str(ROOT / "scripts"),
    str(ROOT / "examples/ocr"),
    str(ROOT / "bench"),
]

import camshaft
import camshaft.ort
import fixed_model
import numpy as np
import onnxruntime
import rivals
from catalog import BENCH, EVERY

# Of the calls that one way makes before it is the next one's turn: a call of most models, some hundreds of a tiny one. What
# other programs do to the machine for longer leaves some turns of each way alone.
TURN_SECONDS = 1e-3
LEAST_TURNS = 9


WAYS = {"camshaft": "own API", "provider": "provider", "onnxruntime": "ORT CPU", "openvino": "OpenVINO"}
# What is asked of the provider: 3 % and 10 us.
MOST_SHARE, MOST_MICROSECONDS = 0.03, 10.0


def tiny(path):
    """One Relu of 2x4: what a call costs beside the computing."""
    import onnx
    from onnx import TensorProto, helper

    sizes = [2, 4]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return {"x": np.ones((2, 4), np.float32)}


def written(name, path):
    """The model of that name, at batch 1, in the file; its inputs."""
    if name == "one Relu":
        return tiny(path)
    model = BENCH.get(name) or EVERY[name]
    feed = model.feed(1) if name in BENCH else model.feed()
    if getattr(model, "as_is", False):
        path.write_bytes(model.path().read_bytes())
    else:
        fixed_model.write_fixed(model.path(), feed, path)
    return feed


def ways_to_run(model, feed, folder):
    """{way: function without arguments}"""
    so = onnxruntime.SessionOptions()
    so.intra_op_num_threads = 1
    so.log_severity_level = 3
    options = {"engine-cache": True, "engine-cache-path": folder}
    provider = onnxruntime.InferenceSession(
        model, so, providers=[(camshaft.ort.PROVIDER, options), "CPUExecutionProvider"]
    )
    engines = [camshaft.Engine(path) for path in Path(folder).glob("*.engine")]
    names = [[tensor.name for tensor in engine.inputs] for engine in engines]
    if [sorted(found) for found in names] != [sorted(feed)]:
        raise ValueError(f"ONNX Runtime leaves a part to others: engines of {names}")
    context = engines[0].create_context(threads=1)
    plain = rivals.onnxruntime_session(model, 1)
    ways = {
        "camshaft": lambda: context.run(feed),
        "provider": lambda: provider.run(None, feed),
        "onnxruntime": lambda: plain.run(None, feed),
    }
    if find_spec("openvino"):
        try:
            openvino = rivals.OpenVino(model, 1)
            openvino.bind(feed)
            openvino.run()
            ways["openvino"] = openvino.run
        except RuntimeError as error:
            print(f"  OpenVINO: {str(error).splitlines()[0][:100]}")
    return ways


def measured(ways, seconds, clock):
    """{way: seconds}, the least mean of a turn."""
    least = dict.fromkeys(ways, math.inf)
    counts = {}
    for name, way in ways.items():
        for _ in range(3):
            start = clock()
            way()
            counts[name] = max(1, int(TURN_SECONDS / max(clock() - start, 1e-6)))
    end, turns = time.perf_counter() + seconds, 0
    while turns < LEAST_TURNS or time.perf_counter() < end:
        turns += 1
        for name, way in ways.items():
            start = clock()
            for _ in range(counts[name]):
                way()
            least[name] = min(least[name], (clock() - start) / counts[name])
    return least


def show(name, found):
    """A line of the table."""
    own, provider = found["camshaft"], found["provider"]
    lost = provider - own
    is_more = lost > MOST_SHARE * own + MOST_MICROSECONDS
    rivals_of = "".join(
        f" {found[way]:9.1f} us {found[way] / provider:6.2f}" if way in found else f"{'-':>20}"
        for way in ("onnxruntime", "openvino")
    )
    more = "  MORE" if is_more else ""
    print(f"{name:30} {own:9.1f} us {provider:9.1f} us {lost:7.1f} us {lost / own:6.1%}{rivals_of}{more}", flush=True)
    return is_more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=float, default=6, help="of the turns of each model")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--engines", type=Path, help="where engines are kept for the next time")
    arguments = parser.parse_args()
    clock = time.thread_time if arguments.cpu_time else time.perf_counter
    camshaft.ort.register()
    names = arguments.models or ["one Relu", *BENCH, *(name for name in EVERY if arguments.all and name not in BENCH)]
    results = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    head = "".join(f"{text:>13}{'times':>7}" for text in ("ORT CPU", "OpenVINO"))
    print(f"{'model':30} {'own API':>12} {'provider':>12} {'lost':>10} {'of it':>6} {head}")
    failed = []
    for name in names:
        if name not in results:
            with tempfile.TemporaryDirectory() as temporary:
                folder = arguments.engines / name if arguments.engines else Path(temporary)
                folder.mkdir(parents=True, exist_ok=True)
                model = Path(temporary) / "model.onnx"
                try:
                    ways = ways_to_run(str(model), written(name, model), str(folder))
                except Exception as error:
                    failed.append(name)
                    print(f"{name:30} {type(error).__name__}: {str(error).splitlines()[0][:120]}", flush=True)
                    continue
                found = measured(ways, arguments.seconds, clock)
            results[name] = {way: seconds * 1e6 for way, seconds in found.items()}
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    more = [name for name, found in results.items() if show(name, found)]
    for way in ("onnxruntime", "openvino"):
        ratios = [
            found[way] / found["provider"] for name, found in results.items() if name != "one Relu" and way in found
        ]
        if ratios:
            mean = math.exp(np.mean(np.log(ratios)))
            print(f"beside {WAYS[way]}: geometric mean {mean:.2f} of {len(ratios)}, slowest {min(ratios):.2f}")
    shares = [found["provider"] / found["camshaft"] for name, found in results.items() if name != "one Relu"]
    if shares:
        print(f"time lost beside our own API: geometric mean {math.exp(np.mean(np.log(shares))) - 1:.1%}")
    print(f"lost more than {MOST_SHARE:.0%} and {MOST_MICROSECONDS:.0f} us: {', '.join(more) or 'none'}")
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
