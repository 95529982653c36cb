"""Attention, which PyTorch has as one operator, by the kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import camshaft.torch._attention  # noqa: F401  # which defines camshaft::attention
from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


@converts("_scaled_dot_product_flash_attention_for_cpu")
def for_cpu(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Value | None,
    scale: float | None,
) -> tuple[Value, None]:
    return attention(c, query, key, value, attn_mask, dropout_p, is_causal, scale), None


@converts("_scaled_dot_product_flash_attention")
def flash(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float,
    is_causal: bool,
    debug: bool,
    scale: float | None,
) -> tuple[Value | None, ...]:
    return attention(c, query, key, value, None, dropout_p, is_causal, scale), *[None] * 8


@converts("_scaled_dot_product_efficient_attention")
def efficient(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    log_sum: bool,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Value | None, ...]:
    return attention(c, query, key, value, bias, dropout_p, is_causal, scale), None, None, None


@converts("_scaled_dot_product_cudnn_attention")
def cudnn(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    log_sum: bool,
    dropout_p: float,
    is_causal: bool,
    debug: bool,
    scale: float | None,
) -> tuple[Value | None, ...]:
    return attention(c, query, key, value, bias, dropout_p, is_causal, scale), *[None] * 8


@converts("_scaled_dot_product_fused_attention_overrideable")
def overrideable(
    c: Conversion,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    dropout_p: float,
    is_causal: bool,
    debug: bool,
    scale: float | None,
) -> tuple[Value | None, ...]:
    return attention(c, query, key, value, bias, dropout_p, is_causal, scale), *[None] * 8


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
    return c.net.Attention(query, key, value, mask, is_causal=int(is_causal), scale=scale)
