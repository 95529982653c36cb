"""A layer that is a node of a parsed model, and TensorRT's properties of it, as the node has them."""

import numpy

from camshaft.tensorrt._enums import (
    ElementWiseOperation,
    LayerType,
    PaddingMode,
    PoolingType,
    ReduceOperation,
    UnaryOperation,
)
from camshaft.tensorrt._layer_types import LAYER_TYPES
from camshaft.tensorrt._network import ILayer, ITensor
from camshaft.tensorrt._onnx_file import Node
from camshaft.tensorrt._protobuf import Malformed
from camshaft.tensorrt._values import Dims

_ELEMENTWISE = {"Add": ElementWiseOperation.SUM, "Sum": ElementWiseOperation.SUM, "Mul": ElementWiseOperation.PROD}
_UNARY = {"Reciprocal": UnaryOperation.RECIP}
_POOLINGS = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")


def _attributes(layer):
    return {attribute.name: attribute.value for attribute in layer._node.attribute}


def _shape(layer, index):
    return layer._network._shape_of(layer._operands[index])


def _member(kind, name, exceptions):
    """The enumeration's member of an operator's name; AttributeError where it has none."""
    if name in exceptions:
        return exceptions[name]
    if name.upper() not in kind.__members__:
        raise AttributeError(name)
    return kind[name.upper()]


def _spatial(layer):
    """How many axes a window has."""
    shape = _attributes(layer).get("kernel_shape")
    if shape is None and len(layer._operands) > 1:
        shape = _shape(layer, 1)[2:]
    return list(_shape(layer, 0)[2:] if shape is None else shape)


def _window(layer):
    return Dims(_spatial(layer))


def _listed(name, default):
    def read(layer):
        return Dims(_attributes(layer).get(name, [default] * len(_spatial(layer))))

    return read


def _padding(first):
    def read(layer):
        window = _spatial(layer)
        pads = _attributes(layer).get("pads", [0] * 2 * len(window))
        return Dims(pads[: len(window)] if first else pads[len(window) :])

    return read


def _padding_mode(layer):
    attributes = _attributes(layer)
    mode = bytes(attributes.get("auto_pad", b"NOTSET")).decode()
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return PaddingMode[mode]
    return PaddingMode.EXPLICIT_ROUND_UP if attributes.get("ceil_mode") else PaddingMode.EXPLICIT_ROUND_DOWN


def _array(index):
    def read(layer):
        operand = layer._operands[index] if len(layer._operands) > index else None
        if not isinstance(operand, str):  # none, or one that is computed
            return numpy.empty(0, numpy.float32)
        data, dtype, _ = layer._network._initializers[operand].constant(layer._network._folder)
        if dtype:
            raise TypeError(f"NumPy has no type for {dtype}, of which the weights of layer '{layer.name}' are")
        return data.reshape(-1)  # as TensorRT has weights

    return read


