"""Tensors of quickly deployable plugins: as they are described, and as they are computed."""

import numpy

import camshaft
from camshaft.tensorrt._enums import DataType, TensorFormat
from camshaft.tensorrt._plugin_types import DynamicPluginTensorDesc, PluginTensorDesc
from camshaft.tensorrt._quick_sizes import ShapeExpr, ShapeExprs, SizeTensorShapeExpr
from camshaft.tensorrt._values import name_of_dtype, nptype, volume


class Shape:
    """The sizes of a tensor, -1 where one is not known."""

    def __init__(self, tensor_desc=()):
        self._ranges = tensor_desc if isinstance(tensor_desc, DynamicPluginTensorDesc) else None
        if self._ranges is not None:
            tensor_desc = tensor_desc.desc
        self._sizes = list(tensor_desc.dims if isinstance(tensor_desc, PluginTensorDesc) else tensor_desc)

    def __iter__(self):
        return iter(self._sizes)

    def __len__(self):
        return len(self._sizes)

    def __getitem__(self, index):
        return self._sizes[index]

    def __setitem__(self, index, size):
        self._sizes[index] = size

    def __eq__(self, other):
        return isinstance(other, (Shape, list, tuple)) and list(other) == self._sizes

    __hash__ = None

    def __repr__(self):
        return f"Shape{tuple(self._sizes)}"

    is_dynamic = property(lambda self: -1 in self._sizes)

    def numel(self):
        """The number of elements. Raises ValueError where a size is not known."""
        if self.is_dynamic:
            raise ValueError(f"{self} has a size that is not known")
        return volume(self._sizes)

    def _range(self, which):
        if self._ranges is None:
            raise AttributeError(f"{self} is of no profile: it has no '{which}'")
        return tuple(getattr(self._ranges, which))

    min = property(lambda self: self._range("min"))
    opt = property(lambda self: self._range("opt"))
    max = property(lambda self: self._range("max"))


class TensorDesc:
    """A tensor: its sizes as expressions, its type, and, where they are known, its sizes as numbers."""

    is_size_tensor = False
    _is_input = False

    def __init__(self, shape_expr=None, dtype=None, format=None, scale=None):
        self.shape_expr, self.dtype, self.format, self.scale = shape_expr, dtype, format, scale
        self.shape = None
        self._aliased_to = None

    def __setattr__(self, name, value):
        if self._is_input:
            raise ValueError(f"an input's '{name}' cannot be set: like() gives a description to change")
        super().__setattr__(name, value)

    def _copy(self):
        made = TensorDesc(None, self.dtype, self.format, self.scale)
        if self.shape_expr is not None:
            made.shape_expr = ShapeExprs.from_tuple(tuple(self.shape_expr))
        return made

    def like(self):
        """Another tensor of these sizes and this type."""
        return self._copy()

    def aliased(self):
        """An output that lies in this input's memory: the plugin changes it in place."""
        made = self._copy()
        made._aliased_to = self
        return made

    def get_aliased(self):
        return self._aliased_to

    is_aliased = property(lambda self: self._aliased_to is not None)
    has_shape = property(lambda self: self.shape is not None)
    has_shape_expr = property(lambda self: self.shape_expr is not None)
    ndim = property(lambda self: len(self.shape_expr))

    def _known(self):
        if self.shape is None:
            raise ValueError(
                "this tensor has expressions of sizes alone (shape_expr): numbers are known when it is tuned"
            )
        return self.shape

    is_dynamic = property(lambda self: self._known().is_dynamic)

    def numel(self):
        """The number of elements."""
        return self._known().numel()


class SizeTensorDesc(TensorDesc):
    """A scalar output that tells a size of another one."""

    is_size_tensor = True

    def __init__(self, opt, upper_bound):
        super().__init__(ShapeExprs(0), DataType.INT32)
        self.opt, self.upper_bound = opt, upper_bound
        self.index = None  # among the outputs
        self._expr = SizeTensorShapeExpr(self)

    def expr(self):
        """The size that it tells."""
        return self._expr


