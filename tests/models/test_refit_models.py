"""An engine of every model, refitted with other numbers in everything that it says can be replaced, is the engine of the
model with those numbers, byte for byte."""

import numpy as np
import pytest
from catalog import EVERY
from test_module import module

import onnx

WITHOUT_WEIGHTS = {"own_loop_script", "own_nms_head", "own_topk_head"}


def other_numbers(array, random):
    """Not all equal, and of the signs that they had: variances stay such."""
    if array.dtype == np.bool_ or not np.issubdtype(array.dtype, np.floating):
        return np.roll(array.ravel(), 1).reshape(array.shape)
    factor, shift = random.uniform(0.9, 1.1, array.shape), random.uniform(0, 0.01, array.shape)
    return np.asarray(array.astype(np.float64) * factor + shift, array.dtype)


def replaced(path, names, changed):
    """The model with other numbers in these initializers, and the numbers."""
    model, random, weights = onnx.load(path), np.random.default_rng(5), {}
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    tensors |= {  # as Paddle's exporter writes them
        node.output[0]: attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    }
    for name in sorted(names & set(tensors)):
        weights[name] = other_numbers(onnx.numpy_helper.to_array(tensors[name]), random)
        tensors[name].CopyFrom(onnx.numpy_helper.from_array(weights[name], tensors[name].name))
    changed.parent.mkdir(exist_ok=True)
    onnx.save(model, changed)
    return weights


MODELS = [
    pytest.param(model.name, marks=[] if model.quick else pytest.mark.large)
    for model in EVERY.values()
    if model.megabytes < 1500  # onnx.save writes one file of at most 2 GB
]


@pytest.mark.parametrize("name", MODELS)
def test_a_refitted_engine_is_that_of_the_new_model(name, tmp_path):
    model = EVERY[name]
    path = model.path()
    engine = module.build(path, refit=True, tuning="heuristic", verify=False)
    listed = module.Refitter(engine).all_weights
    names = {weight["name"] for weight in listed if not weight["fixed_by"]}
    floats = [weight for weight in listed if weight["dtype"] in ("f32", "f16") and np.prod(weight["dims"]) > 64]
    fixed = {weight["name"]: weight["fixed_by"] for weight in floats if weight["fixed_by"]}
    assert not fixed, fixed
    assert names or name in WITHOUT_WEIGHTS
    weights = replaced(path, names, tmp_path / "new" / path.name)
    assert set(weights) == names
    fresh = module.build(tmp_path / "new" / path.name, refit=True, tuning="heuristic", verify=False)
    engine.refit(weights)
    is_same = bytes(engine) == bytes(fresh)  # pytest would show the difference for minutes
    assert is_same
