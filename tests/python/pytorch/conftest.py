"""Tests of camshaft.torch: skipped where PyTorch is not installed."""

import sys

import pytest
from camshaft_cli import BINARY

HERE = str(BINARY.parent.parent / "python")
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture(autouse=True)
def fresh(tmp_path_factory, monkeypatch):
    """No graph and no engine of another test."""
    import torch

    monkeypatch.setenv("CAMSHAFT_TORCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()
