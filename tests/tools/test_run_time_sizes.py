"""Engines whose sizes are numbers that only running tells: saved, loaded and run."""

import camshaft_cli
import numpy as np
import onnxruntime
from camshaft_cli import camshaft

import onnx
from onnx import TensorProto, helper, numpy_helper


def test_a_range_of_as_many_as_arithmetic_says_when_it_runs(tmp_path):
    """As the relative positions of a Funnel Transformer's decoder are: from -4·k up to 4·k, of k found elements."""
    node = helper.make_node
    nodes = [
        node("NonZero", ["x"], ["found"]),
        node("Shape", ["found"], ["shape"]),
        node("Gather", ["shape", "one"], ["k"]),
        node("Neg", ["k"], ["minus"]),
        node("Mul", ["minus", "four"], ["start"]),
        node("Mul", ["k", "four"], ["limit"]),
        node("Range", ["start", "limit", "one"], ["range"]),
        node("Cast", ["range"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = {"one": np.int64(1), "four": np.int64(4)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, engine = tmp_path / "range.onnx", tmp_path / "range.engine"
    onnx.save(model, path)
    camshaft("build", path, "-o", engine)
    for x in (np.float32([1, 0, 2]), np.float32([0]), np.float32([1, 1, 0, 1, 1])):
        k = np.count_nonzero(x)
        assert np.array_equal(camshaft_cli.run(engine, {"x": x})["y"], np.arange(-4 * k, 4 * k, dtype=np.float32))


def test_pooling_that_rounds_up_and_broadcasts_of_sizes_that_only_running_tells(tmp_path):
    """As Funnel's encoder has them from TorchScript: pooled states beside pooled positions, of k found elements, and a mask
    of one or of all."""
    node = helper.make_node
    nodes = [
        node("NonZero", ["x"], ["found"]),
        node("Cast", ["found"], ["places"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["places", "first"], ["states"]),
        node("AveragePool", ["states"], ["pooled"], kernel_shape=[2], strides=[2], ceil_mode=1),
        node("Shape", ["states"], ["shape"]),
        node("Gather", ["shape", "two"], ["k"]),
        node("Add", ["k", "one"], ["more"]),
        node("Div", ["more", "two"], ["half"]),
        node("Range", ["zero", "half", "one"], ["range"]),
        node("Cast", ["range"], ["positions"], to=TensorProto.FLOAT),
        node("Add", ["pooled", "positions"], ["sum"]),
        node("NonZero", ["m"], ["mask"]),
        node("Cast", ["mask"], ["masked"], to=TensorProto.FLOAT),
        node("Mul", ["sum", "masked"], ["product"]),
        node("MaxPool", ["product"], ["y"], kernel_shape=[3], strides=[2], ceil_mode=1),
    ]
    constants = {"one": np.int64(1), "two": np.int64(2), "zero": np.int64(0), "first": np.int64([0])}
    floats = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [floats("x", TensorProto.FLOAT, ["n"]), floats("m", TensorProto.FLOAT, ["l"])],
        [floats("y", TensorProto.FLOAT, [1, 1, None])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path, engine = tmp_path / "pools.onnx", tmp_path / "pools.engine"
    onnx.save(model, path)
    seen = {"x": np.float32([1, 0, 2, 3, 4, 1, 7]), "m": np.float32([0, 1])}
    np.savez(tmp_path / "seen.npz", **seen)
    camshaft("build", path, "-o", engine, "--inputs", tmp_path / "seen.npz")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for x in (seen["x"], np.ones(9, np.float32), np.ones(10, np.float32)):
        found = (np.count_nonzero(x) + 1) // 2
        for m in (np.float32([0, 1]), np.ones(found, np.float32)):
            feed = {"x": x, "m": m}
            assert np.array_equal(camshaft_cli.run(engine, feed)["y"], session.run(None, feed)[0]), feed
