"""What GELU costs as an expression and as an opaque plugin, beside ours: plugins.py [MODEL.onnx] [--tokens N].

Takes a transformer (MiniLM) whose GELUs are written out as Div, Erf, Add, Mul and Mul, puts one node of a plugin in the
place of each, and measures the three engines in turn, on one thread, by the least time of each round's runs. Prints
the median over the rounds of each engine's time, as a part of ours in the same round.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python"))]

import camshaft
import numpy as np

import onnx
from onnx import helper

EXPRESSION = "text::Gelu(x) = 0.5 * x * (1 + erf(x * 0.7071067811865476))"


def compiled():
    library = ROOT / ".cache/plugin_gelu.so"
    flags = ["-std=c++20", "-O3", "-ffast-math", "-march=native", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
    subprocess.run(["c++", *flags, str(ROOT / "bench/plugin_gelu.cpp"), "-o", str(library), "-lm"], check=True)
    return library


def replaced(model, domain):
    """(the model with a node Gelu of that domain for each that is written out, how many there were)"""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    makers = {name: node for node in model.graph.node for name in node.output}
    readers = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    made, gone = {}, set()
    for erf in model.graph.node:
        if erf.op_type != "Erf":
            continue
        x = makers[erf.input[0]].input[0]
        chain, last = [makers[erf.input[0]], erf], erf
        while last.op_type != "Mul" or len(chain) < 5:  # Add, Mul by x, Mul by a half
            (last,) = readers[last.output[0]]
            chain.append(last)
        gone.update(id(node) for node in chain)
        made[id(last)] = helper.make_node("Gelu", [x], [last.output[0]], domain=domain)
    nodes = [made.get(id(node), node) for node in model.graph.node if id(node) not in gone or id(node) in made]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    return model, len(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = next(iter(sorted((ROOT / ".cache/zoo").glob("*/minilm.onnx"))), None)
    parser.add_argument("model", nargs="?", default=default)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    model = onnx.load(str(arguments.model))
    camshaft.load_plugin(EXPRESSION)
    camshaft.load_plugin(compiled())
    models = {"ours": model}
    for domain in ("text", "opaque"):
        models[domain], count = replaced(model, domain)
    print(f"{arguments.model}: {count} GELUs, {arguments.tokens} tokens")
    contexts = {}
    for name, of in models.items():
        engine = camshaft.build(of, threads=1)
        feed = {
            i.name: np.ones([1 if axis == 0 else arguments.tokens for axis in range(len(i.shape))], np.int64)
            for i in engine.inputs
        }
        contexts[name] = (engine, engine.create_context(threads=1), feed)
        print(f"{name:8} {engine.report['layers']} layers")
    times = {name: [] for name in contexts}
    for _ in range(arguments.rounds):
        for name, (_, context, feed) in contexts.items():
            runs = []
            for _ in range(8):
                start = time.perf_counter()
                context.run(feed)
                runs.append(time.perf_counter() - start)
            times[name].append(min(runs))
    for name, taken in times.items():
        ratio = statistics.median(own / ours for own, ours in zip(taken, times["ours"]))
        print(f"{name:8} {1000 * min(taken):8.2f} ms  {ratio:.3f} of ours")


if __name__ == "__main__":
    main()
