"""An engine that was built for one GPU runs on others, which have other instructions, and on any in any precision.

On the emulated GPU, which takes each compute capability (scripts/emulate_gpu.sh).
"""

import os
import subprocess

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, worst_error

import onnx
from onnx import TensorProto, helper, numpy_helper

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"
TOLERANCES = {"": 1e-4, "--tf32": 1e-2, "--fp16": 2e-2, "--bf16": 1e-1}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Convolutions of all kinds, then attention over the pixels: what a mobile vision transformer is made of."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(shape, scale=None):
        scale = scale or 1 / np.sqrt(np.prod(shape[1:]))
        weights.append(
            numpy_helper.from_array((rng.standard_normal(shape) * scale).astype(np.float32), f"w{len(weights)}")
        )
        return weights[-1].name

    def add(op, inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    x = add("Relu", [add("Conv", ["x", weight([16, 3, 3, 3]), weight([16], 0.1)], strides=[2, 2], pads=[1] * 4)])
    inner = add("Conv", [x, weight([16, 1, 3, 3])], group=16, pads=[1] * 4)
    inner = add("Mul", [inner, add("Sigmoid", [inner])])
    x = add("Add", [x, add("Conv", [inner, weight([16, 16, 1, 1])])])
    x = add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = add("Relu", [add("ConvTranspose", [x, weight([16, 24, 2, 2])], strides=[2, 2])])
    x = add("Reshape", [x, "tokens"])
    x = add("Transpose", [x], perm=[0, 2, 1])
    x = add("LayerNormalization", [x, weight([24], 1), weight([24], 0.1)], axis=-1)
    q, k, v = (add("MatMul", [x, weight([24, 24], 0.2)]) for _ in range(3))
    scores = add("MatMul", [q, add("Transpose", [k], perm=[0, 2, 1])])
    x = add("Add", [x, add("MatMul", [add("Softmax", [scores]), v])])
    x = add("ReduceMean", [x], axes=[1], keepdims=0)
    nodes.append(helper.make_node("Gemm", [x, weight([24, 10]), weight([10], 0.1)], ["y"]))
    weights.append(numpy_helper.from_array(np.array([0, 24, -1]), "tokens"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 20, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    path = tmp_path_factory.mktemp("moves") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def camshaft(capability, *arguments):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    environment = {"CAMSHAFT_BUILD": str(BINARY.parent.parent), "CAMSHAFT_EMULATED_CAPABILITY": str(capability)}
    done = subprocess.run(
        [ROOT / "scripts/emulate_gpu.sh", BINARY, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outputs(capability, engine, folder):
    path = folder / "out.npz"
    camshaft(capability, "run", engine, "--shapes", "x:2x3x20x24", "--outputs", path)
    with np.load(path) as arrays:
        return arrays["y"]


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("built", "runs"), [(90, (75, 80, 100)), (75, (90,))])
def test_engines_move(model, tmp_path, built, runs, precision):
    engine, options = tmp_path / "e.engine", [precision] if precision else []
    camshaft(built, "build", model, "-o", engine, "--device", "cuda", "--tuning", "heuristic", *options)
    want = outputs(built, engine, tmp_path)
    for capability in runs:
        assert worst_error(outputs(capability, engine, tmp_path), want) < TOLERANCES[precision], capability
        # Turing has no instructions for bf16: products of an engine that has some run on the host there.
        if (precision, capability) != ("--bf16", 75):
            assert "cuda_contract" in camshaft(capability, "inspect", engine)
