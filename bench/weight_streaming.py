#!/usr/bin/env python3
"""Runs of a model that is larger than the memory for its weights: time, memory and disk at several budgets.

Makes a model of products (64 MiB of weights each) in --folder, builds it, and measures it in a process of its own for
each budget, beside the bandwidth of the disk, which is read past the system's cache (O_DIRECT) before and after each
process. The engine's file is not in the cache when a run begins. What a run could take at best is the longer one of
reading what comes in at that bandwidth, and of computing, which the run with all weights in memory tells. The folder is
deleted afterwards, unless --keep is given; it takes twice the model's size.

With --device cuda the weights come from the host's memory to a GPU's: what is held against them is the bandwidth of
copies of 2 MiB from pinned memory, and the memory is the GPU's.
"""

import argparse
import ctypes
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


class Gpu:
    """NVIDIA's driver, as far as it is asked how much memory is free and how fast copies are."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise SystemExit(f"{name} failed with {result}")

    def used(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return total.value - free.value

    def bandwidth(self, each=2 << 20, count=256):
        """Bytes a second of copies like those of weights."""
        host, there, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
        self.call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(each * count))
        self.call("cuMemAlloc_v2", ctypes.byref(there), ctypes.c_size_t(each))
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        ctypes.memset(host, 1, each * count)
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for i in range(count):
                source = ctypes.c_void_p(host.value + i * each)
                self.call("cuMemcpyHtoDAsync_v2", there, source, ctypes.c_size_t(each), stream)
            self.call("cuStreamSynchronize", stream)
            best = min(best, time.perf_counter() - start)
        self.call("cuMemFree_v2", there)
        self.call("cuMemFreeHost", host)
        return each * count / best


def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))


def measure_on_gpu(path, budget, rows, runs):
    """In a process of its own."""
    import camshaft

    gpu = Gpu()
    bandwidth = gpu.bandwidth()
    before = gpu.used()
    start = time.perf_counter()
    engine = camshaft.Engine(path, weight_budget=budget)
    load_seconds = time.perf_counter() - start
    context = engine.create_context()
    x = np.random.default_rng(1).standard_normal((rows, 4096), np.float32)
    name = engine.inputs[0].name
    for _ in range(3):  # compiled, recorded, replayed
        context.run({name: x})
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        y = context.run({name: x})
        seconds.append(time.perf_counter() - start)
    y = np.from_dlpack(next(iter(y.values())))
    return {
        "seconds": seconds,
        "peak": gpu.used() - before,
        "load_seconds": load_seconds,
        "bandwidth": [bandwidth],
        "checksum": int(y.view(np.uint32).astype(np.uint64).sum()),
        "streaming": engine.weight_streaming(),
    }


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
    command = [sys.executable, __file__, "--measure", engine, str(budget), str(rows), str(arguments.runs)]
    if arguments.device == "cuda":
        done = subprocess.run([*command, "cuda"], stdout=subprocess.PIPE, check=True)
        return {"budget": budget, "rows": rows, **json.loads(done.stdout)}
    bandwidth = [disk_bandwidth(engine)]
    done = subprocess.run([*command, str(arguments.threads)], stdout=subprocess.PIPE, check=True)
    bandwidth.append(disk_bandwidth(engine))
    return {"budget": budget, "rows": rows, "bandwidth": bandwidth, **json.loads(done.stdout)}


def table(results):
    lines = ["| rows | budget | in memory (peak) | comes in | run | of it waiting | at best | ratio | bandwidth |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for rows in dict.fromkeys(r["rows"] for r in results):
        same = [r for r in results if r["rows"] == rows]
        computing = min(same[0]["seconds"])  # with all weights in memory
        for r in same:
            streaming, run = r["streaming"], statistics.median(r["seconds"])
            bandwidth = statistics.mean(r["bandwidth"])
            comes_in = streaming["loads_bytes"]
            best = max(computing, comes_in / bandwidth)
            waited = f"{r['waited']:.2f} s" if "waited" in r else "unknown"  # on a GPU
            lines.append(
                f"| {rows} | {r['budget']} | {r['peak'] / 1e9:.2f} GB | {comes_in / 1e9:.2f} GB | {run:.4f} s "
                f"| {waited} | {best:.4f} s | {run / best:.2f} | {bandwidth / 1e9:.2f} GB/s |"
            )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4, help="of weights")
    parser.add_argument("--budgets", default="100%,75%,50%,25%,1GB", help="the first is what the others are held to")
    parser.add_argument("--rows", default="1,256", help="of the input: few are bound by the disk, many by computing")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--fp16", action="store_true", help="products in fp16: half the weights")
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
            command = [
                ROOT / "build/release/tools/camshaft",
                "build",
                model,
                "-o",
                engine,
                "--device",
                arguments.device,
            ]
            command += ["--fp16"] if arguments.fp16 else []
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
        on_gpu = threads == "cuda"
        numbers = int(rows), int(runs)
        measured = (
            measure_on_gpu(path, budget, *numbers) if on_gpu else measure_here(path, budget, *numbers, int(threads))
        )
        print(json.dumps(measured))
    else:
        main()
