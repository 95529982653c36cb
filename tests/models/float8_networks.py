"""Q/DQ models in 8-bit floats, as ModelOpt exports them: around what products and convolutions read, and their weights."""

import numpy as np
import onnxruntime

import onnx
from onnx import TensorProto, helper, numpy_helper

LARGEST = {TensorProto.FLOAT8E4M3FN: 448, TensorProto.FLOAT8E5M2: 57344}


def magnitudes(model, tensors, seed):
    """{tensor: the largest magnitude that it has on random input}"""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    known = {output.name for output in watched.graph.output}
    names = [name for name in tensors if name != "x"]
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names if name not in known)
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    found = dict(zip(names, session.run(names, {"x": x})))
    return {name: float(np.abs(found.get(name, x)).max()) for name in tensors}


def quantize_float8(model, path, seed, element=TensorProto.FLOAT8E4M3FN, stored=False, scale_type=np.float32):
    """Weights are left in f32 behind a Quantize, or `stored` as 8-bit floats; scales are of `scale_type`, one a column of
    constant weights. With scales of f16 what is between Quantize and Dequantize is f16, as in a model that is."""
    weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    layers = [n for n in model.graph.node if n.op_type in ("Conv", "MatMul", "Gemm") and n.input[1] in weights]
    amax = magnitudes(model, sorted({n.input[0] for n in layers}), seed)
    nodes, added, done = [], [], {}

    def constant(name, array, dtype=None):
        if dtype is None:
            added.append(numpy_helper.from_array(array, name))
        else:
            added.append(helper.make_tensor(name, dtype, array.shape, array.flatten().astype(np.float32)))
        return name

    def real(name, source, scale, zero, **axis):
        if scale_type == np.float32:
            nodes.append(helper.make_node("DequantizeLinear", [source, scale, zero], [name], **axis))
        else:
            nodes.append(helper.make_node("DequantizeLinear", [source, scale, zero], [name + "_half"], **axis))
            nodes.append(helper.make_node("Cast", [name + "_half"], [name], to=TensorProto.FLOAT))

    def steps(name, source, scale, zero, **axis):
        if scale_type != np.float32:
            nodes.append(helper.make_node("Cast", [source], [name + "_half"], to=TensorProto.FLOAT16))
            source = name + "_half"
        nodes.append(helper.make_node("QuantizeLinear", [source, scale, zero], [name], **axis))
        return name

    zero = constant("zero", np.zeros(()), element)
    for node in model.graph.node:
        if node in layers:
            x, w = node.input[0], node.input[1]
            if x not in done:
                scale = constant(f"{x}_scale", np.array(amax[x] / LARGEST[element], scale_type))
                done[x] = f"{x}_dq"
                real(done[x], steps(f"{x}_q", x, scale, zero), scale, zero)
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            axis = 0 if node.op_type == "Conv" or transposed else 1
            others = tuple(a for a in range(weights[w].ndim) if a != axis)
            largest = np.abs(weights[w]).max(axis=others)
            scales = (largest / LARGEST[element]).astype(scale_type)
            zeros = constant(f"{w}_zeros", np.zeros(scales.shape), element)
            scale = constant(f"{w}_scale", scales)
            if stored:
                shape = [-1 if a == axis else 1 for a in range(weights[w].ndim)]
                source = constant(f"{w}_q", weights[w] / scales.astype(np.float32).reshape(shape), element)
            else:
                source = steps(f"{w}_q", w, scale, zeros, axis=axis)
            real(f"{w}_dq", source, scale, zeros, axis=axis)
            node.input[0], node.input[1] = done[x], f"{w}_dq"
        nodes.append(node)
    graph = helper.make_graph(
        nodes, "network", model.graph.input, model.graph.output, [*model.graph.initializer, *added]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
