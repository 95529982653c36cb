"""Sums, means, extremes, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from camshaft.torch._converters.pointwise import cast_as_torch
from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion

# What ONNX's sums and products take; what is narrower is added up in i64, as PyTorch does.
_ADDED = ("f32", "f64", "f16", "bf16", "i32", "i64")


def _reduced(c: Conversion, operator: str, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """By an operator of ONNX over axes; of a scalar it is the scalar."""
    if not x.ndim:
        return x
    return getattr(c.net, operator)(x, c.axes(dim, x.ndim), keepdims=int(keepdim))


@converts("sum.dim_IntList", "sum")
def total(c: Conversion, x: Value, *rest: Any) -> Value:
    dim, keepdim = _dim_of(c, rest)
    dtype = c.out_dtype
    inner = dtype if dtype in _ADDED else "i64"
    return c.cast(_reduced(c, "ReduceSum", cast_as_torch(c, x, inner), dim, keepdim), dtype)


def _names(c: Conversion) -> list[str]:
    return [argument.name for argument in c.node.target._schema.arguments]  # type: ignore[union-attr]


def _dim_of(c: Conversion, rest: tuple[Any, ...]) -> tuple[Any, bool]:
    """(dim, keepdim) of an operator that has them next; over all without."""
    return (rest[0], rest[1]) if "dim" in _names(c) else (None, False)


@converts("mean.dim", "mean")
def mean(c: Conversion, x: Value, *rest: Any) -> Value:
    dim, keepdim = _dim_of(c, rest)
    return _reduced(c, "ReduceMean", c.cast(x, c.out_dtype), dim, keepdim)


@converts("prod", "prod.dim_int")
def product(c: Conversion, x: Value, *rest: Any) -> Value:
    dim, keepdim = _dim_of(c, rest)
    return _reduced(c, "ReduceProd", cast_as_torch(c, x, c.out_dtype), dim, keepdim)


@converts("amax")
def amax(c: Conversion, x: Value, dim: Any, keepdim: bool) -> Value:
    return _extreme(c, "ReduceMax", x, dim, keepdim)


@converts("amin")
def amin(c: Conversion, x: Value, dim: Any, keepdim: bool) -> Value:
    return _extreme(c, "ReduceMin", x, dim, keepdim)


@converts("max")
def max_of_all(c: Conversion, x: Value) -> Value:
    return _extreme(c, "ReduceMax", x, None, False)


@converts("min")
def min_of_all(c: Conversion, x: Value) -> Value:
    return _extreme(c, "ReduceMin", x, None, False)


@converts("linalg_vector_norm")
def vector_norm(c: Conversion, x: Value, order: float, dim: Any, keepdim: bool, dtype: Any) -> Value:
    return _norm(c, c.net.Abs(c.cast(x, c.out_dtype)), order, dim, keepdim)


def _norm(c: Conversion, x: Value, order: float, dim: Any, keepdim: bool) -> Value:
    """Of numbers that are not negative."""
    if order == 2:
        return _reduced(c, "ReduceL2", x, dim, keepdim)
    if order == 1:
        return _reduced(c, "ReduceSum", x, dim, keepdim)
    if abs(order) == float("inf"):
        return _reduced(c, "ReduceMax" if order > 0 else "ReduceMin", x, dim, keepdim)
    if order == 0:
        unequal = c.net.Not(c.net.Equal(x, c.number(0, x.dtype)))
        return _reduced(c, "ReduceSum", c.net.Cast(unequal, to=x.dtype), dim, keepdim)
    powers = _reduced(c, "ReduceSum", c.net.Pow(x, c.number(order, x.dtype)), dim, keepdim)
    return c.net.Pow(powers, c.number(1 / order, x.dtype))


def _extreme(c: Conversion, operator: str, x: Value, dim: Any, keepdim: bool) -> Value:
    if x.dtype == "i16":
        return c.cast(_reduced(c, operator, c.cast(x, "i32"), dim, keepdim), "i16")
    return _reduced(c, operator, x, dim, keepdim)


@converts("max.dim")
def max_along(c: Conversion, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return amax(c, x, dim, keepdim), _place(c, "ArgMax", x, dim, keepdim)


@converts("min.dim")
def min_along(c: Conversion, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return amin(c, x, dim, keepdim), _place(c, "ArgMin", x, dim, keepdim)


@converts("argmax")
def argmax(c: Conversion, x: Value, dim: int | None, keepdim: bool) -> Value:
    return _place(c, "ArgMax", x, dim, keepdim)


@converts("argmin")
def argmin(c: Conversion, x: Value, dim: int | None, keepdim: bool) -> Value:
    return _place(c, "ArgMin", x, dim, keepdim)


def _place(c: Conversion, operator: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    if x.dtype == "bool":
        x = c.cast(x, "i32")
    if not x.ndim:
        return c.number(0, "i64")
    if dim is not None:
        return getattr(c.net, operator)(x, axis=c.axis(dim, x.ndim), keepdims=int(keepdim))
    found = getattr(c.net, operator)(c.net.Reshape(x, [-1]), axis=0, keepdims=0)
    return c.net.Reshape(found, [1] * x.ndim) if keepdim else found


@converts("any", "any.dim", "any.dims")
def any_(c: Conversion, x: Value, *rest: Any) -> Value:
    dim, keepdim = (rest[0], rest[1]) if rest else (None, False)
    if x.dtype != "bool":
        x = c.cast(x, "bool")
    result = _reduced(c, "ReduceMax", x, dim, keepdim)
    return c.cast(result, c.out_dtype)


@converts("var.correction", "var.dim")
def var(c: Conversion, x: Value, dim: Any, correction: Any, keepdim: bool) -> Value:
    if not x.ndim:
        raise UnsupportedNode("the variance of a scalar")
    axes = c.axes(dim, x.ndim)
    centred = c.net.Sub(x, c.net.ReduceMean(x, axes, keepdims=1))
    squares = c.net.Mul(centred, centred)
    correction = 1 if correction is None else float(correction)
    if correction == 0:
        return c.net.ReduceMean(squares, axes, keepdims=int(keepdim))
    count = c.count(x, axes)
    if isinstance(count, int):
        divisor = c.number(max(0.0, count - correction), x.dtype)
    else:
        many = c.net.Squeeze(c.cast(c.sizes.vector(count), x.dtype), [0])
        divisor = c.net.Max(c.number(0, x.dtype), c.net.Sub(many, c.number(correction, x.dtype)))
    return c.net.Div(c.net.ReduceSum(squares, axes, keepdims=int(keepdim)), divisor)


@converts("cumsum")
def cumsum(c: Conversion, x: Value, dim: int, dtype: Any) -> Value:
    return _running(c, "CumSum", x, dim)


@converts("cumprod")
def cumprod(c: Conversion, x: Value, dim: int, dtype: Any) -> Value:
    return _running(c, "CumProd", x, dim)


def _running(c: Conversion, operator: str, x: Value, dim: int) -> Value:
    x = cast_as_torch(c, x, c.out_dtype)
    inner = x.dtype if x.dtype in _ADDED else "i64"
    if not x.ndim:
        return x
    return c.cast(getattr(c.net, operator)(c.cast(x, inner), c.number(c.axis(dim, x.ndim), "i64")), x.dtype)


@converts("topk")
def topk(c: Conversion, x: Value, k: Any, dim: int, largest: bool, ordered: bool) -> tuple[Value, Value]:
    return _ordered(c, x, k, dim, largest)


@converts("sort", "sort.stable")
def sort(c: Conversion, x: Value, *rest: Any) -> tuple[Value, Value]:
    dim, descending = (rest[1], rest[2]) if "stable" in _names(c) else (rest[0], rest[1])
    count = c.shape(x)[c.axis(dim, x.ndim)] if x.ndim else 1
    return _ordered(c, x, count, dim, descending)


def _ordered(c: Conversion, x: Value, count: Any, dim: int, largest: bool) -> tuple[Value, Value]:
    dtype = x.dtype
    if not x.ndim:
        return c.net.Identity(x), c.number(0, "i64")
    read = c.cast(x, "i32") if dtype == "bool" else x
    values, places = c.net.TopK(
        read, c.sizes.vector(count), axis=c.axis(dim, x.ndim), largest=int(bool(largest)), sorted=1
    )
    return c.cast(values, dtype), places


@converts("_cdist_forward")
def cdist(c: Conversion, x: Value, other: Value, p: float, mode: Any) -> Value:
    """Distances between all rows: of order two by differences, too, which is exact where rows are close."""
    difference = c.net.Abs(c.net.Sub(c.net.Unsqueeze(x, [x.ndim - 1]), c.net.Unsqueeze(other, [other.ndim - 2])))
    return _norm(c, difference, p, -1, False)


@converts("_pdist_forward")
def pdist(c: Conversion, x: Value, p: float) -> Value:
    rows = c.static_shape(x)[0]
    if rows < 2:
        raise UnsupportedNode("an empty tensor")
    first, second = torch.triu_indices(rows, rows, 1)
    left = c.net.Gather(x, c.constant(first.contiguous()), axis=0)
    right = c.net.Gather(x, c.constant(second.contiguous()), axis=0)
    return _norm(c, c.net.Abs(c.net.Sub(left, right)), p, -1, False)
