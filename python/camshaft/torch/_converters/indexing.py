"""Elements that are found, or put, by index."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from camshaft.torch._conversion import inverse
from camshaft.torch._converters.pointwise import floor_divided
from camshaft.torch._registry import UnsupportedNode, converts
from camshaft.torch._sizes import expression_of

if TYPE_CHECKING:
    from camshaft import Value
    from camshaft.torch._conversion import Conversion

_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _at_least_1d(c: Conversion, *values: Value) -> list[Value]:
    return [value if value.ndim else c.net.Unsqueeze(value, [0]) for value in values]


def _like(c: Conversion, result: Value, x: Value) -> Value:
    return result if x.ndim else c.net.Squeeze(result, [0])


@converts("embedding")
def embedding(c: Conversion, weight: Value, indices: Value) -> Value:
    return c.net.Gather(weight, c.cast(indices, "i64"), axis=0)


@converts("index_select")
def index_select(c: Conversion, x: Value, dim: int, index: Value) -> Value:
    data, places = _at_least_1d(c, x, c.cast(index, "i64"))
    return _like(c, c.net.Gather(data, places, axis=c.axis(dim, data.ndim)), x)


@converts("gather")
def gather(c: Conversion, x: Value, dim: int, index: Value, sparse_grad: Any = False) -> Value:
    data, places = _at_least_1d(c, x, c.cast(index, "i64"))
    return _like(c, c.net.GatherElements(data, places, axis=c.axis(dim, data.ndim)), index)


@converts("scatter.src")
def scatter(c: Conversion, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scattered(c, x, dim, index, source, "none")


@converts("scatter.value")
def scatter_value(c: Conversion, x: Value, dim: int, index: Value, value: Any) -> Value:
    return _scattered(c, x, dim, index, _everywhere(c, value, x.dtype, index), "none")


@converts("scatter.reduce", "scatter.value_reduce")
def scatter_joined(c: Conversion, x: Value, dim: int, index: Value, source: Any, reduce: str) -> Value:
    if not hasattr(source, "dtype"):
        source = _everywhere(c, source, x.dtype, index)
    return _scattered(c, x, dim, index, source, {"add": "add", "multiply": "mul"}[reduce])


@converts("scatter_add")
def scatter_add(c: Conversion, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scattered(c, x, dim, index, source, "add")


@converts("scatter_reduce.two")
def scatter_reduce(
    c: Conversion, x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool
) -> Value:
    if x.dtype == "bool":
        x, source = c.cast(x, "i32"), c.cast(source, "i32")
        return c.cast(scatter_reduce(c, x, dim, index, source, reduce, include_self), "bool")
    if not include_self:  # what is written to starts from what changes nothing
        floats = x.dtype[0] == "f" or x.dtype == "bf16"
        least, most = (-math.inf, math.inf) if floats else (c.lowest(x.dtype), c.highest(x.dtype))
        neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": least, "amin": most}[reduce]
        x = _scattered(c, x, dim, index, _everywhere(c, neutral, x.dtype, index), "none")
    if reduce != "mean":
        return _scattered(c, x, dim, index, source, _REDUCTIONS[reduce])
    total = _scattered(c, x, dim, index, source, "add")
    before = _everywhere(c, int(include_self), x.dtype, x)
    many = _scattered(c, before, dim, index, _everywhere(c, 1, x.dtype, index), "add")
    many = c.net.Max(many, c.number(1, x.dtype))
    return floor_divided(c, total, many) if x.dtype[0] in "iu" else c.net.Div(total, many)


def _everywhere(c: Conversion, number: Any, dtype: str, like: Value) -> Value:
    """A number in the shape of a tensor."""
    value = c.number(number, dtype)
    return c.net.Expand(value, c.dims(c.shape(like))) if like.ndim else value


def _scattered(c: Conversion, x: Value, dim: int, index: Value, source: Value, reduction: str) -> Value:
    if x.dtype == "bool" and reduction != "none":
        made = _scattered(c, c.cast(x, "i32"), dim, index, c.cast(source, "i32"), reduction)
        return c.cast(made, "bool")
    data, places, updates = _at_least_1d(c, x, c.cast(index, "i64"), source)
    # PyTorch reads as much of the source as there are indices.
    sizes, wanted = list(updates.shape or ()), list(places.shape or ())
    if sizes != wanted:
        wanted = c.shape(index)
        many = len(sizes)
        updates = c.net.Slice(updates, [0] * many, c.dims(wanted), list(range(many)), [1] * many)
    made = c.net.ScatterElements(data, places, updates, axis=c.axis(dim, data.ndim), reduction=reduction)
    return _like(c, made, x)


@converts("index.Tensor", "_unsafe_index.Tensor")
def index(c: Conversion, x: Value, indices: list[Value | None]) -> Value:
    axes, places = _indices(c, x, indices)
    if not axes:
        return x
    if len(axes) == 1:
        return c.net.Gather(x, places[0], axis=axes[0])
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    together = _together(c, places)
    found = c.net.GatherND(c.net.Transpose(x, perm=[*axes, *rest]), together)
    if _are_apart(axes):
        return found  # indices that are apart have their axes first
    many = places[0].ndim
    order = [*range(many, many + axes[0]), *range(many), *range(many + axes[0], found.ndim)]
    return found if order == list(range(found.ndim)) else c.net.Transpose(found, perm=order)


def _indices(c: Conversion, x: Value, indices: list[Value | None]) -> tuple[list[int], list[Value]]:
    """The axes that are indexed, and indices of one shape for them, none negative."""
    axes = [axis for axis, given in enumerate(indices) if given is not None]
    given = [indices[axis] for axis in axes]
    if any(place.dtype in ("bool", "u8") for place in given):  # type: ignore[union-attr]
        raise UnsupportedNode("a mask as an index: how many elements it takes is known only at run time")
    if len(axes) == 1:
        return axes, [c.cast(given[0], "i64")]
    fakes = [argument.meta["val"] for argument in c.node.args[1] if argument is not None]  # type: ignore[union-attr]
    joint = list(torch.broadcast_shapes(*(fake.shape for fake in fakes)))
    places = []
    for place, axis in zip(given, axes):
        place = c.cast(place, "i64")  # type: ignore[arg-type]
        if c.shape(place) != joint:
            place = c.net.Expand(place, c.dims([expression_of(size) for size in joint]))
        places.append(place)
    return axes, places


def _together(c: Conversion, places: list[Value]) -> Value:
    """Indices of several axes as rows of a matrix."""
    return c.net.Concat(*(c.net.Unsqueeze(place, [place.ndim]) for place in places), axis=-1)


def _are_apart(axes: list[int]) -> bool:
    return axes != list(range(axes[0], axes[0] + len(axes)))


@converts("index_put", "_unsafe_index_put")
def index_put(c: Conversion, x: Value, indices: list[Value | None], values: Value, accumulate: bool) -> Value:
    given = [place for place in indices if place is not None]
    if len(given) == 1 and given[0].dtype == "bool" and values.ndim == 0 and not accumulate:
        return _masked(c, x, indices, values)
    if len(given) == 1 and given[0].dtype == "bool":
        return _by_mask(c, x, indices, values, accumulate)
    axes, places = _indices(c, x, indices)
    if accumulate and x.dtype == "bool":
        raise UnsupportedNode("index_put that adds truths")
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    order = [*axes, *rest]
    together = _together(c, places)
    shape, joint = c.shape(x), c.shape(places[0]) if places[0].name in c.fakes else list(places[0].shape or ())
    if any(isinstance(size, str) for size in joint):
        raise UnsupportedNode("indices whose sizes are known only at run time")
    first = 0 if _are_apart(axes) else axes[0]
    # The values have the indices' axes where the indexed ones were; here they come first.
    laid = [*rest[:first], None, *rest[first:]]
    full = [size for axis in laid for size in (joint if axis is None else [shape[axis]])]
    values = c.net.Expand(c.cast(values, x.dtype), c.dims(full)) if full else c.cast(values, x.dtype)
    many = len(joint)
    turn = [*range(first, first + many), *range(first), *range(first + many, len(full))]
    if turn != list(range(len(full))):
        values = c.net.Transpose(values, perm=turn)
    turned = x if order == list(range(x.ndim)) else c.net.Transpose(x, perm=order)
    made = c.net.ScatterND(turned, together, values, reduction="add" if accumulate else "none")
    return made if order == list(range(x.ndim)) else c.net.Transpose(made, perm=inverse(order))


def _masked(c: Conversion, x: Value, indices: list[Value | None], value: Value) -> Value:
    """One number for all elements that a mask takes."""
    before = next(axis for axis, place in enumerate(indices) if place is not None)
    mask = indices[before]
    after = x.ndim - before - mask.ndim  # type: ignore[union-attr]
    if after:
        mask = c.net.Unsqueeze(mask, [mask.ndim + i for i in range(after)])  # type: ignore[union-attr]
    return c.net.Where(mask, c.cast(value, x.dtype), x)


def _by_mask(c: Conversion, x: Value, indices: list[Value | None], values: Value, accumulate: bool) -> Value:
    """Rows for the elements that a mask takes: its running count says which one is whose."""
    if indices[0] is None or values.ndim < 1 or values.ndim < x.ndim - indices[0].ndim:
        raise UnsupportedNode("rows for a mask that is not over the first axes")
    mask = indices[0]
    many = x.ndim - mask.ndim
    if values.ndim == many:
        values = c.net.Unsqueeze(values, [0])
    if values.shape[0] == 1:  # type: ignore[index]
        rows = values
    else:
        last = c.number(int(values.shape[0]) - 1, "i64")  # type: ignore[index,arg-type]
        rows = c.net.Gather(values, c.net.Min(_taken_before(c, c.net.Reshape(mask, [-1])), last), axis=0)
        rows = c.reshape(rows, [*c.shape(mask), *list(values.shape)[1:]])  # type: ignore[arg-type]
    if many:
        mask = c.net.Unsqueeze(mask, [mask.ndim + i for i in range(many)])
    rows = c.cast(rows, x.dtype)
    if accumulate:
        if x.dtype == "bool":
            raise UnsupportedNode("index_put that adds truths")
        rows = c.net.Add(x, rows)
    return c.net.Where(mask, rows, x)


def _taken_before(c: Conversion, mask: Value) -> Value:
    """Of each element that a flat mask takes: how many it takes before it."""
    count = c.net.CumSum(c.cast(mask, "i64"), c.number(0, "i64"))
    return c.net.Max(c.net.Sub(count, c.number(1, "i64")), c.number(0, "i64"))


@converts("masked_scatter")
def masked_scatter(c: Conversion, x: Value, mask: Value, source: Value) -> Value:
    """The mask's running count says which element of the source goes where."""
    shape = c.dims(c.out_shape()) if c.out_shape() else None
    if shape is not None:
        x, mask = c.net.Expand(x, shape), c.net.Expand(mask, shape)
    flat = c.net.Reshape(mask, [-1])
    place = c.net.Where(flat, _taken_before(c, flat), c.number(0, "i64"))
    taken = c.net.Gather(c.net.Reshape(source, [-1]), place, axis=0)
    return c.net.Where(mask, c.reshape(taken, c.out_shape()), x)


