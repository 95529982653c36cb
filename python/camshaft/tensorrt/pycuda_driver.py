"""Stands in for pycuda.driver where PyCUDA is not installed: memory, copies, streams and events as programs beside
TensorRT use them. Kernels cannot be compiled with it.

Where there is no GPU, device memory is memory of the host, and what is put into a stream is done when the call returns.
"""

import ctypes
import enum
import re

import numpy

from camshaft.tensorrt import _cuda
from camshaft.tensorrt import cudart as _runtime

#: Between the words of "MultiprocessorCount".
_ATTRIBUTE_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Error(Exception):
    """What a call of CUDA's says went wrong."""


class LogicError(Error):
    """A wrong argument."""


class RuntimeError(Error):  # PyCUDA's own name
    """The device failed."""


class MemoryError(Error):  # PyCUDA's own name
    """There is no memory left."""


def _checked(status, *values):
    if status != 0:
        kind = MemoryError if status == 2 else LogicError
        raise kind(_cuda.error_text(int(status)))
    return values[0] if len(values) == 1 else values


def _stream(stream):
    return 0 if stream is None else stream.handle


class DeviceAllocation:
    """Memory of the device, given back when this goes."""

    def __init__(self, size):
        self._address = None
        self._address = _checked(*_runtime.cudaMalloc(size))
        self.size = size

    def __int__(self):
        if self._address is None:
            raise LogicError("this memory was given back")
        return self._address

    __index__ = __int__

    def __add__(self, offset):
        return int(self) + offset

    def as_buffer(self, size, offset=0):
        return (ctypes.c_byte * size).from_address(int(self) + offset)

    def free(self):
        address, self._address = int(self), None
        _checked(*_runtime.cudaFree(address))

    def __del__(self):
        if self._address is not None:
            self.free()


def mem_alloc(bytes):
    return DeviceAllocation(bytes)


def mem_alloc_pitch(width, height, access_size):
    """(memory, bytes from row to row)"""
    address, pitch = _checked(*_runtime.cudaMallocPitch(width, height))
    made = DeviceAllocation.__new__(DeviceAllocation)
    made._address, made.size = address, pitch * height
    return made, pitch


class MemoryPool:
    """pycuda.tools.DeviceMemoryPool: memory that goes back to the device when it is freed."""

    def allocate(self, size):
        return mem_alloc(size)

    def free_held(self):
        pass

    stop_holding = free_held


class PageLockedMemoryPool(MemoryPool):
    """The same of the host's."""

    def allocate(self, shape, dtype, order="C"):
        return pagelocked_empty(shape, dtype, order)


def mem_get_info():
    """(free, all) bytes."""
    return _checked(*_runtime.cudaMemGetInfo())


def to_device(bf_obj):
    """A copy of an array."""
    array = numpy.ascontiguousarray(bf_obj)
    made = mem_alloc(array.nbytes)
    memcpy_htod(made, array)
    return made


def from_device(devptr, shape, dtype, order="C"):
    """A copy of the device's memory as an array."""
    array = numpy.empty(shape, dtype, order)
    memcpy_dtoh(array, devptr)
    return array


def from_device_like(devptr, other_ary):
    return from_device(devptr, other_ary.shape, other_ary.dtype)


def _host(array):
    """(address, bytes) of an array or a buffer."""
    if isinstance(array, numpy.ndarray):
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise ValueError("ndarray is not contiguous")
        return array.ctypes.data, array.nbytes
    view = memoryview(array)
    return numpy.frombuffer(view, numpy.uint8).ctypes.data, view.nbytes


def memcpy_htod(dest, src):
    address, size = _host(src)
    _checked(*_runtime.cudaMemcpy(dest, address, size, 1))


def memcpy_htod_async(dest, src, stream=None):
    address, size = _host(src)
    _checked(*_runtime.cudaMemcpyAsync(dest, address, size, 1, _stream(stream)))


