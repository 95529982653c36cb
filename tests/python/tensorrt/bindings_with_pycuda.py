"""A program for TensorRT 8: `with`, bindings by number, PyCUDA's memory, an int8 calibrator with a cache."""

import os

import numpy as np
import onnxruntime
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)
BATCH = 4


class Memory:
    def __init__(self, host, device):
        self.host, self.device = host, device


class Calibrator(trt.IInt8MinMaxCalibrator):
    def __init__(self, pictures, cache):
        trt.IInt8MinMaxCalibrator.__init__(self)
        self.pictures, self.cache, self.next = pictures, cache, 0
        self.device = cuda.mem_alloc(pictures[0].nbytes * BATCH)

    def get_batch_size(self):
        return BATCH

    def get_batch(self, names):
        if self.next + BATCH > len(self.pictures):
            return None
        batch = np.ascontiguousarray(self.pictures[self.next : self.next + BATCH])
        cuda.memcpy_htod(self.device, batch)
        self.next += BATCH
        return [int(self.device)]

    def read_calibration_cache(self):
        if os.path.exists(self.cache):
            with open(self.cache, "rb") as file:
                return file.read()

    def write_calibration_cache(self, cache):
        with open(self.cache, "wb") as file:
            file.write(cache)


def build(pictures):
    with (
        trt.Builder(LOGGER) as builder,
        builder.create_network(1) as network,
        builder.create_builder_config() as config,
    ):
        with trt.OnnxParser(network, LOGGER) as parser, open("model.onnx", "rb") as file:
            assert parser.parse(file.read())
        config.max_workspace_size = 1 << 28
        if builder.platform_has_fast_int8:
            config.set_flag(trt.BuilderFlag.INT8)
            config.int8_calibrator = Calibrator(pictures, "calibration.cache")
        network.get_input(0).shape = [BATCH, 3, 32, 32]
        return builder.build_engine(network, config)


def allocate(engine):
    inputs, outputs, bindings = [], [], []
    for binding in engine:
        size = trt.volume(engine.get_binding_shape(binding)) * engine.max_batch_size
        host = cuda.pagelocked_empty(size, trt.nptype(engine.get_binding_dtype(binding)))
        device = cuda.mem_alloc(host.nbytes)
        bindings.append(int(device))
        (inputs if engine.binding_is_input(binding) else outputs).append(Memory(host, device))
    return inputs, outputs, bindings, cuda.Stream()


pictures = np.random.default_rng(3).standard_normal((32, 3, 32, 32)).astype(np.float32)
for attempt in range(2):  # the second build reads the cache
    with build(pictures) as engine, engine.create_execution_context() as context:
        inputs, outputs, bindings, stream = allocate(engine)
        np.copyto(inputs[0].host, pictures[:BATCH].ravel())
        for memory in inputs:
            cuda.memcpy_htod_async(memory.device, memory.host, stream)
        assert context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)
        for memory in outputs:
            cuda.memcpy_dtoh_async(memory.host, memory.device, stream)
        stream.synchronize()
        want = onnxruntime.InferenceSession("model.onnx").run(None, {"x": pictures[:BATCH]})[0]
        np.testing.assert_allclose(outputs[0].host.reshape(want.shape), want, atol=0.02 * np.abs(want).max())
    assert os.path.getsize("calibration.cache") > 0
try:
    cuda.memcpy_htod(inputs[0].device, np.zeros(10**6))
except cuda.LogicError as error:
    assert "beyond the end of an allocation" in str(error)
else:
    raise SystemExit("a copy beyond the end was done")
print("PASSED")
