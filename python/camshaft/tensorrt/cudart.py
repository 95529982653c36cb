"""Stands in for cuda.cudart (cuda.bindings.runtime) where CUDA Python is not installed: the calls that programs make
beside TensorRT. Each gives a tuple that begins with a cudaError_t, as CUDA Python's do.

Where there is no GPU, device memory is memory of the host, and what is put into a stream is done when the call returns.
"""

import ctypes
import enum

from camshaft.tensorrt import _cuda, _graphs


class cudaError_t(enum.IntEnum):
    """Numbers of errors, as CUDA's runtime has them."""

    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInitializationError = 3
    cudaErrorNoDevice = 100
    cudaErrorInvalidDevice = 101
    cudaErrorInvalidResourceHandle = 400
    cudaErrorIllegalState = 401
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
cudaHostRegisterDefault, cudaHostRegisterPortable, cudaHostRegisterMapped, cudaHostRegisterReadOnly = 0, 1, 2, 8
cudaMemAttachGlobal, cudaMemAttachHost = 1, 2
cudaStreamLegacy, cudaStreamPerThread = 1, 2

_Address, _Bytes = ctypes.c_void_p, ctypes.c_size_t


def _pointer(given):
    return _Address(_cuda.address_of(given))


def _done(name, *arguments):
    return (cudaError_t(_cuda.call(name, *arguments)),)


def _queued(stream, name, *arguments):
    """Done, or kept for the graph that the stream is captured into."""
    if not _cuda.has_gpu() and _graphs.record(_cuda.address_of(stream), lambda: _cuda.call(name, *arguments)):
        return (cudaError_t.cudaSuccess,)
    return _done(name, *arguments)


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


def cudaHostRegister(ptr, size, flags=cudaHostRegisterDefault):
    return _done("cudaHostRegister", _pointer(ptr), _Bytes(size), ctypes.c_uint(flags))


def cudaHostUnregister(ptr):
    return _done("cudaHostUnregister", _pointer(ptr))


def cudaHostGetDevicePointer(pHost, flags=0):
    return _made("cudaHostGetDevicePointer", _Address, _pointer(pHost), ctypes.c_uint(flags))


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


# ---- Graphs ----


class cudaStreamCaptureMode(enum.IntEnum):
    """What else may be called while a stream is captured."""

    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


class cudaStreamCaptureStatus(enum.IntEnum):
    """Whether a stream is captured."""

    cudaStreamCaptureStatusNone = 0
    cudaStreamCaptureStatusActive = 1
    cudaStreamCaptureStatusInvalidated = 2


class cudaGraph_t(int):
    """A graph's address."""

    def getPtr(self):
        return int(self)


class cudaGraphExec_t(cudaGraph_t):
    """The address of a graph that can be launched."""


def _status(good):
    return cudaError_t.cudaSuccess if good else cudaError_t.cudaErrorInvalidValue


def cudaStreamBeginCapture(stream, mode=cudaStreamCaptureMode.cudaStreamCaptureModeGlobal):
    if _cuda.has_gpu():
        return _done("cudaStreamBeginCapture", _pointer(stream), ctypes.c_int(int(mode)))
    return (cudaError_t.cudaSuccess if _graphs.begin(_cuda.address_of(stream)) else cudaError_t.cudaErrorIllegalState,)


def cudaStreamIsCapturing(stream):
    if _cuda.has_gpu():
        value = ctypes.c_int()
        status = _cuda.call("cudaStreamIsCapturing", _pointer(stream), ctypes.byref(value))
        return cudaError_t(status), cudaStreamCaptureStatus(value.value)
    return cudaError_t.cudaSuccess, cudaStreamCaptureStatus(int(_graphs.is_capturing(_cuda.address_of(stream))))


def cudaStreamEndCapture(stream):
    if _cuda.has_gpu():
        graph = _Address()
        status = _cuda.call("cudaStreamEndCapture", _pointer(stream), ctypes.byref(graph))
        return cudaError_t(status), cudaGraph_t(graph.value or 0)
    graph = _graphs.end(_cuda.address_of(stream))
    return (cudaError_t.cudaSuccess if graph else cudaError_t.cudaErrorIllegalState), cudaGraph_t(graph)


def cudaGraphInstantiate(graph, flags=0, *more):
    """`more`: what CUDA 11 had for messages."""
    if _cuda.has_gpu():
        number = ctypes.c_ulonglong(int(flags))
        return _made("cudaGraphInstantiateWithFlags", _Address, _pointer(graph), number, result=cudaGraphExec_t)
    instance = _graphs.instantiated(int(graph))
    return _status(instance), cudaGraphExec_t(instance)


def cudaGraphInstantiateWithFlags(graph, flags=0):
    return cudaGraphInstantiate(graph, flags)


def cudaGraphLaunch(graphExec, stream=0):
    if _cuda.has_gpu():
        return _done("cudaGraphLaunch", _pointer(graphExec), _pointer(stream))
    return (_status(_graphs.launch(int(graphExec))),)


def cudaGraphDestroy(graph):
    return _done("cudaGraphDestroy", _pointer(graph)) if _cuda.has_gpu() else (_status(_graphs.forget(int(graph))),)


def cudaGraphExecDestroy(graphExec):
    if _cuda.has_gpu():
        return _done("cudaGraphExecDestroy", _pointer(graphExec))
    return (_status(_graphs.forget(int(graphExec))),)


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
