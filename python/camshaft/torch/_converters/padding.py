"""Borders around tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camshaft.torch._registry import converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


def _pads(c: Conversion, x: Value, pad: list[Any]) -> Value:
    """PyTorch lists the last axis first, (before, after); ONNX all befores, then all afters."""
    untouched = x.ndim - len(pad) // 2
    before = [0] * untouched + pad[0::2][::-1]
    after = [0] * untouched + pad[1::2][::-1]
    return c.dims([*before, *after])


@converts("constant_pad_nd")
def constant_pad(c: Conversion, x: Value, pad: list[Any], value: Any) -> Value:
    if not pad:
        return x
    return c.net.Pad(x, _pads(c, x, pad), c.number(value, x.dtype), mode="constant")


@converts("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(c: Conversion, x: Value, pad: list[Any]) -> Value:
    return c.net.Pad(x, _pads(c, x, pad), mode="reflect")


@converts("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(c: Conversion, x: Value, pad: list[Any]) -> Value:
    return c.net.Pad(x, _pads(c, x, pad), mode="edge")
