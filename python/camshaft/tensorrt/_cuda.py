"""CUDA's runtime as programs beside TensorRT use it: the library of the machine where it has a GPU; elsewhere ours, whose
device memory is the host's."""

import ctypes
import functools
import os
from pathlib import Path

import numpy

import camshaft

#: Where the library is that stands in for CUDA's.
FOLDER = Path(__file__).resolve().parent / "lib"


@functools.lru_cache(maxsize=None)
def has_gpu():
    """Whether engines can run on a GPU here. CAMSHAFT_TENSORRT_DEVICE=cpu says no."""
    if os.environ.get("CAMSHAFT_TENSORRT_DEVICE", "") == "cpu":
        return False
    return any(
        entry["kind"] == "cuda" and entry.get("name") and not entry.get("warning") for entry in camshaft.devices()
    )


def device():
    """What engines are built for and memory is allocated on: "cuda" or "cpu"."""
    return "cuda" if has_gpu() else "cpu"


@functools.lru_cache(maxsize=None)
def library():
    """The runtime. Raises ImportError where the machine has a GPU and no libcudart."""
    if not has_gpu():
        return ctypes.CDLL(str(FOLDER / "libcudart.so"))
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise ImportError("there is a GPU and no libcudart.so: install cuda-python, or CUDA's runtime")


def name_of_device(number):
    kind = device()
    return [entry["name"] for entry in camshaft.devices() if entry["kind"] == kind][number]


def call(name, *arguments):
    """The status of a function of the runtime."""
    return getattr(library(), name)(*arguments)


def made(name, kind, *arguments):
    """(status, value) of a function that writes to its first argument."""
    value = kind()
    status = call(name, ctypes.byref(value), *arguments)
    return status, value.value or 0


def check_size(name, address, size):
    """Raises ValueError where a tensor of `size` bytes does not fit into what was allocated at its address. Of a GPU's
    memory, and of what others allocated, nothing is known."""
    if not has_gpu() and call("cudaStandInFits", ctypes.c_void_p(address), ctypes.c_size_t(size)) != 0:
        raise ValueError(f"tensor '{name}' has {size} bytes, which is more than what was allocated at {address:#x}")


def error_text(status):
    """What a status means: "cudaErrorInvalidValue: …"."""
    texts = []
    for name in ("cudaGetErrorName", "cudaGetErrorString"):
        function = getattr(library(), name)
        function.restype = ctypes.c_char_p
        texts.append(function(status).decode())
    return ": ".join(texts)


def address_of(given):
    """The address that an argument means: a number, something with one (PyCUDA's and CUDA Python's objects), or a
    buffer. NumPy's numbers have an __array_interface__ as arrays have, of where they lie themselves."""
    if isinstance(given, (int, numpy.integer)):
        return int(given)
    if hasattr(given, "__array_interface__"):
        return given.__array_interface__["data"][0]
    if hasattr(given, "__int__"):
        return int(given)
    return ctypes.addressof(ctypes.c_char.from_buffer(given))
