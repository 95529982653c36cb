"""Models in Python that the tests of the server load."""

import textwrap
from pathlib import Path

HEAD = """
import json
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils
"""

# Sums and differences, as the first example of Triton's documentation.
SUMS = """
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.types = [
            pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, name)["data_type"])
            for name in ("OUTPUT0", "OUTPUT1")
        ]
        assert args["model_name"] == "sums" and args["model_version"] == "1"

    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("INPUT0", "INPUT1"))
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("OUTPUT0", (a + b).astype(self.types[0])),
                        pb_utils.Tensor("OUTPUT1", (a - b).astype(self.types[1])),
                    ]
                )
            )
        return responses
"""
SUMS_CONFIG = """
name: "sums"
backend: "python"
max_batch_size: 8
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [-1] }]
dynamic_batching {}
"""

# Hands through a tensor of any type; completes its own configuration. What the parameter "do" says goes wrong.
ECHO = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "INPUT0", "data_type": "TYPE_@TYPE@", "dims": [-1, -1]})
        config.add_output({"name": "OUTPUT0", "data_type": "TYPE_@TYPE@", "dims": [-1, -1]})
        config.set_max_batch_size(0)
        return config

    def initialize(self, args):
        self.kept = []

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensor = pb_utils.get_input_tensor_by_name(request, "INPUT0")
        do = json.loads(request.parameters()).get("do", "")
        if do == "raise":
            raise ValueError("this is wrong with it")
        if do == "error":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("not that", pb_utils.TritonError.NOT_FOUND))
        if do == "exit":
            os._exit(7)
        if do == "hang":
            time.sleep(3600)
        if do == "type":
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.zeros((1, 1), np.complex64))])
        if do == "wait":
            while not request.is_cancelled():
                time.sleep(0.01)
            pb_utils.Logger.log_info("it was cancelled")
        if do == "keep":
            self.kept.append(tensor.as_numpy())
        if do == "kept":
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", self.kept.pop(0))])
        if do == "pid":
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([[os.getpid()]], np.float32))])
        if do == "parameters":
            return pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", tensor.as_numpy())],
                parameters={"id": request.request_id(), "sequence": request.correlation_id(), "number": 5},
            )
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", tensor.as_numpy())])
"""

# As many responses as the request says, each with its number; from a thread, after execute has returned.
REPEAT = """
import threading


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            threading.Thread(target=self.send, args=(request.get_response_sender(), count)).start()
        return None

    def send(self, sender, count):
        if count < 0:
            return  # without an answer
        for i in range(count):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([i], np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
REPEAT_CONFIG = """
name: "repeat"
backend: "python"
model_transaction_policy { decoupled: true }
input [{ name: "IN" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]
"""

# Asks other models: the sums of its input with itself, by way of "sums", and how many responses "repeat" gives.
CALLER = """
import asyncio


class TritonPythonModel:
    async def ask(self, array):
        tensors = [pb_utils.Tensor(name, array) for name in ("INPUT0", "INPUT1")]
        calls = [
            pb_utils.InferenceRequest(model_name="sums", requested_output_names=["OUTPUT0"], inputs=tensors).async_exec()
            for _ in range(3)
        ]
        return await asyncio.gather(*calls)

    async def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            answers = await self.ask(array)
            total = sum(pb_utils.get_output_tensor_by_name(answer, "OUTPUT0").as_numpy() for answer in answers)
            repeated = pb_utils.InferenceRequest(
                model_name="repeat", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", np.array([4], np.int32))]
            ).exec(decoupled=True)
            count = sum(1 for answer in repeated if answer.output_tensors())
            failed = pb_utils.InferenceRequest(model_name="none", requested_output_names=[], inputs=[]).exec()
            assert failed.has_error() and "none" in failed.error().message()
            assert pb_utils.is_model_ready("sums") and not pb_utils.is_model_ready("none")
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUTPUT0", total), pb_utils.Tensor("COUNT", np.full((1, 1), count, np.int32))]
                )
            )
        return responses
"""
CALLER_CONFIG = """
name: "caller"
backend: "python"
max_batch_size: 1
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }, { name: "COUNT" data_type: TYPE_INT32 dims: [1] }]
"""

FAILS = """
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("there are no weights")

    def execute(self, requests):
        pass
"""
FAILS_CONFIG = 'name: "fails"\nbackend: "python"\n'


def write_python(repository, name, code, config="", version=1):
    folder = Path(repository) / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(HEAD + textwrap.dedent(code))
    if config:
        (folder.parent / "config.pbtxt").write_text(config)


def write_all(repository):
    write_python(repository, "sums", SUMS, SUMS_CONFIG)
    write_python(repository, "echo", ECHO.replace("@TYPE@", "FP32"))
    write_python(repository, "texts", ECHO.replace("@TYPE@", "STRING"))
    write_python(repository, "halves", ECHO.replace("@TYPE@", "FP16"))
    write_python(repository, "repeat", REPEAT, REPEAT_CONFIG)
    write_python(repository, "caller", CALLER, CALLER_CONFIG)
    write_python(repository, "fails", FAILS, FAILS_CONFIG)
