# ruff: noqa: F401
"""tensorrt.plugin: quickly deployable plugins. An operator is a function that describes it and one that computes it:

@trtp.register("my::twice")
def twice(x: trtp.TensorDesc) -> trtp.TensorDesc:
    return x.like()

@trtp.impl("my::twice")
def compute_twice(x, outputs, stream):
    numpy.multiply(x, 2, out=numpy.asarray(outputs[0]))

layer = network.add_plugin(trtp.op.my.twice(x))
"""

from camshaft.tensorrt._quick_kernels import KernelLaunchParams
from camshaft.tensorrt._quick_plugins import aot_impl, autotune, impl, op, register
from camshaft.tensorrt._quick_sizes import (
    ShapeExpr,
    ShapeExprs,
    SizeTensorShapeExpr,
    SymExprs,
    SymInt8,
    SymInt16,
    SymInt32,
    SymIntExpr,
    SymIntExprs,
    cdiv,
)
from camshaft.tensorrt._quick_sizes import larger as max
from camshaft.tensorrt._quick_sizes import smaller as min
from camshaft.tensorrt._quick_tensors import Shape, SizeTensorDesc, Tensor, TensorDesc, from_shape_expr, size_tensor
from camshaft.tensorrt._quick_tuning import AutoTuneCombination
