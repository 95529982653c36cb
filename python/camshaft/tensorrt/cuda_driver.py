"""Stands in for cuda.cuda (cuda.bindings.driver) where CUDA Python is not installed: what programs check errors with and
ask for a device, beside the runtime's calls in cudart."""

import enum

from camshaft.tensorrt import _cuda, cudart, pycuda_driver


class CUresult(enum.IntEnum):
    """Numbers of errors, as CUDA's driver has them."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_UNKNOWN = 999

    @classmethod
    def _missing_(cls, value):
        return cls.CUDA_ERROR_UNKNOWN


CUdevice = CUcontext = CUdeviceptr = cuuint32_t = cuuint64_t = int
CUstream = cudart.cudaStream_t
CUevent = cudart.cudaEvent_t


def _of_runtime(function):
    def call(*arguments):
        status, *values = function(*arguments)
        return (CUresult(int(status)), *values)

    return call


def cuInit(Flags):
    return (CUresult.CUDA_SUCCESS,)


def cuDeviceGet(ordinal):
    return (*_of_runtime(cudart.cudaSetDevice)(ordinal), ordinal)


#: As the runtime has it, by the driver's names.
CUdevice_attribute = enum.IntEnum(
    "CUdevice_attribute",
    {"CU_DEVICE_ATTRIBUTE_" + member.name: int(member) for member in pycuda_driver.device_attribute},
)


def cuDeviceGetAttribute(attrib, dev):
    return _of_runtime(cudart.cudaDeviceGetAttribute)(int(attrib), dev)


def cuDeviceGetName(length, dev):
    name = _cuda.name_of_device(dev).encode()[: max(0, length - 1)]
    return CUresult.CUDA_SUCCESS, name.ljust(length, b"\0")


def cuDeviceTotalMem(dev):
    return CUresult.CUDA_SUCCESS, cudart.cudaMemGetInfo()[2]


def cuDriverGetVersion():
    return _of_runtime(cudart.cudaDriverGetVersion)()


# The one context is the device's primary one, which the runtime uses, too.


def cuCtxCreate(*arguments):
    return CUresult.CUDA_SUCCESS, 1


def cuDevicePrimaryCtxRetain(dev):
    return CUresult.CUDA_SUCCESS, 1


def cuDevicePrimaryCtxRelease(dev):
    return (CUresult.CUDA_SUCCESS,)


def cuCtxPushCurrent(ctx):
    return (CUresult.CUDA_SUCCESS,)


cuCtxSetCurrent = cuCtxPushCurrent


def cuCtxPopCurrent():
    return CUresult.CUDA_SUCCESS, 1


cuCtxGetCurrent = cuCtxPopCurrent


def cuCtxGetDevice():
    return _of_runtime(cudart.cudaGetDevice)()


def cuCtxDestroy(ctx):
    return (CUresult.CUDA_SUCCESS,)


def cuGetErrorName(error):
    name = CUresult(int(error)).name if int(error) in CUresult.__members__.values() else "CUDA_ERROR_UNKNOWN"
    return CUresult.CUDA_SUCCESS, name.encode()


def cuGetErrorString(error):
    return CUresult.CUDA_SUCCESS, _cuda.error_text(int(error)).partition(": ")[2].encode()


class CUstream_flags(enum.IntEnum):
    """How a stream goes with the default one."""

    CU_STREAM_DEFAULT = 0
    CU_STREAM_NON_BLOCKING = 1


class CUevent_flags(enum.IntEnum):
    """What an event is for."""

    CU_EVENT_DEFAULT = 0
    CU_EVENT_BLOCKING_SYNC = 1
    CU_EVENT_DISABLE_TIMING = 2


cuDeviceGetCount = _of_runtime(cudart.cudaGetDeviceCount)
cuMemAlloc = _of_runtime(cudart.cudaMalloc)
cuMemFree = _of_runtime(cudart.cudaFree)
cuMemGetInfo = _of_runtime(cudart.cudaMemGetInfo)
cuStreamCreate = _of_runtime(cudart.cudaStreamCreateWithFlags)
cuStreamDestroy = _of_runtime(cudart.cudaStreamDestroy)
cuStreamSynchronize = _of_runtime(cudart.cudaStreamSynchronize)
cuStreamQuery = _of_runtime(cudart.cudaStreamQuery)
cuStreamWaitEvent = _of_runtime(cudart.cudaStreamWaitEvent)
cuEventCreate = _of_runtime(cudart.cudaEventCreateWithFlags)
cuEventRecord = _of_runtime(cudart.cudaEventRecord)
cuEventSynchronize = _of_runtime(cudart.cudaEventSynchronize)
cuEventQuery = _of_runtime(cudart.cudaEventQuery)
cuEventElapsedTime = _of_runtime(cudart.cudaEventElapsedTime)
cuEventDestroy = _of_runtime(cudart.cudaEventDestroy)
cuMemAllocHost = _of_runtime(cudart.cudaMallocHost)
cuMemFreeHost = _of_runtime(cudart.cudaFreeHost)
cuCtxSynchronize = _of_runtime(cudart.cudaDeviceSynchronize)


cuMemAllocAsync = _of_runtime(cudart.cudaMallocAsync)
cuMemFreeAsync = _of_runtime(cudart.cudaFreeAsync)
cuMemAllocManaged = _of_runtime(cudart.cudaMallocManaged)
cuMemsetD8 = _of_runtime(cudart.cudaMemset)
cuMemsetD8Async = _of_runtime(cudart.cudaMemsetAsync)
cuStreamBeginCapture = _of_runtime(cudart.cudaStreamBeginCapture)
cuStreamEndCapture = _of_runtime(cudart.cudaStreamEndCapture)
cuStreamIsCapturing = _of_runtime(cudart.cudaStreamIsCapturing)
cuGraphInstantiate = _of_runtime(cudart.cudaGraphInstantiate)
cuGraphLaunch = _of_runtime(cudart.cudaGraphLaunch)
cuGraphDestroy = _of_runtime(cudart.cudaGraphDestroy)
cuGraphExecDestroy = _of_runtime(cudart.cudaGraphExecDestroy)


def cuDeviceComputeCapability(dev):
    kinds = cudart.cudaDeviceAttr
    status, major = cudart.cudaDeviceGetAttribute(kinds.cudaDevAttrComputeCapabilityMajor, dev)
    return CUresult(int(status)), major, cudart.cudaDeviceGetAttribute(kinds.cudaDevAttrComputeCapabilityMinor, dev)[1]


def cuMemcpyDtoD(dstDevice, srcDevice, ByteCount):
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    return _of_runtime(cudart.cudaMemcpy)(dstDevice, srcDevice, ByteCount, kind)


def cuMemcpyDtoDAsync(dstDevice, srcDevice, ByteCount, hStream):
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    return _of_runtime(cudart.cudaMemcpyAsync)(dstDevice, srcDevice, ByteCount, kind, hStream)


def cuMemcpyHtoD(dstDevice, srcHost, ByteCount):
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    return _of_runtime(cudart.cudaMemcpy)(dstDevice, srcHost, ByteCount, kind)


def cuMemcpyDtoH(dstHost, srcDevice, ByteCount):
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    return _of_runtime(cudart.cudaMemcpy)(dstHost, srcDevice, ByteCount, kind)


def cuMemcpyHtoDAsync(dstDevice, srcHost, ByteCount, hStream):
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    return _of_runtime(cudart.cudaMemcpyAsync)(dstDevice, srcHost, ByteCount, kind, hStream)


def cuMemcpyDtoHAsync(dstHost, srcDevice, ByteCount, hStream):
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    return _of_runtime(cudart.cudaMemcpyAsync)(dstHost, srcDevice, ByteCount, kind, hStream)
