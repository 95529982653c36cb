"""How to use the operators that move elements, ask for shapes, or make tensors. See table.py."""

import math

import numpy as np
from graph_builder import ALL, ELEMENT_TYPE, FLOATS, NUMBERS, NUMPY, Rejected
from table import operator


def factor(b, size):
    """Two numbers whose product is `size`."""
    divisors = [d for d in range(1, size + 1) if size % d == 0] if size else [1]
    d = b.pick(divisors)
    return [d, size // d]


def other_shape(b, v):
    """A target for Reshape that is right for every set of inputs: numbers, 0 to copy an axis and -1."""
    if v.is_static and not v.is_empty():
        numbers = []
        for d in b.rng.permutation(v.dims) if b.chance(0.3) else v.dims:
            numbers += factor(b, int(d)) if b.chance(0.4) else [int(d)]
        while len(numbers) > 6 or (len(numbers) > 1 and b.chance(0.4)):
            at = b.number(0, len(numbers) - 2)
            numbers[at : at + 2] = [numbers[at] * numbers[at + 1]]
        if numbers and b.chance(0.5):
            numbers[b.number(0, len(numbers) - 1)] = -1
        return numbers
    # Copied leading axes, then one -1 and what is known.
    target = []
    for i, d in enumerate(v.dims):
        target.append(0 if d is None or isinstance(d, str) or b.chance(0.3) else d)
    at = b.number(0, v.rank - 1)
    if b.chance(0.5) and not v.is_empty():
        target = target[:at] + [-1]
    elif b.chance(0.5) and not v.is_empty():
        target[at] = -1
        if b.chance(0.5):
            target.append(1)
    return target


@operator("Reshape")
def reshape(b, op):
    x = b.value(ALL, special=True)
    target = other_shape(b, x)
    if b.chance(0.15):
        target = [d for d in target if d != -1][:3] + [-1] if not x.is_empty() else target
    allow_zero = 1 if b.opset >= 14 and 0 not in target and b.chance(0.1) else None
    b.emit(op, [x, b.ints(target)], exact=True, allowzero=allow_zero)


@operator("Flatten")
def flatten(b, op):
    x = b.value(b.types(op), special=True)
    low = -x.rank if b.opset >= 11 else 0
    b.emit(op, [x], exact=True, axis=b.number(low, x.rank) if b.chance(0.8) and x.rank else None)


@operator("Transpose")
def transpose(b, op):
    x = b.value(ALL, special=True)
    permutation = [int(i) for i in b.rng.permutation(x.rank)]
    b.emit(op, [x], exact=True, perm=permutation if b.chance(0.85) and x.rank else None)


@operator("Squeeze")
def squeeze(b, op):
    x = b.value(ALL, special=True, where=lambda v: 1 in v.dims)
    ones = [i for i, d in enumerate(x.dims) if d == 1]
    axes = sorted(int(i) for i in b.rng.choice(ones, b.number(1, len(ones)), replace=False))
    if b.opset >= 11 and b.chance(0.3):
        axes = [a - x.rank for a in axes]
    if b.chance(0.15) and x.is_static and not x.late:  # known_differences.md
        axes = None
    axes_as(b, op, x, axes)


def axes_as(b, op, x, axes, **attributes):
    """`axes` as an attribute or, since operator set 13, as an input."""
    if b.opset < 13:
        return b.emit(op, [x], exact=True, axes=axes, **attributes)
    return b.emit(op, [x] if axes is None else [x, b.ints(axes)], exact=True, **attributes)


@operator("Unsqueeze")
def unsqueeze(b, op):
    x = b.value(ALL, ranks=(0, 1, 2, 3, 4), special=True)
    count = b.number(1, 2)
    axes = [int(i) for i in b.rng.choice(x.rank + count, count, replace=False)]
    if b.opset < 11:
        axes = sorted(axes)
    elif b.chance(0.3):
        axes = [a - x.rank - count for a in axes]
    axes_as(b, op, x, axes)


@operator("Expand")
def expand(b, op):
    x = b.value(ALL, special=True)
    target = [b.pick((1, 2, 3)) if d == 1 else b.pick((1, d)) if isinstance(d, int) else 1 for d in x.dims]
    if b.chance(0.3):
        target = [b.pick((1, 2)), *target]
    elif b.chance(0.3):
        target = target[1:]
    b.emit(op, [x, b.ints(target)], exact=True)


@operator("Tile")
def tile(b, op):
    x = b.value(ALL, special=True, ranks=(1, 2, 3, 4, 5))
    low = 0 if b.empty else 1
    b.emit(op, [x, b.ints([b.pick((low, 1, 1, 2, 3)) for _ in x.dims])], exact=True)


@operator("Shape")
def shape(b, op):
    x = b.value(ALL, special=True)
    ends = {}
    if b.opset >= 15 and b.chance(0.4):
        ends = {"start": b.pick((None, 0, 1, -1, -2)), "end": b.pick((None, 1, 2, -1, 9))}
    b.emit(op, [x], exact=True, **ends)


@operator("Size")
def size(b, op):
    b.emit(op, [b.value(ALL, special=True)], exact=True)


@operator("DepthToSpace")
def depth_to_space(b, op):
    block = b.pick((1, 2, 2, 3))

    def dims():
        return [b.dim(), b.pick((1, 2, 3)) * block * block, b.pick((1, 2, 3, 5)), b.dim()]

    x = b.value(b.types(op), ranks=(4,), special=True, dims=dims, where=lambda v: v.min_size(1) % (block * block) == 0)
    b.emit(op, [x], exact=True, blocksize=block, mode=b.pick((None, "DCR", "CRD")) if b.opset >= 11 else None)


@operator("SpaceToDepth")
def space_to_depth(b, op):
    block = b.pick((1, 2, 2, 3))

    def dims():
        return [b.dim(), b.pick((1, 2, 3)), b.pick((1, 2, 3)) * block, b.pick((1, 2, 3)) * block]

    x = b.value(b.types(op), ranks=(4,), special=True, dims=dims,
                where=lambda v: all(a.shape[2] % block == 0 and a.shape[3] % block == 0 for a in v.arrays))  # fmt: skip
    b.emit(op, [x], exact=True, blocksize=block)


@operator("Concat")
def concat(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4, 5, 6), special=True)
    axis = b.number(0, x.rank - 1)

    def fits(v):
        return v.dtype == x.dtype and v.rank == x.rank and all(
            p.shape[:axis] + p.shape[axis + 1 :] == q.shape[:axis] + q.shape[axis + 1 :]
            for p, q in zip(v.arrays, x.arrays)
        )  # fmt: skip

    others = [v for v in b.values if fits(v)]
    inputs = [x]
    for _ in range(b.pick((0, 1, 1, 1, 2, 3))):
        if others and (b.chance(0.6) or any(d is None for i, d in enumerate(x.dims) if i != axis)):
            inputs.append(b.pick(others))
        else:
            dims = list(x.dims)
            dims[axis] = b.dim()
            if None in dims:
                raise Rejected("unknown size")
            inputs.append(b.fresh(x.dtype, dims, special=b.special))
    inputs = [inputs[i] for i in b.rng.permutation(len(inputs))]
    b.emit(op, inputs, exact=True, axis=axis - x.rank if b.opset >= 11 and b.chance(0.4) else axis)


