"""A program for TensorRT 8 in the manner of detectors on GitHub: a class with a CUDA context of its own, which threads
push and pop, bindings by name, page-locked memory, and letterboxed pictures in batches."""

import threading

import numpy as np
import onnxruntime
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt


def write_plan(path):
    logger = trt.Logger(trt.Logger.ERROR)
    flag = 1 << (int)(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    with (
        trt.Builder(logger) as builder,
        builder.create_network(flag) as network,
        trt.OnnxParser(network, logger) as parser,
    ):
        config = builder.create_builder_config()
        config.max_workspace_size = 1 << 30
        with open("model.onnx", "rb") as model:
            if not parser.parse(model.read()):
                for k in range(parser.num_errors):
                    print(parser.get_error(k))
                raise SystemExit(1)
        network.get_input(0).shape = (2, 3, 32, 32)
        assert network.get_output(0).shape == (2, 10)
        if builder.platform_has_fast_fp16:
            config.set_flag(trt.BuilderFlag.FP16)
        engine = builder.build_engine(network, config)
        with open(path, "wb") as file:
            file.write(engine.serialize())


class Detector:
    def __init__(self, path):
        self.ctx = cuda.Device(0).make_context()
        self.stream = cuda.Stream()
        logger = trt.Logger(trt.Logger.INFO)
        runtime = trt.Runtime(logger)
        with open(path, "rb") as file:
            self.engine = runtime.deserialize_cuda_engine(file.read())
        self.context = self.engine.create_execution_context()
        self.host_inputs, self.cuda_inputs, self.host_outputs, self.cuda_outputs, self.bindings = [], [], [], [], []
        for binding in self.engine:
            size = trt.volume(self.engine.get_binding_shape(binding)) * self.engine.max_batch_size
            dtype = trt.nptype(self.engine.get_binding_dtype(binding))
            host_mem = cuda.pagelocked_empty(size, dtype)
            cuda_mem = cuda.mem_alloc(host_mem.nbytes)
            self.bindings.append(int(cuda_mem))
            if self.engine.binding_is_input(binding):
                self.input_w = self.engine.get_binding_shape(binding)[-1]
                self.input_h = self.engine.get_binding_shape(binding)[-2]
                self.host_inputs.append(host_mem)
                self.cuda_inputs.append(cuda_mem)
            else:
                self.host_outputs.append(host_mem)
                self.cuda_outputs.append(cuda_mem)
        self.batch_size = self.engine.get_binding_shape(0)[0]

    def infer(self, pictures):
        self.ctx.push()
        try:
            batch = np.empty([self.batch_size, 3, self.input_h, self.input_w], np.float32)
            for i, picture in enumerate(pictures):
                np.copyto(batch[i], self.preprocess(picture))
            np.copyto(self.host_inputs[0], np.ascontiguousarray(batch).ravel())
            cuda.memcpy_htod_async(self.cuda_inputs[0], self.host_inputs[0], self.stream)
            self.context.execute_async_v2(bindings=self.bindings, stream_handle=self.stream.handle)
            cuda.memcpy_dtoh_async(self.host_outputs[0], self.cuda_outputs[0], self.stream)
            self.stream.synchronize()
        finally:
            self.ctx.pop()
        return batch, self.host_outputs[0].reshape(self.batch_size, -1).copy()

    def preprocess(self, picture):
        """Into the middle of a grey square."""
        square = np.full((3, self.input_h, self.input_w), 128, np.float32)
        h, w = picture.shape[:2]
        top, left = (self.input_h - h) // 2, (self.input_w - w) // 2
        square[:, top : top + h, left : left + w] = picture.transpose(2, 0, 1)
        return square / 255.0

    def destroy(self):
        self.ctx.pop()


class Worker(threading.Thread):
    def __init__(self, detector, seed):
        threading.Thread.__init__(self)
        self.detector, self.seed, self.result = detector, seed, None

    def run(self):
        random = np.random.default_rng(self.seed)
        pictures = [random.integers(0, 256, (20 + 4 * k, 32 - 2 * k, 3)).astype(np.float32) for k in range(2)]
        self.result = self.detector.infer(pictures)


write_plan("model.plan")
detector = Detector("model.plan")
session = onnxruntime.InferenceSession("model.onnx")
for seed in range(3):
    worker = Worker(detector, seed)
    worker.start()
    worker.join()
    batch, scores = worker.result
    np.testing.assert_allclose(scores, session.run(None, {"x": batch})[0], rtol=0.02, atol=0.02)
detector.destroy()
print("PASSED")
