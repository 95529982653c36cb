"""Layers between numbers and steps of scales: of a tensor, of an axis, or of blocks."""

import json
import math

import numpy

from camshaft import _native
from camshaft._arrays import capsule_of
from camshaft._values import Value
from camshaft.tensorrt._enums import DataType, LayerType
from camshaft.tensorrt._layers._base import Layer
from camshaft.tensorrt._values import Dims, name_of_dtype

_FLOATS = (DataType.FLOAT, DataType.HALF, DataType.BF16)


class _Quantizing(Layer):
    """What both ways share: which block each scale is of."""

    def __init__(self, network, type, name, inputs, output, to_type):
        super().__init__(network, type, name, inputs, [output])
        self.axis, self.to_type = -1, to_type

    @property
    def block_shape(self):
        """Of the input's rank: 1 along axes that have no blocks; without sizes where scales are of the tensor or an axis."""
        sizes, scales = list(self._inputs[0].shape), list(self._inputs[1].shape)
        if not self._blocked_axes(sizes, scales):
            return Dims()
        return Dims(size // count for size, count in zip(sizes, scales))

    @block_shape.setter
    def block_shape(self, shape):
        """It follows from the shapes of the input and of the scales, and is checked."""
        if self.block_shape != tuple(shape):
            raise ValueError(
                f"layer '{self.name}': the scales are of blocks of {self.block_shape}, not of {Dims(shape)}"
            )

    def _blocks(self):
        """(scale, zero point, attributes) of the node."""
        scale, zero = self._inputs[1], self.get_input(2)
        sizes, scales = list(self._inputs[0].shape), list(scale.shape)
        if scale.dtype not in _FLOATS:  # of 8 bits
            scale = self._write("Cast", [scale], to="f32")
        axes = self._blocked_axes(sizes, scales)
        if not axes:
            return scale, zero, {"axis": self.axis if self.axis >= 0 else None}
        for axis in axes[:-1]:  # ONNX has blocks along one axis: along the others a scale is repeated
            scale = self._repeated(scale, axis, len(sizes), sizes[axis] // scales[axis])
            zero = None if zero is None else self._repeated(zero, axis, len(sizes), sizes[axis] // scales[axis])
        return scale, zero, {"axis": axes[-1], "block_size": sizes[axes[-1]] // scales[axes[-1]]}

    def _blocked_axes(self, sizes, scales):
        """None where scales are of the tensor or of an axis."""
        if not scales or len(scales) != len(sizes) or (len(scales) == 1 and scales == sizes):
            return []
        axes = [axis for axis, (size, count) in enumerate(zip(sizes, scales)) if size != count]
        for axis in axes:
            if -1 in (sizes[axis], scales[axis]) or scales[axis] == 0 or sizes[axis] % scales[axis]:
                raise ValueError(
                    f"layer '{self.name}': {scales[axis]} scales for {sizes[axis]} elements along axis {axis}: blocks are "
                    "of the same size, which is known"
                )
        return axes or [len(sizes) - 1]  # of blocks of one element

    def _repeated(self, tensor, axis, rank, times):
        """Each element along the axis so many times."""
        wide = self._write("Unsqueeze", [tensor, [axis + 1]])
        tiled = self._write("Tile", [wide, [times if k == axis + 1 else 1 for k in range(rank + 1)]])
        return self._write("Reshape", [tiled, [0] * axis + [-1] + self._sizes_behind(axis)])

    def _sizes_behind(self, axis):
        """Of the scales, which are as the input's are where there are no blocks."""
        return [int(size) for size in list(self._inputs[1].shape)[axis + 1 :]]


class IQuantizeLayer(_Quantizing):
    """Numbers to steps of a scale."""

    def __init__(self, network, name, inputs, output, to_type):
        super().__init__(network, LayerType.QUANTIZE, name, inputs, output, to_type)

    def _emit(self):
        scale, zero, attributes = self._blocks()
        if "block_size" in attributes and zero is None:
            attributes["output_dtype"] = name_of_dtype(self.to_type)
        elif zero is None and self.to_type != DataType.UINT8:
            zero = self._zeros(list(self._inputs[1].shape), name_of_dtype(self.to_type))
        self._write("QuantizeLinear", [self._inputs[0], scale, zero], self._result(), **attributes)

    def _zeros(self, sizes, dtype):
        """Zero points, which say of what type the steps are."""
        bits = {"i4": 4, "f4e2m1": 4}.get(dtype, 8)
        data = numpy.zeros(-(-math.prod(sizes) * bits // 8), numpy.uint8)
        net = self._scope.net
        return Value(net, json.loads(_native.network_constant(net._native, None, capsule_of(data), dtype, sizes)))


class IDequantizeLayer(_Quantizing):
    """Steps of a scale to numbers."""

    def __init__(self, network, name, inputs, output, to_type):
        super().__init__(network, LayerType.DEQUANTIZE, name, inputs, output, to_type)

    def _emit(self):
        scale, zero, attributes = self._blocks()
        wanted = name_of_dtype(self.to_type)
        if (scale.dtype if isinstance(scale, Value) else name_of_dtype(scale.dtype)) != wanted:
            scale = self._write("Cast", [scale], to=wanted)
        self._write("DequantizeLinear", [self._inputs[0], scale, zero], self._result(), **attributes)


class IDynamicQuantizeLayer(Layer):
    """Numbers to steps of scales that are computed of each block's largest one; the scales are the second result. Input 1,
    where it is set, is a scale of the scales."""

    _LARGEST = {DataType.FP4: 6.0, DataType.FP8: 448.0}

    def __init__(self, network, name, input, outputs, axis, block_size, to_type, scale_type):
        super().__init__(network, LayerType.DYNAMIC_QUANTIZE, name, [input], outputs)
        self.axis, self.block_size, self.to_type, self.scale_type = axis, block_size, to_type, scale_type

    @property
    def block_shape(self):
        """Of the input's rank: 1 along axes that have no blocks."""
        return Dims(self.block_size if axis == self._axis() else 1 for axis in range(self._rank()))

    @block_shape.setter
    def block_shape(self, shape):
        wide = [axis for axis, size in enumerate(shape) if size != 1]
        if len(shape) != self._rank() or len(wide) > 1:
            raise ValueError(
                f"layer '{self.name}': blocks of the shape {Dims(shape)} are not along one axis of the input"
            )
        self.axis = wide[0] if wide else self._rank() - 1
        self.block_size = shape[self.axis]

    def _axis(self):
        return self.axis + self._rank() if self.axis < 0 else self.axis

    def _emit(self):
        if self.to_type not in self._LARGEST or self.scale_type not in (DataType.FP8, DataType.E8M0):
            raise ValueError(
                f"layer '{self.name}': dynamic quantisation is to FP4 or FP8, with scales in FP8 or E8M0, not to "
                f"{self.to_type.name} with {self.scale_type.name}"
            )
        x, axis, sizes = self._inputs[0], self._axis(), list(self._inputs[0].shape)
        if axis not in (len(sizes) - 1, len(sizes) - 2) or sizes[axis] < 0 or sizes[axis] % self.block_size:
            raise ValueError(
                f"layer '{self.name}': blocks of {self.block_size} along axis {self.axis} of {Dims(sizes)}: they are along "
                "one of the last two axes, whose size is known and a multiple of the block's"
            )
        behind = [] if axis == len(sizes) - 1 else [-1]
        split = [0] * axis + [sizes[axis] // self.block_size, self.block_size] + behind
        blocks = self._write("Reshape", [self._as_f32(x), split])
        most = self._write("ReduceMax", [self._write("Abs", [blocks]), [axis + 1]], keepdims=0)
        exact = self._write("Mul", [most, numpy.float32(1 / self._LARGEST[self.to_type])])
        of_scales = self.get_input(1)
        if of_scales is not None:
            exact = self._write("Div", [exact, of_scales])
        scale = self._write("Cast", [exact], [self._outputs[1]], to=name_of_dtype(self.scale_type))
        step = self._write("Cast", [scale], to="f32")
        if of_scales is not None:
            step = self._write("Mul", [step, of_scales])
        # A block of zeros, or of what is lost beside the scale of scales, has the scale 0: its steps are 0, too.
        is_zero = self._write("Equal", [step, numpy.float32(0)])
        step = self._write("Where", [is_zero, self._widest_step(), step])
        attributes = {"axis": axis, "block_size": self.block_size, "output_dtype": name_of_dtype(self.to_type)}
        self._write("QuantizeLinear", [x, step], [self._outputs[0]], **attributes)

    def _widest_step(self):
        return self._constant(numpy.array(numpy.finfo(numpy.float32).max, numpy.float32))

    def _as_f32(self, tensor):
        return tensor if tensor.dtype == DataType.FLOAT else self._write("Cast", [tensor], to="f32")
