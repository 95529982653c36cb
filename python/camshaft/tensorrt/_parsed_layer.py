"""TensorRT's properties of a layer that is a node of a parsed model, as the node has them."""

import numpy

import onnx
from camshaft.tensorrt._enums import (
    ElementWiseOperation,
    PaddingMode,
    PoolingType,
    ReduceOperation,
    UnaryOperation,
)
from camshaft.tensorrt._values import Dims

_ELEMENTWISE = {"Add": ElementWiseOperation.SUM, "Sum": ElementWiseOperation.SUM, "Mul": ElementWiseOperation.PROD}
_UNARY = {"Reciprocal": UnaryOperation.RECIP}
_POOLINGS = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")


def _attributes(node):
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _member(kind, name, exceptions):
    """The enumeration's member of an operator's name; AttributeError where it has none."""
    if name in exceptions:
        return exceptions[name]
    if name.upper() not in kind.__members__:
        raise AttributeError(name)
    return kind[name.upper()]


def _spatial(node, network):
    """How many axes a window has."""
    shape = _attributes(node).get("kernel_shape")
    if shape is None and len(node.input) > 1:
        shape = network._tensor_or_initializer_shape(node.input[1])[2:]
    if shape is None:
        shape = network._inferred(node.input[0])[1][2:]
    return list(shape)


def _window(node, network):
    return Dims(_spatial(node, network))


def _listed(name, default):
    def read(node, network):
        window = _spatial(node, network)
        return Dims(_attributes(node).get(name, [default] * len(window)))

    return read


def _padding(first):
    def read(node, network):
        window = _spatial(node, network)
        pads = _attributes(node).get("pads", [0] * 2 * len(window))
        return Dims(pads[: len(window)] if first else pads[len(window) :])

    return read


def _padding_mode(node, network):
    attributes = _attributes(node)
    mode = attributes.get("auto_pad", b"NOTSET").decode()
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return PaddingMode[mode]
    return PaddingMode.EXPLICIT_ROUND_UP if attributes.get("ceil_mode") else PaddingMode.EXPLICIT_ROUND_DOWN


def _array(index):
    def read(node, network):
        name = node.input[index] if len(node.input) > index else ""
        if name not in network._initializers:  # none, or one that is computed
            return numpy.empty(0, numpy.float32)
        folder = str(network._folder) if network._folder is not None else ""
        return onnx.numpy_helper.to_array(network._initializers[name], folder)

    return read


def _of_attribute(name, default):
    def read(node, network):
        value = _attributes(node).get(name, default)
        if value is None:
            raise AttributeError(name)
        return value

    return read


_WINDOWED = {
    "stride_nd": _listed("strides", 1),
    "stride": _listed("strides", 1),
    "pre_padding": _padding(True),
    "post_padding": _padding(False),
    "padding_nd": _padding(True),
    "padding": _padding(True),
    "padding_mode": _padding_mode,
}
_CONVOLUTION = {
    **_WINDOWED,
    "kernel_size_nd": _window,
    "kernel_size": _window,
    "dilation_nd": _listed("dilations", 1),
    "dilation": _listed("dilations", 1),
    "num_groups": _of_attribute("group", 1),
    "num_output_maps": lambda node, network: network._tensor_or_initializer_shape(node.input[1])[0],
    "kernel": _array(1),
    "bias": _array(2),
}
_PROPERTIES = {
    "Conv": _CONVOLUTION,
    "ConvTranspose": {
        **_CONVOLUTION,
        "num_output_maps": lambda node, network: (
            network._tensor_or_initializer_shape(node.input[1])[1] * _attributes(node).get("group", 1)
        ),
    },
    **{
        op: {
            **_WINDOWED,
            "window_size_nd": _window,
            "window_size": _window,
            "average_count_excludes_padding": lambda node, network: not _attributes(node).get("count_include_pad", 0),
            "type": lambda node, network: PoolingType.MAX if "Max" in node.op_type else PoolingType.AVERAGE,
        }
        for op in _POOLINGS
    },
    **{
        op: {"axis": _of_attribute("axis", default)}
        for op, default in {
            "Softmax": -1,
            "Concat": None,
            "Gather": 0,
            "QuantizeLinear": 1,
            "DequantizeLinear": 1,
        }.items()
    },
    "Transpose": {"first_transpose": _of_attribute("perm", None)},
    "LRN": {"window_size": _of_attribute("size", None), "alpha": _of_attribute("alpha", 1e-4)},
    "Einsum": {"equation": lambda node, network: _attributes(node)["equation"].decode()},
}


def property_of(node, network, name):
    """A property of TensorRT's, as stride_nd of a convolution. Raises AttributeError for one that the node has not."""
    known = _PROPERTIES.get(node.op_type, {})
    if name in known:
        return known[name](node, network)
    if name == "op":
        if node.op_type.startswith("Reduce"):
            return _member(
                ReduceOperation, node.op_type[6:], {"ReduceMean": ReduceOperation.AVG, "Mean": ReduceOperation.AVG}
            )
        kind = UnaryOperation if node.op_type.upper() in UnaryOperation.__members__ else ElementWiseOperation
        return _member(kind, node.op_type, {**_ELEMENTWISE, **_UNARY})
    if name in ("alpha", "beta") and node.op_type in ("LeakyRelu", "Elu", "HardSigmoid", "ThresholdedRelu", "Selu"):
        return _attributes(node).get(name, 0.0)
    if name == "keep_dims" and node.op_type.startswith("Reduce"):
        return bool(_attributes(node).get("keepdims", 1))
    raise AttributeError(f"a layer of ONNX's {node.op_type} has no property '{name}' here")


def names_of(node):
    """Of the properties that property_of() knows."""
    return list(_PROPERTIES.get(node.op_type, ()))