@operator("Gather")
def gather(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4), special=True, where=lambda v: not v.is_empty())
    axis = x.rank - 1 if x.dtype == "string" else b.number(0, x.rank - 1)  # strings: known_differences.md
    size = x.min_size(axis)
    low = -size if b.opset >= 11 else 0
    index = b.fresh(b.pick(("i64", "i64", "i32")), b.dims(b.pick((0, 1, 1, 2))), low, size - 1)
    b.emit(op, [x, index], exact=True, axis=axis - x.rank if b.chance(0.3) else axis if axis or b.chance(0.5) else None)


@operator("GatherElements")
def gather_elements(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4), special=True, where=lambda v: not v.is_empty())
    axis = b.number(0, x.rank - 1)
    dims = [b.number(1, x.min_size(i)) if d is None or b.chance(0.4) else d for i, d in enumerate(x.dims)]
    dims[axis] = b.dim()
    size = x.min_size(axis)
    index = b.fresh(b.pick(("i64", "i32")), dims, -size, size - 1)
    b.emit(op, [x, index], exact=True, axis=axis)


@operator("GatherND")
def gather_nd(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4), special=True, where=lambda v: not v.is_empty())
    batch = b.number(0, x.rank - 1) if b.opset >= 12 and b.chance(0.3) else 0
    depth = b.number(1, x.rank - batch)
    lead = list(x.dims[:batch]) + b.dims(b.pick((0, 1, 1, 2)))
    if None in lead:
        raise Rejected("unknown size")
    dims = [*lead, depth]

    def indices(k):
        sizes = np.array(x.arrays[k].shape[batch : batch + depth])
        return b.rng.integers(-sizes, sizes, b.concrete(dims, k)).astype(np.int64)

    b.emit(op, [x, b.given(indices, dims)], exact=True, batch_dims=batch if b.opset >= 12 and batch else None)


