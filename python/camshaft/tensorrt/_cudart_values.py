"""What the calls that stand in for CUDA's runtime take and give: errors, kinds, handles; and how they are made."""

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
    cudaErrorHostMemoryAlreadyRegistered = 712
    cudaErrorHostMemoryNotRegistered = 713
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


class cudaMemoryType(enum.IntEnum):
    """Whose memory a pointer is to."""

    cudaMemoryTypeUnregistered = 0
    cudaMemoryTypeHost = 1
    cudaMemoryTypeDevice = 2
    cudaMemoryTypeManaged = 3


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
