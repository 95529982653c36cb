"""How to use products, convolutions, poolings, normalisations and reductions. See table.py."""

import numpy as np
from graph_builder import FLOATS, NUMPY, Rejected
from table import operator


def image(b, op, types=None, ranks=(3, 4, 4, 4, 5), channels=None, smallest=1):
    """[n, c, spatial...] with a known number of channels."""

    def dims():
        rank = b.pick(ranks)
        if b.large and not b.chance(0.2):
            sides = {3: (300, 1000, 1025), 4: (28, 33, 40, 57), 5: (9, 12, 17)}[max(rank, 3)]
            made = [b.pick((1, 1, 2, 3)), channels or b.pick((3, 8, 16, 17, 24, 32, 64)), *(b.pick(sides) for _ in
                    range(rank - 2))]  # fmt: skip
            return made if rank == 2 or b.elements(made) <= 200_000 else [1, *made[1:]]
        spatial = [b.pick(("K", "M")) if b.symbols and b.chance(0.2) else b.pick((3, 4, 5, 6, 7, 8, 9, 12)) for _ in
                   range(rank - 2)]  # fmt: skip
        return [b.dim(), channels or b.pick((1, 2, 3, 4, 6, 8, 16, 17)), *spatial]

    def fits(v):
        return (
            isinstance(v.dims[1], int)
            and v.dims[1] > 0
            and (channels is None or v.dims[1] == channels)
            and all(v.min_size(i) >= smallest for i in range(2, v.rank))
        )

    return b.value(types or b.types(op), ranks=tuple(sorted(set(ranks))), dims=dims, where=fits)


