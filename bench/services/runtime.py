"""What the services beside Camshaft's run: a model of ONNX in ONNX Runtime or OpenVINO, on batches.

A request is the inputs' bytes, one behind another; its answer is the bytes of one output. That is less work than any
protocol with names and shapes makes."""

import json
from dataclasses import dataclass

import numpy as np


@dataclass
class Spec:
    """What bench/serving_compare.py tells a service, as JSON."""

    model: str
    runtime: str  # onnxruntime | openvino
    inputs: list  # [name, dtype, shape of one element]
    output: str
    max_batch: int
    wait_ms: float  # how long a batch waits for others
    instances: int  # models that run at the same time
    threads: int  # of each
    port: int
    bf16: bool  # OpenVINO may round what it multiplies; ONNX Runtime has no such way

    @classmethod
    def read(cls, text):
        return cls(**json.loads(text))


class Model:
    def __init__(self, spec):
        self.spec = spec
        self.sizes = [np.dtype(dtype).itemsize * int(np.prod(shape)) for _, dtype, shape in spec.inputs]
        self.run = self.open_openvino() if spec.runtime == "openvino" else self.open_onnxruntime()

    def open_onnxruntime(self):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.spec.threads
        session = onnxruntime.InferenceSession(self.spec.model, options, providers=["CPUExecutionProvider"])
        return lambda feeds: session.run([self.spec.output], feeds)[0]

    def open_openvino(self):
        import openvino

        core = openvino.Core()
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "bf16" if self.spec.bf16 else "f32"}
        settings["INFERENCE_NUM_THREADS"] = self.spec.threads
        compiled = core.compile_model(core.read_model(self.spec.model), "CPU", settings)
        request = compiled.create_infer_request()
        output = compiled.output(self.spec.output)

        def run(feeds):
            request.infer(feeds, share_inputs=True)
            return np.array(request.get_tensor(output).data)

        return run

    def infer(self, bodies):
        """The answers to as many requests, in one run."""
        feeds, at = {}, 0
        for (name, dtype, shape), size in zip(self.spec.inputs, self.sizes, strict=True):
            parts = b"".join(body[at : at + size] for body in bodies)
            feeds[name] = np.frombuffer(parts, dtype).reshape(len(bodies), *shape)
            at += size
        rows = self.run(feeds)
        return [row.tobytes() for row in rows]
