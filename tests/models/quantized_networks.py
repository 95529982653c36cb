"""Small networks with seeded weights, and their Q/DQ models as ONNX Runtime's quantize_static writes them."""

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Nodes one after the other, with weights drawn as they come."""

    def __init__(self, seed, shape):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.shape, self.count = [], [], shape, 0

    def constant(self, shape, scale=1.0):
        self.weights.append(
            numpy_helper.from_array(self.rng.normal(0, scale, shape).astype(np.float32), f"w{len(self.weights)}")
        )
        return self.weights[-1].name

    def add(self, op, *inputs, **attributes):
        self.count += 1
        self.nodes.append(
            helper.make_node(op, list(inputs), [f"t{self.count}"], name=f"{op}_{self.count}", **attributes)
        )
        return f"t{self.count}"

    def conv(self, x, channels, out, kernel=3, **attributes):
        groups = attributes.get("group", 1)
        fan = channels // groups * kernel * kernel
        weights = self.constant((out, channels // groups, kernel, kernel), (2 / fan) ** 0.5)
        return self.add("Conv", x, weights, self.constant((out,), 0.1), kernel_shape=[kernel, kernel], **attributes)

    def model(self, y):
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def residual(seed):
    """A stem with pooling, blocks whose residuals are added before and behind a ReLU, a concatenation, an average."""
    n = Network(seed, [1, 3, 32, 32])
    x = n.add("Relu", n.conv("x", 3, 16, 7, strides=[2, 2], pads=[3, 3, 3, 3]))
    x = n.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = n.add("Relu", n.conv(x, 16, 16, pads=[1, 1, 1, 1]))
    x = n.add("Relu", n.add("Add", n.conv(y, 16, 16, pads=[1, 1, 1, 1]), x))
    short = n.conv(x, 16, 24, 1, strides=[2, 2])
    y = n.add("Relu", n.conv(x, 16, 24, strides=[2, 2], pads=[1, 1, 1, 1]))
    x = n.add("Relu", n.add("Add", n.conv(y, 24, 24, pads=[1, 1, 1, 1]), short))
    x = n.add("Concat", x, n.conv(x, 24, 8, 1), axis=1)
    x = n.add("Flatten", n.add("GlobalAveragePool", x))
    return n.model(n.add("Gemm", x, n.constant((10, 32), 0.3), n.constant((10,), 0.1), transB=1))


def inverted(seed):
    """Depthwise convolutions, ReLU6, linear bottlenecks, resizing, sigmoid gates."""
    n = Network(seed, [2, 3, 24, 20])
    limits = (n.constant((), 0), None)
    n.weights[-1] = numpy_helper.from_array(np.float32(0), n.weights[-1].name)
    six = n.constant(())
    n.weights[-1] = numpy_helper.from_array(np.float32(6), six)
    relu6 = lambda v: n.add("Clip", v, limits[0], six)  # noqa: E731
    x = relu6(n.conv("x", 3, 16, strides=[2, 2], pads=[1, 1, 1, 1]))
    y = relu6(n.conv(x, 16, 40, 1))
    y = relu6(n.conv(y, 40, 40, group=40, pads=[1, 1, 1, 1]))
    gate = n.add("Sigmoid", n.conv(n.add("GlobalAveragePool", y), 40, 40, 1))
    x = n.add("Add", n.conv(n.add("Mul", y, gate), 40, 16, 1), x)
    scales = n.constant((4,))
    n.weights[-1] = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), scales)
    x = n.add(
        "Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    return n.model(n.conv(x, 16, 5, 1))


def transformer(seed):
    """A layer of an encoder: products with and without constants, softmax, norms, GELU by erf."""
    n = Network(seed, [2, 12, 32])
    size, heads = 32, 4
    x = "x"
    shape = n.constant((4,))
    n.weights[-1] = numpy_helper.from_array(np.array([2, 12, heads, size // heads]), shape)
    back = n.constant((3,))
    n.weights[-1] = numpy_helper.from_array(np.array([2, 12, size]), back)

    def linear(v, fan, out):
        return n.add("Add", n.add("MatMul", v, n.constant((fan, out), fan**-0.5)), n.constant((out,), 0.1))

    def split(v, perm):
        return n.add("Transpose", n.add("Reshape", linear(v, size, size), shape), perm=perm)

    def norm(v):
        return n.add("LayerNormalization", v, n.constant((size,), 1), n.constant((size,), 0.1), axis=-1)

    q, k, v = split(x, [0, 2, 1, 3]), split(x, [0, 2, 3, 1]), split(x, [0, 2, 1, 3])
    scores = n.add("Softmax", n.add("MatMul", q, k), axis=-1)
    y = n.add("Reshape", n.add("Transpose", n.add("MatMul", scores, v), perm=[0, 2, 1, 3]), back)
    x = norm(n.add("Add", x, linear(y, size, size)))
    y = linear(x, size, 64)
    half = n.constant(())
    n.weights[-1] = numpy_helper.from_array(np.float32(0.5**0.5), half)
    one = n.constant(())
    n.weights[-1] = numpy_helper.from_array(np.float32(1), one)
    y = n.add("Mul", y, n.add("Add", n.add("Erf", n.add("Mul", y, half)), one))
    return n.model(norm(n.add("Add", x, linear(y, 64, size))))


NETWORKS = {"residual": residual, "inverted": inverted, "transformer": transformer}


class Samples(CalibrationDataReader):
    def __init__(self, samples):
        self.samples = iter(samples)

    def get_next(self):
        return next(self.samples, None)


def quantize(model, path, seed, activations, weights, per_channel):
    """Writes the Q/DQ model to `path`, calibrated on four samples, the first of which is returned as {input: array}."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(seed)
    samples = [{"x": rng.standard_normal(shape, np.float32)} for _ in range(4)]
    quantize_static(
        model,
        path,
        Samples(samples),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8 if activations == "u8" else QuantType.QInt8,
        weight_type=QuantType.QUInt8 if weights == "u8" else QuantType.QInt8,
        per_channel=per_channel,
    )
    return samples[0]
