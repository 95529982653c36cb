"""What networks put between their layers. Where ONNX has the function as one operator, it is kept as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camshaft.torch._converters.pointwise import clamped
from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


@converts("relu")
def relu(c: Conversion, x: Value) -> Value:
    return c.net.Relu(x) if x.dtype != "u8" else x


@converts("gelu")
def gelu(c: Conversion, x: Value, approximate: str) -> Value:
    return c.net.Gelu(x, approximate=approximate)


@converts("silu")
def silu(c: Conversion, x: Value) -> Value:
    return c.net.Mul(x, c.net.Sigmoid(x))


@converts("hardswish")
def hardswish(c: Conversion, x: Value) -> Value:
    return c.net.HardSwish(x)


@converts("hardsigmoid")
def hardsigmoid(c: Conversion, x: Value) -> Value:
    return c.net.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@converts("mish")
def mish(c: Conversion, x: Value) -> Value:
    return c.net.Mish(x)


@converts("softplus")
def softplus(c: Conversion, x: Value, beta: float, threshold: float) -> Value:
    scale = c.number(beta, x.dtype)
    scaled = c.net.Mul(x, scale)
    curve = c.net.Div(c.net.Softplus(scaled), scale)
    return c.net.Where(c.net.Greater(scaled, c.number(threshold, x.dtype)), x, curve)


@converts("leaky_relu")
def leaky_relu(c: Conversion, x: Value, negative_slope: float) -> Value:
    return c.net.LeakyRelu(x, alpha=negative_slope)


@converts("elu")
def elu(c: Conversion, x: Value, alpha: float, scale: float, input_scale: float) -> Value:
    if input_scale == 1 and scale == 1:
        return c.net.Elu(x, alpha=alpha)
    from math import isclose

    if input_scale == 1 and isclose(alpha, 1.6732632423543772) and isclose(scale, 1.0507009873554805):
        return c.net.Selu(x)
    curve = c.net.Elu(c.net.Mul(x, c.number(input_scale, x.dtype)), alpha=alpha)
    kept = c.net.Where(c.net.Greater(x, c.number(0, x.dtype)), x, curve)
    return c.net.Mul(kept, c.number(scale, x.dtype))


@converts("hardtanh")
def hardtanh(c: Conversion, x: Value, low: Any, high: Any) -> Value:
    return clamped(c, x, low, high, c.out_dtype)


@converts("_prelu_kernel")
def prelu(c: Conversion, x: Value, weight: Value) -> Value:
    return c.net.PRelu(x, weight)


@converts("_softmax")
def softmax(c: Conversion, x: Value, dim: int, half_to_float: bool) -> Value:
    return _along(c, x, dim, "Softmax")


@converts("_log_softmax")
def log_softmax(c: Conversion, x: Value, dim: int, half_to_float: bool) -> Value:
    return _along(c, x, dim, "LogSoftmax")


def _along(c: Conversion, x: Value, dim: int, operator: str) -> Value:
    x = c.cast(x, c.out_dtype)
    if x.ndim:
        return getattr(c.net, operator)(x, axis=c.axis(dim, x.ndim))
    return c.net.Squeeze(getattr(c.net, operator)(c.net.Unsqueeze(x, [0]), axis=0), [0])


@converts("native_dropout", "dropout")
def dropout(c: Conversion, x: Value, p: float, train: bool | None) -> Any:
    if train is not False and p:
        raise UnsupportedNode("dropout in training: call model.eval()")
    raise UnsupportedNode("dropout that does nothing")
