"""The layers of TensorRT's network API, each as ONNX nodes."""

import contextlib
import json
import math

import numpy

from camshaft import _native
from camshaft._arrays import capsule_of
from camshaft._values import Value
from camshaft.tensorrt._enums import (
    ActivationType,
    BoundingBoxFormat,
    DataType,
    ElementWiseOperation,
    FillOperation,
    GatherMode,
    InterpolationMode,
    LayerType,
    MatrixOperation,
    PaddingMode,
    PoolingType,
    ReduceOperation,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    SampleMode,
    ScaleMode,
    ScatterMode,
    TopKOperation,
    UnaryOperation,
)
from camshaft.tensorrt._network import ILayer, ITensor
from camshaft.tensorrt._values import Dims, Weights, dtype_of_numpy, name_of_dtype, nptype

#: Between a layer's name and what tells its inner nodes apart.
INNER = "::"
#: Above every version of ONNX's operators.
NEWEST = 10**6


def axes_of(mask):
    """The axes of a bit mask."""
    return [axis for axis in range(Dims.MAX_DIMS) if mask >> axis & 1]


#: Operators whose axes are an attribute before this version.
_AXES_ARE_INPUTS = {"Squeeze": 13, "Unsqueeze": 13, "ReduceSum": 13} | dict.fromkeys(
    ["ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"], 18
)


class Layer(ILayer):
    """A layer that writes ONNX nodes; the names of inner ones begin with its own."""

    def _write_into(self, scope, plan):
        with self._writing(scope):
            self._emit()

    @contextlib.contextmanager
    def _writing(self, scope):
        self._scope, self._count = scope, 0
        try:
            yield
        finally:
            self._scope = None

    def _value(self, operand):
        """The camshaft.Value of a tensor, or of an array or numbers, which become a constant; None for none."""
        if operand is None or isinstance(operand, Value):
            return operand
        if isinstance(operand, ITensor):
            return self._scope.value(operand)
        return self._constant(numpy.asarray(operand, None if hasattr(operand, "dtype") else numpy.int64))

    def _values(self, operands):
        """Of all of a node; numbers of NumPy are in the type of the floats beside them."""
        values = [None if isinstance(operand, numpy.floating) else self._value(operand) for operand in operands]
        kinds = [value.dtype for value in values if value is not None and value.dtype in ("f16", "bf16", "f64")]
        for k, operand in enumerate(operands):
            if isinstance(operand, numpy.floating):
                values[k] = self._constant(numpy.asarray(operand))
                if kinds:
                    values[k] = self._scope.net.Cast(values[k], to=kinds[0])
        return values

    def _constant(self, array):
        return self._scope.net.constant(numpy.ascontiguousarray(array).reshape(numpy.shape(array)))

    def _write(self, op, operands, outputs=None, **attributes):
        """A node; gives its first result."""
        return self._write_node(op, operands, outputs, **attributes)[0]

    def _write_node(self, op, operands, outputs=None, **attributes):
        """A node of these operands; gives its results. `outputs`: the layer's tensors that they are, None for one that is
        none; without it is an inner node."""
        scope = self._scope
        if op in _AXES_ARE_INPUTS and self._opset < _AXES_ARE_INPUTS[op]:
            *operands, attributes["axes"] = operands
        values = self._values(operands)
        self._count += 1
        # The layer's own name is that of the node that computes its result, for precisions by name.
        name = scope.name_of_node(self, self.name if outputs else f"{self.name}{INNER}{op}_{self._count}")
        names = [scope.name_of_result(tensor) if tensor is not None else None for tensor in outputs or [None]]
        made = getattr(scope.net, op)(*values, name=name, outputs=names, **attributes)
        results = made if isinstance(made, tuple) else (made,)
        for tensor, value in zip(outputs or (), results):
            if tensor is not None:
                scope.set(tensor, value)
        return results

    def _wide(self, indices):
        """As ONNX has indices that are several numbers each."""
        return self._write("Cast", [indices], to="i64") if indices.dtype != DataType.INT64 else indices

    def _result(self, index=0):
        return [self._outputs[index]]

    def _emit(self):
        raise NotImplementedError

    @property
    def _opset(self):
        return self._network._opset or NEWEST

    def _rank(self, index=0):
        return len(self._inputs[index].shape)

    def _array(self, weights):
        """Of Weights or an array; None for an empty one."""
        if weights is None:
            return None
        array = weights.numpy() if isinstance(weights, Weights) else numpy.asarray(weights)
        return array if array.size else None