def _of_attribute(name, default):
    def read(layer):
        value = _attributes(layer).get(name, default)
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
    "num_output_maps": lambda layer: _shape(layer, 1)[0],
    "kernel": _array(1),
    "bias": _array(2),
}
_PROPERTIES = {
    "Conv": _CONVOLUTION,
    "ConvTranspose": {
        **_CONVOLUTION,
        "num_output_maps": lambda layer: _shape(layer, 1)[1] * _attributes(layer).get("group", 1),
    },
    **{
        op: {
            **_WINDOWED,
            "window_size_nd": _window,
            "window_size": _window,
            "average_count_excludes_padding": lambda layer: not _attributes(layer).get("count_include_pad", 0),
            "type": lambda layer: PoolingType.MAX if "Max" in layer._node.op_type else PoolingType.AVERAGE,
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
    "Einsum": {"equation": lambda layer: bytes(_attributes(layer)["equation"]).decode()},
}


def _property(layer, name):
    """A property of TensorRT's, as stride_nd of a convolution. Raises AttributeError for one that the node has not."""
    op = layer._node.op_type
    known = _PROPERTIES.get(op, {})
    if name in known:
        return known[name](layer)
    if name == "op":
        if op.startswith("Reduce"):
            return _member(ReduceOperation, op[6:], {"Mean": ReduceOperation.AVG})
        kind = UnaryOperation if op.upper() in UnaryOperation.__members__ else ElementWiseOperation
        return _member(kind, op, {**_ELEMENTWISE, **_UNARY})
    if name in ("alpha", "beta") and op in ("LeakyRelu", "Elu", "HardSigmoid", "ThresholdedRelu", "Selu"):
        return _attributes(layer).get(name, 0.0)
    if name == "keep_dims" and op.startswith("Reduce"):
        return bool(_attributes(layer).get("keepdims", 1))
    raise AttributeError(f"a layer of ONNX's {op} has no property '{name}' here")


def _captured(nodes):
    """Names that the bodies of these nodes read."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                if graph is not None:
                    yield from (name for inner in graph.node for name in inner.input if name)
                    yield from (info.name for info in graph.output)
                    yield from _captured(graph.node)


class OnnxLayer(ILayer):
    """A node of a parsed model."""

    def __init__(self, network, node, index):
        tensors = network._tensors
        known = LAYER_TYPES if node.domain in ("", "ai.onnx") else {}
        # Tensors; a name is that of one of the model's constants.
        operands = [tensors.get(name, name) if name else None for name in node.input]
        ILayer.__init__(
            self,
            network,
            known.get(node.op_type, LayerType.PLUGIN_V3),
            node.name or f"{node.op_type}_{index}",
            [],
            [tensors[name] if name else None for name in node.output],
        )
        self._node = node
        self._operands = operands
        self._bodies = {name: tensors.get(name, name) for name in _captured([node])}
        self._outputs_of_node, self._outputs = self._outputs, [tensor for tensor in self._outputs if tensor is not None]

    @property
    def _inputs(self):
        return [operand for operand in self._operands if isinstance(operand, ITensor)]

    @_inputs.setter
    def _inputs(self, value):
        pass

    # Programs make a layer's class the one of its type, as TensorRT wants it. Then isinstance() says so; the layer stays a
    # node. Functions here name their base: with this there is no super().
    __class__ = property(
        lambda self: self.__dict__.get("_shown_as", OnnxLayer),
        lambda self, kind: self.__dict__.__setitem__("_shown_as", kind),
    )

    def __setattr__(self, name, value):
        node = self.__dict__.get("_node")
        if node is not None and name not in self.__dict__ and name in _PROPERTIES.get(node.op_type, ()):
            raise NotImplementedError(
                f"layer '{self.name}' is a node of the ONNX model: change its {name} there, before it is parsed"
            )
        ILayer.__setattr__(self, name, value)

    def __getattr__(self, name):
        """TensorRT's properties of the node."""
        if name.startswith("_") or "_node" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        return _property(self, name)

    def __dir__(self):
        names = {*dir(ILayer), *self.__dict__, *_PROPERTIES.get(self._node.op_type, ())}
        return sorted(name for name in names if name.startswith("__") or not name.startswith("_"))

    def set_input(self, index, tensor):
        """`index`: among the inputs of ONNX's operator."""
        self._operands += [None] * (index + 1 - len(self._operands))
        self._operands[index] = tensor
        self._network._changed()

    def _reads(self):
        return [tensor for tensor in [*self._operands, *self._bodies.values()] if isinstance(tensor, ITensor)]

    def _write_into(self, scope, plan):
        writer = scope.writer
        # Operands by their places, as two may have been one name and be two tensors now.
        node = Node()
        names = [None if operand is None else f"operand {k}" for k, operand in enumerate(self._operands)]
        node.__dict__.update(self._node.__dict__, input=[name or "" for name in names])
        operands = dict(zip(names, self._operands))

        def find(name):
            given = operands[name] if name in operands else self._bodies.get(name)
            if isinstance(given, ITensor):
                return scope.value(given)
            if given in self._network._initializers:
                return writer.initializer(given)
            raise Malformed(f"nothing gives the tensor '{given or name}'")

        made = writer.replay.add(
            scope.net,
            node,
            find,
            scope.name_of_node(self, self.name),
            [scope.name_of_result(tensor) if tensor is not None else None for tensor in self._outputs_of_node],
        )
        for tensor, value in zip(self._outputs_of_node, made):
            if tensor is not None and value is not None:
                scope.set(tensor, value)
