"""Tensors that are made of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


def filled(c: Conversion, sizes: list[Any], value: Any) -> Value:
    scalar = c.operand(value, c.out_dtype)
    return c.net.Expand(scalar, c.dims(sizes)) if sizes else scalar


@converts("full")
def full(c: Conversion, size: list[Any], value: Any) -> Value:
    return filled(c, c.out_shape(), value)


@converts("full_like", "fill.Scalar", "fill.Tensor")
def full_like(c: Conversion, x: Value, value: Any) -> Value:
    return filled(c, c.out_shape(), value)


@converts("empty.memory_format", "empty_strided", "new_empty", "new_empty_strided", "empty_like")
def empty(c: Conversion, *given: Any) -> Value:
    """Zeros: what PyTorch leaves to chance."""
    return filled(c, c.out_shape(), 0)


@converts("scalar_tensor")
def scalar_tensor(c: Conversion, value: Any) -> Value:
    return c.operand(value, c.out_dtype)


@converts("arange.start_step")
def arange(c: Conversion, start: Any, end: Any, step: Any) -> Value:
    if all(isinstance(bound, (int, float)) for bound in (start, end, step)):
        return c.constant(torch.arange(start, end, step, dtype=c.out.dtype))
    if c.out_dtype not in ("i64", "i32"):
        raise UnsupportedNode(f"a range of {c.out_dtype} whose length is known only at run time")
    bounds = [c.operand(bound, c.out_dtype) for bound in (start, end, step)]
    return c.net.Range(*bounds)


@converts("lift_fresh_copy", "lift_fresh", "clone", "alias", "detach", "contiguous")
def same(c: Conversion, x: Value) -> Value:
    return x


@converts("copy")
def copy(c: Conversion, x: Value, source: Value) -> Value:
    source = c.cast(source, c.out_dtype)
    return source if c.shape(source) == c.out_shape() else c.net.Expand(source, c.dims(c.out_shape()))