def memcpy_dtoh(dest, src):
    address, size = _host(dest)
    _checked(*_runtime.cudaMemcpy(address, src, size, 2))


def memcpy_dtoh_async(dest, src, stream=None):
    address, size = _host(dest)
    _checked(*_runtime.cudaMemcpyAsync(address, src, size, 2, _stream(stream)))


def memcpy_dtod(dest, src, size):
    _checked(*_runtime.cudaMemcpy(dest, src, size, 3))


def memcpy_dtod_async(dest, src, size, stream=None):
    _checked(*_runtime.cudaMemcpyAsync(dest, src, size, 3, _stream(stream)))


def mem_alloc_like(ary):
    return mem_alloc(ary.nbytes)


def memset_d8(dest, data, count):
    _checked(*_runtime.cudaMemset(dest, data, count))


def memset_d16(dest, data, count):
    memcpy_htod(dest, numpy.full(count, data, numpy.uint16))


def memset_d32(dest, data, count):
    memcpy_htod(dest, numpy.full(count, data, numpy.uint32))


class host_alloc_flags:
    PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4


def pagelocked_empty(shape, dtype, order="C", mem_flags=0):
    """An array in memory that copies reach fast."""
    return _pagelocked(shape, dtype, order)


def pagelocked_zeros(shape, dtype, order="C", mem_flags=0):
    array = _pagelocked(shape, dtype, order)
    array[...] = 0
    return array


def pagelocked_empty_like(array, mem_flags=0):
    return _pagelocked(array.shape, array.dtype, "C")


def aligned_empty(shape, dtype, order="C", alignment=4096):
    """Memory of the host that can be registered."""
    return _pagelocked(shape, dtype, order)


aligned_zeros = pagelocked_zeros


class mem_attach_flags:
    GLOBAL, HOST, SINGLE = 1, 2, 4


def managed_empty(shape, dtype, order="C", mem_flags=0):
    """An array that device and host reach; `array.base` has the address (`int(array.base)`)."""
    return _pagelocked(shape, dtype, order, _runtime.cudaMallocManaged, _runtime.cudaFree)


def managed_zeros(shape, dtype, order="C", mem_flags=0):
    array = managed_empty(shape, dtype, order)
    array[...] = 0
    return array


def register_host_memory(ary, flags=0):
    """The array, which copies reach fast from now on, until ary.base.unregister() of what is given."""
    _checked(*_runtime.cudaHostRegister(ary, ary.nbytes, flags))

    def unregister(self):
        return _checked(*_runtime.cudaHostUnregister(ary))

    return _in_memory(ary.ctypes.data, ary.shape, ary.dtype, ary, {"unregister": unregister})


def _in_memory(address, shape, dtype, owner, calls, order="C"):
    """An array at an address, whose base has these calls, and PyCUDA's get_device_pointer()."""
    size = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
    calls = {
        **calls,
        "get_device_pointer": lambda self: _checked(*_runtime.cudaHostGetDevicePointer(address)),
        "__int__": lambda self: address,
    }
    base = type("HostAllocation", (ctypes.c_char * max(size, 1),), calls).from_address(address)
    base.owner = owner
    return numpy.ndarray(shape, dtype, base, order=order)


def _pagelocked(shape, dtype, order, allocate=_runtime.cudaMallocHost, release=_runtime.cudaFreeHost):
    dtype = numpy.dtype(dtype)
    shape = tuple(int(size) for size in shape) if hasattr(shape, "__len__") else (int(shape),)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    address = _checked(*allocate(max(count * dtype.itemsize, 1)))
    return _in_memory(address, shape, dtype, None, {"__del__": lambda self: release(address)}, order)