def size_tensor(opt, upper_bound):
    """A size tensor, for a size that is usually `opt` and never more than `upper_bound`."""
    return SizeTensorDesc(opt, upper_bound)


def from_shape_expr(shape_expr, dtype):
    """A tensor of these sizes, each an int or a ShapeExpr."""
    exprs = shape_expr if isinstance(shape_expr, ShapeExprs) else ShapeExprs.from_tuple(tuple(shape_expr))
    return TensorDesc(exprs, DataType(dtype))


def input_desc(dtype, exprs):
    """What a function that describes a plugin gets of an input."""
    made = TensorDesc(ShapeExprs.from_tuple([ShapeExpr(expr) for expr in exprs]), dtype, TensorFormat.LINEAR, 1.0)
    made._is_input = True
    return made


def tuned_desc(desc):
    """What a function that names combinations gets of a tensor."""
    dims = desc.desc.dims
    made = TensorDesc(ShapeExprs.from_tuple([ShapeExpr(size) for size in dims]), desc.desc.type, desc.desc.format, 1.0)
    made.shape = Shape(desc)
    return made


class Tensor:
    """A tensor that a plugin computes with, row by row: memory of a GPU where there is one, else of the host. Without a copy
    look at it what speaks DLPack (torch.from_dlpack), and NumPy (numpy.asarray), or, on a GPU, what knows CUDA's arrays
    (torch.as_tensor, cupy.asarray)."""

    def __init__(self, desc, address, strides, memory, is_read_only):
        late = getattr(desc, "late_axes", ())
        self.shape = Shape([-1 if axis in late else size for axis, size in enumerate(desc.dims)])
        self.dtype, self.format, self.scale = desc.type, desc.format, desc.scale
        self.data_ptr, self.strides = address, strides
        self._capacity, self._stream, self._is_read_only = volume(desc.dims), memory.stream, is_read_only
        self._device = memory.device
        self._aliased_to = None

    _device = "cpu"
    ndim = property(lambda self: len(self.shape))
    is_aliased = property(lambda self: self._aliased_to is not None)
    #: Whether it is an output of whose sizes the plugin itself tells one: aliased() then gives it sizes.
    is_data_dependent = property(lambda self: self.shape.is_dynamic)

    def get_aliased(self):
        """The output that lies in this input's memory, or the other way round."""
        return self._aliased_to

    def numel(self):
        return self.shape.numel()

    def aliased(self, shape=None):
        """The same memory with other sizes. Raises ValueError where these are more than there is."""
        made = object.__new__(Tensor)
        made.__dict__.update(self.__dict__, _aliased_to=self)
        if shape is not None:
            made.shape = Shape(shape)
            if made.shape.numel() > self._capacity:
                raise ValueError(f"{made.shape} has more elements than the {self._capacity} that this tensor has")
            strides = [1]
            for size in reversed(list(made.shape)[1:]):
                strides.insert(0, strides[0] * size)
            made.strides = tuple(strides[: made.ndim])
        return made

    def __getattr__(self, name):
        """Raises TypeError for bf16 and fp8, which DLPack has, and ValueError for sizes that aliased() is to set."""
        wanted = "__array_interface__" if self._device == "cpu" else "__cuda_array_interface__"
        if name != wanted:
            raise AttributeError(f"a tensor on {self._device} has no '{name}'")
        self.numel()
        return {
            "version": 3,
            "shape": tuple(self.shape),
            "typestr": numpy.dtype(nptype(self.dtype)).str,
            # PyTorch takes no CUDA array that is for reading alone.
            "data": (self.data_ptr, self._is_read_only and self._device == "cpu"),
        }

    def _as_memory(self):
        return camshaft.Memory(self.data_ptr, name_of_dtype(self.dtype), tuple(self.shape), self._device)

    def __dlpack__(self, **options):
        return self._as_memory().__dlpack__(**options)

    def __dlpack_device__(self):
        return self._as_memory().__dlpack_device__()
