"""An engine whose copies and run are captured into a CUDA graph, which is launched for each input: CUDA Python."""

import numpy as np
import onnxruntime
import tensorrt as trt
from cuda import cudart

LOGGER = trt.Logger(trt.Logger.ERROR)


def checked(result):
    error, *values = result
    if error != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{error}: {cudart.cudaGetErrorString(error)[1]}")
    return values[0] if len(values) == 1 else values


def build():
    builder = trt.Builder(LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    assert trt.OnnxParser(network, LOGGER).parse_from_file("model.onnx")
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 3, 32, 32), (2, 3, 32, 32), (2, 3, 32, 32))
    config.add_optimization_profile(profile)
    return trt.Runtime(LOGGER).deserialize_cuda_engine(builder.build_serialized_network(network, config))


properties = checked(cudart.cudaGetDeviceProperties(0))
print(f"{properties.name.decode()}: {properties.multiProcessorCount} multiprocessors")
context = build().create_execution_context()
stream = checked(cudart.cudaStreamCreate())
x, y = np.zeros((2, 3, 32, 32), np.float32), np.zeros((2, 10), np.float32)
device_x, device_y = checked(cudart.cudaMalloc(x.nbytes)), checked(cudart.cudaMalloc(y.nbytes))
context.set_input_shape("x", x.shape)
context.set_tensor_address("x", device_x)
context.set_tensor_address("y", device_y)
assert context.execute_async_v3(stream)  # once before the capture

to_device, to_host = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
checked(cudart.cudaStreamBeginCapture(stream, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal))
status = checked(cudart.cudaStreamIsCapturing(stream))
assert status == cudart.cudaStreamCaptureStatus.cudaStreamCaptureStatusActive
checked(cudart.cudaMemcpyAsync(device_x, x.ctypes.data, x.nbytes, to_device, stream))
assert context.execute_async_v3(stream)
checked(cudart.cudaMemcpyAsync(y.ctypes.data, device_y, y.nbytes, to_host, stream))
graph = checked(cudart.cudaStreamEndCapture(stream))
instance = checked(cudart.cudaGraphInstantiate(graph, 0))
checked(cudart.cudaGraphDestroy(graph))
assert not y.any()  # nothing was run while it was captured

session = onnxruntime.InferenceSession("model.onnx")
for seed in range(3):
    x[...] = np.random.default_rng(seed).standard_normal(x.shape)
    checked(cudart.cudaGraphLaunch(instance, stream))
    checked(cudart.cudaStreamSynchronize(stream))
    assert np.allclose(y, session.run(None, {"x": x})[0], rtol=1e-3, atol=1e-4)
checked(cudart.cudaGraphExecDestroy(instance))
for result in (cudart.cudaGraphLaunch(instance, stream), cudart.cudaStreamEndCapture(stream)):
    assert result[0] != cudart.cudaError_t.cudaSuccess
checked(cudart.cudaFree(device_x))
checked(cudart.cudaFree(device_y))
checked(cudart.cudaStreamDestroy(stream))
print("PASSED")
