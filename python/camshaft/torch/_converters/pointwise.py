"""Arithmetic, element by element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


def _unary(operator: str, *names: str) -> None:
    @converts(*names)
    def convert(c: Conversion, x: Value) -> Value:
        return getattr(c.net, operator)(c.cast(x, c.out_dtype))


for _operator, _names in {
    "Acos": ["acos"],
    "Acosh": ["acosh"],
    "Asin": ["asin"],
    "Asinh": ["asinh"],
    "Atan": ["atan"],
    "Atanh": ["atanh"],
    "Cos": ["cos"],
    "Cosh": ["cosh"],
    "Erf": ["erf"],
    "Exp": ["exp"],
    "Log": ["log"],
    "Neg": ["neg"],
    "Reciprocal": ["reciprocal"],
    "Sigmoid": ["sigmoid"],
    "Sin": ["sin"],
    "Sinh": ["sinh"],
    "Sqrt": ["sqrt"],
    "Tan": ["tan"],
    "Tanh": ["tanh"],
}.items():
    _unary(_operator, *_names)


def _unary_of_floats(operator: str, name: str) -> None:
    """Of integers they are what they were."""

    @converts(name)
    def convert(c: Conversion, x: Value) -> Value:
        return getattr(c.net, operator)(x) if x.dtype[0] in "fb" and x.dtype != "bool" else x


_unary_of_floats("Ceil", "ceil")
_unary_of_floats("Floor", "floor")


@converts("trunc")
def trunc(c: Conversion, x: Value) -> Value:
    if x.dtype[0] in "iu":
        return x
    return c.net.Where(c.net.Less(x, c.number(0, x.dtype)), c.net.Ceil(x), c.net.Floor(x))


@converts("round", "round.decimals")
def round_(c: Conversion, x: Value, *decimals: int) -> Value:
    if x.dtype[0] in "iu":
        return x
    if not decimals or decimals[0] == 0:
        return c.net.Round(x)
    scale = c.number(10.0 ** abs(decimals[0]), x.dtype)
    if decimals[0] > 0:
        return c.net.Div(c.net.Round(c.net.Mul(x, scale)), scale)
    return c.net.Mul(c.net.Round(c.net.Div(x, scale)), scale)


@converts("abs")
def absolute(c: Conversion, x: Value) -> Value:
    return x if x.dtype in ("bool", "u8") else c.net.Abs(x)


@converts("sign", "sgn")
def sign(c: Conversion, x: Value) -> Value:
    if x.dtype == "bool":
        return x
    return c.net.Sign(x)


@converts("rsqrt")
def rsqrt(c: Conversion, x: Value) -> Value:
    return c.net.Reciprocal(c.net.Sqrt(c.cast(x, c.out_dtype)))


@converts("expm1")
def expm1(c: Conversion, x: Value) -> Value:
    """(e^x + 1) tanh(x/2), which is exact near zero, where e^x - 1 is not."""
    dtype = c.out_dtype
    x = c.cast(x, dtype)
    half = c.net.Tanh(c.net.Mul(x, c.number(0.5, dtype)))
    return c.net.Mul(half, c.net.Add(c.net.Exp(x), c.number(1, dtype)))


@converts("log1p")
def log1p(c: Conversion, x: Value) -> Value:
    return c.net.Log(c.net.Add(c.cast(x, c.out_dtype), c.number(1, c.out_dtype)))


def _logarithm(name: str, base: float) -> None:
    @converts(name)
    def convert(c: Conversion, x: Value) -> Value:
        return c.net.Mul(c.net.Log(c.cast(x, c.out_dtype)), c.number(1 / math.log(base), c.out_dtype))


_logarithm("log2", 2)
_logarithm("log10", 10)


@converts("add.Tensor", "add.Scalar")
def add(c: Conversion, x: Value, other: Any, alpha: Any = 1) -> Value:
    return _sum(c, x, other, alpha, "Add")


@converts("sub.Tensor", "sub.Scalar")
def sub(c: Conversion, x: Value, other: Any, alpha: Any = 1) -> Value:
    return _sum(c, x, other, alpha, "Sub")


@converts("rsub.Tensor", "rsub.Scalar")
def rsub(c: Conversion, x: Value, other: Any, alpha: Any = 1) -> Value:
    dtype = c.out_dtype
    x = c.cast(x, dtype)
    return c.net.Sub(c.operand(other, dtype), x if alpha == 1 else c.net.Mul(x, c.operand(alpha, dtype)))


def _sum(c: Conversion, x: Any, other: Any, alpha: Any, operator: str) -> Value:
    dtype = c.out_dtype
    if dtype == "bool":  # a sum of truths is whether there is one
        if not alpha:
            return c.operand(x, dtype)
        return c.net.Or(c.operand(x, dtype), c.operand(other, dtype))
    other = c.operand(other, dtype)
    if alpha != 1:
        other = c.net.Mul(other, c.operand(alpha, dtype))
    return getattr(c.net, operator)(c.operand(x, dtype), other)


@converts("mul.Tensor", "mul.Scalar")
def mul(c: Conversion, x: Value, other: Any) -> Value:
    dtype = c.out_dtype
    if dtype == "bool":
        return c.net.And(c.operand(x, dtype), c.operand(other, dtype))
    return c.net.Mul(c.operand(x, dtype), c.operand(other, dtype))


@converts("div.Tensor", "div.Scalar")
def div(c: Conversion, x: Value, other: Any) -> Value:
    return c.net.Div(c.operand(x, c.out_dtype), c.operand(other, c.out_dtype))


@converts("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c: Conversion, x: Value, other: Any, rounding_mode: str | None) -> Value:
    dtype = c.out_dtype
    a, b = c.operand(x, dtype), c.operand(other, dtype)
    if rounding_mode is None:
        return c.net.Div(a, b)
    if rounding_mode == "trunc":
        return trunc(c, c.net.Div(a, b))
    return floor_divided(c, a, b)


@converts("floor_divide")
def floor_divide(c: Conversion, x: Value, other: Any) -> Value:
    return floor_divided(c, c.operand(x, c.out_dtype), c.operand(other, c.out_dtype))


def floor_divided(c: Conversion, a: Value, b: Value) -> Value:
    net, zero = c.net, c.number(0, a.dtype)
    if a.dtype[0] == "u":
        return net.Div(a, b)
    if a.dtype[0] == "i":
        quotient = net.Div(a, b)
        rest = net.Sub(a, net.Mul(quotient, b))
        return net.Sub(quotient, net.Cast(_needs_one_less(c, rest, b), to=a.dtype))
    # As in Python: of the quotient that the remainder leaves, which is a whole number up to rounding.
    rest = net.Mod(a, b, fmod=1)
    quotient = net.Div(net.Sub(a, rest), b)
    quotient = net.Sub(quotient, net.Cast(_needs_one_less(c, rest, b), to=a.dtype))
    return net.Where(net.Equal(b, zero), net.Div(a, b), net.Round(quotient))


def _needs_one_less(c: Conversion, rest: Value, divisor: Value) -> Value:
    zero = c.number(0, rest.dtype)
    differs = c.net.Xor(c.net.Less(rest, zero), c.net.Less(divisor, zero))
    return c.net.And(c.net.Not(c.net.Equal(rest, zero)), differs)


@converts("fmod.Tensor", "fmod.Scalar")
def fmod(c: Conversion, x: Value, other: Any) -> Value:
    return c.net.Mod(c.operand(x, c.out_dtype), c.operand(other, c.out_dtype), fmod=1)


@converts("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(c: Conversion, x: Value, other: Any) -> Value:
    dtype = c.out_dtype
    a, b = c.operand(x, dtype), c.operand(other, dtype)
    if dtype[0] in "iu":
        return c.net.Mod(a, b)
    rest = c.net.Mod(a, b, fmod=1)
    return c.net.Where(_needs_one_less(c, rest, b), c.net.Add(rest, b), rest)


@converts("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(c: Conversion, x: Any, exponent: Any) -> Value:
    dtype = c.out_dtype
    if exponent == 2 and not hasattr(exponent, "dtype"):
        x = c.operand(x, dtype)
        return c.net.Mul(x, x)
    if dtype[0] in "iu" and dtype not in ("i32", "i64"):
        return c.cast(c.net.Pow(c.operand(x, "i32"), c.operand(exponent, "i32")), dtype)
    return c.net.Pow(c.operand(x, dtype), c.operand(exponent, dtype))


@converts("atan2")
def atan2(c: Conversion, y: Value, x: Value) -> Value:
    """By the arc tangent of the smaller over the larger magnitude, put into the right octant."""
    net, dtype = c.net, c.out_dtype
    y, x = c.cast(y, dtype), c.cast(x, dtype)
    zero, one = c.number(0, dtype), c.number(1, dtype)
    tall = net.Greater(net.Abs(y), net.Abs(x))
    larger = net.Where(tall, net.Abs(y), net.Abs(x))
    ratio = net.Div(net.Where(tall, net.Abs(x), net.Abs(y)), net.Where(net.Equal(larger, zero), one, larger))
    # Both infinite: a ratio of one.
    ratio = net.Where(net.And(net.IsInf(x), net.IsInf(y)), one, ratio)
    angle = net.Atan(ratio)
    angle = net.Where(tall, net.Sub(c.number(math.pi / 2, dtype), angle), angle)
    negative = net.Less(net.Where(net.Equal(x, zero), net.Div(one, x), x), zero)  # -0, too
    angle = net.Where(negative, net.Sub(c.number(math.pi, dtype), angle), angle)
    below = net.Less(net.Where(net.Equal(y, zero), net.Div(one, y), y), zero)
    return net.Where(below, net.Neg(angle), angle)


@converts("maximum")
def maximum(c: Conversion, x: Value, other: Value) -> Value:
    return _extreme(c, x, other, "Max", "Or")


@converts("minimum")
def minimum(c: Conversion, x: Value, other: Value) -> Value:
    return _extreme(c, x, other, "Min", "And")


def _extreme(c: Conversion, x: Value, other: Value, operator: str, of_truths: str) -> Value:
    dtype = c.out_dtype
    return getattr(c.net, of_truths if dtype == "bool" else operator)(c.cast(x, dtype), c.cast(other, dtype))


@converts("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor")
def clamp(c: Conversion, x: Value, low: Any = None, high: Any = None) -> Value:
    return clamped(c, x, low, high, c.out_dtype)


@converts("clamp_max", "clamp_max.Tensor")
def clamp_max(c: Conversion, x: Value, high: Any) -> Value:
    return clamped(c, x, None, high, c.out_dtype)


def clamped(c: Conversion, x: Value, low: Any, high: Any, dtype: str) -> Value:
    if dtype == "bool":
        raise UnsupportedNode("clamp of truths")
    x = c.cast(x, dtype)
    if not hasattr(low, "dtype") and not hasattr(high, "dtype"):
        if dtype[0] in "iu":
            low, high = _whole(c, low, dtype), _whole(c, high, dtype)
        # Where the bounds are crossed, PyTorch gives the upper one.
        low = high if low is not None and high is not None and low > high else low
        return c.net.Clip(
            x, None if low is None else c.number(low, dtype), None if high is None else c.number(high, dtype)
        )
    if low is not None:
        x = c.net.Max(x, c.operand(low, dtype))
    return x if high is None else c.net.Min(x, c.operand(high, dtype))


def _whole(c: Conversion, bound: Any, dtype: str) -> Any:
    """A bound of integers, within what the type holds."""
    if bound is None or (isinstance(bound, float) and math.isinf(bound)):
        return None
    return min(max(int(bound), c.lowest(dtype)), c.highest(dtype))


@converts("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(c: Conversion, condition: Value, x: Any, other: Any) -> Value:
    return c.net.Where(c.cast(condition, "bool"), c.operand(x, c.out_dtype), c.operand(other, c.out_dtype))


@converts("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c: Conversion, x: Value, mask: Value, value: Any) -> Value:
    return c.net.Where(mask, c.operand(value, c.out_dtype), x)


@converts("_to_copy", "_to_copy.default")
def to_copy(c: Conversion, x: Value, dtype: Any, layout: Any, device: Any, *rest: Any) -> Value:
    read = c.node.args[0].meta["val"]
    if c.out.device != read.device:
        raise UnsupportedNode(f"a copy from {read.device} to {c.out.device}")
    return cast_as_torch(c, x, c.out_dtype)


@converts("prims::convert_element_type")
def convert_element_type(c: Conversion, x: Value, dtype: Any) -> Value:
    return cast_as_torch(c, x, c.out_dtype)


def cast_as_torch(c: Conversion, x: Value, dtype: str) -> Value:
    """Floats go to narrow integers by way of i64, as they do there."""
    if x.dtype[0] in "fb" and x.dtype != "bool" and dtype in ("u8", "i8", "i16"):
        x = c.cast(x, "i64")
    return c.cast(x, dtype)
