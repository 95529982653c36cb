"""Q/DQ models run on integers, and give what ONNX Runtime gives: within one step of the output's scale."""

import json

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import camshaft, run
from quantized_networks import NETWORKS, quantize

import onnx

KINDS = [("u8", "s8", True), ("u8", "s8", False), ("s8", "s8", True), ("u8", "u8", False)]


def last_scale(path):
    """The size of a step of what the last quantised tensor holds; None where the output is not quantised."""
    graph = onnx.load(path).graph
    numbers = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    node = next(n for n in graph.node if graph.output[0].name in n.output)
    return float(numbers[node.input[1]]) if node.op_type == "DequantizeLinear" else None


@pytest.mark.parametrize("kind", KINDS, ids=["-".join(map(str, kind)) for kind in KINDS])
@pytest.mark.parametrize("name", NETWORKS)
def test_like_onnxruntime(name, kind, tmp_path):
    path, engine = tmp_path / "q.onnx", tmp_path / "q.engine"
    seed = 8
    feed = quantize(NETWORKS[name](seed), path, seed, *kind)
    # ONNX Runtime's own integer kernels round sums of bytes in pairs on processors without VNNI, its float ones do not.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feed)[0]
    camshaft("build", path, "-o", engine)
    (got,) = run(engine, feed).values()
    step = last_scale(path)
    assert step is not None
    steps = np.abs(got - want) / step
    assert steps.max() < 1.01
    assert np.mean(steps > 0.5) <= 0.25, "elements that are a step off"

    layers = json.loads(camshaft("inspect", engine, "--json").stdout)["layers"]
    products = [layer for layer in layers if layer["op"] in ("conv", "matmul", "integer_conv", "integer_matmul")]
    assert products and all(layer["op"].startswith("integer_") for layer in products), products
    assert all(layer["tactic"].startswith("integer_") for layer in products), products
