# ruff: noqa: F403, F405
"""Stands in for cuda.cudart (cuda.bindings.runtime) where CUDA Python is not installed: the calls that programs make
beside TensorRT. Each gives a tuple that begins with a cudaError_t, as CUDA Python's do.

Where there is no GPU, device memory is memory of the host, and what is put into a stream is done when the call returns.
"""

import ctypes
import enum

from camshaft.tensorrt import _cuda
from camshaft.tensorrt._cudart_graphs import *
from camshaft.tensorrt._cudart_memory import *
from camshaft.tensorrt._cudart_pools import *
from camshaft.tensorrt._cudart_values import *
from camshaft.tensorrt._cudart_values import _Address, _Bytes, _done, _made, _pointer, _queued


def cudaStreamCreate():
    return _made("cudaStreamCreate", _Address, result=cudaStream_t)


def cudaStreamCreateWithFlags(flags):
    return _made("cudaStreamCreateWithFlags", _Address, ctypes.c_uint(flags), result=cudaStream_t)


def cudaStreamCreateWithPriority(flags, priority):
    return _made(
        "cudaStreamCreateWithPriority", _Address, ctypes.c_uint(flags), ctypes.c_int(priority), result=cudaStream_t
    )


def cudaDeviceGetStreamPriorityRange():
    """(status, least, greatest)"""
    least, greatest = ctypes.c_int(), ctypes.c_int()
    status = _cuda.call("cudaDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    return cudaError_t(status), least.value, greatest.value


def cudaStreamDestroy(stream):
    return _done("cudaStreamDestroy", _pointer(stream))


def cudaStreamSynchronize(stream):
    return _done("cudaStreamSynchronize", _pointer(stream))


def cudaStreamQuery(stream):
    return _done("cudaStreamQuery", _pointer(stream))


def cudaStreamWaitEvent(stream, event, flags=0):
    return _done("cudaStreamWaitEvent", _pointer(stream), _pointer(event), ctypes.c_uint(flags))


def cudaStreamGetFlags(hStream):
    value = ctypes.c_uint()
    return cudaError_t(_cuda.call("cudaStreamGetFlags", _pointer(hStream), ctypes.byref(value))), value.value


def cudaStreamGetPriority(hStream):
    value = ctypes.c_int()
    return cudaError_t(_cuda.call("cudaStreamGetPriority", _pointer(hStream), ctypes.byref(value))), value.value


def cudaStreamAttachMemAsync(stream, devPtr, length=0, flags=4):
    return _done("cudaStreamAttachMemAsync", _pointer(stream), _pointer(devPtr), _Bytes(length), ctypes.c_uint(flags))


def cudaLaunchHostFunc(stream, fn, userData):
    """`fn` is a C function's address, or one of ctypes'."""
    function = ctypes.cast(fn, _Address) if not isinstance(fn, int) else _Address(fn)
    return _queued(stream, "cudaLaunchHostFunc", _pointer(stream), function, _pointer(userData))


def cudaEventCreate():
    return _made("cudaEventCreate", _Address, result=cudaEvent_t)


def cudaEventCreateWithFlags(flags):
    return _made("cudaEventCreateWithFlags", _Address, ctypes.c_uint(flags), result=cudaEvent_t)


def cudaEventRecord(event, stream=0):
    return _done("cudaEventRecord", _pointer(event), _pointer(stream))


def cudaEventRecordWithFlags(event, stream=0, flags=0):
    return _done("cudaEventRecordWithFlags", _pointer(event), _pointer(stream), ctypes.c_uint(flags))


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


def cudaInitDevice(device, deviceFlags=0, flags=0):
    return cudaSetDevice(device)


def cudaSetDeviceFlags(flags):
    return _done("cudaSetDeviceFlags", ctypes.c_uint(flags))


def cudaGetDeviceFlags():
    return _made("cudaGetDeviceFlags", ctypes.c_uint)


def cudaDeviceCanAccessPeer(device, peerDevice):
    return _made("cudaDeviceCanAccessPeer", ctypes.c_int, ctypes.c_int(device), ctypes.c_int(peerDevice))


def cudaDeviceEnablePeerAccess(peerDevice, flags=0):
    return _done("cudaDeviceEnablePeerAccess", ctypes.c_int(peerDevice), ctypes.c_uint(flags))


def cudaDeviceDisablePeerAccess(peerDevice):
    return _done("cudaDeviceDisablePeerAccess", ctypes.c_int(peerDevice))


class cudaLimit(enum.IntEnum):
    """What of a device is limited; nothing of the CPU is."""

    cudaLimitStackSize = 0
    cudaLimitPrintfFifoSize = 1
    cudaLimitMallocHeapSize = 2
    cudaLimitDevRuntimeSyncDepth = 3
    cudaLimitDevRuntimePendingLaunchCount = 4
    cudaLimitMaxL2FetchGranularity = 5
    cudaLimitPersistingL2CacheSize = 6


def cudaDeviceGetLimit(limit):
    return _made("cudaDeviceGetLimit", _Bytes, ctypes.c_int(int(limit)))


def cudaDeviceSetLimit(limit, value):
    return _done("cudaDeviceSetLimit", ctypes.c_int(int(limit)), _Bytes(value))


def cudaGetDevice():
    return _made("cudaGetDevice", ctypes.c_int)


def cudaGetDeviceCount():
    return _made("cudaGetDeviceCount", ctypes.c_int)


class cudaDeviceAttr(enum.IntEnum):
    """Numbers of what can be asked of a device."""

    cudaDevAttrMaxThreadsPerBlock = 1
    cudaDevAttrMaxSharedMemoryPerBlock = 8
    cudaDevAttrWarpSize = 10
    cudaDevAttrClockRate = 13
    cudaDevAttrMultiProcessorCount = 16
    cudaDevAttrIntegrated = 18
    cudaDevAttrMemoryClockRate = 36
    cudaDevAttrGlobalMemoryBusWidth = 37
    cudaDevAttrL2CacheSize = 38
    cudaDevAttrMaxThreadsPerMultiProcessor = 39
    cudaDevAttrComputeCapabilityMajor = 75
    cudaDevAttrComputeCapabilityMinor = 76


def cudaDeviceGetAttribute(attr, device):
    """Of the CPU: the cores as multiprocessors, of one thread; compute capability 0.0; 0 for what it has nothing of."""
    return _made("cudaDeviceGetAttribute", ctypes.c_int, ctypes.c_int(int(attr)), ctypes.c_int(device))


class cudaDeviceProp:
    """What a device is: of CUDA's structure the fields that programs print and decide by."""

    def __init__(self, device):
        def attribute(name):
            return cudaDeviceGetAttribute(getattr(cudaDeviceAttr, f"cudaDevAttr{name}"), device)[1]

        self.name = _cuda.name_of_device(device).encode()
        self.totalGlobalMem = cudaMemGetInfo()[2]
        self.major, self.minor = attribute("ComputeCapabilityMajor"), attribute("ComputeCapabilityMinor")
        self.multiProcessorCount = attribute("MultiProcessorCount")
        self.maxThreadsPerBlock = attribute("MaxThreadsPerBlock")
        self.maxThreadsPerMultiProcessor = attribute("MaxThreadsPerMultiProcessor")
        self.sharedMemPerBlock = attribute("MaxSharedMemoryPerBlock")
        self.warpSize, self.l2CacheSize = attribute("WarpSize"), attribute("L2CacheSize")
        self.clockRate, self.memoryClockRate = attribute("ClockRate"), attribute("MemoryClockRate")
        self.memoryBusWidth, self.integrated = attribute("GlobalMemoryBusWidth"), attribute("Integrated")


def cudaGetDeviceProperties(device):
    status, count = cudaGetDeviceCount()
    if status != 0 or not 0 <= device < count:
        return cudaError_t.cudaErrorInvalidDevice, None
    return cudaError_t.cudaSuccess, cudaDeviceProp(device)


def cudaProfilerStart():
    return _done("cudaProfilerStart")


def cudaProfilerStop():
    return _done("cudaProfilerStop")


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
