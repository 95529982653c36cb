"""Layers that compute element by element, along axes, or of matrices."""

import math

import numpy

from camshaft.tensorrt._enums import (
    ActivationType,
    DataType,
    ElementWiseOperation,
    LayerType,
    MatrixOperation,
    ReduceOperation,
    ScaleMode,
    TopKOperation,
    UnaryOperation,
    WeightsRole,
)
from camshaft.tensorrt._layers._base import Layer, axes_of
from camshaft.tensorrt._values import name_of_dtype


class IActivationLayer(Layer):
    """An activation."""

    _PLAIN = {
        ActivationType.RELU: "Relu",
        ActivationType.SIGMOID: "Sigmoid",
        ActivationType.TANH: "Tanh",
        ActivationType.SOFTSIGN: "Softsign",
    }
    _WITH_ALPHA = {
        ActivationType.LEAKY_RELU: "LeakyRelu",
        ActivationType.ELU: "Elu",
        ActivationType.THRESHOLDED_RELU: "ThresholdedRelu",
    }

    def __init__(self, network, name, input, output, type):
        super().__init__(network, LayerType.ACTIVATION, name, [input], [output])
        self.alpha, self.beta = 0.0, 0.0
        self.type = type

    def _emit(self):
        x, result, kind = self._inputs, self._result(), self.type
        alpha, beta = numpy.float32(self.alpha), numpy.float32(self.beta)
        if kind in self._PLAIN:
            self._write(self._PLAIN[kind], x, result)
        elif kind in self._WITH_ALPHA:
            self._write(self._WITH_ALPHA[kind], x, result, alpha=float(alpha))
        elif kind == ActivationType.CLIP:
            self._write("Clip", [*x, alpha, beta], result)
        elif kind == ActivationType.SELU:
            self._write("Selu", x, result, alpha=float(alpha), gamma=float(beta))
        elif kind == ActivationType.HARD_SIGMOID:
            self._write("HardSigmoid", x, result, alpha=float(alpha), beta=float(beta))
        elif kind == ActivationType.SOFTPLUS:  # alpha * log(exp(beta * x) + 1)
            inner = self._write("Softplus", [self._write("Mul", [*x, beta])])
            self._write("Mul", [inner, alpha], result)
        elif kind == ActivationType.SCALED_TANH:  # alpha * tanh(beta * x)
            inner = self._write("Tanh", [self._write("Mul", [*x, beta])])
            self._write("Mul", [inner, alpha], result)
        else:
            self._gelu(x[0], result, kind == ActivationType.GELU_TANH)

    def _gelu(self, x, result, by_tanh):
        if self._opset >= 20:
            self._write("Gelu", [x], result, approximate="tanh" if by_tanh else "none")
            return
        one, half = numpy.float32(1), numpy.float32(0.5)
        if by_tanh:
            cube = self._write("Mul", [self._write("Pow", [x, numpy.float32(3)]), numpy.float32(0.044715)])
            scaled = self._write("Mul", [self._write("Add", [x, cube]), numpy.float32(math.sqrt(2 / math.pi))])
            curve = self._write("Tanh", [scaled])
        else:
            curve = self._write("Erf", [self._write("Mul", [x, numpy.float32(math.sqrt(0.5))])])
        self._write("Mul", [self._write("Mul", [x, half]), self._write("Add", [curve, one])], result)


class IElementWiseLayer(Layer):
    """An operation of two tensors."""

    _OPERATORS = {
        ElementWiseOperation.SUM: "Add",
        ElementWiseOperation.PROD: "Mul",
        ElementWiseOperation.MAX: "Max",
        ElementWiseOperation.MIN: "Min",
        ElementWiseOperation.SUB: "Sub",
        ElementWiseOperation.DIV: "Div",
        ElementWiseOperation.POW: "Pow",
        ElementWiseOperation.AND: "And",
        ElementWiseOperation.OR: "Or",
        ElementWiseOperation.XOR: "Xor",
        ElementWiseOperation.EQUAL: "Equal",
        ElementWiseOperation.GREATER: "Greater",
        ElementWiseOperation.LESS: "Less",
    }

    def __init__(self, network, name, inputs, output, op):
        super().__init__(network, LayerType.ELEMENTWISE, name, inputs, [output])
        self.op = op

    def _emit(self):
        if self.op != ElementWiseOperation.FLOOR_DIV:
            self._write(self._OPERATORS[self.op], self._inputs, self._result())
            return
        if self._inputs[0].dtype in (DataType.FLOAT, DataType.HALF, DataType.BF16):
            self._write("Floor", [self._write("Div", self._inputs)], self._result())
            return
        # Division of integers rounds towards zero: (a - mod(a, b)) / b has no remainder to round.
        rest = self._write("Mod", self._inputs)
        self._write("Div", [self._write("Sub", [self._inputs[0], rest]), self._inputs[1]], self._result())


