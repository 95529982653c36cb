"""OpenVINO through its C interface, of the library in its Python package. A call of it from Python takes 0.3 µs; a run by the
package's own InferRequest takes 2 µs more with one input and one output, 8 µs with eight of each and 21 µs (of 234) with the
ten inputs and nine outputs of hf_llama_past, as it copies outputs."""

import ctypes
import functools
from importlib.util import find_spec
from pathlib import Path

import numpy as np

# ov_element_type_e, up to where versions of OpenVINO agree.
DTYPES = {1: np.bool_, 3: np.float16, 4: np.float32, 5: np.float64, 7: np.int8, 8: np.int16, 9: np.int32, 10: np.int64}


class _Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))]


class Library:
    """Its functions by name; each throws RuntimeError with OpenVINO's words when it fails."""

    def __init__(self):
        folder = Path(find_spec("openvino").origin).parent / "libs"
        (path,) = folder.glob("libopenvino_c.so*")
        self.library = ctypes.CDLL(str(path))
        self.library.ov_get_last_err_msg.restype = ctypes.c_char_p

    def checked(self, status):
        if status:
            words = self.library.ov_get_last_err_msg() or b""
            raise RuntimeError(words.decode(errors="replace").strip() or f"OpenVINO's status {status}")

    def __getattr__(self, name):
        function = getattr(self.library, name)
        function.restype = self.checked
        setattr(self, name, function)
        return function


@functools.cache
def library():
    """The one of this process; loading it is what importing is to a Python package."""
    return Library()


class Request:
    """A model compiled for the CPU with these properties, and one request to run it, whose tensors are OpenVINO's own."""

    def __init__(self, library, model, properties):
        self.library = library
        core, read, self.compiled, self.request = (ctypes.c_void_p() for _ in range(4))
        library.ov_core_create(ctypes.byref(core))
        library.ov_core_read_model(core, str(model).encode(), None, ctypes.byref(read))
        words = [ctypes.c_char_p(str(word).encode()) for pair in properties.items() for word in pair]
        count = ctypes.c_size_t(len(words))
        library.ov_core_compile_model(core, read, b"CPU", count, ctypes.byref(self.compiled), *words)
        library.ov_compiled_model_create_infer_request(self.compiled, ctypes.byref(self.request))
        self.infer = library.library["ov_infer_request_infer"]  # without checked(), which takes 0.2 µs

    def property(self, name):
        value = ctypes.c_char_p()
        self.library.ov_compiled_model_get_property(self.compiled, name.encode(), ctypes.byref(value))
        return value.value.decode()

    def run(self):
        if status := self.infer(self.request):
            self.library.checked(status)

    def write(self, name, array):
        """Fills the input of that name, whose shape the model fixes."""
        tensor = ctypes.c_void_p()
        self.library.ov_infer_request_get_tensor(self.request, name.encode(), ctypes.byref(tensor))
        target = self.bytes_of(tensor)
        source = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if source.size != target.size:
            raise RuntimeError(f"OpenVINO's input {name} has {target.size} bytes, {source.size} are given")
        target[:] = source

    def outputs(self):
        """Copies of all outputs, in the model's order."""
        count = ctypes.c_size_t()
        self.library.ov_compiled_model_outputs_size(self.compiled, ctypes.byref(count))
        return [self.output(index) for index in range(count.value)]

    def output(self, index):
        tensor, shape, dtype = ctypes.c_void_p(), _Shape(), ctypes.c_int()
        position = ctypes.c_size_t(index)
        self.library.ov_infer_request_get_output_tensor_by_index(self.request, position, ctypes.byref(tensor))
        self.library.ov_tensor_get_element_type(tensor, ctypes.byref(dtype))
        elements = self.bytes_of(tensor).view(DTYPES[dtype.value])
        refused = self.library.library["ov_tensor_get_shape"](tensor, ctypes.byref(shape))
        if refused and elements.size == 1:  # the C interface has no shape of rank 0
            return elements.reshape(()).copy()
        self.library.checked(refused)
        return elements.reshape(shape.dims[: shape.rank]).copy()

    def bytes_of(self, tensor):
        size, data = ctypes.c_size_t(), ctypes.c_void_p()
        self.library.ov_tensor_get_byte_size(tensor, ctypes.byref(size))
        if size.value == 0:
            return np.empty(0, np.uint8)
        self.library.ov_tensor_data(tensor, ctypes.byref(data))
        return np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_uint8)), (size.value,))
