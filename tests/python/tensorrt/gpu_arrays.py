"""PyCUDA's arrays, devices and pinned memory, and CUDA's runtime through ctypes, around one engine."""

import ctypes

import numpy as np
import onnxruntime
import pycuda.driver as cuda
import pycuda.gpuarray as gpuarray
import pycuda.tools
import tensorrt as trt

cuda.init()
device = cuda.Device(0)
kind = cuda.device_attribute.MULTIPROCESSOR_COUNT
print(device.name(), device.compute_capability(), device.get_attribute(kind), cuda.get_version())
assert device.get_attributes()[kind] == device.get_attribute(kind) > 0
context_of_device = pycuda.tools.make_default_context()

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1)
assert trt.OnnxParser(network, logger).parse_from_file("model.onnx")
context = builder.build_engine(network, builder.create_builder_config()).create_execution_context()
numbers = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
wanted = onnxruntime.InferenceSession("model.onnx").run(None, {"x": numbers})[0]
context.set_binding_shape(0, numbers.shape)

x, y = gpuarray.to_gpu(numbers), gpuarray.zeros((2, 10), np.float32)
assert np.array_equal(x.get(), numbers) and not y.get().any() and y.nbytes == 80
assert context.execute_v2([int(x.gpudata), y.ptr])
assert np.allclose(y.get(), wanted, rtol=1e-3, atol=1e-4)
copy = gpuarray.empty_like(y)
copy.set(y.get())
assert np.array_equal(copy.reshape(4, 5).get(), y.get().reshape(4, 5))
cuda.memset_d32(y.gpudata, 0, 20)
assert not y.get().any()

managed = cuda.managed_zeros((2, 10), np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
mapped = cuda.pagelocked_empty((2, 3, 32, 32), np.float32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
mapped[...] = numbers
assert context.execute_v2([mapped.base.get_device_pointer(), int(managed.base)])
assert np.allclose(managed, wanted, rtol=1e-3, atol=1e-4)

runtime = ctypes.CDLL("libcudart.so")
address, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(80)) == 0
assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
context.set_tensor_address("x", x.ptr)
context.set_tensor_address("y", address.value)
assert context.execute_async_v3(stream.value)
result = np.zeros((2, 10), np.float32)
assert runtime.cudaMemcpy2D(ctypes.c_void_p(result.ctypes.data), 40, address, 40, 40, 2, 2) == 0
assert np.allclose(result, wanted, rtol=1e-3, atol=1e-4)
context_of_device.pop()
print("PASSED")
