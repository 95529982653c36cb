"""Stands in for cuda.cudart (cuda.bindings.runtime) where CUDA Python is not installed: the calls that programs make
beside TensorRT. Each gives a tuple that begins with a cudaError_t, as CUDA Python's do.

Where there is no GPU, device memory is memory of the host, and what is put into a stream is done when the call returns.
"""

import ctypes
import enum

from camshaft.tensorrt import _cuda


class cudaError_t(enum.IntEnum):
    """Numbers of errors, as CUDA's runtime has them."""

    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInitializationError = 3
    cudaErrorNoDevice = 100
    cudaErrorInvalidDevice = 101
    cudaErrorInvalidResourceHandle = 400
    cudaErrorNotReady = 600
    cudaErrorIllegalAddress = 700
    cudaErrorLaunchFailure = 719
    cudaErrorNotSupported = 801
    cudaErrorUnknown = 999

    @classmethod
    def _missing_(cls, value):
        return cls.cudaErrorUnknown


class cudaMemcpyKind(enum.IntEnum):
    """Directions of copies."""

    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaStream_t(int):
    """A stream's address."""

    def getPtr(self):
        return int(self)


class cudaEvent_t(int):
    """An event's address."""

    def getPtr(self):
        return int(self)


cudaStreamDefault, cudaStreamNonBlocking = 0, 1
cudaEventDefault, cudaEventBlockingSync, cudaEventDisableTiming = 0, 1, 2
cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped, cudaHostAllocWriteCombined = 0, 1, 2, 4
cudaMemAttachGlobal, cudaMemAttachHost = 1, 2
cudaStreamLegacy, cudaStreamPerThread = 1, 2

_Address, _Bytes = ctypes.c_void_p, ctypes.c_size_t


def _pointer(given):
    return _Address(_cuda.address_of(given))


def _done(name, *arguments):
    return (cudaError_t(_cuda.call(name, *arguments)),)


def _made(name, kind, *arguments, result=int):
    status, value = _cuda.made(name, kind, *arguments)
    return cudaError_t(status), result(value)


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


def cudaMemcpy(dst, src, count, kind):
    return _done("cudaMemcpy", _pointer(dst), _pointer(src), _Bytes(count), ctypes.c_int(int(kind)))


def cudaMemcpyAsync(dst, src, count, kind, stream=0):
    return _done(
        "cudaMemcpyAsync", _pointer(dst), _pointer(src), _Bytes(count), ctypes.c_int(int(kind)), _pointer(stream)
    )


def cudaMemset(devPtr, value, count):
    return _done("cudaMemset", _pointer(devPtr), ctypes.c_int(value), _Bytes(count))


def cudaMemsetAsync(devPtr, value, count, stream=0):
    return _done("cudaMemsetAsync", _pointer(devPtr), ctypes.c_int(value), _Bytes(count), _pointer(stream))


def cudaMemGetInfo():
    free, total = _Bytes(), _Bytes()
    status = _cuda.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return cudaError_t(status), free.value, total.value


def cudaStreamCreate():
    return _made("cudaStreamCreate", _Address, result=cudaStream_t)


def cudaStreamCreateWithFlags(flags):
    return _made("cudaStreamCreateWithFlags", _Address, ctypes.c_uint(flags), result=cudaStream_t)


def cudaStreamCreateWithPriority(flags, priority):
    return _made(
        "cudaStreamCreateWithPriority", _Address, ctypes.c_uint(flags), ctypes.c_int(priority), result=cudaStream_t
    )


def cudaStreamDestroy(stream):
    return _done("cudaStreamDestroy", _pointer(stream))


def cudaStreamSynchronize(stream):
    return _done("cudaStreamSynchronize", _pointer(stream))


def cudaStreamQuery(stream):
    return _done("cudaStreamQuery", _pointer(stream))


def cudaStreamWaitEvent(stream, event, flags=0):
    return _done("cudaStreamWaitEvent", _pointer(stream), _pointer(event), ctypes.c_uint(flags))


def cudaEventCreate():
    return _made("cudaEventCreate", _Address, result=cudaEvent_t)


def cudaEventCreateWithFlags(flags):
    return _made("cudaEventCreateWithFlags", _Address, ctypes.c_uint(flags), result=cudaEvent_t)


def cudaEventRecord(event, stream=0):
    return _done("cudaEventRecord", _pointer(event), _pointer(stream))


def cudaEventSynchronize(event):
    return _done("cudaEventSynchronize", _pointer(event))


def cudaEventQuery(event):
    return _done("cudaEventQuery", _pointer(event))


def cudaEventElapsedTime(start, end):
    return _made("cudaEventElapsedTime", ctypes.c_float, _pointer(start), _pointer(end), result=float)


def cudaEventDestroy(event):
    return _done("cudaEventDestroy", _pointer(event))


def cudaDeviceSynchronize():
    return _done("cudaDeviceSynchronize")


def cudaDeviceReset():
    return _done("cudaDeviceReset")


def cudaSetDevice(device):
    return _done("cudaSetDevice", ctypes.c_int(device))


def cudaGetDevice():
    return _made("cudaGetDevice", ctypes.c_int)


def cudaGetDeviceCount():
    return _made("cudaGetDeviceCount", ctypes.c_int)


def cudaRuntimeGetVersion():
    return _made("cudaRuntimeGetVersion", ctypes.c_int)


def cudaDriverGetVersion():
    return _made("cudaDriverGetVersion", ctypes.c_int)


def cudaGetLastError():
    return _done("cudaGetLastError")


def cudaPeekAtLastError():
    return _done("cudaPeekAtLastError")


def cudaGetErrorName(error):
    return cudaError_t.cudaSuccess, _cuda.error_text(int(error)).partition(": ")[0].encode()


def cudaGetErrorString(error):
    return cudaError_t.cudaSuccess, _cuda.error_text(int(error)).partition(": ")[2].encode()
