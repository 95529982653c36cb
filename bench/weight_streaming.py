#!/usr/bin/env python3
"""Runs of a model that is larger than the memory for its weights: time, memory and disk at several budgets.

Makes a model of products (64 MiB of weights each) in --folder, builds it, and measures it in a process of its own for
each budget, beside the bandwidth of the disk, which is read past the system's cache (O_DIRECT) before and after each
process. The engine's file is not in the cache when a run begins. What a run could take at best is the longer one of
reading what comes in at that bandwidth, and of computing, which the run with all weights in memory tells. The folder is
deleted afterwards, unless --keep is given; it takes twice the model's size.
"""

import argparse
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python"))]
LAYER = 64 << 20
AT_ONCE = 16 << 20


def make_model(path, gigabytes, width=4096):
    """y = tanh(… tanh(x @ w0) @ w1 …), its weights in a file beside it."""
    import onnx
    from onnx import TensorProto, helper

    layers = round(gigabytes * 1e9 / LAYER)
    numbers = np.random.default_rng(0).standard_normal(width * width, np.float32) / np.float32(np.sqrt(width) / 2)
    nodes, weights, value = [], [], "x"
    with open(path.with_suffix(".weights"), "wb") as file:
        for i in range(layers):
            weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[width, width])
            weight.data_location = TensorProto.EXTERNAL
            for key, text in ("location", path.stem + ".weights"), ("offset", i * LAYER), ("length", LAYER):
                weight.external_data.add(key=key, value=str(text))
            weights.append(weight)
            np.roll(numbers, i * 7919).tofile(file)
            nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
            nodes.append(helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]))
            value = f"t{i}"
    shape = ["rows", width]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def forget(path):
    """Takes a file out of the system's cache, as far as nobody has mapped it."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_bandwidth(path, most=1 << 30):
    """Bytes a second."""
    buffer = mmap.mmap(-1, AT_ONCE)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        size = min(os.fstat(descriptor).st_size // AT_ONCE * AT_ONCE, most)
        start = time.perf_counter()
        for offset in range(0, size, AT_ONCE):
            os.preadv(descriptor, [buffer], offset)
        return size / (time.perf_counter() - start)
    finally:
        os.close(descriptor)


def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


def measure_here(path, budget, rows, runs, threads):
    """In a process of its own."""
    import camshaft

    before = status("VmRSS")
    start = time.perf_counter()
    engine = camshaft.Engine(path, weight_budget=budget)
    load_seconds = time.perf_counter() - start
    load_peak = status("VmHWM")
    context = engine.create_context(threads)
    x = np.random.default_rng(1).standard_normal((rows, 4096), np.float32)
    name = engine.inputs[0].name
    context.run({name: x})
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is that of what follows
    seconds = []
    waited = engine.weight_streaming()["waited_seconds"]
    for _ in range(runs):
        forget(path)
        start = time.perf_counter()
        y = context.run({name: x})
        seconds.append(time.perf_counter() - start)
    streaming = engine.weight_streaming()
    y = np.from_dlpack(next(iter(y.values())))
    return {
        "seconds": seconds,
        "waited": (streaming["waited_seconds"] - waited) / runs,
        "peak": status("VmHWM") - before,
        "load_seconds": load_seconds,
        "load_peak": load_peak - before,
        "checksum": int(y.view(np.uint32).astype(np.uint64).sum()),
        "streaming": streaming,
    }


def measure(arguments, engine, budget, rows):
    bandwidth = [disk_bandwidth(engine)]
    command = [sys.executable, __file__, "--measure", engine, str(budget), str(rows), str(arguments.runs)]
    done = subprocess.run([*command, str(arguments.threads)], stdout=subprocess.PIPE, check=True)
    bandwidth.append(disk_bandwidth(engine))
    return {"budget": budget, "rows": rows, "bandwidth": bandwidth, **json.loads(done.stdout)}


def table(results):
    lines = ["| rows | budget | in memory (peak) | comes in | run | of it waiting | at best | ratio | disk |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for rows in dict.fromkeys(r["rows"] for r in results):
        same = [r for r in results if r["rows"] == rows]
        computing = min(same[0]["seconds"])  # with all weights in memory
        for r in same:
            streaming, run = r["streaming"], statistics.median(r["seconds"])
            bandwidth = statistics.mean(r["bandwidth"])
            comes_in = streaming["loads_bytes"]
            best = max(computing, comes_in / bandwidth)
            lines.append(
                f"| {rows} | {r['budget']} | {r['peak'] / 1e9:.2f} GB | {comes_in / 1e9:.2f} GB | {run:.2f} s "
                f"| {r['waited']:.2f} s | {best:.2f} s | {run / best:.2f} | {bandwidth / 1e9:.2f} GB/s |"
            )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4, help="of weights")
    parser.add_argument("--budgets", default="100%,75%,50%,25%,1GB", help="the first is what the others are held to")
    parser.add_argument("--rows", default="1,256", help="of the input: few are bound by the disk, many by computing")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache/weight_streaming")
    parser.add_argument("--keep", action="store_true", help="leave the folder, and use a model that is there")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    model = arguments.folder / "products.onnx"
    engine = model.with_suffix(".engine")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    try:
        if not engine.exists():
            make_model(model, arguments.gigabytes)
            command = [ROOT / "build/release/tools/camshaft", "build", model, "-o", engine]
            subprocess.run([*command, "--tuning", "heuristic", "--no-verify"], check=True)
            model.with_suffix(".weights").unlink()
        results = []
        for rows in map(int, arguments.rows.split(",")):
            for budget in arguments.budgets.split(","):
                forget(engine)
                results.append(measure(arguments, engine, budget, rows))
                print(table(results).splitlines()[-1], flush=True)
            sums = {r["checksum"] for r in results if r["rows"] == rows}
            if len(sums) > 1:
                raise SystemExit(f"results differ between the budgets: {sums}")
        print("\n" + table(results))
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=2))
    finally:
        if not arguments.keep:
            shutil.rmtree(arguments.folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        path, budget, rows, runs, threads = sys.argv[2:]
        print(json.dumps(measure_here(path, budget, int(rows), int(runs), int(threads))))
    else:
        main()
