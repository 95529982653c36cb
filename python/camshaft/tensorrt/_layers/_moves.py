"""Layers that move elements, and layers that make some."""

import numpy

from camshaft.tensorrt._enums import (
    BoundingBoxFormat,
    FillOperation,
    GatherMode,
    InterpolationMode,
    LayerType,
    SampleMode,
    ScatterMode,
    WeightsRole,
)
from camshaft.tensorrt._layers._base import Layer
from camshaft.tensorrt._values import Dims, Weights, address_of, dtype_of_numpy, name_of_dtype, nptype


class IConcatenationLayer(Layer):
    """Tensors side by side."""

    def __init__(self, network, name, inputs, output):
        super().__init__(network, LayerType.CONCATENATION, name, inputs, [output])
        self.axis = max(0, len(inputs[0].shape) - 3)

    def _emit(self):
        self._write("Concat", self._inputs, self._result(), axis=self.axis)


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
            self._emit_with_batches(self.num_elementwise_dims)

    def _emit_with_batches(self, batches):
        """Each batch has indices of its own: the axis is moved behind the batches, gathered there, and what came in its
        place moved back."""
        data, indices = self._inputs
        axis = self.axis + self._rank() if self.axis < 0 else self.axis
        if not batches <= axis < self._rank() or batches > self._rank(1):
            raise ValueError(
                f"layer '{self.name}': axis {self.axis} and {batches} elementwise dimensions of a tensor of "
                f"{self._rank()} axes, and indices of {self._rank(1)}"
            )
        before, found = list(range(batches, axis)), self._rank(1) - batches
        order = [*range(batches), axis, *before, *range(axis + 1, self._rank())]
        moved = self._write("Transpose", [data], perm=order)
        last = self._write("Unsqueeze", [self._wide(indices), [self._rank(1)]])
        gathered = self._write("GatherND", [moved, last], batch_dims=batches)
        rest = range(batches + found + len(before), self._rank() - 1 + found)
        back = [*range(batches), *(batches + found + k for k in range(len(before))), *range(batches, batches + found)]
        self._write("Transpose", [gathered], self._result(), perm=[*back, *rest])


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
        name = self._scope.name_of_result(result)
        # A layer that was given a name has its weights by that, and not by the one that its result got first.
        is_renamed = result.name.startswith("(Unnamed Layer*") and not self.name.startswith("(Unnamed Layer*")
        if name is not None and (is_renamed or address_of(array) in self._network._names_of_weights):
            self._write("Identity", [self._weights_of(array, WeightsRole.CONSTANT)], [result])
        else:
            self._scope.set(result, self._scope.net.constant(array, name))


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
