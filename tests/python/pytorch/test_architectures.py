"""Real architectures with random weights: what is compiled is the whole graph, and computes what PyTorch does."""

import importlib.util

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import architectures  # noqa: E402

# Those that stand for a kind; the others are large.
USUAL = {
    "own yolo",
    "own encoder",
    "torchvision resnet18",
    "torchvision shufflenet_v2_x0_5",
    "torchvision lraspp_mobilenet_v3_large",
    "timm resnet10t",
    "transformers bert",
    "transformers gpt2",
    "transformers t5",
    "transformers llama",
    "transformers clip",
    "diffusers vae",
}
NAMES = [name if name in USUAL else pytest.param(name, marks=pytest.mark.large) for name in architectures.ARCHITECTURES]
# What stays with PyTorch in them, which docs/limits.md has.
IN_PARTS = {"own gru"}


@pytest.mark.parametrize("name", NAMES)
def test_architecture(name):
    package = name.split()[0]
    if package != "own" and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    worst, left, graphs = architectures.compared(name)
    assert worst < 2e-4
    if name not in IN_PARTS:
        assert not left and len(graphs) == 1
