"""Models with weights of 4 and 8 bits beside ONNX Runtime, and how their weights are kept."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import camshaft, run

import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import decoder

SMALL = ["--layers", "2", "--hidden", "128", "--inner", "320", "--heads", "4", "--vocabulary", "515", "--past", "9"]
# The last three: a last block that is cut off, rows that go through floats, bytes.
KINDS = [[], ["--zero-points"], ["--block", "128"], ["--rows", "12", "--past", "0"], ["--bits", "8", "--block", "64"]]


def arguments(options):
    return decoder.parser().parse_args([*SMALL, *options])


def feed_of(model, seed=3):
    random = np.random.default_rng(seed)
    feed = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        is_token = value.type.tensor_type.elem_type == TensorProto.INT64
        feed[value.name] = random.integers(0, 500, shape) if is_token else random.normal(size=shape).astype(np.float32)
    return feed


def onnxruntime_results(path, feed):
    # Optimised, it rounds what a dequantised matrix is multiplied with to 8 bits.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed)))


def layers_of(engine):
    return json.loads(camshaft("inspect", engine, "--json").stdout)["layers"]


@pytest.mark.parametrize("options", KINDS, ids=[" ".join(kind) or "4 bits" for kind in KINDS])
def test_decoder(options, tmp_path):
    path, engine = tmp_path / "decoder.onnx", tmp_path / "decoder.engine"
    model = decoder.Decoder(arguments(options)).model()
    onnx.save(model, path)
    camshaft("build", path, "-o", engine)
    feed = feed_of(model)
    got = run(engine, feed)
    for name, want in onnxruntime_results(path, feed).items():
        assert np.abs(got[name] - want).max() <= 1e-4 * np.abs(want).max(), name
    layers = layers_of(engine)
    products = [layer for layer in layers if "matmul" in layer["op"]]
    assert len(products) == 2 * 5 + 1 and all(layer["tactic"] == "weight_only_matmul" for layer in products), products


def test_rows_of_bytes(tmp_path):
    """accuracy_level 4: ONNX Runtime rounds what is multiplied to bytes, and so does the engine."""
    results = {}
    for level in (0, 4):
        path, engine = tmp_path / f"{level}.onnx", tmp_path / f"{level}.engine"
        model = decoder.Decoder(arguments(["--accuracy", str(level), "--rows", "12", "--past", "0"])).model()
        onnx.save(model, path)
        camshaft("build", path, "-o", engine)
        feed = feed_of(model)
        results[level] = run(engine, feed), onnxruntime_results(path, feed)
    for name, exact in results[0][1].items():
        got, want = (result[name] for result in results[4])
        scale = np.abs(exact).max()
        assert np.abs(got - want).max() <= 0.03 * scale, name
        assert 1e-4 * scale < np.abs(got - exact).max() <= 0.03 * scale or "present" in name, name


def test_engine_keeps_four_bits(tmp_path):
    path, engine = tmp_path / "decoder.onnx", tmp_path / "decoder.engine"
    onnx.save(decoder.Decoder(arguments(["--inner", "4096", "--vocabulary", "64"])).model(), path)
    camshaft("build", path, "-o", engine, "--no-verify")
    # Pages that sections begin at, and the graph.
    assert engine.stat().st_size < 1.05 * path.stat().st_size + (256 << 10)


@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
@pytest.mark.parametrize("is_blocked", [True, False], ids=["blocks", "columns"])
def test_dequantize_linear(dtype, is_blocked, tmp_path):
    """Steps of a matrix [k, n] by blocks along k, or one scale a column, as quantisers of ONNX write them."""
    path, engine = tmp_path / "q.onnx", tmp_path / "q.engine"
    random, depth, columns, block = np.random.default_rng(5), 96, 70, 32
    low, high = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128)}[dtype]
    steps = random.integers(low, high, (depth, columns))
    scale_shape = (depth // block, columns) if is_blocked else (columns,)
    scale = random.uniform(0.01, 0.1, scale_shape).astype(np.float32)
    initializers = [helper.make_tensor("w", dtype, steps.shape, steps.flatten()), numpy_helper.from_array(scale, "s")]
    attributes = {"axis": 0, "block_size": block} if is_blocked else {"axis": 1}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], **attributes),
        helper.make_node("MatMul", ["x", "wf"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, size])
        for name, size in (("x", depth), ("y", columns))
    ]
    graph = helper.make_graph(nodes, "q", values[:1], values[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    x = random.normal(size=(3, depth)).astype(np.float32)
    camshaft("build", path, "-o", engine)
    (got,) = run(engine, {"x": x}).values()
    (want,) = onnxruntime_results(path, {"x": x}).values()
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
    assert [layer["tactic"] for layer in layers_of(engine)] == ["weight_only_matmul"]


@pytest.mark.parametrize("has_zeros", [False, True], ids=["", "zeros"])
@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4, TensorProto.UINT8])
def test_gathered_rows(dtype, has_zeros, tmp_path):
    path, engine = tmp_path / "g.onnx", tmp_path / "g.engine"
    random, rows, size, block = np.random.default_rng(6), 50, 48, 16
    low, high = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.UINT8: (0, 256)}[dtype]
    in_byte = 2 if dtype == TensorProto.UINT8 else 1
    scale = random.uniform(0.01, 0.1, (rows, size // block)).astype(np.float32)
    shapes = {"w": (rows, size // in_byte), "z": (rows, -(-size // block // in_byte))}
    initializers = [numpy_helper.from_array(scale, "s")]
    for name in ["w", "z"] if has_zeros else ["w"]:
        numbers = random.integers(low, high, shapes[name])
        initializers.append(helper.make_tensor(name, dtype, shapes[name], numbers.flatten()))
    inputs = ["w", "i", "s", "z"] if has_zeros else ["w", "i", "s"]
    node = helper.make_node(
        "GatherBlockQuantized",
        inputs,
        ["y"],
        domain=decoder.MICROSOFT,
        block_size=block,
        quantize_axis=1,
        gather_axis=0,
    )
    values = [
        helper.make_tensor_value_info("i", TensorProto.INT64, [2, 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, size]),
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:], initializers)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(decoder.MICROSOFT, 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    feed = {"i": random.integers(0, rows, (2, 3))}
    camshaft("build", path, "-o", engine)
    (got,) = run(engine, feed).values()
    (want,) = onnxruntime_results(path, feed).values()
    assert np.array_equal(got, want)
