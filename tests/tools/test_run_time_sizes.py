"""Engines whose sizes are numbers that only running tells: saved, loaded and run."""

import camshaft_cli
import numpy as np
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
