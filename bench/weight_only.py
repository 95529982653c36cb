#!/usr/bin/env python3
"""How near the products of one token come to what memory gives: a decoder with weights of few bits (decoder.py) beside ONNX
Runtime, and beside a measured read of the machine's memory, in rounds that alternate.

usage: weight_only.py [--threads 1,2] [--rounds 5] [--seconds 2] [the sizes of decoder.py]
"""

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("bench", "scripts")]

import camshaft_cli
import decoder
import numpy as np
import rounds
from options import numbers

import onnx


def weight_bytes(options):
    """What one token reads of the products' weights: codes, scales of f32, and zero points of a byte as they are packed."""
    size = options.hidden // options.heads
    layer = [((options.heads + 2 * options.groups) * size, options.hidden), (options.hidden, options.hidden)]
    layer += [(options.inner, options.hidden)] * 2 + [(options.hidden, options.inner)]
    total = 0
    for columns, depth in layer * options.layers + [(options.vocabulary, options.hidden)]:
        blocks = -(-depth // options.block)
        total += columns * (depth * options.bits // 8 + blocks * (5 if options.zero_points else 4))
    return total


def read_bandwidth(threads):
    limits = camshaft_cli.camshaft("devices", "--measure", "--threads", threads, "--json").stdout
    return next(device["limits"]["dram_gbs"] for device in json.loads(limits) if "limits" in device)


def feed_of(model):
    random = np.random.default_rng(3)
    feed = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        is_token = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feed[value.name] = random.integers(0, 500, shape) if is_token else random.normal(size=shape).astype(np.float32)
    return feed


def main():
    made = decoder.parser()
    made.add_argument("--threads", type=numbers, default=[1, 2])
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--seconds", type=float, default=2)
    options = made.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, engine, inputs = (Path(folder) / name for name in ("decoder.onnx", "decoder.engine", "in.npz"))
        model = decoder.Decoder(options).model()
        onnx.save(model, path)
        np.savez(inputs, **feed_of(model))
        camshaft_cli.camshaft("build", path, "-o", engine, "--no-verify")
        gigabytes = weight_bytes(options) / 1e9
        print(
            f"weights {gigabytes * 1e3:.0f} MB, model {path.stat().st_size / 1e6:.0f} MB, engine {engine.stat().st_size / 1e6:.0f} MB"
        )
        for threads in options.threads:
            files = {"camshaft": engine, "onnxruntime": path}
            workers = {name: rounds.start(name, file, inputs, threads, options.seconds) for name, file in files.items()}
            least, bandwidth = {name: float("inf") for name in workers}, 0.0
            for _ in range(options.rounds):
                bandwidth = max(bandwidth, read_bandwidth(threads))
                for name, results in rounds.interleave(workers, 1).items():
                    least[name] = min(least[name], results[0]["latency_ms"]["min"])
            for worker in workers.values():
                worker.close()
            rates = {name: gigabytes / ms * 1e3 for name, ms in least.items()}
            told = ", ".join(f"{name} {least[name]:.2f} ms = {rates[name]:.1f} GB/s" for name in least)
            print(
                f"{threads} threads: {told}; memory {bandwidth:.1f} GB/s, of which {rates['camshaft'] / bandwidth:.0%}"
            )


if __name__ == "__main__":
    main()
