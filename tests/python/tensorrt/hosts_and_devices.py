"""A program for TensorRT 10 in the manner of its samples: pinned memory behind ctypes, pairs of host and device memory,
one call that copies, runs and copies back, of CUDA Python's driver and runtime; layers marked, named and given types."""

import ctypes

import numpy as np
import onnxruntime
import tensorrt as trt
from cuda import cuda, cudart


def cuda_call(call):
    error, *results = call
    if isinstance(error, cuda.CUresult):
        if error != cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"driver: {error.name}")
    elif isinstance(error, cudart.cudaError_t):
        if error != cudart.cudaError_t.cudaSuccess:
            raise RuntimeError(f"runtime: {error.name}")
    else:
        raise RuntimeError(f"unknown error type: {error}")
    return results[0] if len(results) == 1 else results


class Pair:
    """Host and device memory of so many elements."""

    def __init__(self, size, dtype):
        self.nbytes = size * dtype.itemsize
        pinned = cuda_call(cudart.cudaMallocHost(self.nbytes))
        pointer = ctypes.cast(pinned, ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype)))
        self._host = np.ctypeslib.as_array(pointer, (size,))
        self.device = cuda_call(cudart.cudaMalloc(self.nbytes))

    @property
    def host(self):
        return self._host

    @host.setter
    def host(self, data):
        if data.size > self._host.size:
            raise ValueError(f"{data.size} elements for a buffer of {self._host.size}")
        np.copyto(self._host[: data.size], data.flat, casting="safe")

    def free(self):
        cuda_call(cudart.cudaFree(self.device))
        cuda_call(cudart.cudaFreeHost(self._host.ctypes.data))


def allocate(engine, profile):
    inputs, outputs, bindings = [], [], []
    for name in [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]:
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        shape = engine.get_tensor_profile_shape(name, profile)[-1] if is_input else engine.get_tensor_shape(name)
        if not is_input and -1 in tuple(shape):
            shape = (engine.get_tensor_profile_shape("x", profile)[-1][0], *tuple(shape)[1:])
        pair = Pair(trt.volume(shape), np.dtype(trt.nptype(engine.get_tensor_dtype(name))))
        bindings.append(int(pair.device))
        (inputs if is_input else outputs).append(pair)
    return inputs, outputs, bindings, cuda_call(cudart.cudaStreamCreate())


def do_inference(context, engine, bindings, inputs, outputs, stream):
    to_device, to_host = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    for pair in inputs:
        cuda_call(cudart.cudaMemcpyAsync(pair.device, pair.host.ctypes.data, pair.nbytes, to_device, stream))
    for i in range(engine.num_io_tensors):
        context.set_tensor_address(engine.get_tensor_name(i), bindings[i])
    assert context.execute_async_v3(stream_handle=stream)
    for pair in outputs:
        cuda_call(cudart.cudaMemcpyAsync(pair.host.ctypes.data, pair.device, pair.nbytes, to_host, stream))
    cuda_call(cudart.cudaStreamSynchronize(stream))
    return [pair.host for pair in outputs]


class Logger(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.worst = trt.ILogger.Severity.VERBOSE

    def log(self, severity, msg):
        self.worst = min(self.worst, severity)


logger = Logger()
explicit = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
builder = trt.Builder(logger)
network = builder.create_network(explicit)
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file("model.onnx"), parser.get_error(0)
for i in range(network.num_layers):
    layer = network.get_layer(i)
    if layer.type == trt.LayerType.CONVOLUTION:
        layer.precision = trt.float32
        layer.set_output_type(0, trt.float32)
    if layer.type == trt.LayerType.ACTIVATION:
        layer.get_output(0).name = "features"
        network.mark_output(layer.get_output(0))
config = builder.create_builder_config()
config.set_flag(trt.BuilderFlag.FP16)
config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
profile = builder.create_optimization_profile()
profile.set_shape(network.get_input(0).name, (1, 3, 32, 32), (2, 3, 32, 32), (4, 3, 32, 32))
config.add_optimization_profile(profile)
plan = builder.build_serialized_network(network, config)
assert plan is not None and plan.nbytes > 0
runtime = trt.Runtime(logger)
engine = runtime.deserialize_cuda_engine(plan)
assert {engine.get_tensor_name(i) for i in range(engine.num_io_tensors)} == {"x", "y", "features"}

with engine.create_execution_context() as context:
    inputs, outputs, bindings, stream = allocate(engine, 0)
    session = onnxruntime.InferenceSession("model.onnx")
    for batch in (4, 1):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 32, 32)).astype(np.float32)
        context.set_input_shape("x", x.shape)
        inputs[0].host = x
        results = do_inference(context, engine, bindings, inputs, outputs, stream)
        got = results[[n for n in engine if n != "x"].index("y")][: batch * 10].reshape(batch, 10)
        np.testing.assert_allclose(got, session.run(None, {"x": x})[0], rtol=0.02, atol=0.02)
    for pair in inputs + outputs:
        pair.free()
    cuda_call(cudart.cudaStreamDestroy(stream))
try:
    cuda_call(cudart.cudaFree(bindings[0]))
except RuntimeError as error:
    assert "cudaErrorInvalidValue" in str(error)
else:
    raise SystemExit("memory was given back twice")
assert logger.worst >= trt.ILogger.WARNING, logger.worst
print("PASSED")