class Stream:
    """A stream."""

    def __init__(self, flags=0):
        self._handle = None
        self._handle = _checked(*_runtime.cudaStreamCreateWithFlags(flags))

    @property
    def handle(self):
        return int(self._handle)

    def synchronize(self):
        _checked(*_runtime.cudaStreamSynchronize(self.handle))

    def is_done(self):
        return _runtime.cudaStreamQuery(self.handle)[0] == 0

    def wait_for_event(self, event):
        _checked(*_runtime.cudaStreamWaitEvent(self.handle, event._handle))

    def __del__(self):
        if self._handle is not None:
            _runtime.cudaStreamDestroy(self._handle)


class event_flags:
    DEFAULT, BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 0, 1, 2, 4


class Event:
    """A point of time in a stream."""

    def __init__(self, flags=0):
        self._handle = None
        self._handle = _checked(*_runtime.cudaEventCreateWithFlags(flags))

    def record(self, stream=None):
        _checked(*_runtime.cudaEventRecord(self._handle, _stream(stream)))
        return self

    def synchronize(self):
        _checked(*_runtime.cudaEventSynchronize(self._handle))
        return self

    def query(self):
        return _runtime.cudaEventQuery(self._handle)[0] == 0

    def time_since(self, event):
        """Milliseconds."""
        return _checked(*_runtime.cudaEventElapsedTime(event._handle, self._handle))

    def time_till(self, event):
        return event.time_since(self)

    def __del__(self):
        if self._handle is not None:
            _runtime.cudaEventDestroy(self._handle)


class ctx_flags:
    SCHED_AUTO, SCHED_SPIN, SCHED_YIELD, SCHED_BLOCKING_SYNC, MAP_HOST = 0, 1, 2, 4, 8


class Context:
    """The context of a device: the primary one, which CUDA's runtime and this library use too."""

    def __init__(self, device):
        self._device = device

    @staticmethod
    def synchronize():
        _checked(*_runtime.cudaDeviceSynchronize())

    @staticmethod
    def get_current():
        return Context(_checked(*_runtime.cudaGetDevice()))

    @staticmethod
    def get_device():
        return Device(_checked(*_runtime.cudaGetDevice()))

    @staticmethod
    def pop():
        pass

    def push(self):
        _checked(*_runtime.cudaSetDevice(self._device))

    def detach(self):
        pass


#: What Device.get_attribute() takes, by PyCUDA's names.
device_attribute = enum.IntEnum(
    "device_attribute",
    {
        _ATTRIBUTE_WORDS.sub(
            "_", member.name.removeprefix("cudaDevAttr").replace("Processor", "processor")
        ).upper(): member
        for member in _runtime.cudaDeviceAttr
    },
)


class Device:
    """A device by its number."""

    def __init__(self, number):
        self._number = number

    @staticmethod
    def count():
        return _checked(*_runtime.cudaGetDeviceCount())

    def name(self):
        return _cuda.name_of_device(self._number)

    def compute_capability(self):
        """(0, 0) of the CPU."""
        kinds = _runtime.cudaDeviceAttr
        return self.get_attribute(kinds.cudaDevAttrComputeCapabilityMajor), self.get_attribute(
            kinds.cudaDevAttrComputeCapabilityMinor
        )

    def get_attribute(self, attr):
        return _checked(*_runtime.cudaDeviceGetAttribute(attr, self._number))

    def get_attributes(self):
        return {attribute: self.get_attribute(attribute) for attribute in device_attribute}

    def pci_bus_id(self):
        raise LogicError(f"{self.name()} is not asked for its bus")

    def total_memory(self):
        return mem_get_info()[1]

    def make_context(self, flags=0):
        context = Context(self._number)
        context.push()
        return context

    retain_primary_context = make_context


def init(flags=0):
    pass


def get_version():
    """CUDA's, as (12, 0, 0)."""
    version = _checked(*_runtime.cudaRuntimeGetVersion())
    return version // 1000, version % 1000 // 10, version % 10


def get_driver_version():
    return _checked(*_runtime.cudaDriverGetVersion())


def start_profiler():
    _checked(*_runtime.cudaProfilerStart())


def stop_profiler():
    _checked(*_runtime.cudaProfilerStop())
