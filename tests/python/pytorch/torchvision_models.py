"""torchvision, also where the library in its wheel was built for another PyTorch: its classifiers need none of it."""

import importlib.util
import re
from pathlib import Path

import pytest
import torch

_declared = []  # as long as the process


def imported():
    """The package; pytest skips the test where there is none."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        pytest.skip("torchvision is not installed")
    if not _declared and not _library_loads(Path(spec.origin).parent):
        library = torch.library.Library("torchvision", "DEF")
        text = (Path(spec.origin).parent / "_meta_registrations.py").read_text()
        for name in sorted(set(re.findall(r'register_fake\("torchvision::(\w+)"', text))):
            library.define(f"{name}(Tensor x) -> Tensor")
        _declared.append(library)
    import torchvision

    return torchvision


def _library_loads(folder):
    try:
        for path in folder.glob("_C*.so"):
            torch.ops.load_library(path)
    except OSError:
        return False
    return hasattr(torch.ops.torchvision, "nms")
