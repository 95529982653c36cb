"""The models that most tests of the server use, and a server of them."""

import os
import sys

import pytest
from serving import BINARY, TYPES, serving, write_identity, write_sums

LABELS = 'name: "labelled"\nmax_batch_size: 4\noutput [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [4] label_filename: "labels.txt" }]\n'


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(item.config.rootpath / "tests/server") and not BINARY.exists():
            item.add_marker(pytest.mark.skip(reason=f"{BINARY} is not built"))


@pytest.fixture(scope="module")
def interpreter():
    """Models in Python run on the one that has numpy here."""
    os.environ["CAMSHAFT_PYTHON"] = sys.executable
    yield
    del os.environ["CAMSHAFT_PYTHON"]


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    for datatype in TYPES:
        write_identity(folder, f"identity_{datatype.lower()}", datatype, ["n", "m"])
    write_sums(folder, "simple", 'name: "simple"\nmax_batch_size: 8\n')
    write_identity(folder, "labelled", "FP32", ["n", 4], LABELS)
    (folder / "labelled/labels.txt").write_text("cat\ndog\nbird\n")
    return folder


@pytest.fixture(scope="session")
def server(repository):
    with serving(
        repository,
        "--allow-client-shm=true",
        "--model-control-mode=explicit",
        "--load-model=*",
        "--http-max-input-size=8388608",
        "--metrics-config=histogram_latencies=true",
    ) as running:
        yield running
