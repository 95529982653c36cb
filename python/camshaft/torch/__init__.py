"""Camshaft in PyTorch.

import camshaft.torch                               # or nothing, where Camshaft is installed
model = torch.compile(model.eval(), backend="camshaft")
"""

from torch._dynamo import register_backend as _register_backend

from camshaft.torch._backend import backend

_register_backend(name="camshaft")(backend)

__all__ = ["backend"]
