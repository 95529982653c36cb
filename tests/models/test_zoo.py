"""The model zoo is whole, and what the catalog takes from it is there."""

import json
import tarfile
from pathlib import Path

import conditioning
import numpy as np
import pytest
import zoo
from catalog import MODELS

import onnx

FOLDER = Path(zoo.__file__).parent


def test_index_and_archive_agree():
    with tarfile.open(FOLDER / "zoo.tar.xz") as archive:
        names = {Path(name).name for name in archive.getnames() if name.endswith(".onnx")}
    assert names == {entry["file"] for entry in json.loads((FOLDER / "zoo.json").read_text())["models"]}


@pytest.mark.parametrize("name", ["own_unet", "tv_mobilenet_v2"])
def test_materialised_model_is_valid(name):
    onnx.checker.check_model(str(MODELS[name].path()), full_check=True)


def test_every_feed_has_its_label():
    for model in MODELS.values():
        first = next(iter(model.feeds))
        assert "batch 1" in first, f"{model.name}: the measured feed is the first and has batch 1"
        for label in model.feeds:
            batch = int(label.split(",")[0].split()[1])
            assert all(array.shape[0] == batch for array in model.feed(label).values()), (model.name, label)


@pytest.mark.parametrize("name", ["timm_rexnet_100.ts", "tv_efficientnet_b0.dynamo"])
def test_conditioned_layers_have_results_near_one(name):
    """On inputs that they were not measured on: gates and the like are neither open nor shut."""
    powers, model = conditioning.recorded()[name], zoo.materialize(name)
    assert set(powers) <= {weights[0] for _, weights in conditioning.layers(model)}
    left = zoo.measured_powers(name, model, seed=2)
    assert len(left) > 60 and all(abs(power) <= 2 for power in left.values()), left
    before = zoo.measured_powers(name, zoo.filled(zoo.stripped(name)), seed=2)
    assert any(abs(power) > 3 for power in before.values())


def test_conditioning_multiplies_by_powers_of_two():
    name = "own_yolov5s.ts"
    plain, made = zoo.filled(zoo.stripped(name)), zoo.materialize(name)
    powers = conditioning.recorded()[name]
    changed = 0
    for old, new in zip(plain.graph.initializer, made.graph.initializer):
        a, b = onnx.numpy_helper.to_array(old), onnx.numpy_helper.to_array(new)
        if old.name in powers:
            assert np.array_equal(b, np.ldexp(a, powers[old.name]))
            changed += 1
    assert changed == len(powers) > 0
