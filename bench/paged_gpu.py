#!/usr/bin/env python3
"""Attention over caches in blocks on a GPU, as decoders have it: microseconds of the kernel of every variant, as the tuner
measures it, and of a layer (the update of its caches, which lie in the device's memory and are updated in place, and the
attention behind it) within a chain of layers that is launched as one recording. Timed so are the variants that were
fastest, and the fastest that merges in memory. "steps" is the update and the attention as two kernels. Needs PyTorch, which
has the device's memory; without it the chains are timed with caches on the host, which says nothing but that they run.

usage: paged_gpu.py [--batches 1,32] [--tokens 512,4096] [--heads 32] [--key-heads 8] [--head-size 64] [--variants 1]
                    [--layers 4,36] [--tuning-seconds 10] [--device cuda] [--json FILE]
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), *map(str, ROOT.glob("build/*/python"))]

import camshaft
import numpy as np
from camshaft_cli import camshaft as command
from options import numbers

import onnx
from onnx import TensorProto, helper, numpy_helper

try:
    import torch
except ImportError:
    torch = None

BLOCK = 16  # positions
F16, I32 = TensorProto.FLOAT16, TensorProto.INT32
ATTENTION = "cuda_paged_attention"


class Chain:
    """Layers of one decoding step, each of which reads the result of the one before as its queries. The first one's are
    computed, as a decoder's are: tables are there before them."""

    most_bytes = 1e9  # of all caches

    def __init__(self, batch, tokens, options):
        self.batch, self.tokens, self.options = batch, tokens, options
        self.width = -(-(tokens + 1) // BLOCK)
        self.cache = [batch * self.width, BLOCK, options.key_heads, options.head_size]
        most = int(self.most_bytes / (4 * np.prod(self.cache)))
        few, many = options.layers
        many = max(2, min(many, most))
        self.counts = (min(few, many // 2), many)

    def save(self, layers, path):
        o = self.options
        own, shared = o.heads * o.head_size, o.key_heads * o.head_size
        angles = np.outer(np.arange(self.width * BLOCK), 1e4 ** -np.linspace(0, 1, o.head_size // 2, endpoint=False))
        initializers = [
            numpy_helper.from_array(f(angles).astype(np.float16), name)
            for name, f in (("cosines", np.cos), ("sines", np.sin))
        ]
        inputs = [
            ("x", F16, [self.batch, own]),
            ("starts", I32, [self.batch + 1]),
            ("past", I32, [self.batch]),
            ("table", I32, [self.batch, self.width]),
        ]
        outputs, nodes = [], [helper.make_node("Neg", ["x"], ["x0"])]
        for i in range(layers):
            own_inputs = [f"{name}{i}" for name in ("key", "value", "keys", "values")]
            read = [f"x{i}", *own_inputs, "starts", "past", "table", "cosines", "sines"]
            made = [f"x{i + 1}", f"new_keys{i}", f"new_values{i}"]
            sizes = {"num_heads": o.heads, "kv_num_heads": o.key_heads, "do_rotary": 1}
            nodes.append(helper.make_node("PagedAttention", read, made, domain="com.microsoft", **sizes))
            inputs += zip(own_inputs, [F16] * 4, [[self.batch, shared]] * 2 + [self.cache] * 2)
            outputs += [(f"new_{name}{i}", F16, self.cache) for name in ("keys", "values")]
        outputs.append((f"x{layers}", F16, [self.batch, own]))
        infos = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
        graph = helper.make_graph(nodes, "chain", *infos, initializers)
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), path)

    def feed(self, layers):
        random = np.random.default_rng(layers)
        o = self.options
        feed = {
            "starts": np.arange(self.batch + 1, dtype=np.int32),
            "past": np.full(self.batch, self.tokens, np.int32),
            "table": random.permutation(self.cache[0]).reshape(self.batch, self.width).astype(np.int32),
        }
        rows = {f"{name}{i}": o.key_heads for i in range(layers) for name in ("key", "value")}
        for name, heads in {"x": o.heads, **rows}.items():
            feed[name] = random.standard_normal((self.batch, heads * o.head_size)).astype(np.float16)
        return feed


class Engines:
    """Of chains of two lengths, whose difference is that of the layers alone."""

    def __init__(self, chain, folder):
        self.chain, self.folder, self.options = chain, folder, chain.options
        self.contexts = {}
        for layers in chain.counts:
            chain.save(layers, folder / f"{layers}.onnx")

    def build(self, layers, *words):
        engine = self.folder / f"{layers}.engine"
        path = self.folder / f"{layers}.onnx"
        command("build", path, "-o", engine, "--device", self.options.device, "--no-verify", *words)
        return engine

    def tried(self):
        """{variant of the attention: microseconds}, the one that was chosen, and the lock of each chain."""
        locks = {}
        for layers in self.chain.counts:
            lock = self.folder / f"{layers}.lock"
            cache = ("--timing-cache", self.folder / "timing.cache")
            engine = self.build(layers, "--write-lock", lock, "--tuning-seconds", self.options.tuning_seconds, *cache)
            locks[layers] = json.loads(lock.read_text())
        found = json.loads(command("inspect", engine, "--json").stdout)["layers"]
        layer = next(layer for layer in found if layer["tactic"].startswith(ATTENTION))
        times = {trial["tactic"]: trial["measured_ns"] for trial in layer["tried"]}
        return {name: ns / 1e3 for name, ns in times.items() if ns}, layer["tactic"], locks

    def microseconds(self, locks, tactic):
        """Of a layer whose attention has this tactic; None where the lock has no such layer."""
        times = {}
        for layers, lock in locks.items():
            changed = json.loads(json.dumps(lock))
            for layer in changed["layers"]:
                if layer["tactic"].startswith(ATTENTION):
                    layer["tactic"] = tactic
            path = self.folder / "chosen.lock"
            path.write_text(json.dumps(changed))
            times[layers] = self.time(self.build(layers, "--lock", path), layers)
        (few, least), (many, most) = sorted(times.items())
        return (most - least) / (many - few)

    def time(self, engine, layers):
        """Microseconds of a run: the least of some groups."""
        on_gpu = torch is not None and torch.cuda.is_available()
        context = camshaft.Engine(engine, self.options.device).create_context()
        feed = self.chain.feed(layers)
        for name, array in feed.items():
            context.set_input(name, torch.from_numpy(array).cuda() if on_gpu else array)
        for i in range(layers):
            for name in ("keys", "values"):
                if on_gpu:
                    cache = torch.randn(self.chain.cache, device="cuda", dtype=torch.float16)
                else:
                    cache = np.zeros(self.chain.cache, np.float16)
                context.set_input(f"{name}{i}", cache)
                context.bind_output(f"new_{name}{i}", cache)
        if not on_gpu:
            context.run()
            start = time.perf_counter()
            context.run()
            return 1e6 * (time.perf_counter() - start)
        result = torch.empty_like(torch.from_numpy(feed["x"]).cuda())
        context.bind_output(f"x{layers}", result)
        stream = torch.cuda.Stream()
        for _ in range(5):
            context.run(stream=stream.cuda_stream)
        groups, runs = [], 10
        for _ in range(20):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record(stream)
            for _ in range(runs):
                context.run(stream=stream.cuda_stream)
            last.record(stream)
            last.synchronize()
            groups.append(first.elapsed_time(last) * 1e3 / runs)
        return min(groups)


def main():
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--batches", type=numbers, default="1,32")
    made.add_argument("--tokens", type=numbers, default="512,4096", help="of the past of each sequence")
    made.add_argument("--heads", type=int, default=32)
    made.add_argument("--key-heads", type=int, default=8)
    made.add_argument("--head-size", type=int, default=64)
    made.add_argument("--variants", type=int, default=1, help="that are timed in chains, the fastest")
    made.add_argument("--layers", type=numbers, default="4,36", help="of a short chain and of a long one")
    made.add_argument("--tuning-seconds", type=float, default=10)
    made.add_argument("--device", default="cuda")
    made.add_argument("--json", type=Path, help="where to write all figures")
    options = made.parse_args()
    results = []
    for batch in options.batches:
        for tokens in options.tokens:
            chain = Chain(batch, tokens, options)
            with tempfile.TemporaryDirectory() as folder:
                engines = Engines(chain, Path(folder))
                tried, chosen, locks = engines.tried()
                print(f"batch {batch}, {tokens} tokens; of the kernel alone:", flush=True)
                for tactic, us in sorted(tried.items(), key=lambda item: item[1]):
                    print(f"  {us:7.2f} us  {tactic}", flush=True)
                fastest = sorted((t for t in tried if t.startswith(ATTENTION)), key=tried.__getitem__) or [chosen]
                in_memory = [tactic for tactic in fastest if "cluster=0" in tactic]
                layers = {}
                for tactic in dict.fromkeys(fastest[: options.variants] + in_memory[:1]):
                    layers[tactic] = engines.microseconds(locks, tactic)
                    print(f"  {layers[tactic]:7.2f} us a layer in a chain: {tactic}", flush=True)
                results.append({"batch": batch, "tokens": tokens, "kernel_us": tried, "layer_us": layers})
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
