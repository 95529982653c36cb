"""Measures Camshaft beside ONNX Runtime, in alternating rounds of the same length on the same inputs.

A shared machine drifts by tens of percent within a minute. Short rounds that alternate see the same drift, and the ratio
of the two minima is what two quiet machines would show; the spread of the per-round ratios says how far to trust it.
"""

import json
import random
import statistics
import subprocess
import sys
import time

import camshaft_cli
import numpy as np
import onnxruntime


def session(model, threads, optimised=True):
    """An ONNX Runtime session on the CPU for the model at that path, all at its defaults but the number of threads and,
    on request, the graph optimisations, which can be off."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def runtime_round(runner, feed, duration, warmup):
    """Latencies in ms of one round: runs for `warmup` seconds unmeasured, then for `duration` seconds (one run at least)."""
    end = time.perf_counter() + warmup
    while time.perf_counter() < end:
        runner.run(None, feed)
    latencies, end = [], time.perf_counter() + duration
    while not latencies or time.perf_counter() < end:
        start = time.perf_counter()
        runner.run(None, feed)
        latencies.append((time.perf_counter() - start) * 1e3)
    return latencies


def latency(engine, model, inputs, threads, rounds=12, duration=0.5, warmup=0.1, seed=0):
    """Both latencies (ms) over `rounds` rounds each, in an order shuffled per round.

    Returns {camshaft_ms, onnxruntime_ms: minimum; camshaft_median_ms, onnxruntime_median_ms; ratio: of the minima, below 1
    where Camshaft is faster; ratio_low, ratio_high: 10th and 90th percentile of the per-round ratios of minima; rounds}.
    """
    with np.load(inputs) as arrays:
        feed = {name: arrays[name] for name in arrays.files}
    runner = session(model, threads)
    order, minima, medians = (
        random.Random(seed),
        {"camshaft": [], "onnxruntime": []},
        {"camshaft": [], "onnxruntime": []},
    )
    for _ in range(rounds):
        for name in order.sample(sorted(minima), 2):
            # ONNX Runtime's workers spin for a while after a run; let them go to sleep before the other one starts.
            time.sleep(0.05)
            if name == "camshaft":
                figures = camshaft_cli.bench(engine, inputs, threads, duration, warmup)["latency_ms"]
                minima[name].append(figures["min"])
                medians[name].append(figures["median"])
            else:
                figures = runtime_round(runner, feed, duration, warmup)
                minima[name].append(min(figures))
                medians[name].append(statistics.median(figures))
    ratios = sorted(ours / theirs for ours, theirs in zip(minima["camshaft"], minima["onnxruntime"]))
    result = {"threads": threads, "rounds": rounds, "duration_s": duration}
    for name in minima:
        result[f"{name}_ms"] = min(minima[name])
        result[f"{name}_median_ms"] = statistics.median(medians[name])
    result["ratio"] = result["camshaft_ms"] / result["onnxruntime_ms"]
    result["ratio_low"] = float(np.percentile(ratios, 10))
    result["ratio_high"] = float(np.percentile(ratios, 90))
    return result


# Run as a program of its own, so that nothing is warm but the page cache; importing Python's modules is not counted.
COLD_START = """
import json, sys, time
import numpy, onnxruntime, interleave
model, inputs, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
with numpy.load(inputs) as arrays:
    feed = {name: arrays[name] for name in arrays.files}
start = time.perf_counter()
runner = interleave.session(model, threads)
loaded = time.perf_counter()
runner.run(None, feed)
done = time.perf_counter()
print(json.dumps({"load_ms": (loaded - start) * 1e3, "first_run_ms": (done - loaded) * 1e3}))
"""


def cold_start(engine, model, inputs, threads, rounds=5):
    """From a file to the first answer, each time in a fresh process, alternating: {camshaft_ms, onnxruntime_ms: minimum;
    camshaft_median_ms, onnxruntime_median_ms; ratio: of the minima}."""
    times = {"camshaft": [], "onnxruntime": []}
    for _ in range(rounds):
        ours = camshaft_cli.bench(engine, inputs, threads, duration=0, warmup=0)
        theirs = json.loads(
            subprocess.run(
                [sys.executable, "-c", COLD_START, str(model), str(inputs), str(threads)],
                check=True,
                capture_output=True,
                text=True,
                cwd=camshaft_cli.ROOT / "scripts",
            ).stdout
        )
        for name, figures in (("camshaft", ours), ("onnxruntime", theirs)):
            times[name].append(figures["load_ms"] + figures["first_run_ms"])
    result = {"threads": threads, "rounds": rounds}
    for name, values in times.items():
        result[f"{name}_ms"] = min(values)
        result[f"{name}_median_ms"] = statistics.median(values)
    result["ratio"] = result["camshaft_ms"] / result["onnxruntime_ms"]
    return result