class IUnaryLayer(Layer):
    """An operation of one tensor."""

    _NAMES = {UnaryOperation.RECIP: "Reciprocal", UnaryOperation.ISINF: "IsInf", UnaryOperation.ISNAN: "IsNaN"}

    def __init__(self, network, name, input, output, op):
        super().__init__(network, LayerType.UNARY, name, [input], [output])
        self.op = op

    def _emit(self):
        self._write(self._NAMES.get(self.op, self.op.name.capitalize()), self._inputs, self._result())


class IScaleLayer(Layer):
    """(x * scale + shift) ** power, with numbers for all, for each channel, or for each element."""

    def __init__(self, network, name, input, output, mode, shift, scale, power, channel_axis):
        super().__init__(network, LayerType.SCALE, name, [input], [output])
        self.mode, self.shift, self.scale, self.power, self.channel_axis = mode, shift, scale, power, channel_axis

    def _factor(self, weights, role):
        array = self._shaped(weights)
        # TensorRT has no role for powers.
        return array if array is None or role is None else self._weights_of(array, role)

    def _shaped(self, weights):
        array = self._array(weights)
        if array is None:
            return None
        if self.mode == ScaleMode.UNIFORM:
            return array.reshape(())
        shape = list(self._inputs[0].shape)
        if self.mode == ScaleMode.CHANNEL:
            return array.reshape([-1] + [1] * (len(shape) - 1 - self.channel_axis))
        return array.reshape(shape[self.channel_axis :])

    def _emit(self):
        value = self._inputs[0]
        for op, factor, role in (
            ("Mul", self.scale, WeightsRole.SCALE),
            ("Add", self.shift, WeightsRole.SHIFT),
            ("Pow", self.power, None),
        ):
            operand = self._factor(factor, role)
            if operand is not None:
                value = self._write(op, [value, operand])
        self._write("Identity", [value], self._result())


class ISoftMaxLayer(Layer):
    """Softmax along the axis of a bit mask."""

    def __init__(self, network, name, input, output):
        super().__init__(network, LayerType.SOFTMAX, name, [input], [output])
        self.axes = 1 << max(0, len(input.shape) - 3)

    def _emit(self):
        axes = axes_of(self.axes)
        if len(axes) != 1:
            raise ValueError(f"layer '{self.name}': softmax has one axis, not {len(axes)}")
        self._write("Softmax", self._inputs, self._result(), axis=axes[0])


class IRaggedSoftMaxLayer(Layer):
    """Softmax along the last axis of the first elements of each row, as many as a tensor says; the others become 0."""

    def __init__(self, network, name, inputs, output):
        super().__init__(network, LayerType.RAGGED_SOFTMAX, name, inputs, [output])

    def _emit(self):
        scores, bounds = self._inputs
        sizes = self._write("Cast", [self._write("Shape", [scores])], to="i32")
        length = self._write("Squeeze", [self._write("Slice", [sizes, [-1], [numpy.iinfo(numpy.int64).max]]), [0]])
        zero, one = (self._constant(numpy.array(number, numpy.int32)) for number in (0, 1))
        is_inside = self._write("Less", [self._write("Range", [zero, length, one]), bounds])
        # A row of none is NaN here, and zeros in the end.
        kept = self._write("Where", [is_inside, scores, self._like(scores, -numpy.inf)])
        softmax = self._write("Softmax", [kept], axis=-1)
        self._write("Where", [is_inside, softmax, self._like(scores, 0)], self._result())

    def _like(self, tensor, number):
        """A constant of the tensor's type."""
        return self._write("Cast", [self._constant(numpy.array(number, numpy.float32))], to=name_of_dtype(tensor.dtype))