def _alias(of):
    """TensorRT 8's name of a property of sizes."""
    return property(lambda self: getattr(self, of), lambda self, value: setattr(self, of, Dims(value)))


class _Windowed(Layer):
    """What convolutions and poolings share."""

    def _window(self, sizes):
        self.__dict__.update(
            stride_nd=Dims([1] * len(sizes)),
            pre_padding=Dims([0] * len(sizes)),
            post_padding=Dims([0] * len(sizes)),
            padding_mode=PaddingMode.EXPLICIT_ROUND_DOWN,
        )

    @property
    def padding_nd(self):
        return self.pre_padding

    @padding_nd.setter
    def padding_nd(self, padding):
        self.pre_padding = self.post_padding = Dims(padding)

    padding, stride = _alias("padding_nd"), _alias("stride_nd")

    def _pads(self):
        if self.padding_mode in (PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER):
            return {"auto_pad": self.padding_mode.name}
        return {"pads": [*self.pre_padding, *self.post_padding]}


class IConvolutionLayer(_Windowed):
    """A convolution."""

    kernel_size, dilation = _alias("kernel_size_nd"), _alias("dilation_nd")

    def __init__(self, network, name, input, output, num_output_maps, kernel_size, kernel, bias, type):
        super().__init__(network, type, name, [input], [output])
        self.num_output_maps = num_output_maps
        self.kernel_size_nd = Dims(kernel_size)
        self.kernel, self.bias = kernel, bias
        self.num_groups = 1
        self.dilation_nd = Dims([1] * len(self.kernel_size_nd))
        self._window(self.kernel_size_nd)

    def _weights(self, leading):
        kernel = self._array(self.kernel)
        if kernel is None:
            return self.get_input(1)
        sizes = (*leading, -1, *self.kernel_size_nd) if len(leading) == 1 else (-1, *leading[1:], *self.kernel_size_nd)
        return kernel.reshape(sizes)

    def _operands(self, leading):
        bias = self._array(self.bias)
        return [self.get_input(0), self._weights(leading), self.get_input(2) if bias is None else bias.reshape(-1)]

    def _emit(self):
        self._write(
            "Conv",
            self._operands([self.num_output_maps]),
            self._result(),
            kernel_shape=list(self.kernel_size_nd),
            strides=list(self.stride_nd),
            dilations=list(self.dilation_nd),
            group=self.num_groups,
            **self._pads(),
        )


class IFullyConnectedLayer(Layer):
    """A product of a matrix and what is in the last three axes, of TensorRT 8: [batch, outputs, 1, 1]."""

    def __init__(self, network, name, input, output, num_output_channels, kernel, bias):
        super().__init__(network, LayerType.FULLY_CONNECTED, name, [input], [output])
        self.num_output_channels, self.kernel, self.bias = num_output_channels, kernel, bias

    def _emit(self):
        sizes = list(self._inputs[0].shape)
        if len(sizes) != 4 or -1 in sizes[1:]:
            raise NotImplementedError(f"layer '{self.name}': fully connected is of [batch, c, h, w], not {sizes}")
        bias = self._array(self.bias)
        kernel = self._array(self.kernel).reshape(self.num_output_channels, *sizes[1:])
        self._write("Conv", [self._inputs[0], kernel, None if bias is None else bias.reshape(-1)], self._result())


