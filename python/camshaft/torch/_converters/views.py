"""Other shapes of the same elements, parts of tensors, and tensors put together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from camshaft.torch._registry import UnsupportedNode, converts

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion

_END = 2**63 - 1


@converts("view", "_unsafe_view", "reshape", "flatten.using_ints", "unflatten.int", "_reshape_alias")
def view(c: Conversion, x: Value, *given: Any) -> Value:
    return c.reshape(x, c.out_shape())


@converts("permute")
def permute(c: Conversion, x: Value, dims: list[int]) -> Value:
    return c.net.Transpose(x, perm=[c.axis(dim, x.ndim) for dim in dims]) if x.ndim else x


@converts("transpose.int", "t")
def transpose(c: Conversion, x: Value, *dims: int) -> Value:
    if x.ndim < 2:
        return x
    order = list(range(x.ndim))
    a, b = (c.axis(dim, x.ndim) for dim in dims) if dims else (0, 1)
    order[a], order[b] = order[b], order[a]
    return c.net.Transpose(x, perm=order)


@converts("unsqueeze")
def unsqueeze(c: Conversion, x: Value, dim: int) -> Value:
    return c.net.Unsqueeze(x, [c.axis(dim, x.ndim + 1)])


@converts("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(c: Conversion, x: Value, *dims: Any) -> Value:
    if not x.ndim or (dims and dims[0] == []):
        return x
    shape = c.shape(x)
    axes = [axis for axis in c.axes(dims[0] if dims else None, x.ndim) if shape[axis] == 1]
    return c.net.Squeeze(x, axes) if axes else x


@converts("expand")
def expand(c: Conversion, x: Value, size: Any, implicit: Any = False) -> Value:
    wanted = c.out_shape()
    return x if c.shape(x) == wanted else c.net.Expand(x, c.dims(wanted))


@converts("repeat")
def repeat(c: Conversion, x: Value, repeats: list[Any]) -> Value:
    for _ in range(len(repeats) - x.ndim):
        x = c.net.Unsqueeze(x, [0])
    return c.net.Tile(x, c.dims(repeats)) if repeats else x


@converts("slice.Tensor")
def slice_(c: Conversion, x: Value, dim: int, start: Any, end: Any, step: int) -> Value:
    start = 0 if start is None else start
    end = _END if end is None else end
    if start == 0 and step == 1 and end == _END:
        return x
    axis = c.axis(dim, x.ndim)
    return c.net.Slice(x, c.dims([start]), c.dims([end]), [axis], [step])


@converts("select.int")
def select(c: Conversion, x: Value, dim: int, index: Any) -> Value:
    place = c.number(index, "i64") if isinstance(index, int) else c.operand(index, "i64")
    return c.net.Gather(x, place, axis=c.axis(dim, x.ndim))


@converts("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(c: Conversion, x: Value, sizes: list[Any], dim: int) -> tuple[Value, ...]:
    made = c.net.Split(x, c.dims(sizes), axis=c.axis(dim, x.ndim), outputs=len(sizes))
    return made if isinstance(made, tuple) else (made,)


@converts("split.Tensor")
def split(c: Conversion, x: Value, size: Any, dim: int) -> tuple[Value, ...]:
    axis = c.axis(dim, x.ndim)
    return split_with_sizes(c, x, [c.out_shape(i)[axis] for i in range(len(c.out))], dim)


@converts("unbind.int")
def unbind(c: Conversion, x: Value, dim: int) -> tuple[Value, ...]:
    axis = c.axis(dim, x.ndim)
    return tuple(c.net.Gather(x, c.number(i, "i64"), axis=axis) for i in range(len(c.out)))


@converts("cat")
def cat(c: Conversion, tensors: list[Value], dim: int) -> Value:
    parts = [c.cast(part, c.out_dtype) for part in tensors]
    return parts[0] if len(parts) == 1 else c.net.Concat(*parts, axis=c.axis(dim, c.out.ndim))


@converts("stack")
def stack(c: Conversion, tensors: list[Value], dim: int) -> Value:
    axis = c.axis(dim, c.out.ndim)
    return c.net.Concat(*(c.net.Unsqueeze(c.cast(part, c.out_dtype), [axis]) for part in tensors), axis=axis)


@converts("flip")
def flip(c: Conversion, x: Value, dims: list[int]) -> Value:
    axes = c.axes(dims, x.ndim) if dims else []
    if not axes:
        return x
    many = len(axes)
    return c.net.Slice(x, [-1] * many, [-_END] * many, axes, [-1] * many)


@converts("diagonal")
def diagonal(c: Conversion, x: Value, offset: int, dim1: int, dim2: int) -> Value:
    a, b = c.axis(dim1, x.ndim), c.axis(dim2, x.ndim)
    shape = c.static_shape(x)
    first_a, first_b = max(0, -offset), max(0, offset)
    places = [[first_a + i, first_b + i] for i in range(min(shape[a] - first_a, shape[b] - first_b))]
    rest = [axis for axis in range(x.ndim) if axis not in (a, b)]
    turned = c.net.Transpose(x, perm=[a, b, *rest])
    found = c.net.GatherND(turned, c.constant(torch.tensor(places)))
    return c.net.Transpose(found, perm=[*range(1, found.ndim), 0])


@converts("as_strided")
def as_strided(c: Conversion, x: Value, size: list[Any], stride: list[Any], offset: Any) -> Value:
    """Elements by their places in memory, which are known where the operand is row-major."""
    fake = c.node.args[0].meta["val"]
    if not fake.is_contiguous() or any(not isinstance(n, int) for n in (*size, *stride)):
        raise UnsupportedNode("as_strided of what is not row-major, or of sizes that are known only at run time")
    places = torch.tensor((offset or 0) - fake.storage_offset())
    for many, step in zip(size, stride):
        places = places.unsqueeze(-1) + torch.arange(many) * step
    if int(places.min()) < 0 or int(places.max()) >= math.prod(c.static_shape(x)):
        raise UnsupportedNode("as_strided beyond its operand")
    return c.net.Gather(c.net.Reshape(x, [-1]), c.constant(places.contiguous()), axis=0)


@converts("unfold")
def unfold(c: Conversion, x: Value, dim: int, size: int, step: int) -> Value:
    if not x.ndim:
        return c.reshape(x, c.out_shape())
    axis = c.axis(dim, x.ndim)
    windows = (c.static_shape(x)[axis] - size) // step + 1
    places = torch.arange(windows).unsqueeze(1) * step + torch.arange(size)
    found = c.net.Gather(x, c.constant(places), axis=axis)  # the window's axis is after its number's
    order = [i for i in range(found.ndim) if i != axis + 1] + [axis + 1]
    return c.net.Transpose(found, perm=order)


@converts("pixel_shuffle")
def pixel_shuffle(c: Conversion, x: Value, factor: int) -> Value:
    if x.ndim != 4:
        raise UnsupportedNode("pixel_shuffle of other than four axes")
    return c.net.DepthToSpace(x, blocksize=factor, mode="CRD")


@converts("tril", "triu")
def triangle(c: Conversion, x: Value, diagonal: int) -> Value:
    upper = "triu" in str(c.node.target)
    return c.net.Trilu(x, c.number(diagonal, "i64"), upper=int(upper))


@converts("roll")
def roll(c: Conversion, x: Value, shifts: list[Any], dims: list[int]) -> Value:
    """By two slices, which the optimiser sees as a move; where only running tells the size, by indices."""
    if not x.ndim:
        return x
    if not dims:
        flat = roll(c, c.net.Reshape(x, [-1]), shifts, [0])
        return c.reshape(flat, c.out_shape())
    sizes = c.out_shape() if len(c.out_shape()) == x.ndim else [math.prod(c.out_shape())]
    for shift, dim in zip(shifts, dims):
        axis = c.axis(dim, x.ndim)
        size = sizes[axis]
        if isinstance(size, int) and isinstance(shift, int):
            first = -shift % size
            if first == 0:
                continue
            behind = c.net.Slice(x, [first], [_END], [axis])
            x = c.net.Concat(behind, c.net.Slice(x, [0], [first], [axis]), axis=axis)
        else:
            many, by = c.operand(size, "i64"), c.operand(shift, "i64")
            places = c.net.Range(c.number(0, "i64"), many, c.number(1, "i64"))
            x = c.net.Gather(x, c.net.Mod(c.net.Sub(places, by), many), axis=axis)
    return x
