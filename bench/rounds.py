"""Interleaved rounds of several engines, and what they say.

A shared machine drifts by tens of percent within a minute. Short rounds that alternate see the same drift, and the ratio
of the minima is what quiet machines would show; the spread of the per-round ratios says how far to trust it.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import camshaft_cli
import numpy as np

LABELS = {"camshaft": "Camshaft", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
# What is measured beside them where the processor computes in bf16, which OpenVINO then does by itself.
OTHER_PRECISIONS = {"camshaft_bf16": "Camshaft --bf16", "openvino_defaults": "OpenVINO at its defaults"}

# ONNX Runtime's threads spin for a while after a run; they go to sleep before the next one starts.
PAUSE = 0.05


class Refused(Exception):
    """An engine that cannot run a model; the text says why."""


class Worker:
    """A process that has loaded a model and run it once; then each call of measure() is a round."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            self.start = self.read()  # {load_ms, first_run_ms}
        except BaseException:
            self.close()
            raise

    def read(self):
        """The next line of JSON; lines that are none (a library's remarks) are passed over."""
        for line in self.process.stdout:
            try:
                return json.loads(line)
            except ValueError:
                continue
        code = self.process.wait()
        words = self.process.stderr.read().strip().splitlines() or [f"ended with exit code {code}"]
        raise Refused(words[-1][:300])

    def measure(self):
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says why
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()


def package(rival):
    """The Python package of a rival, with which its name begins."""
    return rival.split("_")[0]


def start(name, file, inputs, threads, duration=0, warmup=0, outputs=None):
    """A Worker for the engine of that name (of LABELS or OTHER_PRECISIONS) on `file`, an engine for Camshaft and a model for the others,
    with the arrays of the .npz `inputs`. The times are seconds a round; a rival writes its answer to the .npz `outputs`.
    Throws Refused where it is not installed or cannot run the model."""
    if package(name) == "camshaft":
        words = [camshaft_cli.BINARY, "bench", file, "--inputs", inputs, "--threads", threads]
        return Worker([*words, "--duration", duration, "--warmup", warmup, "--on-request"])
    if find_spec(package(name)) is None:
        raise Refused("not installed")
    words = [sys.executable, Path(__file__).parent / "worker.py", name, file, inputs, threads, duration, warmup]
    return Worker([*words, outputs] if outputs else words)


def interleave(workers, rounds, seed=0):
    """{name: [figures of each round]} of {name: Worker}, in an order shuffled per round."""
    order, results = random.Random(seed), {name: [] for name in workers}
    for _ in range(rounds):
        for name in order.sample(sorted(workers), len(workers)):
            time.sleep(PAUSE)
            results[name].append(workers[name].measure())
    return results


def summarize(results):
    """{name: {ms: fastest, median_ms, memory_bytes: grown since before loading}} of interleave()'s results."""
    return {
        name: {
            "ms": min(figures["latency_ms"]["min"] for figures in rounds),
            "median_ms": statistics.median(figures["latency_ms"]["median"] for figures in rounds),
            "memory_bytes": rounds[-1]["resident_bytes"] - rounds[-1]["resident_bytes_before"],
        }
        for name, rounds in results.items()
    }


def speedup(ours, theirs):
    """How many times faster the rounds `ours` are than `theirs`: {ratio: of the minima; low, high: 10th and 90th
    percentile of the rounds' own ratios}."""
    fastest = [[figures["latency_ms"]["min"] for figures in rounds] for rounds in (ours, theirs)]
    ratios = [b / a for a, b in zip(*fastest)]
    return {
        "ratio": min(fastest[1]) / min(fastest[0]),
        "low": float(np.percentile(ratios, 10)),
        "high": float(np.percentile(ratios, 90)),
    }
