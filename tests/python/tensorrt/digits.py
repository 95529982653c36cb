"""A program for TensorRT 8 in the manner of its sample for digits: a network made layer by layer of a dictionary of
weights, an engine kept in a file, and one picture after the other."""

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)
random = np.random.default_rng(5)
WEIGHTS = {
    name: (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
    for name, shape in {
        "conv1.weight": (8, 1, 5, 5), "conv1.bias": (8,), "conv2.weight": (12, 8, 5, 5), "conv2.bias": (12,),
        "fc1.weight": (32, 12 * 16), "fc1.bias": (32,), "fc2.weight": (10, 32), "fc2.bias": (10,),
    }.items()
}  # fmt: skip


def dense(network, x, outputs, weights, bias):
    flat = network.add_shuffle(x)
    flat.reshape_dims = (x.shape[0], trt.volume(x.shape[1:]))
    kernel = network.add_constant(trt.Dims2(outputs, trt.volume(x.shape[1:])), weights)
    product = network.add_matrix_multiply(
        flat.get_output(0), trt.MatrixOperation.NONE, kernel.get_output(0), trt.MatrixOperation.TRANSPOSE
    )
    shift = network.add_constant(trt.Dims2(1, outputs), bias)
    return network.add_elementwise(product.get_output(0), shift.get_output(0), trt.ElementWiseOperation.SUM)


def populate(network):
    x = network.add_input(name="data", dtype=trt.float32, shape=(1, 1, 28, 28))
    conv1 = network.add_convolution_nd(
        input=x, num_output_maps=8, kernel_shape=(5, 5), kernel=WEIGHTS["conv1.weight"], bias=WEIGHTS["conv1.bias"]
    )
    conv1.stride_nd = (1, 1)
    pool1 = network.add_pooling_nd(input=conv1.get_output(0), type=trt.PoolingType.MAX, window_size=(2, 2))
    pool1.stride_nd = trt.Dims2(2, 2)
    conv2 = network.add_convolution_nd(
        pool1.get_output(0), 12, (5, 5), trt.Weights(WEIGHTS["conv2.weight"]), trt.Weights(WEIGHTS["conv2.bias"])
    )
    pool2 = network.add_pooling_nd(conv2.get_output(0), trt.PoolingType.MAX, (2, 2))
    pool2.stride_nd = trt.Dims2(2, 2)
    assert pool2.get_output(0).shape == (1, 12, 4, 4)
    fc1 = dense(network, pool2.get_output(0), 32, WEIGHTS["fc1.weight"], WEIGHTS["fc1.bias"])
    relu = network.add_activation(input=fc1.get_output(0), type=trt.ActivationType.RELU)
    fc2 = dense(network, relu.get_output(0), 10, WEIGHTS["fc2.weight"], WEIGHTS["fc2.bias"])
    fc2.get_output(0).name = "prob"
    network.mark_output(tensor=fc2.get_output(0))


def expected(picture):
    def convolved(x, w, b):
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (1, 2))
        return np.einsum("cijkl,ockl->oij", windows, w) + b[:, None, None]

    def pooled(x):
        return x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2).max((2, 4))

    x = pooled(convolved(picture, WEIGHTS["conv1.weight"], WEIGHTS["conv1.bias"]))
    x = pooled(convolved(x, WEIGHTS["conv2.weight"], WEIGHTS["conv2.bias"])).ravel()
    x = np.maximum(WEIGHTS["fc1.weight"] @ x + WEIGHTS["fc1.bias"], 0)
    return WEIGHTS["fc2.weight"] @ x + WEIGHTS["fc2.bias"]


builder = trt.Builder(LOGGER)
network = builder.create_network(1)
config = builder.create_builder_config()
runtime = trt.Runtime(LOGGER)
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
populate(network)
assert builder.is_network_supported(network, config)
plan = builder.build_serialized_network(network, config)
with open("digits.plan", "wb") as file:
    file.write(plan)
with open("digits.plan", "rb") as file:
    engine = runtime.deserialize_cuda_engine(file.read())
context = engine.create_execution_context()
stream = cuda.Stream()
host_in = cuda.pagelocked_empty(trt.volume(engine.get_tensor_shape("data")), np.float32)
host_out = cuda.pagelocked_empty(trt.volume(engine.get_tensor_shape("prob")), np.float32)
device_in, device_out = cuda.mem_alloc(host_in.nbytes), cuda.mem_alloc(host_out.nbytes)
context.set_tensor_address("data", int(device_in))
context.set_tensor_address("prob", int(device_out))
for seed in range(3):
    picture = np.random.default_rng(seed).standard_normal((1, 28, 28)).astype(np.float32)
    np.copyto(host_in, picture.ravel())
    cuda.memcpy_htod_async(device_in, host_in, stream)
    assert context.execute_async_v3(stream_handle=stream.handle)
    cuda.memcpy_dtoh_async(host_out, device_out, stream)
    stream.synchronize()
    np.testing.assert_allclose(host_out, expected(picture), rtol=1e-3, atol=1e-4)
print("PASSED")
