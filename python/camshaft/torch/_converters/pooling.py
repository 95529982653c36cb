"""Pooling, and images of other sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion


def each(numbers: Any, axes: int) -> list[int]:
    """A number for each axis, where one stands for all."""
    numbers = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return numbers * axes if len(numbers) == 1 else numbers


def batched(c: Conversion, x: Value, axes: int) -> tuple[Value, bool]:
    """Images over so many axes with an axis of the batch before them, and whether that was missing."""
    return (x, False) if x.ndim == axes + 2 else (c.net.Unsqueeze(x, [0]), True)


@converts("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    c: Conversion, x: Value, kernel: Any, stride: Any, padding: Any, ceil: bool, include_pad: bool, *divisor: Any
) -> Value:
    axes = int(str(c.node.target).split("pool")[1][0])
    kernel = each(kernel, axes)
    pads = each(padding, axes)
    inner, alone = batched(c, x, axes)
    divided = divisor[0] if divisor else None
    strides = each(stride, axes) if stride else kernel
    after = list(pads)
    if divided is not None and ceil:  # windows that are cut divide by it, too: what they lack is padding
        sizes, wanted = c.static_shape(inner)[2:], c.out_shape()[-axes:]
        lacking = [(n - 1) * s + k - size - 2 * p for n, s, k, size, p in zip(wanted, strides, kernel, sizes, pads)]
        after = [pad + max(0, more) for pad, more in zip(pads, lacking)]
    made = c.net.AveragePool(
        inner,
        kernel_shape=kernel,
        strides=strides,
        pads=[*pads, *after],
        ceil_mode=int(ceil and divided is None),
        count_include_pad=int(include_pad or divided is not None),
    )
    if divided is not None:
        made = c.net.Mul(made, c.number(math.prod(kernel) / divided, x.dtype))
    return c.net.Squeeze(made, [0]) if alone else made


@converts("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    c: Conversion, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> tuple[Value | None, ...]:
    axes = int(str(c.node.target).split("pool")[1][0])
    kernel = each(kernel, axes)
    pads = each(padding, axes)
    inner, alone = batched(c, x, axes)
    if x.dtype in ("i64", "i32", "i16"):
        raise UnsupportedNode("max pooling of wide integers")
    places = 1 in c.results_read()
    made = c.net.MaxPool(
        inner,
        kernel_shape=kernel,
        strides=each(stride, axes) if stride else kernel,
        pads=[*pads, *pads],
        dilations=each(dilation, axes),
        ceil_mode=int(ceil),
        outputs=2 if places else 1,
    )
    results: list[Value | None] = list(made) if places else [made, None]
    if places:
        results[1] = _within_image(c, results[1], axes)  # type: ignore[arg-type]
    return tuple(value if value is None or not alone else c.net.Squeeze(value, [0]) for value in results)


def _within_image(c: Conversion, places: Value, axes: int) -> Value:
    """ONNX counts through batch and channels, PyTorch within a channel."""
    shape = c.static_shape(c.values[c.node.args[0]])  # type: ignore[index]
    return c.net.Mod(places, c.number(math.prod(shape[-axes:]), "i64"))


@converts("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(c: Conversion, x: Value, output: list[Any]) -> Value:
    """The mean over all is a reduction; windows of one size are pooling; others are a matrix along each axis."""
    axes = len(output)
    spatial = list(range(x.ndim - axes, x.ndim))
    if all(size == 1 for size in output):
        return c.net.ReduceMean(x, spatial, keepdims=1)
    shape = c.static_shape(x)
    sizes = [shape[axis] for axis in spatial]
    if any(not isinstance(size, int) for size in output):
        raise UnsupportedNode("windows whose sizes are known only at run time")
    if all(size % wanted == 0 for size, wanted in zip(sizes, output)):
        kernel = [size // wanted for size, wanted in zip(sizes, output)]
        inner, alone = batched(c, x, axes)
        made = c.net.AveragePool(inner, kernel_shape=kernel, strides=kernel)
        return c.net.Squeeze(made, [0]) if alone else made
    for axis, size, wanted in zip(spatial, sizes, output):
        if size != wanted:
            x = _along(c, x, axis, _averaging(size, wanted))
    return x


def _averaging(size: int, wanted: int) -> Any:
    """The matrix [wanted, size] of PyTorch's adaptive windows."""
    weights = torch.zeros(wanted, size, dtype=torch.float64)
    for i in range(wanted):
        first, last = i * size // wanted, -(-(i + 1) * size // wanted)
        weights[i, first:last] = 1 / (last - first)
    return weights


