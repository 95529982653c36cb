#!/usr/bin/env python3
"""One rival in a process of its own, so that its memory and its start are its own: loads a model, runs it once, then
measures a round for each line on stdin. Speaks as `camshaft bench --on-request` does: a line of JSON after each step. Outputs
are kept in the model's order, as arr_0, arr_1, …

usage: worker.py {onnxruntime,openvino,openvino_defaults} MODEL.onnx IN.npz THREADS SECONDS WARMUP [OUT.npz]
"""

import json
import os
import statistics
import sys
import time

import numpy as np
import openvino_c
import rivals


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def measure_round(run, duration, warmup):
    """Latencies in ms: runs for `warmup` seconds unmeasured, then for `duration` seconds, once at least each."""
    end = time.perf_counter() + warmup
    while warmup > 0:
        run()
        if time.perf_counter() >= end:
            break
    latencies, end = [], time.perf_counter() + duration
    while not latencies or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        latencies.append((time.perf_counter() - start) * 1e3)
    return latencies


def say(figures):
    print(json.dumps(figures), flush=True)


def main():
    name, model, inputs, threads, duration, warmup, *outputs = sys.argv[1:]
    with np.load(inputs) as arrays:
        feed = {key: arrays[key] for key in arrays.files}
    if name.startswith("openvino"):
        openvino_c.library()
    before = resident_bytes()
    start = time.perf_counter()
    rival = rivals.RIVALS[name](model, int(threads))
    loaded = time.perf_counter()
    rival.bind(feed)
    rival.run()
    done = time.perf_counter()
    if outputs:
        np.savez(outputs[0], *rival.results())
    say({"load_ms": (loaded - start) * 1e3, "first_run_ms": (done - loaded) * 1e3, "precision": rival.precision})
    for _ in sys.stdin:
        latencies = measure_round(rival.run, float(duration), float(warmup))
        say(
            {
                "latency_ms": {"min": min(latencies), "median": statistics.median(latencies)},
                "runs": len(latencies),
                "resident_bytes_before": before,
                "resident_bytes": resident_bytes(),
            }
        )


if __name__ == "__main__":
    main()