@operator("ScatterND")
def scatter_nd(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4), special=True, where=lambda v: not v.is_empty())
    depth = b.number(1, x.rank)
    reduction = None
    if b.opset >= 16 and x.dtype in ("f32", "f64", "i64", "i32"):
        reduction = b.pick((None, None, "add", "mul") + (("max", "min") if b.opset >= 18 and x.finite() else ()))
    count = b.number(0 if b.empty else 1, 4)
    tail = x.dims[depth:]
    if None in tail:
        raise Rejected("unknown size")

    def indices(k):
        sizes = x.arrays[k].shape[:depth]
        flat = b.rng.choice(math.prod(sizes), min(count, math.prod(sizes)), replace=False)  # each at most once
        flat = np.resize(flat, count) if reduction else flat
        return np.stack(np.unravel_index(flat, sizes), -1).astype(np.int64).reshape(-1, depth)

    index = b.given(indices, [None, depth])
    if len({a.shape for a in index.arrays}) > 1:
        raise Rejected("other counts")
    index.dims = list(index.shape)
    updates = b.fresh(x.dtype, [index.shape[0], *tail])
    b.emit(op, [x, index, updates], exact=reduction in (None, "max", "min") or None, reduction=reduction)


@operator("ScatterElements", "Scatter")
def scatter_elements(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4), special=True, where=lambda v: not v.is_empty())
    axis = b.number(0, x.rank - 1)
    dims = [b.number(1, x.min_size(i)) if d is None or b.chance(0.4) else d for i, d in enumerate(x.dims)]
    dims[axis] = b.number(1, x.min_size(axis))
    reduction = None
    if op == "ScatterElements" and b.opset >= 16 and x.dtype in ("f32", "f64", "i64", "i32"):
        reduction = b.pick((None, None, "add", "mul") + (("max", "min") if b.opset >= 18 and x.finite() else ()))

    def indices(k):
        shape = b.concrete(dims, k)
        size = x.arrays[k].shape[axis]
        order = np.argsort(b.rng.random([size, *shape[:axis], *shape[axis + 1 :]]), axis=0)[: shape[axis]]
        return np.moveaxis(order, 0, axis).astype(np.int64) - (size if b.opset >= 11 and b.chance(0.2) else 0)

    index = b.given(indices, dims)
    updates = b.fresh(x.dtype, dims)
    b.emit(op, [x, index, updates], exact=reduction in (None, "max", "min") or None, axis=axis, reduction=reduction)


@operator("Slice")
def slice_(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4, 5), special=True)
    axes = [int(i) for i in b.rng.choice(x.rank, b.number(1, min(2, x.rank)), replace=False)]
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.min_size(axis)
        start, end, step = b.number(0, max(0, size - 1)), b.pick((size, 2**31 - 1, b.number(0, size))), 1
        if b.chance(0.3):
            start = start - size
        if b.chance(0.2):
            end = b.number(-size - 1, -1)
        if b.opset >= 10 and b.chance(0.35):
            step = b.pick((2, 3, -1, -2))
            if step < 0:
                start, end = b.pick((size - 1, -1, 2**31 - 1)), b.pick((0, -size - 1, -(2**31)))
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if b.chance(0.3):
        axes = [a - x.rank for a in axes] if b.opset >= 10 else axes
    if b.opset < 10:
        b.emit(op, [x], exact=True, axes=axes, starts=starts, ends=ends)
        return
    dtype = b.pick(("i64", "i64", "i32"))
    inputs = [x] + [b.ints(n, dtype) for n in (starts, ends, axes)]
    if any(s != 1 for s in steps) or b.chance(0.4):
        inputs.append(b.ints(steps, dtype))
    if b.chance(0.15):
        inputs[1] = b.given(lambda k: np.array(starts, NUMPY[dtype]), [len(starts)])
    b.emit(op, inputs, exact=True)


