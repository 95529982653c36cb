"""The model that the tests of what people have for TensorRT use."""

import numpy as np

import onnx
from onnx import TensorProto, helper


def write_network(path):
    """A small network for pictures, of any batch."""
    random = np.random.default_rng(0)
    kernel = (random.standard_normal((16, 3, 3, 3)) / 5).astype(np.float32)
    matrix = (random.standard_normal((16, 10)) / 4).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], name="conv", pads=[1] * 4, strides=[2, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("MatMul", ["f", "matrix"], ["y"], name="scores"),
    ]
    graph = helper.make_graph(
        nodes,
        "pictures",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [onnx.numpy_helper.from_array(kernel, "kernel"), onnx.numpy_helper.from_array(matrix, "matrix")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
