"""Comparisons, truths, and integers bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camshaft.torch._registry import converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


def _comparison(name: str, operator: str, negated: bool = False) -> None:
    @converts(f"{name}.Tensor", f"{name}.Scalar")
    def convert(c: Conversion, x: Value, other: Any) -> Value:
        dtype = c.joint_dtype(0, 1)
        if dtype == "bool" and operator != "Equal":
            dtype = "i32"
        result = getattr(c.net, operator)(c.operand(x, dtype), c.operand(other, dtype))
        return c.net.Not(result) if negated else result


for _name, _operator in {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}.items():
    _comparison(_name, _operator)
_comparison("eq", "Equal")
_comparison("ne", "Equal", negated=True)


def _logical(name: str, operator: str) -> None:
    @converts(name)
    def convert(c: Conversion, x: Value, other: Value) -> Value:
        return getattr(c.net, operator)(c.cast(x, "bool"), c.cast(other, "bool"))


_logical("logical_and", "And")
_logical("logical_or", "Or")
_logical("logical_xor", "Xor")


@converts("logical_not")
def logical_not(c: Conversion, x: Value) -> Value:
    return c.net.Not(c.cast(x, "bool"))


def _bitwise(name: str, operator: str) -> None:
    @converts(f"{name}.Tensor", f"{name}.Scalar")
    def convert(c: Conversion, x: Value, other: Any) -> Value:
        dtype = c.out_dtype
        prefix = "" if dtype == "bool" else "Bitwise"
        return getattr(c.net, prefix + operator)(c.operand(x, dtype), c.operand(other, dtype))


_bitwise("bitwise_and", "And")
_bitwise("bitwise_or", "Or")
_bitwise("bitwise_xor", "Xor")


@converts("bitwise_not")
def bitwise_not(c: Conversion, x: Value) -> Value:
    return c.net.Not(x) if x.dtype == "bool" else c.net.BitwiseNot(x)


@converts("isnan")
def isnan(c: Conversion, x: Value) -> Value:
    return _of_floats(c, x, "IsNaN")


@converts("isinf")
def isinf(c: Conversion, x: Value) -> Value:
    return _of_floats(c, x, "IsInf")


def _of_floats(c: Conversion, x: Value, operator: str) -> Value:
    if x.dtype[0] == "f" or x.dtype == "bf16":
        return getattr(c.net, operator)(x)
    return c.net.Expand(c.number(False, "bool"), c.dims(c.shape(x)))
