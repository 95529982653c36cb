"""Stands in for pycuda.gpuarray where PyCUDA is not installed: arrays on the device that are made, filled and read.
Arithmetic on them needs kernels, which the stand-in has not: compute on what get() gives."""

import numpy

from camshaft.tensorrt import pycuda_driver as _driver


class GPUArray:
    """An array in device memory, row-major."""

    def __init__(self, shape, dtype, allocator=_driver.mem_alloc, order="C", gpudata=None):
        self.shape = tuple(int(size) for size in shape) if hasattr(shape, "__len__") else (int(shape),)
        self.dtype = numpy.dtype(dtype)
        self.size = int(numpy.prod(self.shape, dtype=numpy.int64))
        self.nbytes = self.size * self.dtype.itemsize
        self.gpudata = allocator(max(self.nbytes, 1)) if gpudata is None else gpudata

    ndim = property(lambda self: len(self.shape))
    ptr = property(lambda self: int(self.gpudata))

    def __len__(self):
        return self.shape[0]

    def __int__(self):
        return self.ptr

    def set(self, ary):
        array = numpy.ascontiguousarray(ary, self.dtype)
        if array.size != self.size:
            raise ValueError(f"{array.size} elements for an array of {self.size}")
        _driver.memcpy_htod(self.gpudata, array)

    def set_async(self, ary, stream=None):
        self.set(ary)

    def get(self, ary=None, pagelocked=False):
        if ary is None:
            ary = numpy.empty(self.shape, self.dtype)
        _driver.memcpy_dtoh(ary, self.gpudata)
        return ary

    def get_async(self, stream=None, ary=None):
        return self.get(ary)

    def fill(self, value):
        self.set(numpy.full(self.shape, value, self.dtype))
        return self

    def reshape(self, *shape):
        sizes = shape[0] if len(shape) == 1 and hasattr(shape[0], "__len__") else shape
        return GPUArray(numpy.empty(self.shape, numpy.bool_).reshape(sizes).shape, self.dtype, gpudata=self.gpudata)

    def ravel(self):
        return self.reshape(self.size)

    def copy(self):
        made = empty_like(self)
        _driver.memcpy_dtod(made.gpudata, self.gpudata, self.nbytes)
        return made

    def __repr__(self):
        return repr(self.get())


def to_gpu(ary, allocator=_driver.mem_alloc):
    array = numpy.asarray(ary)
    made = GPUArray(array.shape, array.dtype, allocator)
    made.set(array)
    return made


def to_gpu_async(ary, allocator=_driver.mem_alloc, stream=None):
    return to_gpu(ary, allocator)


def empty(shape, dtype=numpy.float32, allocator=_driver.mem_alloc, order="C"):
    return GPUArray(shape, dtype, allocator)


def zeros(shape, dtype=numpy.float32, allocator=_driver.mem_alloc, order="C"):
    return empty(shape, dtype, allocator).fill(0)


def empty_like(other_ary):
    return empty(other_ary.shape, other_ary.dtype)


def zeros_like(other_ary):
    return zeros(other_ary.shape, other_ary.dtype)
