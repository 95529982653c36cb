"""Writes models back as ONNX with the program export_models, and runs original and copy in ONNX Runtime."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import camshaft_cli
import numpy as np
import onnxruntime

import onnx

PROGRAM = camshaft_cli.BINARY.parents[1] / "tests/export_models"


def export(requests):
    """The answers of export_models to a list of requests (see export_models.cpp), in their order."""
    parts = [requests[i :: os.cpu_count()] for i in range(os.cpu_count())]

    def ask(part):
        lines = "".join(json.dumps(request) + "\n" for request in part)
        done = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    with ThreadPoolExecutor() as pool:
        answers = [iter(part) for part in pool.map(ask, parts)]
    return [next(answers[i % len(answers)]) for i in range(len(requests))]


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, feed):
    """ONNX Runtime's results by name; None where it does not run the model."""
    try:
        running = session(path)
        outputs = running.run(None, feed)
    except Exception:  # of its own types, without a common one
        return None
    return dict(zip([output.name for output in running.get_outputs()], outputs))


def difference(expected, actual, relative, absolute):
    """What is not the same in two values; None where nothing is."""
    if isinstance(expected, (list, dict)) or expected is None:
        if type(expected) is not type(actual) or (expected is not None and len(expected) != len(actual)):
            return f"{actual} instead of {expected}"
        if isinstance(expected, dict):
            expected, actual = [list(expected), list(expected.values())], [list(actual), list(actual.values())]
        for one, other in zip(expected or [], actual or []):
            if what := difference(one, other, relative, absolute):
                return what
        return None
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if expected.dtype.kind in "fV":
        close = np.isclose(
            expected.astype(np.float64), actual.astype(np.float64), rtol=relative, atol=absolute, equal_nan=True
        )
    else:
        close = expected == actual
    if close.all():
        return None
    place = tuple(np.argwhere(~close)[0])
    return f"{(~close).sum()} of {close.size} elements, at {place} {actual[place]} instead of {expected[place]}"


def checked(path):
    """What onnx's checker says against a model; None where it says nothing."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def complaint(original, copy, feed, relative=1e-3, absolute=1e-5):
    """What is wrong with a copy that the reference evaluation found to be the same; None where nothing is."""
    if (what := checked(copy)) and not checked(original):
        return f"checker: {what}"
    expected = run(original, feed)
    if expected is None:
        return None
    try:
        running = session(copy)
        actual = dict(zip([output.name for output in running.get_outputs()], running.run(None, feed)))
    except Exception as error:
        return f"ONNX Runtime: {error}"
    for name, value in expected.items():
        if what := difference(value, actual[name], relative, absolute):
            return f"ONNX Runtime: {name}: {what}"
    return None


def to_value(path, type_proto):
    """A value of the standard's tests as ONNX Runtime takes it."""
    data = Path(path).read_bytes()
    kind = type_proto.WhichOneof("value")
    if kind == "sequence_type":
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data))
