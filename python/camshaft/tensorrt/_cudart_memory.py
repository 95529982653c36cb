# ruff: noqa: F403, F405
"""Memory, of the calls that stand in for CUDA's runtime."""

import ctypes
import enum

from camshaft.tensorrt import _cuda
from camshaft.tensorrt._cudart_values import *
from camshaft.tensorrt._cudart_values import _Address, _Bytes, _done, _made, _pointer, _queued


def cudaMalloc(size):
    return _made("cudaMalloc", _Address, _Bytes(size))


def cudaMallocAsync(size, hStream):
    return _made("cudaMallocAsync", _Address, _Bytes(size), _pointer(hStream))


def cudaMallocManaged(size, flags=cudaMemAttachGlobal):
    return _made("cudaMallocManaged", _Address, _Bytes(size), ctypes.c_uint(flags))


def cudaMallocHost(size):
    return _made("cudaMallocHost", _Address, _Bytes(size))


def cudaHostAlloc(size, flags=cudaHostAllocDefault):
    return _made("cudaHostAlloc", _Address, _Bytes(size), ctypes.c_uint(flags))


def cudaFree(devPtr):
    return _done("cudaFree", _pointer(devPtr))


def cudaFreeAsync(devPtr, hStream):
    return _done("cudaFreeAsync", _pointer(devPtr), _pointer(hStream))


def cudaFreeHost(ptr):
    return _done("cudaFreeHost", _pointer(ptr))


def cudaHostRegister(ptr, size, flags=cudaHostRegisterDefault):
    return _done("cudaHostRegister", _pointer(ptr), _Bytes(size), ctypes.c_uint(flags))


def cudaHostUnregister(ptr):
    return _done("cudaHostUnregister", _pointer(ptr))


def cudaHostGetDevicePointer(pHost, flags=0):
    return _made("cudaHostGetDevicePointer", _Address, _pointer(pHost), ctypes.c_uint(flags))


def cudaHostGetFlags(pHost):
    return _made("cudaHostGetFlags", ctypes.c_uint, _pointer(pHost))


def cudaMallocPitch(width, height):
    """(status, address, bytes from row to row)"""
    address, pitch = _Address(), _Bytes()
    status = _cuda.call(
        "cudaMallocPitch", ctypes.byref(address), ctypes.byref(pitch), _Bytes(int(width)), _Bytes(int(height))
    )
    return cudaError_t(status), address.value or 0, pitch.value


class cudaPointerAttributes:
    """What memory a pointer is to."""

    def __init__(self, type=0, device=-2, devicePointer=0, hostPointer=0):
        self.type, self.device = cudaMemoryType(type), device
        self.devicePointer, self.hostPointer = devicePointer, hostPointer


class _PointerAttributes(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("device", ctypes.c_int), ("on_device", _Address), ("on_host", _Address)]
    _fields_ += [("reserved", ctypes.c_long * 8)]  # of CUDA 13


def cudaPointerGetAttributes(ptr):
    """Without a GPU, what was allocated as a device's memory says that it is that."""
    found = _PointerAttributes()
    status = cudaError_t(_cuda.call("cudaPointerGetAttributes", ctypes.byref(found), _pointer(ptr)))
    if status != 0:
        return status, None
    return status, cudaPointerAttributes(found.type, found.device, found.on_device or 0, found.on_host or 0)


cudaCpuDeviceId, cudaInvalidDeviceId = -1, -2


def _hint(name, *arguments):
    """What managed memory will be used for. CUDA 13 takes it in another form: it is left out there."""
    if _cuda.has_gpu() and _cuda.made("cudaRuntimeGetVersion", ctypes.c_int)[1] >= 13000:
        return (cudaError_t.cudaSuccess,)
    return _done(name, *arguments)


def cudaMemPrefetchAsync(devPtr, count, dstDevice, stream=0):
    number = ctypes.c_int(int(dstDevice))
    return _hint("cudaMemPrefetchAsync", _pointer(devPtr), _Bytes(count), number, _pointer(stream))


class cudaMemoryAdvise(enum.IntEnum):
    """What managed memory will be used for."""

    cudaMemAdviseSetReadMostly = 1
    cudaMemAdviseUnsetReadMostly = 2
    cudaMemAdviseSetPreferredLocation = 3
    cudaMemAdviseUnsetPreferredLocation = 4
    cudaMemAdviseSetAccessedBy = 5
    cudaMemAdviseUnsetAccessedBy = 6


def cudaMemAdvise(devPtr, count, advice, device):
    numbers = ctypes.c_int(int(advice)), ctypes.c_int(int(device))
    return _hint("cudaMemAdvise", _pointer(devPtr), _Bytes(count), *numbers)


def cudaMemcpy(dst, src, count, kind):
    return _done("cudaMemcpy", _pointer(dst), _pointer(src), _Bytes(count), ctypes.c_int(int(kind)))


def cudaMemcpyAsync(dst, src, count, kind, stream=0):
    return _queued(
        stream,
        "cudaMemcpyAsync",
        _pointer(dst),
        _pointer(src),
        _Bytes(count),
        ctypes.c_int(int(kind)),
        _pointer(stream),
    )


def cudaMemcpy2D(dst, dpitch, src, spitch, width, height, kind):
    """Rows of `width` bytes, which begin every `dpitch` and `spitch` bytes."""
    return _done("cudaMemcpy2D", *_rows(dst, dpitch, src, spitch, width, height, kind))


def cudaMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, stream=0):
    rows = _rows(dst, dpitch, src, spitch, width, height, kind)
    return _queued(stream, "cudaMemcpy2DAsync", *rows, _pointer(stream))


def _rows(dst, dpitch, src, spitch, width, height, kind):
    sizes = (_Bytes(width), _Bytes(height), ctypes.c_int(int(kind)))
    return (_pointer(dst), _Bytes(dpitch), _pointer(src), _Bytes(spitch), *sizes)


def cudaMemset(devPtr, value, count):
    return _done("cudaMemset", _pointer(devPtr), ctypes.c_int(value), _Bytes(count))


def cudaMemsetAsync(devPtr, value, count, stream=0):
    return _queued(stream, "cudaMemsetAsync", _pointer(devPtr), ctypes.c_int(value), _Bytes(count), _pointer(stream))


def cudaMemset2D(devPtr, pitch, value, width, height):
    return _done("cudaMemset2D", _pointer(devPtr), _Bytes(pitch), ctypes.c_int(value), _Bytes(width), _Bytes(height))


def cudaMemset2DAsync(devPtr, pitch, value, width, height, stream=0):
    sizes = (_Bytes(pitch), ctypes.c_int(value), _Bytes(width), _Bytes(height))
    return _queued(stream, "cudaMemset2DAsync", _pointer(devPtr), *sizes, _pointer(stream))


def cudaMemGetInfo():
    free, total = _Bytes(), _Bytes()
    status = _cuda.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return cudaError_t(status), free.value, total.value
