"""A GPU's memory as plugins in Python reach it, by CUDA's driver, whose context is current."""

import ctypes

import numpy as np

_driver = ctypes.CDLL("libcuda.so.1")


def read(address, shape, stream):
    """What f32 elements are once the stream has come there."""
    array = np.empty(shape, np.float32)
    if array.nbytes:
        at, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        assert _driver.cuMemcpyDtoHAsync_v2(at, ctypes.c_uint64(address), size, ctypes.c_void_p(stream)) == 0
    assert _driver.cuStreamSynchronize(ctypes.c_void_p(stream)) == 0
    return array


def write(address, array, stream):
    array = np.ascontiguousarray(array)
    if array.nbytes:
        at, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        assert _driver.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(address), at, size, ctypes.c_void_p(stream)) == 0
    assert _driver.cuStreamSynchronize(ctypes.c_void_p(stream)) == 0