@converts("select_scatter")
def select_scatter(c: Conversion, x: Value, source: Value, dim: int, place: Any) -> Value:
    axis = c.axis(dim, x.ndim)
    if not isinstance(place, int):
        raise UnsupportedNode("select_scatter at a place that is known only at run time")
    return _put(c, x, c.net.Unsqueeze(c.cast(source, x.dtype), [axis]), axis, place, place + 1, 1)


@converts("slice_scatter")
def slice_scatter(c: Conversion, x: Value, source: Value, dim: int, start: Any, end: Any, step: int) -> Value:
    axis = c.axis(dim, x.ndim)
    size = c.shape(x)[axis]
    if not isinstance(size, int) or not all(bound is None or isinstance(bound, int) for bound in (start, end)):
        raise UnsupportedNode("slice_scatter between places that are known only at run time")
    first, last, step = slice(start, end, step).indices(size)
    return _put(c, x, c.cast(source, x.dtype), axis, first, last, step)


def _put(c: Conversion, x: Value, source: Value, axis: int, first: int, last: int, step: int) -> Value:
    """Slices of a source in place of some of x's."""
    size = c.shape(x)[axis]
    if isinstance(size, int):
        places = torch.arange(size)[first:last:step] if first >= 0 else torch.tensor([first % size])
        if not len(places):
            return x
        if len(places) == size:
            return source
        if step == 1 or len(places) == 1:
            begin, end = int(places[0]), int(places[-1]) + 1
            parts = [c.net.Slice(x, [0], [begin], [axis])] if begin else []
            parts.append(source)
            parts += [c.net.Slice(x, [end], [size], [axis])] if end < size else []
            return c.net.Concat(*parts, axis=axis)
    else:
        places = torch.tensor([first])
    order = [axis, *(i for i in range(x.ndim) if i != axis)]
    made = c.net.ScatterND(
        c.net.Transpose(x, perm=order), c.constant(places.reshape(-1, 1)), c.net.Transpose(source, perm=order)
    )
    return c.net.Transpose(made, perm=inverse(order))