def window(b, x, kernel, strides=True, dilations=True, ceil=False, padding=True):
    """Attributes of a sliding window of which at least one position fits in every set of inputs."""
    n = x.rank - 2
    a = {}
    dilation = [b.pick((1, 1, 2)) if dilations else 1 for _ in range(n)]
    pads = [0] * 2 * n
    if padding and b.chance(0.6):
        pads = [b.number(0, k // 2) for k in kernel] + [b.number(0, k // 2) for k in kernel]
        if b.chance(0.5):
            pads = [k // 2 for k in kernel] * 2
    for i in range(n):
        reach = (kernel[i] - 1) * dilation[i] + 1
        if x.min_size(i + 2) + pads[i] + pads[n + i] < reach:
            dilation[i] = 1
            if x.min_size(i + 2) + pads[i] + pads[n + i] < kernel[i]:
                raise Rejected("the kernel is too large")
    if any(d != 1 for d in dilation):
        a["dilations"] = dilation
    if strides and b.chance(0.5):
        a["strides"] = [b.pick((1, 2, 2, 3)) for _ in range(n)]
    # SAME_UPPER and SAME_LOWER with strides above the kernel, or dilations, differ: known_differences.md.
    if padding and b.chance(0.15) and "dilations" not in a and all(
        k >= s for k, s in zip(kernel, a.get("strides", [1] * n))
    ):  # fmt: skip
        a["auto_pad"] = b.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if a["auto_pad"] == "VALID" and any(x.min_size(i + 2) < kernel[i] for i in range(n)):
            raise Rejected("the kernel is too large")
    elif any(pads):
        a["pads"] = pads
    return a


@operator("Conv")
def conv(b, op, x=None):
    x = x or image(b, op)
    n = x.rank - 2
    channels = x.dims[1]
    kernel = [b.pick((1, 1, 3, 3, 3, 2, 5)) for _ in range(n)]
    if b.chance(0.5):
        kernel = [b.pick((1, 3))] * n
    groups = b.pick([g for g in range(1, channels + 1) if channels % g == 0]) if b.chance(0.35) else 1
    if b.chance(0.15):
        groups = channels
    outputs = groups * b.pick((1, 1, 2, 3, 4, 8))
    if b.large and groups == 1:
        outputs = b.pick((8, 16, 24, 33, 64))
    weights = b.fresh(x.dtype, [outputs, channels // groups, *kernel], -1, 1, constant=0.9)
    inputs = [x, weights]
    if b.chance(0.6):
        inputs.append(b.fresh(x.dtype, [outputs], -1, 1, constant=0.9))
    attributes = window(b, x, kernel)
    if groups > 1:
        attributes["group"] = groups
    if b.chance(0.6):
        attributes["kernel_shape"] = kernel
    return b.emit(op, inputs, **attributes)


@operator("ConvTranspose")
def conv_transpose(b, op):
    x = image(b, op, ranks=(3, 4, 4, 5))
    n = x.rank - 2
    channels = x.dims[1]
    kernel = [b.pick((1, 2, 3, 4)) for _ in range(n)]
    groups = b.pick([g for g in (1, 2, channels) if channels % g == 0])
    per_group = b.pick((1, 2, 3, 4))
    weights = b.fresh(x.dtype, [channels, per_group, *kernel], -1, 1, constant=0.9)
    inputs = [x, weights]
    if b.chance(0.5):
        inputs.append(b.fresh(x.dtype, [per_group * groups], -1, 1, constant=0.9))
    strides = [b.pick((1, 2, 2, 3)) for _ in range(n)]
    attributes = {"strides": strides, "group": groups}
    if b.chance(0.5):
        attributes["pads"] = [b.number(0, (k - 1) // 2) for k in kernel * 2]
    if b.chance(0.3):
        attributes["output_padding"] = [b.number(0, s - 1) for s in strides]
    if b.chance(0.2):
        attributes["dilations"] = [b.pick((1, 2)) for _ in range(n)]
    b.emit(op, inputs, **attributes)


@operator("MatMul")
def matmul(b, op, x=None):
    x = x or b.value(b.types(op), ranks=(1, 2, 2, 3, 3, 4, 5), where=lambda v: v.dims[-1] is not None)
    other = matrix_for(b, x)
    return b.emit(op, [x, other])


def matrix_for(b, x):
    """A right-hand side for `x`."""
    if b.chance(0.2):
        there = [v for v in b.values if v.dtype == x.dtype and v.rank == x.rank >= 2 and v.finite()
                 and all(p.shape[-2] == q.shape[-1] and p.shape[:-2] == q.shape[:-2]
                         for p, q in zip(v.arrays, x.arrays))]  # fmt: skip
        if there:
            return b.pick(there)
    k = x.dims[-1]
    if b.chance(0.1) and not (x.dtype == "f64" and x.is_empty()):  # known_differences.md
        return b.fresh(x.dtype, [k])
    dims = [k, b.width()]
    if b.chance(0.4) and x.rank > 2:
        lead = [d if d is not None and b.chance(0.7) else 1 for d in x.dims[:-2]]
        dims = lead[b.number(0, len(lead)) :] + dims
    return b.fresh(x.dtype, dims, constant=0.7)


@operator("Gemm")
def gemm(b, op, x=None):
    x = x or b.value(b.types(op), ranks=(2,), where=lambda v: None not in v.dims)
    trans_a, trans_b = b.chance(0.25), b.chance(0.5)
    m, k = reversed(x.dims) if trans_a else x.dims
    n = b.width()
    other = b.fresh(x.dtype, [n, k] if trans_b else [k, n], constant=0.8)
    inputs = [x, other]
    if b.opset < 11 or b.chance(0.7):
        bias = b.pick(([n], [1, n], [m, n], [m, 1], [1, 1], [1], []))
        inputs.append(b.fresh(x.dtype, bias, constant=0.7))
    scales = {}
    if x.dtype in FLOATS:
        scales = {"alpha": b.pick((None, 0.5))}
        if not x.is_empty():  # known_differences.md
            scales["beta"] = b.pick((None, 2.0, 0.25))
    b.emit(op, inputs, transA=int(trans_a) or None, transB=int(trans_b) or None, **scales)


@operator("FusedMatMul", domain="com.microsoft")
def fused_matmul(b, op):
    x = b.value(("f32",), ranks=(2, 3, 4), where=lambda v: None not in v.dims and not v.is_empty())
    trans_a, trans_b = b.chance(0.3), b.chance(0.5)
    k = x.dims[-2] if trans_a else x.dims[-1]
    n = b.dim(False) or 1
    other = b.fresh(x.dtype, list(x.dims[:-2]) + ([n, k] if trans_b else [k, n]), constant=0.6)
    b.emit(
        op, [x, other], domain="com.microsoft", transA=int(trans_a), transB=int(trans_b), alpha=b.pick((None, 0.125))
    )


@operator("Einsum")
def einsum(b, op):
    equation, ranks = b.pick((
        ("ij,jk->ik", (2, 2)), ("bij,bjk->bik", (3, 3)), ("bhqd,bhkd->bhqk", (4, 4)), ("bqhd,bkhd->bhqk", (4, 4)),
        ("i,j->ij", (1, 1)), ("ij->ji", (2,)), ("bij->bi", (3,)), ("ii->i", (2,)), ("ij,ij->i", (2, 2)),
        ("...ij,...jk->...ik", (3, 3)), ("ij,jk", (2, 2)), ("b i j, b j k -> b k i", (3, 3)), ("abc->cab", (3,)),
        ("bij,jk->bik", (3, 2)), ("i,i->", (1, 1)), ("ij->", (2,)),
    ))  # fmt: skip
    sizes = {letter: b.dim() or 1 for letter in "abcdhijkqn."}  # no elements: known_differences.md
    dtype = b.dtype([t for t in b.types(op) if t in ("f32", "f64")])
    inputs = []
    for term in equation.replace(" ", "").partition("->")[0].split(","):
        term = term.replace("...", ".")
        inputs.append(b.fresh(dtype, [sizes[letter] for letter in term], constant=0.2))
    b.emit(op, inputs, equation=equation)


@operator("MaxPool", "AveragePool", "LpPool")
def pool(b, op):
    ranks = (3, 4, 4, 5) if b.opset >= 8 else (3, 4, 4)
    x = image(b, op, types=b.types(op), ranks=ranks)
    n = x.rank - 2
    kernel = [min(b.pick((1, 2, 2, 3, 3)), x.min_size(i + 2) + 1) for i in range(n)]
    dilations = b.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op] and b.chance(0.3)
    attributes = window(b, x, kernel, dilations=dilations)
    attributes["kernel_shape"] = kernel
    pads = attributes.get("pads", [0] * 2 * n)
    if any(p >= k for p, k in zip(pads, kernel * 2)):
        raise Rejected("pads as large as the kernel")
    # Windows that lie in the padding alone, and strides of none, are another matter: known_differences.md.
    if b.opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[op] and "auto_pad" not in attributes:
        attributes["ceil_mode"] = b.pick((None, 0, 1))
    if op == "AveragePool":
        attributes["count_include_pad"] = b.pick((None, 0, 1))
    if op == "LpPool":
        attributes["p"] = b.pick((None, 1, 2, 3))
    b.emit(op, [x], exact=True if op == "MaxPool" else None, **attributes)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(b, op):
    x = image(b, op)
    b.emit(op, [x], exact=True if op == "GlobalMaxPool" else None)


def varied(v, axes_of):
    """Whether the elements that are normalised together differ enough for their deviation to be well defined."""
    for a in v.arrays:
        axes = tuple(range(a.ndim))[axes_of]
        wide = a.astype(np.float64)
        if a.size and (wide.std(axes) < 0.05 * (1e-3 + np.abs(wide).max(axes))).any():
            return False
    return True


def per_channel(b, dtype, count, low, high):
    return b.fresh(dtype, [count], low, high, constant=0.85)


@operator("BatchNormalization")
def batch_normalization(b, op, x=None):
    x = x or image(b, op, ranks=(2, 3, 4, 4, 5))
    c = x.dims[1]
    t = x.dtype
    inputs = [x, per_channel(b, t, c, 0.5, 2), per_channel(b, t, c, -1, 1), per_channel(b, t, c, -1, 1),
              per_channel(b, t, c, 0.2, 2)]  # fmt: skip
    return b.emit(op, inputs, epsilon=b.pick((None, 1e-3)))


@operator("InstanceNormalization")
def instance_normalization(b, op):
    x = image(b, op, ranks=(3, 4, 4, 5))
    if x.is_empty() or not varied(x, slice(2, None)):
        raise Rejected("nothing to normalise")
    c = x.dims[1]
    b.emit(op, [x, per_channel(b, x.dtype, c, 0.5, 2), per_channel(b, x.dtype, c, -1, 1)], epsilon=b.pick((None, 1e-3)))


@operator("GroupNormalization")
def group_normalization(b, op):
    x = image(b, op, ranks=(3, 4, 4))
    c = x.dims[1]
    groups = b.pick([g for g in range(1, c + 1) if c % g == 0])
    size = groups if b.opset < 21 else c
    b.emit(op, [x, per_channel(b, x.dtype, size, 0.5, 2), per_channel(b, x.dtype, size, -1, 1)],
           num_groups=groups, epsilon=b.pick((None, 1e-3)))  # fmt: skip


@operator("LayerNormalization", "RMSNormalization")
def layer_normalization(b, op):
    x = b.value(("f32", "f64", "f16"), ranks=(1, 2, 3, 4), where=lambda v: isinstance(v.dims[-1], int)
                and not v.is_empty())  # fmt: skip
    axis = -1
    while b.chance(0.2) and axis > -x.rank and isinstance(x.dims[axis - 1], int):
        axis -= 1
    normal = x.dims[axis:]
    inputs = [x, b.fresh(x.dtype, normal, 0.5, 2, constant=0.9)]
    if op == "LayerNormalization" and b.chance(0.7):
        inputs.append(b.fresh(x.dtype, normal, -1, 1, constant=0.9))
    b.emit(op, inputs, axis=axis if b.chance(0.7) or axis != -1 else None, epsilon=b.pick((None, 1e-3)))


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(b, op):
    x = b.value(("f32",), ranks=(3,), where=lambda v: isinstance(v.dims[-1], int) and None not in v.dims
                and not v.is_empty())  # fmt: skip
    n = x.dims[-1]
    skip = b.fresh("f32", x.dims)
    for p, q in zip(x.arrays, skip.arrays):  # known_differences.md
        row = p.astype(np.float64) + q
        if (row.std(-1) < 1e-2 * np.abs(row).max(-1)).any():
            raise Rejected("rows of nearly equal elements")
    inputs = [x, skip, b.fresh("f32", [n], 0.5, 2)]
    if op == "SkipLayerNormalization":
        inputs.append(b.fresh("f32", [n]) if b.chance(0.6) else None)
    if b.chance(0.5):
        inputs.append(b.fresh("f32", [n]))
    b.emit(op, inputs, outputs=[True, False, False, True] if b.chance(0.5) else 1, domain="com.microsoft")


@operator("LRN")
def lrn(b, op):
    x = image(b, op, ranks=(4,))
    b.emit(
        op, [x], size=b.pick((1, 3, 5)), alpha=b.pick((None, 0.1)), beta=b.pick((None, 0.5)), bias=b.pick((None, 2.0))
    )


@operator("LpNormalization")
def lp_normalization(b, op):
    x = b.value(("f32", "f64"), ranks=(1, 2, 3, 4), where=lambda v: not v.is_empty())
    axis = b.number(-x.rank, x.rank - 1)
    p = b.pick((None, 1, 2))
    if any(np.abs(a).sum(axis).min(initial=1) < 0.1 for a in x.arrays):
        raise Rejected("norms near zero")
    b.emit(op, [x], axis=b.pick((None, axis)) if axis == -1 or axis == x.rank - 1 else axis, p=p)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(b, op):
    x = image(b, op, types=("f32",), ranks=(4,))
    axes = b.pick((None, [0, 2, 3], [2, 3], [1, 2, 3], [0, 1, 2, 3]))
    if x.is_empty() or any((a.std(tuple(axes or (0, 2, 3))) < 1e-2).any() for a in x.arrays):
        raise Rejected("nothing to normalise: known_differences.md")
    b.emit(op, [x], axes=axes)


REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip


@operator(*REDUCTIONS)
def reduce(b, op):
    low, high = {"ReduceLogSum": (0.01, 100), "ReduceLogSumExp": (-30, 30), "ReduceProd": (-3, 3)}.get(op, (None, None))
    if low is None:
        low, high = -1e4, 1e4
    x = b.value(b.types(op), ranks=(0, 1, 2, 3, 4, 5), where=lambda v: v.within(low, high) and not v.is_empty())
    if x.dtype not in FLOATS and op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
        raise Rejected("how integers are rounded is not said")
    axes = [int(i) for i in b.rng.choice(x.rank, b.number(1, x.rank), replace=False)] if x.rank else []
    if b.opset >= 11 and b.chance(0.3):
        axes = [a - x.rank for a in axes]
    keep = b.pick((None, 0, 1))
    exact = True if op in ("ReduceMax", "ReduceMin") else None
    if b.chance(0.2) or not axes:
        axes = None
    if b.opset < (13 if op == "ReduceSum" else 18):
        b.emit(op, [x], exact=exact, axes=axes, keepdims=keep)
    else:
        inputs = [x] if axes is None else [x, b.ints(axes)]
        noop = b.pick((None, 0, 1))
        if axes is None and b.chance(0.3):
            inputs.append(b.constant(np.zeros([0], NUMPY["i64"])))
        b.emit(op, inputs, exact=exact, keepdims=keep, noop_with_empty_axes=noop)
