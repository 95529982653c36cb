"""Parts of tensors."""

import numpy

from camshaft.tensorrt._enums import LayerType, SampleMode
from camshaft.tensorrt._layers._base import Layer
from camshaft.tensorrt._values import Dims


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
