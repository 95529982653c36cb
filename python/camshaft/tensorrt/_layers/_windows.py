"""Convolutions, poolings, and what else has a window or an edge."""

import numpy

from camshaft.tensorrt._enums import (
    InterpolationMode,
    LayerType,
    PaddingMode,
    PoolingType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    WeightsRole,
)
from camshaft.tensorrt._layers._base import Layer, alias
from camshaft.tensorrt._values import Dims


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

    padding, stride = alias("padding_nd"), alias("stride_nd")

    def _pads(self):
        if self.padding_mode in (PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER):
            return {"auto_pad": self.padding_mode.name}
        return {"pads": [*self.pre_padding, *self.post_padding]}


class IConvolutionLayer(_Windowed):
    """A convolution."""

    kernel_size, dilation = alias("kernel_size_nd"), alias("dilation_nd")

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
        return self._weights_of(kernel.reshape(sizes), WeightsRole.KERNEL)

    def _operands(self, leading):
        bias = self._array(self.bias)
        if bias is not None:
            bias = self._weights_of(bias.reshape(-1), WeightsRole.BIAS)
        return [self.get_input(0), self._weights(leading), self.get_input(2) if bias is None else bias]

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
        bias = None if bias is None else bias.reshape(-1)
        weights = [self._weights_of(kernel, WeightsRole.KERNEL), self._weights_of(bias, WeightsRole.BIAS)]
        self._write("Conv", [self._inputs[0], *weights], self._result())


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

    window_size = alias("window_size_nd")

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


class IPaddingLayer(Layer):
    """Zeros around the last two axes, or less where the number is negative."""

    def __init__(self, network, name, input, output, pre_padding, post_padding):
        super().__init__(network, LayerType.PADDING, name, [input], [output])
        self.pre_padding_nd, self.post_padding_nd = Dims(pre_padding), Dims(post_padding)

    pre_padding, post_padding = alias("pre_padding_nd"), alias("post_padding_nd")

    def _emit(self):
        kept = [0] * (self._rank() - 2)
        pads = [*kept, *self.pre_padding_nd, *kept, *self.post_padding_nd]
        self._write("Pad", [self._inputs[0], pads], self._result())


class ILRNLayer(Layer):
    """Local response normalisation."""

    def __init__(self, network, name, input, output, window_size, alpha, beta, k):
        super().__init__(network, LayerType.LRN, name, [input], [output])
        self.window_size, self.alpha, self.beta, self.k = window_size, alpha, beta, k

    def _emit(self):
        self._write(
            "LRN", self._inputs, self._result(), size=self.window_size, alpha=self.alpha, beta=self.beta, bias=self.k
        )


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
