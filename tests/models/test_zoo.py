"""The model zoo is whole, and what the catalog takes from it is there."""

import json
import tarfile
from pathlib import Path

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
