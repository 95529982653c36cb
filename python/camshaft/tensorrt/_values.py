"""The small values that TensorRT's calls take and give: dims, weights, bytes."""

import math
import os

import numpy

from camshaft import Memory
from camshaft.tensorrt._enums import DataType

_NUMPY_TYPES = {
    DataType.FLOAT: numpy.float32,
    DataType.HALF: numpy.float16,
    DataType.INT8: numpy.int8,
    DataType.INT32: numpy.int32,
    DataType.BOOL: numpy.bool_,
    DataType.UINT8: numpy.uint8,
    DataType.INT64: numpy.int64,
}
_CAMSHAFT_TYPES = {
    DataType.FLOAT: "f32",
    DataType.HALF: "f16",
    DataType.INT8: "i8",
    DataType.INT32: "i32",
    DataType.BOOL: "bool",
    DataType.UINT8: "u8",
    DataType.FP8: "f8e4m3",
    DataType.BF16: "bf16",
    DataType.INT64: "i64",
    DataType.INT4: "i4",
    DataType.FP4: "f4e2m1",
    DataType.E8M0: "f8e8m0",
}


def nptype(dtype):
    """NumPy's type of a DataType. Raises TypeError for those that NumPy has not, as bf16."""
    if dtype not in _NUMPY_TYPES:
        raise TypeError(f"NumPy has no type for {dtype}")
    return _NUMPY_TYPES[dtype]


def dtype_of_numpy(dtype):
    """The DataType of a NumPy type. Raises TypeError for those that TensorRT has not."""
    for ours, theirs in _NUMPY_TYPES.items():
        if numpy.dtype(dtype) == theirs:
            return ours
    raise TypeError(f"TensorRT has no type for {numpy.dtype(dtype)}")


def name_of_dtype(dtype):
    """Camshaft's name of a DataType: "f32"."""
    return _CAMSHAFT_TYPES[DataType(dtype)]


def dtype_of_name(name):
    """The DataType of Camshaft's name. Raises TypeError for those that TensorRT has not."""
    for dtype, theirs in _CAMSHAFT_TYPES.items():
        if name == theirs:
            return dtype
    raise TypeError(f"TensorRT has no type for {name}: use camshaft.Engine for this engine")


def bytes_of_element(name):
    """Of a type by Camshaft's name; 1 for types of half a byte, two of which share one, and for what TensorRT has not."""
    return next((dtype.itemsize for dtype, theirs in _CAMSHAFT_TYPES.items() if theirs == name), 1)


def address_of(array):
    """Where the elements of an array of NumPy are."""
    return array.__array_interface__["data"][0]


def volume(dims):
    """The product of the sizes."""
    return math.prod(dims)


class Dims(list):
    """Sizes of a tensor, -1 where one is dynamic: equal to a tuple or a list of the same numbers."""

    MAX_DIMS = 8

    def __init__(self, shape=()):
        super().__init__(int(size) for size in shape)
        if len(self) > self.MAX_DIMS:
            raise ValueError(f"{len(self)} sizes: at most {self.MAX_DIMS} are possible")

    def __eq__(self, other):
        return isinstance(other, (list, tuple)) and tuple(self) == tuple(other)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __repr__(self):
        return str(tuple(self))

    __str__ = __repr__


def _dims_of(rank):
    class Fixed(Dims):
        def __init__(self, *sizes):
            given = sizes[0] if len(sizes) == 1 and hasattr(sizes[0], "__len__") else sizes
            if len(given) != rank:
                raise ValueError(f"{type(self).__name__} has {rank} sizes, not {len(given)}")
            super().__init__(given)

    return Fixed


class Dims2(_dims_of(2)):
    """Two sizes."""


class DimsHW(Dims2):
    """Height and width."""

    h = property(lambda self: self[0])
    w = property(lambda self: self[1])


class Dims3(_dims_of(3)):
    """Three sizes."""


class Dims4(_dims_of(4)):
    """Four sizes."""


class Permutation(list):
    """An order of axes: equal to a tuple or a list of the same numbers."""

    def __init__(self, order=()):
        super().__init__(int(axis) for axis in order)

    __eq__, __ne__, __hash__ = Dims.__eq__, Dims.__ne__, None
    __repr__ = __str__ = Dims.__repr__


class Weights:
    """Numbers of a layer: an array of NumPy, or a DataType alone for none; or a DataType, an address and a count."""

    def __init__(self, a=None, ptr=None, count=0, *, type=DataType.FLOAT):
        a = type if a is None else a
        if isinstance(a, Weights):
            self._array, self._dtype = a._array, a._dtype
        elif isinstance(a, DataType):
            self._dtype = a
            self._array = numpy.empty(0, nptype(a))
            if ptr is not None:
                self._array = numpy.from_dlpack(Memory(ptr, name_of_dtype(a), (count,)))
        else:
            self._array = numpy.ascontiguousarray(a)
            self._dtype = dtype_of_numpy(self._array.dtype)

    dtype = property(lambda self: self._dtype)
    size = property(lambda self: self._array.size)
    nbytes = property(lambda self: self._array.nbytes)

    def numpy(self):
        """The array, without a copy."""
        return self._array

    def __array__(self, dtype=None, copy=None):
        return self._array if dtype is None else self._array.astype(dtype)

    def __len__(self):
        return self.size

    def __repr__(self):
        return f"<Weights: {self.size} of {self.dtype}>"


class IHostMemory(bytes):
    """Bytes that the library made."""

    nbytes = property(len)
    dtype = property(lambda self: DataType.INT8)

    def __repr__(self):
        return f"<IHostMemory of {self.nbytes} bytes>"  # and not all of them

    __str__ = __repr__

    def __del__(self):
        """As Reporter.__del__."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def threads_of(most):
    """As an option: TensorRT's max_threads is what may be used at most; 0: one for each core."""
    return max(0, min(int(most), len(os.sched_getaffinity(0))))
