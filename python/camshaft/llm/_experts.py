"""Mixtures of experts: each token goes through the MLPs that a router chooses for it.

Shazeer et al., "Outrageously Large Neural Networks", 2017. Every expert computes the rows that chose it, and no others."""

from __future__ import annotations

from camshaft._values import Value
from camshaft.llm._decoder import Experts
from camshaft.llm._layers import Parts


def experts_of(parts: Parts, x: Value, layer: int, experts: Experts) -> Value:
    """[tokens, width] -> the same."""
    net, width = parts.net, parts.decoder.width
    scores = net.Softmax(parts.linear(x, "router", layer, width, experts.count), axis=-1)
    best, chosen = net.TopK(scores, [experts.chosen], axis=-1)
    if experts.normalized:
        best = best / net.ReduceSum(best, [-1])
    y = net.Expand(0.0, net.Shape(x))
    for expert in range(experts.count):
        # [2, rows]: the tokens, and which of their choices this one is
        places = net.NonZero(net.Equal(chosen, expert))
        token = net.Gather(places, 0)
        weight = net.GatherND(best, net.Transpose(places, perm=[1, 0]))
        ids = None if parts.loras is None else net.Gather(parts.loras.ids, token)
        rows = _mlp(parts, net.Gather(x, token), layer, "", experts.width, expert, ids)
        y = net.ScatterND(y, net.Unsqueeze(token, [-1]), rows * net.Unsqueeze(weight, [-1]), reduction="add")
    if experts.shared_width:
        shared = _mlp(parts, x, layer, "shared_", experts.shared_width, 0)
        y = y + net.Sigmoid(parts.linear(x, "shared_weight", layer, width, 1, 0)) * shared
    return y


def _mlp(
    parts: Parts, x: Value, layer: int, prefix: str, inner: int, expert: int, lora_ids: Value | None = None
) -> Value:
    h = parts.gated(x, prefix, layer, inner, expert, lora_ids)
    return parts.linear_of_parts(h, prefix + "down", layer, inner, parts.decoder.width, expert, lora_ids)