def _along(c: Conversion, x: Value, axis: int, weights: Any) -> Value:
    """A linear map along an axis, weights [new size, old size]."""
    last = x.ndim - 1
    order = list(range(x.ndim))
    order[axis], order[last] = order[last], order[axis]
    theirs = torch.float64 if x.dtype == "f64" else torch.float32
    matrix = c.cast(c.constant(weights.to(theirs).T.contiguous()), x.dtype)
    if axis == last:
        return c.net.MatMul(x, matrix)
    return c.net.Transpose(c.net.MatMul(c.net.Transpose(x, perm=order), matrix), perm=order)


def _resized(c: Conversion, x: Value, scales: Any, **attributes: Any) -> Value:
    """To the sizes that PyTorch says. Where scales were given, coordinates go by them, which sizes do not tell."""
    spatial = x.ndim - 2
    wanted = c.out_shape()[2:]
    shape = c.shape(x)[2:]
    given = [None] * spatial if scales is None else list(scales)
    if any(
        scale is not None
        and attributes["coordinate_transformation_mode"] != "align_corners"
        and (not isinstance(size, int) or not isinstance(old, int) or not math.isclose(old * scale, size))
        for scale, size, old in zip(given, wanted, shape)
    ):
        raise UnsupportedNode("resizing by a scale that the sizes round")
    sizes = c.dims(c.out_shape())
    return c.net.Resize(x, None, None, sizes, **attributes)


@converts("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def nearest(c: Conversion, x: Value, size: Any, *scales: Any) -> Value:
    return _resized(
        c, x, scales or None, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


@converts("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def nearest_vec(c: Conversion, x: Value, size: Any, scales: Any) -> Value:
    return nearest(c, x, size, *(scales or []))


def _interpolated(c: Conversion, x: Value, align: bool, scales: Any, mode: str, **more: Any) -> Value:
    transformation = "align_corners" if align else "half_pixel"
    return _resized(c, x, scales, mode=mode, coordinate_transformation_mode=transformation, **more)


@converts("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear(c: Conversion, x: Value, size: Any, align: bool, *scales: Any) -> Value:
    return _interpolated(c, x, align, scales or None, "linear")


@converts("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def linear_vec(c: Conversion, x: Value, size: Any, align: bool, scales: Any) -> Value:
    return _interpolated(c, x, align, scales, "linear")


@converts("upsample_bicubic2d.vec")
def cubic_vec(c: Conversion, x: Value, size: Any, align: bool, scales: Any) -> Value:
    return _interpolated(c, x, align, scales, "cubic", cubic_coeff_a=-0.75)


@converts("upsample_bicubic2d")
def cubic(c: Conversion, x: Value, size: Any, align: bool, *scales: Any) -> Value:
    return _interpolated(c, x, align, scales or None, "cubic", cubic_coeff_a=-0.75)


@converts("grid_sampler_2d")
def grid_sampler(c: Conversion, x: Value, grid: Value, mode: int, padding: int, align: bool) -> Value:
    return c.net.GridSample(
        x,
        grid,
        mode=["linear", "nearest", "cubic"][mode],
        padding_mode=["zeros", "border", "reflection"][padding],
        align_corners=int(align),
    )


@converts("col2im")
def col2im(c: Conversion, x: Value, size: list[int], kernel: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    inner, alone = batched(c, x, 1)
    pads = each(padding, 2)
    made = c.net.Col2Im(
        inner,
        c.dims(size),
        c.dims(each(kernel, 2)),
        dilations=each(dilation, 2),
        pads=[*pads, *pads],
        strides=each(stride, 2),
    )
    return c.net.Squeeze(made, [0]) if alone else made
