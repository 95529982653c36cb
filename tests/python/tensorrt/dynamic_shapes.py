"""A program for TensorRT 10: two profiles, device memory and a stream of CUDA Python's, execute_async_v3."""

import numpy as np
import onnxruntime
import tensorrt as trt
from cuda import cudart


def checked(result):
    status, *values = result
    if status != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(status)[1])
    return values[0] if len(values) == 1 else values


class Inference:
    def __init__(self, engine):
        self.engine = engine
        self.context = engine.create_execution_context()
        self.stream = checked(cudart.cudaStreamCreate())
        self.device = {}

    def __call__(self, **inputs):
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        outputs = {}
        for name in names:
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                assert self.context.set_input_shape(name, inputs[name].shape)
        assert self.context.all_binding_shapes_specified
        for name in names:
            shape = self.context.get_tensor_shape(name)
            dtype = trt.nptype(self.engine.get_tensor_dtype(name))
            size = trt.volume(shape) * np.dtype(dtype).itemsize
            self.device[name] = checked(cudart.cudaMalloc(size))
            self.context.set_tensor_address(name, self.device[name])
            if name in inputs:
                copy = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
                checked(cudart.cudaMemcpyAsync(self.device[name], inputs[name].ctypes.data, size, copy, self.stream))
            else:
                outputs[name] = np.empty(tuple(shape), dtype)
        assert self.context.execute_async_v3(self.stream)
        for name, array in outputs.items():
            copy = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
            checked(cudart.cudaMemcpyAsync(array.ctypes.data, self.device[name], array.nbytes, copy, self.stream))
        checked(cudart.cudaStreamSynchronize(self.stream))
        for memory in self.device.values():
            checked(cudart.cudaFree(memory))
        return outputs


logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
parser = trt.OnnxParser(network, logger)
with open("model.onnx", "rb") as file:
    if not parser.parse(file.read()):
        raise SystemExit("\n".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
config = builder.create_builder_config()
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
config.builder_optimization_level = 3
for smallest, largest in ((1, 4), (8, 16)):
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (smallest, 3, 32, 32), (smallest, 3, 32, 32), (largest, 3, 32, 32))
    config.add_optimization_profile(profile)
plan = builder.build_serialized_network(network, config)
with open("model.plan", "wb") as file:
    file.write(plan)

with open("model.plan", "rb") as file, trt.Runtime(logger) as runtime:
    engine = runtime.deserialize_cuda_engine(file.read())
assert engine.num_optimization_profiles == 2
infer = Inference(engine)
session = onnxruntime.InferenceSession("model.onnx")
for batch in (1, 4, 8, 16, 2):
    infer.context.set_optimization_profile_async(0 if batch <= 4 else 1, infer.stream)
    x = np.random.default_rng(batch).standard_normal((batch, 3, 32, 32)).astype(np.float32)
    np.testing.assert_allclose(infer(x=x)["y"], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
assert cudart.cudaFree(infer.device["x"])[0] == cudart.cudaError_t.cudaErrorInvalidValue  # it was given back
checked(cudart.cudaStreamDestroy(infer.stream))
print("PASSED")
