"""Which operators PyTorch takes apart before the graph is converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from camshaft.torch._registry import table

# Views and copies that the table has for graphs made elsewhere; taken apart they are fewer operators.
_TAKEN_APART = ("aten.t.", "aten.dropout.", "aten.reshape.", "aten.contiguous.")


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of core ATen, without the operators that have a converter of their own."""
    from torch._decomp import core_aten_decompositions

    kept = table()
    return {torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer} | {
        operator: decomposition
        for operator, decomposition in dict(core_aten_decompositions()).items()
        if operator not in kept or str(operator).startswith(_TAKEN_APART)
    }


def _encoder_layer(
    x: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    out_weight: Any,
    out_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    weight_1: Any,
    bias_1: Any,
    weight_2: Any,
    bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """What TransformerEncoderLayer computes in one operator when nobody trains it."""
    if mask is not None:
        return NotImplemented
    from torch.nn.functional import gelu, layer_norm, linear, relu, scaled_dot_product_attention

    def attend(y: Any) -> Any:
        rows = linear(y, qkv_weight, qkv_bias).unflatten(-1, (3, heads, width // heads))
        query, key, value = rows.permute(2, 0, 3, 1, 4).unbind(0)
        joined = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return linear(joined, out_weight, out_bias)

    def feed(y: Any) -> Any:
        inner = linear(y, weight_1, bias_1)
        return linear(gelu(inner) if use_gelu else relu(inner), weight_2, bias_2)

    def first(y: Any) -> Any:
        return layer_norm(y, (width,), norm_weight_1, norm_bias_1, eps)

    def second(y: Any) -> Any:
        return layer_norm(y, (width,), norm_weight_2, norm_bias_2, eps)

    assert isinstance(x, torch.Tensor)
    if norm_first:
        x = x + attend(first(x))
        return x + feed(second(x))
    x = first(x + attend(x))
    return second(x + feed(x))