class IReduceLayer(Layer):
    """A reduction over the axes of a bit mask."""

    def __init__(self, network, name, input, output, op, axes, keep_dims):
        super().__init__(network, LayerType.REDUCE, name, [input], [output])
        self.op, self.axes, self.keep_dims = op, axes, keep_dims

    def _emit(self):
        op = "ReduceMean" if self.op == ReduceOperation.AVG else f"Reduce{self.op.name.capitalize()}"
        axes, keep = axes_of(self.axes), int(self.keep_dims)
        self._write(op, [*self._inputs, axes], self._result(), keepdims=keep)


class ITopKLayer(Layer):
    """The largest or smallest numbers along an axis, and where they are."""

    def __init__(self, network, name, input, outputs, op, k, axes, indices_type):
        super().__init__(network, LayerType.TOPK, name, [input], outputs)
        self.op, self.k, self.axes, self.indices_type = op, k, axes, indices_type

    def _emit(self):
        count = self.get_input(1)
        if count is None:
            count = [self.k]
        else:
            count = self._write("Reshape", [self._write("Cast", [count], to="i64"), [1]])
        values, indices = self._outputs
        _, wide = self._write_node(
            "TopK",
            [self.get_input(0), count],
            [values, None],
            axis=axes_of(self.axes)[0],
            largest=int(self.op == TopKOperation.MAX),
        )
        self._write("Cast", [wide], [indices], to=name_of_dtype(self.indices_type))


class IMatrixMultiplyLayer(Layer):
    """A product of matrices, batched over the axes before."""

    def __init__(self, network, name, inputs, output, op0, op1):
        super().__init__(network, LayerType.MATRIX_MULTIPLY, name, inputs, [output])
        self.op0, self.op1 = op0, op1

    def _operand(self, index, op):
        tensor = self._inputs[index]
        if op == MatrixOperation.TRANSPOSE:
            order = list(range(len(tensor.shape)))
            order[-2:] = order[-1], order[-2]
            return self._write("Transpose", [tensor], perm=order)
        if op == MatrixOperation.VECTOR:
            return self._write("Unsqueeze", [tensor, [-2 if index == 0 else -1]])
        return tensor

    def _emit(self):
        operands = [self._operand(0, self.op0), self._operand(1, self.op1)]
        squeezed = [-2] * (self.op0 == MatrixOperation.VECTOR) + [-1] * (self.op1 == MatrixOperation.VECTOR)
        if not squeezed:
            self._write("MatMul", operands, self._result())
        else:
            self._write("Squeeze", [self._write("MatMul", operands), squeezed], self._result())


class INormalizationLayer(Layer):
    """Layer, instance or group normalisation over the axes of a bit mask."""

    def __init__(self, network, name, inputs, output, axes):
        super().__init__(network, LayerType.NORMALIZATION, name, inputs, [output])
        self.epsilon, self.axes, self.num_groups, self.is_v2 = 1e-5, axes, 1, False
        self.compute_precision = DataType.FLOAT

    def _emit(self):
        x, scale, bias = self._inputs
        axes = axes_of(self.axes)
        if self.num_groups != 1:
            shape = self._write("Shape", [x])
            x = self._write("Reshape", [x, [0, self.num_groups, -1]])
            axes = [2]
        mean = self._mean(x, axes)
        centred = self._write("Sub", [x, mean])
        variance = self._mean(self._write("Mul", [centred, centred]), axes)
        root = self._write("Sqrt", [self._write("Add", [variance, numpy.float32(self.epsilon)])])
        value = self._write("Div", [centred, root])
        if self.num_groups != 1:
            value = self._write("Reshape", [value, shape])
        self._write("Add", [self._write("Mul", [value, scale]), bias], self._result())

    def _mean(self, x, axes):
        return self._write("ReduceMean", [x, axes], keepdims=1)


class ICastLayer(Layer):
    """Numbers of another type."""

    def __init__(self, network, name, input, output, to_type):
        super().__init__(network, LayerType.CAST, name, [input], [output])
        self.to_type = to_type

    def _emit(self):
        self._write("Cast", self._inputs, self._result(), to=name_of_dtype(self.to_type))