@operator("Split")
def split(b, op):
    x = b.value(ALL, ranks=(1, 2, 3, 4, 5), special=True)
    axis = b.number(0, x.rank - 1)
    given = axis - x.rank if b.chance(0.3) and b.opset >= 11 else axis
    count = b.number(1, 3)
    if isinstance(x.dims[axis], int) and b.chance(0.6):
        cuts = sorted(b.number(0 if b.empty else min(1, x.dims[axis]), x.dims[axis]) for _ in range(count - 1))
        sizes = [int(n) for n in np.diff([0, *cuts, x.dims[axis]])]
        if b.opset < 13:
            b.emit(op, [x], outputs=[True] * count, exact=True, axis=given, split=sizes)
        else:
            b.emit(op, [x, b.ints(sizes)], outputs=[True] * count, exact=True, axis=given)
        return
    parts = {"num_outputs": count} if b.opset >= 18 else {}
    if any(a.shape[axis] % count for a in x.arrays) and (b.opset < 18 or x.dims[axis] is None):
        raise Rejected("not even")
    b.emit(op, [x], outputs=[True] * count, exact=True, axis=given, **parts)


@operator("Pad")
def pad(b, op):
    x = b.value(b.types(op), special=True, ranks=(1, 2, 3, 4, 5))
    mode = b.pick((None, "constant", "constant", "reflect", "edge") + (("wrap",) if b.opset >= 19 else ()))
    chosen = list(range(x.rank))
    if b.opset >= 18 and b.chance(0.3):
        chosen = [int(i) for i in b.rng.choice(x.rank, b.number(1, x.rank), replace=False)]
    low, high = (0, 2)
    if mode in (None, "constant") and b.chance(0.2):
        low = -1
    begins, ends = [], []
    for axis in chosen:
        size = x.min_size(axis)
        most = max(0, size - 1) if mode in ("reflect", "wrap") else 0 if mode == "edge" and size == 0 else high
        begins.append(b.number(max(low, -(size // 2)), min(most, high)) if b.chance(0.7) else 0)
        ends.append(b.number(max(low, -(size // 2)), min(most, high)) if b.chance(0.7) else 0)
    pads = begins + ends
    if b.opset < 11:
        b.emit(op, [x], exact=True, pads=pads, mode=mode, value=b.pick((None, 1.5)))
        return
    inputs = [x, b.ints(pads)]
    with_axes = len(chosen) < x.rank or chosen != list(range(x.rank))
    if b.chance(0.4) or with_axes:
        value = np.array(b.number(0, 3)).astype(NUMPY[x.dtype]) if x.dtype != "string" else np.array("p", object)
        inputs.append(b.constant(value) if b.chance(0.7) else None)
        if with_axes:
            inputs.append(b.ints([a - x.rank if b.chance(0.3) else a for a in chosen]))
        elif inputs[-1] is None:
            inputs.pop()
    b.emit(op, inputs, exact=True, mode=mode)


@operator("ConstantOfShape")
def constant_of_shape(b, op):
    import onnx

    shape = b.ints(b.dims(b.number(0, 4), symbolic=False))
    dtype = b.pick([t for t in b.types(op, "T2") if t != "string"])
    array = b.random_array(dtype, [1])
    value = onnx.numpy_helper.from_array(array) if b.chance(0.7) else None
    b.emit(op, [shape], exact=True, value=value)


@operator("EyeLike")
def eye_like(b, op):
    x = b.value([t for t in NUMBERS], ranks=(2,))
    dtype = b.pick((None, "f32", "i64", "f64", "i32"))
    b.emit(op, [x], exact=True, k=b.pick((None, 1, -2, 0)), dtype=ELEMENT_TYPE[dtype] if dtype else None)


@operator("Trilu")
def trilu(b, op):
    x = b.value(ALL, ranks=(2, 3, 4), special=True)
    inputs = [x] + ([b.constant(np.array(b.number(-3, 3), np.int64))] if b.chance(0.5) else [])
    b.emit(op, inputs, exact=True, upper=b.pick((None, 0, 1)))


@operator("Range")
def range_(b, op):
    dtype = b.pick(("f32", "f64", "i64", "i32", "i16"))
    start, count, step = b.number(-5, 5), b.number(0 if b.empty else 1, 9), b.pick((1, 1, 2, -1, 3))
    limit = start + count * step
    inputs = [b.constant(np.array(n, NUMPY[dtype])) for n in (start, limit, step)]
    if b.chance(0.3):
        inputs[1] = b.given(lambda k: np.array(limit, NUMPY[dtype]), [])
    b.emit(op, inputs, exact=True)


@operator("OneHot")
def one_hot(b, op):
    depth = b.number(1, 6)
    indices = b.value(("i64", "i32", "f32"), ranks=(0, 1, 2, 3), low=-depth, high=depth - 1,
                      where=lambda v: v.exact and all((a == np.round(a)).all() for a in v.arrays),
                      dims=lambda: b.dims(b.number(0, 3)))  # fmt: skip
    dtype = b.pick(("f32", "i64", "i32", "f32"))
    values = b.fresh(dtype, [2], constant=0.8)
    shape = b.pick(([], [1]))
    b.emit(op, [indices, b.constant(np.full(shape, depth, b.pick((np.int64, np.int32)))), values], exact=True,
           axis=b.pick((None, -1, 0, b.number(-indices.rank - 1, indices.rank))))  # fmt: skip


@operator("NonZero")
def non_zero(b, op):
    b.emit(op, [b.value(b.types(op), ranks=(1, 2, 3, 4), exact=True)], exact=True)  # scalars: known_differences.md


@operator("Compress")
def compress(b, op):
    x = b.value(ALL, special=True, ranks=(1, 2, 3, 4), where=lambda v: not v.is_empty())
    axis = b.pick((None, b.number(-x.rank, x.rank - 1)))
    if axis is not None and b.opset < 11:
        axis %= x.rank
    size = x.min_size(axis) if axis is not None else min(a.size for a in x.arrays)
    b.emit(op, [x, b.fresh("bool", [b.number(1, min(size, 9))], constant=0.3)], exact=True, axis=axis)


@operator("CumSum", "CumProd")
def cumulative(b, op):
    x = b.value(("f32", "f64", "i64", "i32"), ranks=(1, 2, 3, 4), where=lambda v: v.within(-20, 20))
    axis = np.array(b.number(-x.rank, x.rank - 1), b.pick((np.int64, np.int32)))
    axis = b.constant(axis) if b.chance(0.8) else b.given(lambda k: axis, [])
    b.emit(op, [x, axis], exclusive=b.pick((None, 1)), reverse=b.pick((None, 1)))


@operator("ReverseSequence")
def reverse_sequence(b, op):
    x = b.value(ALL, ranks=(2, 3, 4), special=True, where=lambda v: not v.is_empty() and v.dims[0] and v.dims[1])
    batch = b.number(0, 1)
    if x.dims[batch] is None:
        raise Rejected("unknown size")
    lengths = b.fresh("i64", [x.dims[batch]], 1, x.min_size(1 - batch))
    b.emit(op, [x, lengths], exact=True, batch_axis=batch, time_axis=1 - batch)


@operator("Unique")
def unique(b, op):
    x = b.value(("f32", "f64", "i64", "i8", "string"), ranks=(1, 2, 3), exact=True, where=lambda v: not v.is_empty())
    axis = b.pick((None, b.number(0, x.rank - 1)))
    b.emit(
        op, [x], outputs=[True] + [b.chance(0.6) for _ in range(3)], exact=True, axis=axis, sorted=b.pick((None, 0, 1))
    )


def distinct_in(v, axis):
    """Whether no two elements of a row are equal, nor nearly so."""
    for a in v.arrays:
        if a.shape[axis] < 2 or not a.size:
            continue
        gaps = np.diff(np.sort(a.astype(np.float64), axis), axis=axis)
        if not np.isfinite(gaps).all() or gaps.min() <= (0 if v.exact else 1e-2):
            return False
    return True


@operator("TopK")
def top_k(b, op):
    x = b.value(b.types(op), ranks=(1, 2, 3, 4), where=lambda v: not v.is_empty())
    axis = b.number(-x.rank, x.rank - 1)
    if x.dtype in FLOATS and not distinct_in(x, axis):
        raise Rejected("ties")
    k = b.number(0 if b.empty else 1, x.min_size(axis))
    if b.opset < 10:
        b.emit(op, [x], outputs=[True, True], exact=True, axis=axis % x.rank, k=k)
        return
    count = b.ints([k]) if b.chance(0.7) else b.given(lambda s: np.array([k], np.int64), [1])
    order = {"largest": b.pick((None, 0, 1))} if b.opset >= 11 else {}
    b.emit(op, [x, count], outputs=[True, True], exact=True, axis=axis if b.opset >= 11 else axis % x.rank, **order)


@operator("ArgMax", "ArgMin")
def arg_reduce(b, op):
    x = b.value(b.types(op), ranks=(1, 2, 3, 4), where=lambda v: not v.is_empty())
    axis = b.number(-x.rank if b.opset >= 11 else 0, x.rank - 1)
    if not x.exact and not distinct_in(x, axis):
        raise Rejected("ties")
    last = {"select_last_index": b.pick((None, 0, 1))} if b.opset >= 12 else {}
    b.emit(op, [x], exact=True, axis=axis, keepdims=b.pick((None, 0, 1)), **last)


@operator("Resize", "Upsample")
def resize(b, op):
    x = b.value(("f32", "f32", "f64", "u8", "i8", "i32"), ranks=(2, 3, 4, 4, 4, 5), where=lambda v: not v.is_empty()
                and v.within(-1e3, 1e3))  # fmt: skip
    spatial = max(1, x.rank - 2) if x.rank > 2 else 1
    first = x.rank - spatial
    scales = [1.0] * first + [b.pick((0.5, 1, 1.5, 2, 2, 3, 0.75)) for _ in range(spatial)]
    if any(math.floor(a.shape[i] * s) < 1 for a in x.arrays for i, s in enumerate(scales)):
        raise Rejected("nothing is left")
    if op == "Upsample" or b.opset < 11:
        scales = [max(1.0, s) for s in scales] if op == "Upsample" else scales
        mode = b.pick((None, "nearest", "linear")) if x.dtype in FLOATS and x.rank in (2, 4) else None
        if b.opset < 9:
            b.emit(op, [x], exact=mode != "linear", mode=mode, scales=scales)
        else:
            b.emit(op, [x, b.constant(np.array(scales, np.float32))], exact=mode != "linear", mode=mode)
        return
    mode = b.pick((None, "nearest", "linear", "cubic")) if x.dtype in FLOATS else None
    if (mode == "cubic" and spatial != 2) or (mode == "linear" and spatial > 3):
        mode = "nearest"
    coordinates = b.pick((None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode in (None, "nearest"):
        attributes["nearest_mode"] = b.pick((None, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = b.pick((None, -0.5))
        attributes["exclude_outside"] = b.pick((None, 0, 1))
    by_size = b.chance(0.4) and x.is_static
    if coordinates == "align_corners" and not by_size and any(
        d is None or isinstance(d, str) or d * s != int(d * s) for d, s in zip(x.dims, scales)
    ):  # fmt: skip
        raise Rejected("a fractional length: known_differences.md")
    roi = b.constant(np.zeros([0], np.float32)) if b.opset < 13 or b.chance(0.3) else None
    if b.opset >= 18 and mode in ("linear", "cubic") and spatial == 2:
        attributes["antialias"] = b.pick((None, None, 1))
    if not by_size:
        b.emit(op, [x, roi, b.constant(np.array(scales, np.float32))], exact=mode in (None, "nearest"), **attributes)
        return
    sizes = [int(d) for d in x.dims[:first]] + [b.number(1, 9) for _ in range(spatial)]
    if coordinates == "align_corners":
        sizes = [max(2, n) if i >= first else n for i, n in enumerate(sizes)]
    # Positions that fall between two elements are rounded as each division happens to be.
    if mode in (None, "nearest") and any(n % d and d % n for n, d in zip(sizes, x.dims)):
        raise Rejected("near a jump")
    empty = b.constant(np.zeros([0], np.float32)) if b.opset < 13 else None
    b.emit(op, [x, roi, empty, b.ints(sizes)], exact=mode in (None, "nearest"), **attributes)
