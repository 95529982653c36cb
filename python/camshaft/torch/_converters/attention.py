"""Attention, which PyTorch has as one operator, by the kind of device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import camshaft.torch._attention  # noqa: F401  # which defines camshaft::attention
from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


@converts(
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)
def of_a_device(c: Conversion, *arguments: Any) -> tuple[Value | None, ...]:
    """One device's own: they differ in the order of what they are given, in the mask's name, and in what training needs
    beside the result."""
    schema = c.node.target._schema  # type: ignore[union-attr]
    given = dict(zip((parameter.name for parameter in schema.arguments), arguments))
    mask = given.get("attn_bias", given.get("attn_mask"))
    operands = given["query"], given["key"], given["value"]
    result = attention(c, *operands, mask, given["dropout_p"], given["is_causal"], given["scale"])
    return result, *[None] * (len(schema.returns) - 1)


@converts("scaled_dot_product_attention", "camshaft::attention")
def scaled_dot_product_attention(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Value:
    return attention(c, query, key, value, attn_mask, dropout_p, is_causal, scale)


def attention(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Any:
    if dropout_p:
        raise UnsupportedNode("attention with dropout: call model.eval()")
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise UnsupportedNode("attention of other than four axes")
    if mask is not None and mask.dtype not in ("bool", query.dtype):
        mask = c.cast(mask, query.dtype)
    result = c.net.Attention(query, key, value, mask, is_causal=int(is_causal), scale=scale)
    return result if mask is None else _zero_where_masked(c, result, mask)


def _zero_where_masked(c: Conversion, result: Value, mask: Value) -> Value:
    """PyTorch gives 0 for a query that may see no key, as padding has in a batch; the softmax of none is NaN."""
    net = c.net
    sees = net.ReduceMax(mask, [-1], keepdims=1)
    if mask.dtype != "bool":
        sees = net.Not(net.Equal(sees, c.number(-math.inf, mask.dtype)))
    return net.Where(sees, result, c.number(0, result.dtype))
