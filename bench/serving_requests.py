"""Requests as bytes, and bench/serving_load.cpp, which sends them."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
from tritonclient.grpc import service_pb2 as messages

ROOT = Path(__file__).resolve().parents[1]
LOAD = ROOT / "build/release/bench/serving_load"
DATATYPES = {"float32": "FP32", "int64": "INT64", "int32": "INT32", "uint8": "UINT8"}


def tensors(inputs):
    return [(name, DATATYPES[str(array.dtype)], np.ascontiguousarray(array)) for name, array in inputs.items()]


def http_request(inputs, outputs=()):
    """The body and the length of its JSON, for POST /v2/models/NAME/infer with binary tensors."""
    document = {"inputs": [], "parameters": {"binary_data_output": True}}
    if outputs:
        document["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    for name, datatype, array in tensors(inputs):
        size = {"binary_data_size": array.nbytes}
        document["inputs"].append({"name": name, "datatype": datatype, "shape": array.shape, "parameters": size})
    text = json.dumps(document).encode()
    return text + b"".join(array.tobytes() for _, _, array in tensors(inputs)), len(text)


def grpc_request(model, inputs, outputs=()):
    message = messages.ModelInferRequest(model_name=model)
    for name, datatype, array in tensors(inputs):
        message.inputs.add(name=name, datatype=datatype, shape=array.shape)
        message.raw_input_contents.append(array.tobytes())
    for name in outputs:
        message.outputs.add(name=name)
    return message.SerializeToString()


def start_load(port, path, body, *, headers=(), cores=None, **options):
    """A process of serving_load, with options as its flags: clients=4, seconds=5, rate=100, protocol="grpc"."""
    command = [LOAD, "--port", port, "--path", path, "--body", body]
    for header in headers:
        command += ["--header", header]
    for name, value in options.items():
        command += [f"--{name}", value]
    return subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
    )


def finish_load(process):
    """What it measured, and what the first failure said."""
    out, err = process.communicate()
    if process.returncode != 0 or not out:
        raise RuntimeError(f"serving_load: {err}")
    return json.loads(out) | {"first_failure": err.strip()}


def run_load(port, path, body, **options):
    result = finish_load(start_load(port, path, body, **options))
    if result["failed"]:
        raise RuntimeError(f"{result['failed']} of {result['requests']} requests failed: {result['first_failure']}")
    return result
