"""In the place of torch_tensorrt."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch
from torch._dynamo import register_backend

from camshaft._errors import InvalidArgumentError
from camshaft.torch._ahead import CompiledModule, Input, compile
from camshaft.torch._backend import backend
from camshaft.torch._saving import save


class _TypeNames:
    """torch_tensorrt.dtype: its names for PyTorch's types."""

    f32 = float32 = float = torch.float32
    f16 = float16 = half = torch.float16
    bf16 = bfloat16 = torch.bfloat16
    i32 = int32 = int = torch.int32
    i64 = int64 = long = torch.int64
    i8 = int8 = torch.int8
    u8 = uint8 = torch.uint8
    b = bool = torch.bool
    f64 = float64 = double = torch.float64


def _load(path: Any, **_: Any) -> Any:
    """What torch_tensorrt.load gives: the program, whose module() runs."""
    return torch.export.load(path)


def install() -> None:
    """From now on torch.compile(backend="tensorrt") and backend="torch_tensorrt" are this backend, and
    `import torch_tensorrt` gives compile, Input, save, load, dtype and dynamo.compile of Camshaft. Call it before anything
    imports torch_tensorrt."""
    held = sys.modules.get("torch_tensorrt")
    if held is not None:
        if getattr(held, "_camshaft", False):
            return
        raise InvalidArgumentError("torch_tensorrt is imported already: call camshaft.torch.install() before that")
    shim, dynamo = types.ModuleType("torch_tensorrt", __doc__), types.ModuleType("torch_tensorrt.dynamo", __doc__)
    for module in (shim, dynamo):
        module.__dict__.update(compile=compile, Input=Input, save=save, load=_load, _camshaft=True)
    shim.__dict__.update(
        dynamo=dynamo, dtype=_TypeNames, __version__="2.13.0+camshaft", __path__=[], CompiledModule=CompiledModule
    )
    sys.modules["torch_tensorrt"], sys.modules["torch_tensorrt.dynamo"] = shim, dynamo
    for name in ("tensorrt", "torch_tensorrt"):
        register_backend(name=name)(backend)