@converts("nonzero")
def nonzero(c: Conversion, x: Value) -> Value:
    raise UnsupportedNode("how many elements are not zero is known only at run time")


@converts("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    c: Conversion,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_by_frequency: bool,
    mode: int,
    sparse: bool,
    sample_weights: Value | None,
    include_last: bool,
    padding: int,
) -> tuple[Value | None, ...]:
    """Rows of a table joined in bags, by a matrix that says which row is in which bag."""
    if c.results_read() - {0}:
        raise UnsupportedNode("what embedding_bag keeps for training")
    net, dtype = c.net, weight.dtype
    many, bags = c.static_shape(indices)[0], c.out_shape(0)[0]
    indices, offsets = c.cast(indices, "i64"), c.cast(offsets, "i64")
    begun = net.LessOrEqual(net.Unsqueeze(offsets, [1]), c.constant(torch.arange(many).unsqueeze(0)))
    bag = net.Sub(net.ReduceSum(c.cast(begun, "i64"), [0], keepdims=1), c.number(1, "i64"))
    within = net.Equal(c.constant(torch.arange(bags).unsqueeze(1)), bag)
    if padding >= 0:
        within = net.And(within, net.Not(net.Equal(net.Unsqueeze(indices, [0]), c.number(padding, "i64"))))
    rows = net.Gather(weight, indices, axis=0)
    if mode == 2:
        spread = net.Where(net.Unsqueeze(within, [2]), net.Unsqueeze(rows, [0]), c.number(float("-inf"), dtype))
        most = net.ReduceMax(spread, [1], keepdims=0)
        filled = net.ReduceMax(within, [1], keepdims=1)
        return net.Where(filled, most, c.number(0, dtype)), None, None, None
    share = c.cast(within, dtype)
    if sample_weights is not None:
        share = net.Mul(share, net.Unsqueeze(sample_weights, [0]))
    if mode == 1:
        count = net.ReduceSum(c.cast(within, dtype), [1], keepdims=1)
        share = net.Div(share, net.Max(count, c.number(1, dtype)))
    return net.MatMul(share, rows), None, None, None
