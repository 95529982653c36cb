"""Layers of TensorRT's network API that are one node of ONNX."""

from camshaft.tensorrt._enums import LayerType
from camshaft.tensorrt._layers._base import Layer
from camshaft.tensorrt._values import name_of_dtype


class PlainLayer(Layer):
    """OP is ONNX's operator, _ATTRIBUTES the attributes that properties of the layer are."""

    _TYPE, _OP, _ATTRIBUTES = None, "", {}

    def __init__(self, network, name, inputs, output, **properties):
        super().__init__(network, self._TYPE, name, inputs, [output])
        for key, value in properties.items():
            setattr(self, key, value)

    def _emit(self):
        attributes = {attribute: getattr(self, key) for key, attribute in self._ATTRIBUTES.items()}
        self._write(self._OP, self._operands(), self._result(), **attributes)

    def _operands(self):
        return self._inputs


class IParametricReLULayer(PlainLayer):
    """x, or x * slope where it is negative."""

    _TYPE, _OP = LayerType.PARAMETRIC_RELU, "PRelu"


class ISelectLayer(PlainLayer):
    """Elements of one tensor or the other."""

    _TYPE, _OP = LayerType.SELECT, "Where"


class IIdentityLayer(PlainLayer):
    """The same; set_output_type() makes it a cast, as TensorRT 8 does."""

    _TYPE, _OP = LayerType.IDENTITY, "Identity"

    def _emit(self):
        if 0 in self._output_types and self._output_types[0] != self._inputs[0].dtype:
            self._write("Cast", self._inputs, self._result(), to=name_of_dtype(self._output_types[0]))
        else:
            PlainLayer._emit(self)

    def set_output_type(self, index, dtype):
        super().set_output_type(index, dtype)
        self._network._changed(self)

    def reset_output_type(self, index):
        super().reset_output_type(index)
        self._network._changed(self)


class IEinsumLayer(PlainLayer):
    """A sum of products by an equation."""

    _TYPE, _OP, _ATTRIBUTES = LayerType.EINSUM, "Einsum", {"equation": "equation"}


class ISqueezeLayer(PlainLayer):
    """Without axes of size 1."""

    _TYPE, _OP = LayerType.SQUEEZE, "Squeeze"


class IUnsqueezeLayer(PlainLayer):
    """With axes of size 1 more."""

    _TYPE, _OP = LayerType.UNSQUEEZE, "Unsqueeze"


class IShapeLayer(PlainLayer):
    """The sizes of a tensor."""

    _TYPE, _OP = LayerType.SHAPE, "Shape"


class ICumulativeLayer(PlainLayer):
    """Sums of all elements up to each, along an axis, which is input 1."""

    _TYPE, _OP, _ATTRIBUTES = LayerType.CUMULATIVE, "CumSum", {"exclusive": "exclusive", "reverse": "reverse"}


class IOneHotLayer(PlainLayer):
    """One value where an index points, another one elsewhere: of indices, (off, on) and a depth."""

    _TYPE, _OP, _ATTRIBUTES = LayerType.ONE_HOT, "OneHot", {"axis": "axis"}

    def _operands(self):
        indices, values, depth = self._inputs
        return [indices, depth, values]


class INonZeroLayer(PlainLayer):
    """The places of what is not zero."""

    _TYPE, _OP = LayerType.NON_ZERO, "NonZero"

    def _emit(self):
        found = self._write("NonZero", self._inputs)
        self._write("Cast", [found], self._result(), to=name_of_dtype(self.indices_type))


class IReverseSequenceLayer(PlainLayer):
    """The first elements along an axis in reverse, as many as each row of a batch has."""

    _TYPE, _OP = LayerType.REVERSE_SEQUENCE, "ReverseSequence"
    _ATTRIBUTES = {"batch_axis": "batch_axis", "sequence_axis": "time_axis"}
