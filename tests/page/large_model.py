"""A model of many nodes and branches, as large networks have them, whose tensors are small."""

import numpy as np

from onnx import TensorProto, helper, numpy_helper, save

WIDTH = 8


def write(path, nodes):
    """Blocks of 10 nodes: two branches of products, joined, with a residual; and one skip over ten blocks."""
    made, weights, skips = [], [], []
    rng = np.random.default_rng(0)

    def add(op, *inputs, **attributes):
        name = f"t{len(made)}"
        made.append(
            helper.make_node(op, list(inputs), [name], name=f"stage_{len(made) // 300}/{op}_{name}", **attributes)
        )
        return name

    def weight():
        values = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) / WIDTH
        weights.append(numpy_helper.from_array(values, f"w{len(weights)}"))
        return weights[-1].name

    x = "x"
    while len(made) + 11 <= nodes:
        left = add("Tanh", add("MatMul", x, weight()))
        right = add("Sigmoid", add("MatMul", x, weight()))
        both = add("Mul", left, right)
        out = add("Add", add("Relu", add("MatMul", both, weight())), x)
        x = add("Softmax", out, axis=-1)
        if skips and len(skips) % 10 == 0:
            x = add("Add", x, skips[-10])
        skips.append(x)
    while len(made) < nodes:
        x = add("Tanh", x)
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", WIDTH]) for n in ("x", x)]
    graph = helper.make_graph(made, "large", value[:1], value[1:], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