class IDeconvolutionLayer(IConvolutionLayer):
    """A transposed convolution."""

    def _emit(self):
        self._write(
            "ConvTranspose",
            self._operands([None, self.num_output_maps // self.num_groups]),
            self._result(),
            kernel_shape=list(self.kernel_size_nd),
            strides=list(self.stride_nd),
            dilations=list(self.dilation_nd),
            group=self.num_groups,
            **self._pads(),
        )


class IPoolingLayer(_Windowed):
    """A pooling."""

    window_size = _alias("window_size_nd")

    def __init__(self, network, name, input, output, type, window_size):
        super().__init__(network, LayerType.POOLING, name, [input], [output])
        self.type = type
        self.window_size_nd = Dims(window_size)
        self.blend_factor = 0.0
        self.average_count_excludes_padding = True
        self._window(self.window_size_nd)

    def _emit(self):
        settings = {
            "kernel_shape": list(self.window_size_nd),
            "strides": list(self.stride_nd),
            "ceil_mode": int(self.padding_mode == PaddingMode.EXPLICIT_ROUND_UP),
            **self._pads(),
        }
        count = int(not self.average_count_excludes_padding)
        if self.type == PoolingType.MAX:
            self._write("MaxPool", self._inputs, self._result(), **settings)
        elif self.type == PoolingType.AVERAGE:
            self._write("AveragePool", self._inputs, self._result(), count_include_pad=count, **settings)
        else:
            most = self._write("MaxPool", self._inputs, **settings)
            mean = self._write("AveragePool", self._inputs, count_include_pad=count, **settings)
            blend = numpy.float32(self.blend_factor)
            self._write(
                "Add",
                [self._write("Mul", [most, numpy.float32(1) - blend]), self._write("Mul", [mean, blend])],
                self._result(),
            )


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

    def _factor(self, weights):
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
        for op, factor in (("Mul", self.scale), ("Add", self.shift), ("Pow", self.power)):
            array = self._factor(factor)
            if array is not None:
                value = self._write(op, [value, array])
        self._write("Identity", [value], self._result())


class ILRNLayer(Layer):
    """Local response normalisation."""

    def __init__(self, network, name, input, output, window_size, alpha, beta, k):
        super().__init__(network, LayerType.LRN, name, [input], [output])
        self.window_size, self.alpha, self.beta, self.k = window_size, alpha, beta, k

    def _emit(self):
        self._write(
            "LRN", self._inputs, self._result(), size=self.window_size, alpha=self.alpha, beta=self.beta, bias=self.k
        )


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


class IConcatenationLayer(Layer):
    """Tensors side by side."""

    def __init__(self, network, name, inputs, output):
        super().__init__(network, LayerType.CONCATENATION, name, inputs, [output])
        self.axis = max(0, len(inputs[0].shape) - 3)

    def _emit(self):
        self._write("Concat", self._inputs, self._result(), axis=self.axis)


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


class IGatherLayer(Layer):
    """Elements of a tensor by their indices."""

    def __init__(self, network, name, inputs, output, mode, axis=0):
        super().__init__(network, LayerType.GATHER, name, inputs, [output])
        self.axis, self.mode, self.num_elementwise_dims = axis, mode, 0

    def _emit(self):
        if self.mode == GatherMode.ND:
            data, indices = self._inputs
            self._write("GatherND", [data, self._wide(indices)], self._result(), batch_dims=self.num_elementwise_dims)
        elif self.mode == GatherMode.ELEMENT:
            self._write("GatherElements", self._inputs, self._result(), axis=self.axis)
        elif self.num_elementwise_dims == 0:
            self._write("Gather", self._inputs, self._result(), axis=self.axis)
        else:
            raise NotImplementedError(f"layer '{self.name}': a gather with num_elementwise_dims; use GatherMode.ND")


class IScatterLayer(Layer):
    """A tensor with some elements replaced."""

    def __init__(self, network, name, inputs, output, mode):
        super().__init__(network, LayerType.SCATTER, name, inputs, [output])
        self.axis, self.mode = 0, mode

    def _emit(self):
        if self.mode == ScatterMode.ND:
            data, indices, updates = self._inputs
            self._write("ScatterND", [data, self._wide(indices), updates], self._result())
        else:
            self._write("ScatterElements", self._inputs, self._result(), axis=self.axis)


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


class IConstantLayer(Layer):
    """Constant numbers."""

    def __init__(self, network, name, output, shape, weights):
        super().__init__(network, LayerType.CONSTANT, name, [], [output])
        self.shape, self.weights = Dims(shape), weights

    def _emit(self):
        array = self.weights.numpy() if isinstance(self.weights, Weights) else numpy.asarray(self.weights)
        dtype_of_numpy(array.dtype)
        array = numpy.ascontiguousarray(array).reshape(tuple(self.shape))
        result = self._outputs[0]
        self._scope.set(result, self._scope.net.constant(array, self._scope.name_of_result(result)))


class IShuffleLayer(Layer):
    """A transpose, a reshape and a transpose."""

    def __init__(self, network, name, input, output):
        super().__init__(network, LayerType.SHUFFLE, name, [input], [output])
        self.first_transpose, self.second_transpose, self.reshape_dims = None, None, None
        self.zero_is_placeholder = True

    def _emit(self):
        value = self._inputs[0]
        if self.first_transpose is not None:
            value = self._write("Transpose", [value], perm=list(self.first_transpose))
        dims = self.get_input(1)
        if dims is not None:
            dims = self._write("Cast", [dims], to="i64")
        elif self.reshape_dims is not None:
            dims = list(self.reshape_dims)
        if dims is not None:
            value = self._write("Reshape", [value, dims], allowzero=None if self.zero_is_placeholder else 1)
        if self.second_transpose is not None:
            value = self._write("Transpose", [value], perm=list(self.second_transpose))
        self._write("Identity", [value], self._result())


class ISliceLayer(Layer):
    """A part of a tensor; strides of 0 repeat an element. `mode` says what indices outside give."""

    _MODES = {
        SampleMode.CLAMP: "edge",
        SampleMode.REFLECT: "reflect",
        SampleMode.WRAP: "wrap",
        SampleMode.FILL: "constant",
    }

    def __init__(self, network, name, input, output, start, shape, stride):
        super().__init__(network, LayerType.SLICE, name, [input], [output])
        self.start, self.shape, self.stride = Dims(start), Dims(shape), Dims(stride)
        self.mode, self.axes = SampleMode.STRICT_BOUNDS, None

    def _parameter(self, index, fixed):
        tensor = self.get_input(index)
        if tensor is None:
            return numpy.asarray(fixed, numpy.int64)
        return self._write("Cast", [tensor], to="i64")

    def _emit(self):
        start, shape, stride = (
            self._parameter(1, self.start),
            self._parameter(2, self.shape),
            self._parameter(3, self.stride),
        )
        axes = list(range(self._rank())) if self.axes is None else list(self.axes)
        is_fixed = all(isinstance(given, numpy.ndarray) for given in (start, shape, stride))
        if not isinstance(stride, numpy.ndarray) or not stride.all():
            self._axis_by_axis(start, shape, stride, axes)
        elif self.mode == SampleMode.STRICT_BOUNDS:
            end = _end(start, shape, stride) if is_fixed else self._sum(start, self._product(shape, stride))
            self._write("Slice", [self._inputs[0], start, end, axes, stride], self._result())
        elif is_fixed and self.axes is None and -1 not in self._inputs[0].shape:
            self._of_padded(start, shape, stride)
        else:
            self._axis_by_axis(start, shape, stride, axes)

    def _sum(self, a, b):
        return self._write("Add", [a, b])

    def _product(self, a, b):
        return self._write("Mul", [a, b])

    def _of_padded(self, start, shape, stride):
        """Indices outside: of a padded tensor."""
        sizes, last = numpy.asarray(self._inputs[0].shape), start + (shape - 1) * stride
        before = numpy.maximum(0, -numpy.minimum(start, last))
        after = numpy.maximum(0, numpy.maximum(start, last) - sizes + 1)
        pads = numpy.concatenate([before, after]).astype(numpy.int64)
        padded = self._write("Pad", [self._inputs[0], pads, self.get_input(4)], mode=self._MODES[self.mode])
        start = start + before
        end = _end(start, shape, stride)
        self._write("Slice", [padded, start, end, list(range(len(sizes))), stride], self._result())

    def _axis_by_axis(self, start, shape, stride, axes):
        """By the places along each axis, whatever only running tells of them."""
        value, inside = self._inputs[0], []
        for k, axis in enumerate(axes):

            def of(given):
                return (
                    given[k]
                    if isinstance(given, numpy.ndarray)
                    else self._write("Gather", [given, numpy.int64(k)], axis=0)
                )

            steps = self._write("Range", [numpy.int64(0), of(shape), numpy.int64(1)])
            places = self._sum(self._product(steps, of(stride)), of(start))
            if self.mode != SampleMode.STRICT_BOUNDS:
                size = self._write("Gather", [self._write("Shape", [self._inputs[0]]), numpy.int64(axis)], axis=0)
                if self.mode == SampleMode.FILL:
                    sizes = [-1 if other == axis else 1 for other in range(self._rank())]
                    is_inside = self._write(
                        "And",
                        [self._write("GreaterOrEqual", [places, numpy.int64(0)]), self._write("Less", [places, size])],
                    )
                    inside.append(self._write("Reshape", [is_inside, sizes]))
                places = self._within(places, self._write("Sub", [size, numpy.int64(1)]), size)
            value = self._write("Gather", [value, places], axis=axis)
        if inside:
            fill = self.get_input(4)
            if fill is None:
                fill = self._write("Cast", [numpy.zeros((), numpy.float32)], to=self._value(self._inputs[0]).dtype)
            everywhere = inside[0]
            for other in inside[1:]:
                everywhere = self._write("And", [everywhere, other])
            value = self._write("Where", [everywhere, value, fill])
        self._write("Identity", [value], self._result())

    def _within(self, places, last, size):
        """Places that are outside, inside."""
        if self.mode == SampleMode.WRAP:
            return self._write("Mod", [places, size])
        if self.mode == SampleMode.REFLECT:  # back and forth between the first and the last
            period = self._write("Max", [self._product(last, numpy.int64(2)), numpy.int64(1)])
            forth = self._write("Mod", [places, period])
            back = self._write("Sub", [period, forth])
            places = self._write("Min", [forth, back])
        return self._write("Min", [self._write("Max", [places, numpy.int64(0)]), last])


def _end(start, shape, stride):
    """The end of a slice, beyond its last element; below the first one where the stride is negative."""
    end = start + shape * stride
    return numpy.where((stride < 0) & (end < 0), numpy.iinfo(numpy.int64).min, end)


class IPaddingLayer(Layer):
    """Zeros around the last two axes, or less where the number is negative."""

    def __init__(self, network, name, input, output, pre_padding, post_padding):
        super().__init__(network, LayerType.PADDING, name, [input], [output])
        self.pre_padding_nd, self.post_padding_nd = Dims(pre_padding), Dims(post_padding)

    pre_padding, post_padding = _alias("pre_padding_nd"), _alias("post_padding_nd")

    def _emit(self):
        kept = [0] * (self._rank() - 2)
        pads = [*kept, *self.pre_padding_nd, *kept, *self.post_padding_nd]
        self._write("Pad", [self._inputs[0], pads], self._result())


class IResizeLayer(Layer):
    """Another size by interpolation."""

    _COORDINATES = {
        ResizeCoordinateTransformation.ALIGN_CORNERS: "align_corners",
        ResizeCoordinateTransformation.ASYMMETRIC: "asymmetric",
        ResizeCoordinateTransformation.HALF_PIXEL: "half_pixel",
    }
    _ROUNDING = {
        ResizeRoundMode.HALF_UP: "round_prefer_ceil",
        ResizeRoundMode.HALF_DOWN: "round_prefer_floor",
        ResizeRoundMode.FLOOR: "floor",
        ResizeRoundMode.CEIL: "ceil",
    }

    def __init__(self, network, name, input, output):
        super().__init__(network, LayerType.RESIZE, name, [input], [output])
        self.shape, self.scales = None, None
        self.resize_mode = InterpolationMode.NEAREST
        self.coordinate_transformation = ResizeCoordinateTransformation.ASYMMETRIC
        self.selector_for_single_pixel = 0
        self.nearest_rounding = ResizeRoundMode.FLOOR
        self.exclude_outside = False
        self.cubic_coeff = -0.75

    def _emit(self):
        sizes = self.get_input(1)
        if sizes is not None:
            sizes = self._write("Cast", [sizes], to="i64")
        elif self.shape is not None:
            sizes = list(self.shape)
        scales = None
        if sizes is None:
            if self.scales is None:
                raise ValueError(f"layer '{self.name}': set its shape, its scales, or input 1")
            scales = numpy.asarray(self.scales, numpy.float32)
        self._write(
            "Resize",
            [self._inputs[0], None, scales, sizes],
            self._result(),
            mode=self.resize_mode.name.lower(),
            coordinate_transformation_mode=self._COORDINATES[self.coordinate_transformation],
            nearest_mode=self._ROUNDING[self.nearest_rounding],
            cubic_coeff_a=float(self.cubic_coeff),
            exclude_outside=int(self.exclude_outside),
        )

    @property
    def align_corners(self):
        """Of TensorRT 8."""
        return self.coordinate_transformation == ResizeCoordinateTransformation.ALIGN_CORNERS

    @align_corners.setter
    def align_corners(self, value):
        modes = ResizeCoordinateTransformation
        self.coordinate_transformation = modes.ALIGN_CORNERS if value else modes.ASYMMETRIC


class IFillLayer(Layer):
    """A tensor of even steps, or of random numbers."""

    def __init__(self, network, name, output, shape, op, output_type):
        super().__init__(network, LayerType.FILL, name, [], [output])
        self.shape, self.operation, self.to_type = Dims(shape), op, output_type
        self.alpha, self.beta = 0.0, 1.0
        self.is_alpha_beta_int64 = False

    def _emit(self):
        shape = self.get_input(0)
        to = name_of_dtype(self.to_type)
        if self.operation == FillOperation.LINSPACE:
            self._linspace(shape, to)
            return
        shape = numpy.asarray(self.shape, numpy.int64) if shape is None else shape
        zeros = self._write("ConstantOfShape", [shape], value=numpy.zeros(1, numpy.float32))
        if self.operation == FillOperation.RANDOM_UNIFORM:
            self._write("RandomUniformLike", [zeros], self._result(), low=self.alpha, high=self.beta, dtype=to)
        else:
            self._write("RandomNormalLike", [zeros], self._result(), mean=self.alpha, scale=self.beta, dtype=to)

    def _linspace(self, shape, to):
        """start + the sum over axes of index * step."""
        start, step = self.get_input(1), self.get_input(2)
        rank = len(self.shape) if shape is None else shape.shape[0]
        if step is None and rank > 1:
            raise ValueError(f"layer '{self.name}': even steps along {rank} axes are given as input 2, one for each")
        kind = nptype(self.to_type)
        value = kind(self.alpha) if start is None else start
        for axis in range(rank):
            place = numpy.int64(axis)
            count = numpy.int64(self.shape[axis]) if shape is None else self._write("Gather", [shape, place], axis=0)
            count = count if shape is None else self._write("Cast", [count], to="i64")
            places = self._write("Cast", [self._write("Range", [numpy.int64(0), count, numpy.int64(1)])], to=to)
            places = self._write("Reshape", [places, [-1] + [1] * (rank - 1 - axis)])
            along = step
            if step is None:
                along = kind(self.beta)
            elif len(step.shape):
                along = self._write("Gather", [step, place], axis=0)
            value = self._write("Add", [self._write("Mul", [places, along]), value])
        self._write("Identity", [value], self._result())


class IQuantizeLayer(Layer):
    """Numbers to steps of a scale."""

    def __init__(self, network, name, inputs, output, to_type):
        super().__init__(network, LayerType.QUANTIZE, name, inputs, [output])
        self.axis, self.to_type = -1, to_type

    def _emit(self):
        zero = self.get_input(2)
        if zero is None and self.to_type != DataType.UINT8:
            zero = self._zeros(list(self._inputs[1].shape), name_of_dtype(self.to_type))
        axis = self.axis if self.axis >= 0 else None
        self._write("QuantizeLinear", [*self._inputs[:2], zero], self._result(), axis=axis)

    def _zeros(self, sizes, dtype):
        """Zero points, which say of what type the steps are."""
        bits = {"i4": 4, "f4e2m1": 4}.get(dtype, 8)
        data = numpy.zeros(-(-math.prod(sizes) * bits // 8), numpy.uint8)
        net = self._scope.net
        return Value(net, json.loads(_native.network_constant(net._native, None, capsule_of(data), dtype, sizes)))


class IDequantizeLayer(Layer):
    """Steps of a scale to numbers."""

    def __init__(self, network, name, inputs, output, to_type):
        super().__init__(network, LayerType.DEQUANTIZE, name, inputs, [output])
        self.axis, self.to_type = -1, to_type

    def _emit(self):
        axis = self.axis if self.axis >= 0 else None
        self._write("DequantizeLinear", self._inputs, self._result(), axis=axis)


class INormalizationLayer(Layer):
    """Layer, instance or group normalisation over the axes of a bit mask."""

    def __init__(self, network, name, inputs, output, axes):
        super().__init__(network, LayerType.NORMALIZATION, name, inputs, [output])
        self.epsilon, self.axes, self.num_groups = 1e-5, axes, 1
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


class INMSLayer(Layer):
    """The boxes that no better one overlaps: their indices (batch, class, box), and how many there are."""

    def __init__(self, network, name, inputs, outputs, indices_type):
        super().__init__(network, LayerType.NMS, name, inputs, outputs)
        self.bounding_box_format, self.topk_box_limit, self.indices_type = (
            BoundingBoxFormat.CORNER_PAIRS,
            -1,
            indices_type,
        )

    def _emit(self):
        boxes, scores, count = self._inputs[:3]
        overlap, threshold = self.get_input(3), self.get_input(4)
        # Boxes [batch, box, class, 4] or [batch, box, 4]; scores [batch, box, class].
        if len(boxes.shape) == 4:
            if boxes.shape[2] != 1:
                raise NotImplementedError(f"layer '{self.name}': boxes that differ by class")
            boxes = self._write("Squeeze", [boxes, [2]])
        turned = self._write("Transpose", [scores], perm=[0, 2, 1])
        count = self._write("Reshape", [self._write("Cast", [count], to="i64"), [1]])
        found = self._write(
            "NonMaxSuppression",
            [boxes, turned, count, overlap, threshold],
            center_point_box=int(self.bounding_box_format),
        )
        indices, number = self._outputs
        self._write("Cast", [found], [indices], to=name_of_dtype(self.indices_type))
        size = self._write("Gather", [self._write("Shape", [found]), numpy.int64(0)])
        self._write("Cast", [size], [number], to="i32")


class ICastLayer(Layer):
    """Numbers of another type."""

    def __init__(self, network, name, input, output, to_type):
        super().__init__(network, LayerType.CAST, name, [input], [output])
        self.to_type = to_type

    def _emit(self):
        self._write("Cast", self._inputs, self._result(), to=name_of_dtype(self.to_type))


class IGridSampleLayer(Layer):
    """Values of a picture at the places of a grid."""

    _MODES = {SampleMode.FILL: "zeros", SampleMode.CLAMP: "border", SampleMode.REFLECT: "reflection"}

    def __init__(self, network, name, inputs, output):
        super().__init__(network, LayerType.GRID_SAMPLE, name, inputs, [output])
        self.interpolation_mode = InterpolationMode.LINEAR
        self.align_corners = False
        self.sample_mode = SampleMode.FILL

    def _emit(self):
        if self.sample_mode not in self._MODES:
            raise NotImplementedError(f"layer '{self.name}': {self.sample_mode} of places outside")
        linear = "linear" if self._opset >= 20 else "bilinear"
        cubic = "cubic" if self._opset >= 20 else "bicubic"
        names = {
            InterpolationMode.LINEAR: linear,
            InterpolationMode.CUBIC: cubic,
            InterpolationMode.NEAREST: "nearest",
        }
        self._write(
            "GridSample",
            self._inputs,
            self._result(),
            mode=names[self.interpolation_mode],
            align_corners=int(self.align_corners),
            padding_mode=self._MODES[self.sample_mode],
        )
