#!/usr/bin/env python3
"""What adapters of LoRA cost: an engine that has one, without it chosen and with it, beside the model's own engine.

Takes MiniLM, whose queries and values (or all products) an adapter of random numbers updates, and measures the engines
in turn, in processor time on one thread, by the least of each. Beside it: the part of the model's multiplications that
the adapter's two products are.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import safetensors.numpy

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")),
    str(ROOT / "tests/models"),
]

import camshaft
from catalog import EVERY

LAYERS, WIDTH, INNER = 6, 384, 1536
ATTENTION = ["attention.self.query", "attention.self.value"]
ALL = [*ATTENTION, "attention.self.key", "attention.output.dense", "intermediate.dense", "output.dense"]


def sizes(module):
    """In, out."""
    return {"intermediate.dense": (WIDTH, INNER), "output.dense": (INNER, WIDTH)}.get(module, (WIDTH, WIDTH))


def save_adapter(path, modules, rank):
    random, tensors = np.random.default_rng(0), {}
    for layer in range(LAYERS):
        for module in modules:
            width, out = sizes(module)
            name = f"base_model.model.encoder.layer.{layer}.{module}"
            tensors[f"{name}.lora_A.weight"] = (0.02 * random.standard_normal((rank, width))).astype(np.float32)
            tensors[f"{name}.lora_B.weight"] = (0.02 * random.standard_normal((out, rank))).astype(np.float32)
    safetensors.numpy.save_file(tensors, path)


def added_part(modules, rank, tokens):
    """Of the multiplications of the model's products, attention's among them."""
    of_layer = sum(width * out for width, out in map(sizes, ALL)) + 2 * tokens * WIDTH
    return sum(rank * sum(sizes(module)) for module in modules) / of_layer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--tokens", default="16,128")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--runs", type=int, default=5, help="in each round, of each engine")
    arguments = parser.parse_args()
    model = EVERY["minilm"].path()
    options = {"verify": False}
    print("| tokens | updated | none chosen | one chosen | multiplications |")
    print("|---|---|---|---|---|")
    for tokens in map(int, arguments.tokens.split(",")):
        options["shapes"] = {name: (1, tokens) for name in ("input_ids", "attention_mask")}
        plain = camshaft.build(model, **options)
        feed = {"input_ids": np.arange(1, tokens + 1)[None], "attention_mask": np.ones((1, tokens), np.int64)}
        for what, modules in ("queries and values", ATTENTION), ("all products", ALL):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "a.safetensors"
                save_adapter(path, modules, arguments.rank)
                adapted = camshaft.build(model, lora=[f"a={path}"], **options)
            contexts = [plain.create_context(1), adapted.create_context(1), adapted.create_context(1)]
            feeds = [feed, {**feed, "lora": np.array(0)}, {**feed, "lora": np.array(1)}]
            least = [float("inf")] * 3
            for _ in range(arguments.rounds):
                for i, (context, inputs) in enumerate(zip(contexts, feeds, strict=True)):
                    for _ in range(arguments.runs):
                        start = time.process_time()
                        context.run(inputs)
                        least[i] = min(least[i], time.process_time() - start)
            added = 100 * added_part(modules, arguments.rank, tokens)
            none, one = (seconds / least[0] for seconds in least[1:])
            print(f"| {tokens} | {what} | {none:.3f} | {one:.3f} | +{added:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
