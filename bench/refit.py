#!/usr/bin/env python3
"""What a refit takes, from the start of the command to its end, and in which part.

Builds engines of ResNet-50 and BERT with --refit, writes other weights as a model, as .safetensors and as .npz, and
refits each engine from each, in turn, on the cores that the process may run on. The least of all rounds is printed: the
time until the command has ended, the processor time of that (in it and in the system's kernel), and what the command
says of its parts. With --memory the new engine goes to a file in memory, and no disk is waited for.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/models")]

import numpy as np
import safetensors.numpy
from camshaft_cli import BINARY, camshaft
from catalog import EVERY

import onnx

PARTS = ("read", "refit", "write")


def write_weights(path, folder):
    """The model's weights, each number 1.01 times as large, in every form that a refit reads."""
    model, weights = onnx.load(path), {}
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            array = np.asarray(array * np.float32(1.01))
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        weights[tensor.name] = np.ascontiguousarray(array)
    onnx.save(model, folder / "new.onnx")
    safetensors.numpy.save_file(weights, folder / "new.safetensors")
    np.savez(folder / "new.npz", **weights)
    return [folder / f"new.{form}" for form in ("onnx", "safetensors", "npz")]


def refit(engine, weights, output):
    """Seconds: until it has ended, of the processor in user and in kernel mode, and of each part."""
    output.unlink(missing_ok=True)  # giving up an old file's memory is not the refit's
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [BINARY, "refit", engine, "--weights", weights, "-o", output, "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    parts = json.loads(said)["seconds"]
    return [wall, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, *(parts[p] for p in PARTS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["tv_resnet50", "hf_bert"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--memory", action="store_true", help="write to /dev/shm")
    arguments = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores")
    print("| model | from | all | user | kernel | read | refit | write |")
    print("|---|---|---|---|---|---|---|---|")
    for name in arguments.models:
        with (
            tempfile.TemporaryDirectory(dir=ROOT / "build") as text,
            tempfile.TemporaryDirectory(dir="/dev/shm" if arguments.memory else text) as out,
        ):
            folder = Path(text)
            path = EVERY[name].path()
            camshaft("build", path, "-o", folder / "e.engine", "--refit", "--no-verify", "--tuning", "heuristic")
            files = write_weights(path, folder)
            least = {file: [float("inf")] * 6 for file in files}
            for _ in range(arguments.rounds):
                for file in files:
                    took = refit(folder / "e.engine", file, Path(out) / "new.engine")
                    least[file] = [min(pair) for pair in zip(least[file], took, strict=True)]
            for file, seconds in least.items():
                print(
                    f"| {name} | {file.suffix} | " + " | ".join(f"{1e3 * s:.0f} ms" for s in seconds) + " |", flush=True
                )


if __name__ == "__main__":
    main()
