"""CUDA's driver, as programs that have streams of their own call it: the emulated one here."""

import ctypes

import numpy as np


class Driver:
    """Of one GPU, whose primary context is current in the calling thread as long as this is entered."""

    def __init__(self, ordinal=0):
        self.library = ctypes.CDLL("libcuda.so.1")
        device = ctypes.c_int()
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name} gave {status}"

    def __enter__(self):
        self.call("cuCtxPushCurrent_v2", self.context)
        return self

    def __exit__(self, *_):
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def stream(self):
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), 1)
        return made

    def wait(self, stream):
        self.call("cuStreamSynchronize", stream)

    def write(self, address, array, stream):
        """Puts the copy into the stream; the array must stay."""
        self.call(
            "cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes), stream,
        )  # fmt: skip

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def share(self, address):
        """The bytes by which another process opens the allocation (cudaIpcMemHandle_t)."""
        handle = ctypes.create_string_buffer(64)
        self.call("cuIpcGetMemHandle", handle, ctypes.c_uint64(address))
        return handle.raw

    def read(self, address, shape, stream, dtype=np.float32):
        """What an array at the address is when the stream has come there."""
        array = np.empty(shape, dtype)
        self.call(
            "cuMemcpyDtoHAsync_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(address),
            ctypes.c_size_t(array.nbytes), stream,
        )  # fmt: skip
        self.wait(stream)
        return array
