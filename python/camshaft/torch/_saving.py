"""Compiled modules in files."""

from __future__ import annotations

import os
from typing import Any, Union

import torch

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.torch._ahead import CompiledModule

Path = Union[str, "os.PathLike[str]"]


def save(module: CompiledModule, path: Path, **ignored: Any) -> None:
    """Writes a compiled module, engines and all, as torch.save() does: the file is whole or untouched. `inputs`,
    `output_format` and `retrace` of torch_tensorrt.save() are taken and mean nothing."""
    if not isinstance(module, CompiledModule):
        raise InvalidArgumentError(
            f"save() takes what camshaft.torch.compile() gave, not a {type(module).__name__}: what torch.compile() made "
            "cannot be saved, its engines are in the cache"
        )
    unfinished = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        torch.save(module, unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        raise FileError(f"{os.fspath(path)}: {error}") from error
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)


def load(path: Path) -> CompiledModule:
    """Reads it again. The file is Python's pickle, which can run any code: load what you trust."""
    module = torch.load(os.fspath(path), weights_only=False)
    if not isinstance(module, CompiledModule):
        raise InvalidArgumentError(f"{os.fspath(path)} has a {type(module).__name__}, no compiled module")
    return module
