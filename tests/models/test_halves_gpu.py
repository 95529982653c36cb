"""Models in fp16 on the emulated GPU: they take the way of a model in fp32 with --fp16, so that attention and joined products
are found; what they compute in fp32 themselves stays so."""

import json
import os
import subprocess

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import BINARY, ROOT

import onnx
from onnx import TensorProto, helper, numpy_helper

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"
SIZES = {"heads": [1, 16, 4, 16], "rows": [1, 16, 64]}


def emulated(*arguments):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    command = [ROOT / "scripts/emulate_gpu.sh", BINARY, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def transformer(half, wide_product=False):
    """One block: attention whose softmax is in fp32 as exporters write it, a residual and a norm. With wide_product, the
    last product is in fp32."""
    dtype = np.float16 if half else np.float32
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    rng = np.random.default_rng(0)
    weights = {name: (rng.standard_normal((64, 64)) * 0.1).astype(dtype) for name in ("wq", "wk", "wv", "wo")}
    weights["wl"] = (rng.standard_normal((64, 64)) * 0.1).astype(np.float32 if wide_product else dtype)
    weights |= {name: rng.standard_normal(64).astype(dtype) for name in ("b", "g")}
    weights["scale"] = np.array(0.25, dtype)
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    constants += [numpy_helper.from_array(np.array(sizes, np.int64), name) for name, sizes in SIZES.items()]
    nodes = []

    def add(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs.split(), [output], name=output, **attributes))

    for name in "qkv":
        add("MatMul", f"x w{name}", f"{name}0")
        add("Add", f"{name}0 b", f"{name}1")
        add("Reshape", f"{name}1 heads", f"{name}2")
        add("Transpose", f"{name}2", f"{name}3", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
    add("MatMul", "q3 k3", "s0")
    add("Mul", "s0 scale", "s1")
    if half:
        add("Cast", "s1", "s2", to=TensorProto.FLOAT)
        add("Softmax", "s2", "s3", axis=-1)
        add("Cast", "s3", "s4", to=kind)
    else:
        add("Softmax", "s1", "s4", axis=-1)
    add("MatMul", "s4 v3", "a0")
    add("Transpose", "a0", "a1", perm=[0, 2, 1, 3])
    add("Reshape", "a1 rows", "a2")
    add("MatMul", "a2 wo", "o0")
    add("Add", "o0 x", "o1")
    add("LayerNormalization", "o1 g b", "n", axis=-1)
    if wide_product:
        add("Cast", "n", "n1", to=TensorProto.FLOAT)
        add("MatMul", "n1 wl", "last")
        add("Cast", "last", "y", to=kind)
    else:
        add("MatMul", "n wl", "y")
    graph = helper.make_graph(nodes, "g", *[[helper.make_tensor_value_info(n, kind, SIZES["rows"])] for n in "xy"], constants)  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def layers(model, folder, *options):
    onnx.save(model, folder / "m.onnx")
    emulated("build", folder / "m.onnx", "-o", folder / "m.engine", "--device", "cuda", "--tuning", "heuristic", *options)  # fmt: skip
    return json.loads(emulated("inspect", folder / "m.engine", "--json"))["layers"]


def names_of(found):
    return [layer["op"] for layer in found if layer["op"] not in ("copy", "cast")]


def test_a_model_in_halves_has_the_layers_of_one_that_may_store_them(tmp_path):
    halves = names_of(layers(transformer(True), tmp_path))
    assert halves == names_of(layers(transformer(False), tmp_path, "--fp16"))
    assert "attention" in halves


def test_nothing_is_converted_within_it(tmp_path):
    found = layers(transformer(True), tmp_path)
    assert not [layer for layer in found if layer["op"] == "cast"]
    assert {layer["precision"] for layer in found} == {"f16"}


def test_a_product_in_fp32_stays_so(tmp_path):
    found = layers(transformer(True, wide_product=True), tmp_path)
    products = [layer["precision"] for layer in found if layer["op"] == "matmul"]
    assert "f32" in products and "f16" in products


def test_strongly_typed_keeps_its_operators(tmp_path):
    assert "softmax" in names_of(layers(transformer(True), tmp_path, "--strongly-typed"))


def test_results(tmp_path):
    model = transformer(True)
    layers(model, tmp_path)
    x = np.random.default_rng(1).standard_normal(SIZES["rows"]).astype(np.float16)
    np.savez(tmp_path / "in.npz", x=x)
    emulated("run", tmp_path / "m.engine", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0].astype(np.float32)
    actual = np.load(tmp_path / "out.npz")["y"].astype(np.float32)
    np.testing.assert_allclose(actual, expected, atol=0.01 * np.abs(expected).max())
