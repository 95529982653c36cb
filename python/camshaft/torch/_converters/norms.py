"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


def _moments(c: Conversion, x: Value, axes: list[int], eps: float) -> tuple[Value, Value, Value]:
    """The mean over axes, what x has beyond it, and the standard deviation; the axes stay, as 1."""
    mean = c.net.ReduceMean(x, axes, keepdims=1)
    centred = c.net.Sub(x, mean)
    var = c.net.ReduceMean(c.net.Mul(centred, centred), axes, keepdims=1)
    return mean, centred, c.net.Sqrt(c.net.Add(var, c.number(eps, x.dtype)))


def _scaled(c: Conversion, x: Value, weight: Value | None, bias: Value | None, along: list[Any]) -> Value:
    """By weights and biases, which are laid out by `along`."""
    if weight is not None:
        x = c.net.Mul(x, c.net.Reshape(weight, along))
    return x if bias is None else c.net.Add(x, c.net.Reshape(bias, along))


@converts("_native_batch_norm_legit_no_training")
def batch_norm(
    c: Conversion,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    dtype = mean.dtype
    one, zero = c.net.Expand(c.number(1, dtype), c.net.Shape(mean)), c.net.Expand(c.number(0, dtype), c.net.Shape(mean))
    made = c.net.BatchNormalization(
        x, one if weight is None else weight, zero if bias is None else bias, mean, var, epsilon=eps
    )
    return made, None, None


@converts("_native_batch_norm_legit.no_stats", "_native_batch_norm_legit")
def batch_norm_of_batch(c: Conversion, x: Value, weight: Value | None, bias: Value | None, *rest: Any) -> Any:
    """By the batch's own mean and variance: what InstanceNorm becomes. With running statistics it is training, or not."""
    if len(rest) == 5:
        mean, var, training, momentum, eps = rest
        if not training:
            return batch_norm(c, x, weight, bias, mean, var, momentum, eps)
        raise UnsupportedNode("batch normalisation in training: call model.eval()")
    training, momentum, eps = rest
    axes = [axis for axis in range(x.ndim) if axis != 1]
    mean, centred, root = _moments(c, x, axes, eps)
    made = _scaled(c, c.net.Div(centred, root), weight, bias, [1, -1, *[1] * (x.ndim - 2)])
    return made, c.net.Squeeze(mean, axes), c.net.Squeeze(c.net.Reciprocal(root), axes)


@converts("native_layer_norm")
def layer_norm(
    c: Conversion, x: Value, shape: list[Any], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value | None, ...]:
    axis = x.ndim - len(shape)
    if weight is None:
        weight = c.net.Expand(c.number(1, x.dtype), c.dims(shape))
    many = 3 if c.results_read() - {0} else 1
    made = c.net.LayerNormalization(x, weight, bias, axis=axis, epsilon=eps, outputs=many)
    return made if isinstance(made, tuple) else (made, None, None)


@converts("rms_norm", "_fused_rms_norm")
def rms_norm(c: Conversion, x: Value, shape: list[Any], weight: Value | None, eps: float | None) -> Any:
    if eps is None:
        eps = torch.finfo(c.node.args[0].meta["val"].dtype).eps
    if weight is None:
        weight = c.net.Expand(c.number(1, x.dtype), c.dims(shape))
    if c.results_read() - {0} and isinstance(c.out, tuple):
        raise UnsupportedNode("the scale of RMS normalisation, which training needs")
    made = c.net.RMSNormalization(x, weight, axis=x.ndim - len(shape), epsilon=eps)
    return (made, None) if isinstance(c.out, (tuple, list)) else made


@converts("native_group_norm")
def group_norm(
    c: Conversion,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: Any,
    channels: Any,
    elements: Any,
    groups: int,
    eps: float,
) -> tuple[Value | None, ...]:
    if not isinstance(channels, int):
        raise UnsupportedNode("groups of channels whose number is known only at run time")
    if not c.results_read() - {0} and x.ndim >= 3:
        ones = c.net.Expand(c.number(1, x.dtype), [channels])
        zeros = c.net.Expand(c.number(0, x.dtype), [channels])
        made = c.net.GroupNormalization(
            x,
            ones if weight is None else weight,
            zeros if bias is None else bias,
            num_groups=groups,
            epsilon=eps,
        )
        return made, None, None
    rows = c.reshape(x, [batch, groups, -1] if isinstance(batch, int) else [0, groups, -1])
    mean, centred, root = _moments(c, rows, [2], eps)
    rstd = c.net.Reciprocal(root)
    made = c.reshape(c.net.Mul(centred, rstd), c.shape(x))
    made = _scaled(c, made, weight, bias, [channels, *[1] * (x.ndim - 2)])
    return made, c.net.Squeeze(mean, [2]), c.net.Squeeze(rstd, [2])
