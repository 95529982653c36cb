"""Products of matrices, and convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camshaft.torch._converters.pooling import batched, each
from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


@converts("mm", "bmm", "matmul", "mv", "dot")
def matmul(c: Conversion, x: Value, other: Value) -> Value:
    return _product(c, x, other, c.out_dtype)


def _product(c: Conversion, x: Value, other: Value, dtype: str) -> Value:
    if dtype in ("u8", "i8", "i16"):  # added up in their own type there: the same bits are left of i32
        return c.cast(c.net.MatMul(c.cast(x, "i32"), c.cast(other, "i32")), dtype)
    if dtype == "bool":
        raise UnsupportedNode("a product of truths")
    return c.net.MatMul(x, other)


@converts("addmm", "baddbmm")
def addmm(c: Conversion, bias: Value, x: Value, other: Value, beta: Any, alpha: Any) -> Value:
    dtype = c.out_dtype
    product = _product(c, x, other, dtype)
    if alpha != 1:
        product = c.net.Mul(product, c.number(alpha, dtype))
    if beta == 0:
        return product
    bias = c.cast(bias, dtype)
    return c.net.Add(product, bias if beta == 1 else c.net.Mul(bias, c.number(beta, dtype)))


@converts("linear")
def linear(c: Conversion, x: Value, weight: Value, bias: Value | None) -> Value:
    turned = c.net.Transpose(weight, perm=[1, 0]) if weight.ndim == 2 else weight
    product = c.net.MatMul(x, turned)
    return product if bias is None else c.net.Add(product, bias)


@converts("convolution")
def convolution(
    c: Conversion,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Value:
    axes = weight.ndim - 2
    if x.dtype[0] in "iu":
        raise UnsupportedNode("a convolution of integers")
    inner, alone = batched(c, x, axes)
    pads = each(padding, axes)
    attributes: dict[str, Any] = {
        "strides": each(stride, axes),
        "pads": [*pads, *pads],
        "dilations": each(dilation, axes),
        "group": groups,
    }
    if transposed:
        made = c.net.ConvTranspose(inner, weight, bias, output_padding=each(output_padding, axes), **attributes)
    else:
        made = c.net.Conv(inner, weight, bias, **attributes)
    return c.net.Squeeze(made, [0]) if alone else made
