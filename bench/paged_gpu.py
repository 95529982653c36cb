#!/usr/bin/env python3
"""Attention over caches in blocks on a GPU, as decoders have it: microseconds of the kernel of every variant, as the tuner
measures it, and of a layer (the update of the caches and the attention behind it) within a chain of layers that is
launched as one recording, for the variants that were fastest and for the one that merges in memory.

usage: paged_gpu.py [--batches 1,32] [--tokens 512,4096] [--heads 32] [--key-heads 8] [--head-size 64] [--variants 2]
                    [--layers 8,40] [--tuning-seconds 10] [--json FILE]
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

import numpy as np
from camshaft_cli import camshaft
from options import numbers

import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 16  # positions
F16, I32 = TensorProto.FLOAT16, TensorProto.INT32


class Chain:
    """Layers of one decoding step, each of which reads the result of the one before as its queries. They have one cache, and
    tables of their own in it, as far as `most_bytes` allow."""

    most_bytes = 1 << 28

    def __init__(self, batch, tokens, options):
        self.batch, self.tokens, self.options = batch, tokens, options
        self.width = -(-(tokens + 1) // BLOCK)
        bytes_of_layer = 2 * 2 * batch * self.width * BLOCK * options.key_heads * options.head_size
        self.parts = max(1, min(max(options.layers), self.most_bytes // bytes_of_layer))
        self.blocks = self.parts * batch * self.width

    def model(self, layers):
        o, random = self.options, np.random.default_rng(layers)
        own, shared = o.heads * o.head_size, o.key_heads * o.head_size
        cache = [self.blocks, BLOCK, o.key_heads, o.head_size]
        angles = np.outer(np.arange(self.width * BLOCK), 1e4 ** -np.linspace(0, 1, o.head_size // 2, endpoint=False))
        initializers = [
            numpy_helper.from_array(f(angles).astype(np.float16), name)
            for name, f in (("cosines", np.cos), ("sines", np.sin))
        ]
        inputs = [
            helper.make_tensor_value_info(name, dtype, shape)
            for name, dtype, shape in (
                ("x0", F16, [self.batch, own]),
                ("key", F16, [self.batch, shared]),
                ("value", F16, [self.batch, shared]),
                ("keys0", F16, cache),
                ("values0", F16, cache),
                ("starts", I32, [self.batch + 1]),
                ("past", I32, [self.batch]),
                *((f"table{p}", I32, [self.batch, self.width]) for p in range(self.parts)),
                *((f"slots{p}", I32, [self.batch]) for p in range(self.parts)),
            )
        ]
        nodes = []
        for i in range(layers):
            p = i % self.parts
            read = [f"x{i}", "key", "value", f"keys{i}", f"values{i}", "starts", "past", f"table{p}"]
            made = [f"{name}{i + 1}" for name in ("x", "keys", "values")]
            sizes = {"num_heads": o.heads, "kv_num_heads": o.key_heads, "do_rotary": 1}
            nodes.append(
                helper.make_node(
                    "PagedAttention",
                    [*read, "cosines", "sines", f"slots{p}"],
                    made,
                    domain="com.microsoft",
                    **sizes,
                )
            )
        y = helper.make_tensor_value_info(f"x{layers}", F16, [self.batch, own])
        graph = helper.make_graph(nodes, "chain", inputs, [y], initializers)
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        feed = {"starts": np.arange(self.batch + 1), "past": np.full(self.batch, self.tokens)}
        order = random.permutation(self.blocks).reshape(self.parts, self.batch, self.width)
        for p, table in enumerate(order):
            feed[f"table{p}"] = table
            feed[f"slots{p}"] = table[:, self.tokens // BLOCK] * BLOCK + self.tokens % BLOCK
        feed = {name: array.astype(np.int32) for name, array in feed.items()}
        return helper.make_model(graph, opset_imports=domains, ir_version=10), feed


class Engines:
    """Of chains of two lengths, whose difference is that of the layers alone."""

    def __init__(self, chain, folder):
        self.folder, self.counts = folder, chain.options.layers
        self.seconds = chain.options.tuning_seconds
        for layers in self.counts:
            model, feed = chain.model(layers)
            onnx.save(model, folder / f"{layers}.onnx")
            np.savez(folder / f"{layers}.npz", **feed)

    def build(self, layers, *words):
        engine = self.folder / f"{layers}.engine"
        lock = self.folder / f"{layers}.lock"
        camshaft(
            *("build", self.folder / f"{layers}.onnx", "-o", engine, "--device", "cuda", "--no-verify"),
            *(words or ("--write-lock", lock, "--tuning-seconds", self.seconds)),
        )
        return engine, lock

    def tried(self):
        """{variant of the attention: microseconds}, the one that was chosen, and the lock file of each chain."""
        locks = {}
        for layers in self.counts:
            engine, lock = self.build(layers)
            locks[layers] = json.loads(lock.read_text())
        found = json.loads(camshaft("inspect", engine, "--json").stdout)["layers"]
        layer = next(layer for layer in found if layer["tactic"].startswith("cuda_paged_attention"))
        times = {trial["tactic"]: trial.get("measured_ns") for trial in layer["tried"]}
        return {tactic: ns / 1e3 for tactic, ns in times.items() if ns and ns > 0}, layer["tactic"], locks

    def microseconds(self, locks, tactic):
        """Of a layer whose attention has this tactic."""
        times = {}
        for layers, lock in locks.items():
            for layer in lock["layers"]:
                if layer["tactic"].startswith("cuda_paged_attention"):
                    layer["tactic"] = tactic
            path = self.folder / "chosen.lock"
            path.write_text(json.dumps(lock))
            engine, _ = self.build(layers, "--lock", path)
            words = ("--inputs", self.folder / f"{layers}.npz", "--no-data-transfers", "--json")
            done = camshaft("bench", engine, *words, "--duration", "0.2", "--warmup", "0.1")
            times[layers] = json.loads(done.stdout)["latency_ms"]["min"] * 1e3
        (few, least), (many, most) = sorted(times.items())
        return (most - least) / (many - few)


def main():
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--batches", type=numbers, default="1,32")
    made.add_argument("--tokens", type=numbers, default="512,4096", help="of the past of each sequence")
    made.add_argument("--heads", type=int, default=32)
    made.add_argument("--key-heads", type=int, default=8)
    made.add_argument("--head-size", type=int, default=64)
    made.add_argument("--variants", type=int, default=2, help="that are timed in chains, beside the one of today")
    made.add_argument("--layers", type=numbers, default="8,40", help="of a short chain and of a long one")
    made.add_argument("--tuning-seconds", type=float, default=10)
    made.add_argument("--json", type=Path, help="where to write all figures")
    options = made.parse_args()
    results = []
    for batch in options.batches:
        for tokens in options.tokens:
            chain = Chain(batch, tokens, options)
            with tempfile.TemporaryDirectory() as folder:
                engines = Engines(chain, Path(folder))
                tried, chosen, locks = engines.tried()
                print(f"batch {batch}, {tokens} tokens:", flush=True)
                for tactic, time in sorted(tried.items(), key=lambda item: item[1]):
                    print(f"  {time:7.2f} us  {tactic}", flush=True)
                fastest = sorted(tried, key=tried.__getitem__) or [chosen]
                in_memory = [tactic for tactic in fastest if "cluster=0" in tactic]
                layers = {}
                for tactic in dict.fromkeys(fastest[: options.variants] + in_memory[:1]):
                    layers[tactic] = engines.microseconds(locks, tactic)
                    print(f"  {layers[tactic]:7.2f} us  a layer, with its update: {tactic}", flush=True)
                results.append({"batch": batch, "tokens": tokens, "kernel_us": tried, "layer_us": layers})
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
