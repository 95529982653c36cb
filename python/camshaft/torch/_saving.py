"""Compiled modules in files: programs of torch.export (.pt2), in which each engine is an operator with its bytes."""

from __future__ import annotations

import inspect
import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any, Union

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.torch._ahead import CompiledModule
from camshaft.torch._graph import copied
from camshaft.torch._operator import ExportedRegion
from camshaft.torch._region import Region

Path = Union[str, "os.PathLike[str]"]


class _Exportable(torch.nn.Module):
    """A compiled module as torch.export takes it: without checks of its arguments, which become the program's."""

    def __init__(self, module: CompiledModule) -> None:
        super().__init__()
        run = module.run
        if isinstance(run, GraphModule):
            run = copied(run)
            for name, held in list(run.named_children()):
                if isinstance(held, Region):
                    setattr(run, name, ExportedRegion(held))
        else:
            run = ExportedRegion(run)  # type: ignore[arg-type]
        self.run, self._out_spec = run, module._out_spec

        def forward(*args: Any, **kwargs: Any) -> Any:
            return pytree.tree_unflatten(self.run(*pytree.tree_leaves((args, kwargs))), self._out_spec)

        # torch.export names the program's arguments by the signature, and looks up their sizes so.
        positional, named = module._in_spec.children()
        self.names = [f"arg_{place}" for place in range(positional.num_children)]
        kinds = [(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.names]
        kinds += [(name, inspect.Parameter.KEYWORD_ONLY) for name in named.context or ()]
        forward.__signature__ = inspect.Signature([inspect.Parameter(*kind) for kind in kinds])  # type: ignore
        self.forward = forward


def exported(module: CompiledModule) -> torch.export.ExportedProgram:
    """The module as a program of torch.export, with the sizes that it takes. Each engine in it is a call of the operator
    camshaft::run, which `import camshaft.torch` defines."""
    if not isinstance(module, CompiledModule):
        raise InvalidArgumentError(
            f"what camshaft.torch.compile() gave is saved, not a {type(module).__name__}: what torch.compile() made "
            "cannot be, its engines are in the cache"
        )
    args, kwargs = pytree.tree_unflatten([_example(spec) for spec in module._specs], module._in_spec)
    shapes = pytree.tree_unflatten([_dynamic(spec) for spec in module._specs], module._in_spec)
    exportable = _Exportable(module)
    sizes = {**dict(zip(exportable.names, shapes[0])), **shapes[1]}
    with torch.no_grad():
        return torch.export.export(exportable, args, kwargs or None, dynamic_shapes=sizes, strict=False)


def _example(spec: Any) -> Any:
    if not isinstance(spec[0], torch.dtype):
        return spec[1]  # a constant
    dtype, ranges, device = spec
    # Two where that is allowed: torch.export takes sizes of 0 and 1 for fixed ones.
    return torch.empty([min(max(low, 2), high) for low, high in ranges], dtype=dtype, device=device)


def _dynamic(spec: Any) -> Any:
    if not isinstance(spec[0], torch.dtype):
        return None
    axes = {
        axis: torch.export.Dim.AUTO(min=low, max=high if high < 2**31 else None)
        for axis, (low, high) in enumerate(spec[1])
        if low < high
    }
    return axes or None


def save(module: CompiledModule, path: Path, **options: Any) -> None:
    """Writes a compiled module, engines and all, as torch.export.save() does: the file is whole or untouched. `inputs`,
    `output_format` and `retrace` of torch_tensorrt.save() are taken and mean nothing."""
    unknown = options.keys() - {"inputs", "arg_inputs", "kwarg_inputs", "output_format", "retrace", "pickle_protocol"}
    if unknown:
        raise InvalidArgumentError(f"save() has no option {', '.join(sorted(unknown))}")
    program = exported(module)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # which has the names of this machine's folders
    path = os.path.abspath(os.fspath(path))
    try:
        # In a folder of its own, as the names in the archive begin with the file's.
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path), prefix=".camshaft-") as folder:
            unfinished = os.path.join(folder, os.path.basename(path))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Expect archive file to be a file ending in .pt2")
                torch.export.save(program, unfinished)
            os.replace(unfinished, path)
    except OSError as error:
        raise FileError(f"{path}: {error}") from error


def load(path: Path) -> torch.nn.Module:
    """Reads it again, as `torch.export.load(path).module()` does where camshaft.torch is imported."""
    try:
        program = torch.export.load(os.fspath(path))
    except OSError as error:
        raise FileError(f"{os.fspath(path)}: {error}") from error
    return program.module()


__all__: Sequence[str] = ["exported", "load", "save"]
