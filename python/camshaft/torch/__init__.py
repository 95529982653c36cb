"""Camshaft in PyTorch.

    model = torch.compile(model.eval(), backend="camshaft", options={"enabled_precisions": {torch.float16}})

compiles what PyTorch captures when it is called; needs no import where Camshaft is installed.

    compiled = camshaft.torch.compile(model.eval(), inputs=[camshaft.torch.Input(
        min_shape=(1, 3, 224, 224), opt_shape=(8, 3, 224, 224), max_shape=(32, 3, 224, 224))])
    camshaft.torch.save(compiled, "model.pt2")

compiles the whole module before. The logger "camshaft.torch" says what stays with PyTorch, and why.
"""

from torch._dynamo import list_backends as _list_backends
from torch._dynamo import register_backend as _register_backend

from camshaft.torch._ahead import CompiledModule, Input, compile
from camshaft.torch._backend import backend
from camshaft.torch._graph import CompilationError
from camshaft.torch._install import install
from camshaft.torch._options import Options, log
from camshaft.torch._registry import UnsupportedNode, converts
from camshaft.torch._saving import exported, load, save

if "camshaft" not in _list_backends(exclude_tags=()):  # which the installed package is by its entry point
    _register_backend(name="camshaft")(backend)

__all__ = [
    "CompilationError",
    "CompiledModule",
    "Input",
    "Options",
    "UnsupportedNode",
    "backend",
    "compile",
    "converts",
    "exported",
    "install",
    "load",
    "log",
    "save",
]
