"""The memory that plugins in Python compute in: a GPU's where there is one, as they do in TensorRT, else the host's."""

import ctypes
import functools

import numpy

from camshaft.tensorrt._cuda import device

_ALIGNMENT = 256  # as a GPU's memory has


class HostMemory:
    """Operands where they are."""

    device, stream = "cpu", 0

    def __init__(self):
        self._rooms = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._rooms.clear()

    def given(self, address, size):
        """Where an operand of the host's memory is read."""
        return address

    def made(self, address, size):
        """Where a result is written that finish() brings to this address of the host's memory."""
        return address

    def room(self, size):
        self._rooms.append(numpy.empty(max(1, size) + _ALIGNMENT, numpy.uint8))
        return (self._rooms[-1].ctypes.data + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT

    def scratch(self, size):
        """Room beside others."""
        return self.room(size)

    def copy(self, to, origin, size):
        ctypes.memmove(to, origin, size)

    def clear(self, to, size):
        ctypes.memset(to, 0, size)

    def copy_column(self, to, to_pitch, origin, pitch, width, count):
        """So many pieces of `width` bytes, which are a pitch apart."""
        if count:
            target, source = _pieces(to, to_pitch, width, count), _pieces(origin, pitch, width, count)
            target[...] = source

    def bytes_at(self, address, size):
        return ctypes.string_at(address, size)

    def finish(self):
        """Waits until all is written."""


@functools.lru_cache(maxsize=None)
def _driver():
    library = ctypes.CDLL("libcuda.so.1")
    library.cuInit(0)
    return library


def aligned(size):
    """As operands in one room follow each other."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _call(name, *arguments):
    status = getattr(_driver(), name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name} of CUDA's driver gave the error {status}")


def _address(value):
    return ctypes.c_uint64(value)


def _pieces(address, pitch, width, count):
    """Bytes [count, width] of the host's memory."""
    memory = (ctypes.c_uint8 * ((count - 1) * pitch + width)).from_address(address)
    return numpy.lib.stride_tricks.as_strided(numpy.frombuffer(memory, numpy.uint8), (count, width), (pitch, 1))


_OF_DEVICE = 2  # CU_MEMORYTYPE_DEVICE


class _Rows(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        *[
            (f"{side}_{name}", kind)
            for side in ("from", "to")
            for name, kind in (
                ("x", ctypes.c_size_t),
                ("y", ctypes.c_size_t),
                ("type", ctypes.c_uint),
                ("host", ctypes.c_void_p),
                ("device", ctypes.c_uint64),
                ("array", ctypes.c_void_p),
                ("pitch", ctypes.c_size_t),
            )
        ],
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


class StreamMemory:
    """Of a GPU whose context is current: operands are there, and the work goes into a stream."""

    def __init__(self, stream, workspace=0):
        self.stream, self._workspace = stream, workspace

    @functools.cached_property
    def device(self):
        """ "cuda:1", that of the context."""
        number = ctypes.c_int()
        _call("cuCtxGetDevice", ctypes.byref(number))
        return f"cuda:{number.value}"

    def room(self, size):
        return self._workspace

    def scratch(self, size):
        """Room beside others: the front of the workspace."""
        found = self._workspace
        self._workspace += aligned(size)
        return found

    def copy(self, to, origin, size):
        if size:
            stream = ctypes.c_void_p(self.stream)
            _call("cuMemcpyDtoDAsync_v2", _address(to), _address(origin), ctypes.c_size_t(size), stream)

    def clear(self, to, size):
        if size:
            zero = ctypes.c_ubyte(0)
            _call("cuMemsetD8Async", _address(to), zero, ctypes.c_size_t(size), ctypes.c_void_p(self.stream))

    def copy_column(self, to, to_pitch, origin, pitch, width, count):
        """So many pieces of `width` bytes, which are a pitch apart."""
        if count:
            rows = _Rows(
                0, 0, _OF_DEVICE, None, origin, None, pitch, 0, 0, _OF_DEVICE, None, to, None, to_pitch, width, count
            )
            _call("cuMemcpy2DAsync_v2", ctypes.byref(rows), ctypes.c_void_p(self.stream))


class CopiedMemory(StreamMemory):
    """Copies on a GPU of operands that the host has, where results are computed that are then brought back."""

    def __init__(self):
        super().__init__(0)
        self._made, self._rooms, self._is_pushed = [], [], False

    def __enter__(self):
        context, number = ctypes.c_void_p(), ctypes.c_int()
        _driver().cuInit(0)
        if _driver().cuCtxGetDevice(ctypes.byref(number)) != 0:
            _call("cuDeviceGet", ctypes.byref(number), 0)
            _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
            _call("cuCtxPushCurrent_v2", context)
            self._is_pushed = True
        made = ctypes.c_void_p()
        _call("cuStreamCreate", ctypes.byref(made), 1)
        self.stream = made.value
        return self

    def __exit__(self, *_):
        stream = ctypes.c_void_p(self.stream)
        _driver().cuStreamSynchronize(stream)
        for room in self._rooms:
            _driver().cuMemFree_v2(_address(room))
        _driver().cuStreamDestroy_v2(stream)
        if self._is_pushed:
            _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def given(self, address, size):
        there = self.room(size)
        if size:
            origin, stream = ctypes.c_void_p(address), ctypes.c_void_p(self.stream)
            _call("cuMemcpyHtoDAsync_v2", _address(there), origin, ctypes.c_size_t(size), stream)
        return there

    def made(self, address, size):
        there = self.given(address, size)  # with what is there, so that what is not written is seen to be so
        self._made.append((address, there, size))
        return there

    def scratch(self, size):
        return self.room(size)

    def room(self, size):
        found = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(max(1, size)))
        self._rooms.append(found.value)
        return found.value

    def _fetch(self, to, there, size):
        if size:
            stream = ctypes.c_void_p(self.stream)
            _call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(to), _address(there), ctypes.c_size_t(size), stream)

    def bytes_at(self, address, size):
        buffer = ctypes.create_string_buffer(max(1, size))
        self._fetch(ctypes.addressof(buffer), address, size)
        _call("cuStreamSynchronize", ctypes.c_void_p(self.stream))
        return buffer.raw[:size]

    def finish(self):
        for address, there, size in self._made:
            self._fetch(address, there, size)
        _call("cuStreamSynchronize", ctypes.c_void_p(self.stream))


def memory_for_host():
    """For operands in the host's memory."""
    return CopiedMemory() if device() == "cuda" else HostMemory()
