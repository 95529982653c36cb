"""Every constant of an optimised model is, bit for bit, what its record of where it comes from gives, and with other
numbers in the model's initializers it gives what optimising that model gives."""

import json
import subprocess

import numpy as np
import pytest
from camshaft_cli import ROOT
from catalog import EVERY

import onnx

CHECK = ROOT / "build/release/tests/check_provenance"

# What no operator expresses: see the passes that say so. Sizes are settled when the model is read.
REASONS = {
    "a list of sizes that constants have a part in",
    "the factor of a mask, read off what is done to scores",
    "the factor within an activation, read off the steps that spell it",
    "the number that a mask gives, read off constants",
    "made of what cannot be redone",
}


def check(*arguments):
    done = subprocess.run([CHECK, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def with_other_numbers(path, changed):
    """The model with its weights a step further and a little larger. What passes look at stays: single numbers, and
    tensors of one number over and over; equal tensors stay equal."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.size < 2 or not np.issubdtype(array.dtype, np.floating) or not (array != array.flat[0]).any():
            continue
        other = (np.roll(array.ravel(), 1) * np.float32(1.03125)).astype(array.dtype).reshape(array.shape)
        tensor.CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
    onnx.save(model, changed)
    return changed


MODELS = [
    pytest.param(model.name, marks=[] if model.quick else pytest.mark.large)
    for model in EVERY.values()
    if model.megabytes < 1500  # onnx.save writes one file of at most 2 GB
]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [(), ("--backend", "cuda", "--storage", "f16")], ids=["cpu", "cuda-f16"])
def test_constants_are_what_they_come_from(name, options, tmp_path):
    path = EVERY[name].path()
    found = check(path, with_other_numbers(path, tmp_path / "changed.onnx"), *options)
    assert found["wrong"] == []
    assert found["same_form"], "the changed numbers have led passes elsewhere: nothing was compared"
    assert set(found["unknown"]) <= REASONS
    weights = found["initializers"] + found["derived"]
    assert weights > 0 or found["constants"] == found["literals"]
