"""Groups of nodes as exporters write them, above all those that the optimiser rewrites. See table.py."""

import math

import numpy as np
from graph_builder import ALL, ELEMENT_TYPE, FLOATS, NUMPY, GraphBuilder, Rejected
from operators_contraction import batch_normalization, conv, image, matmul
from table import pattern

from onnx import TensorProto, helper


def number(b, like, value):
    return b.constant(np.array(value, NUMPY[like.dtype]))


def activation(b, x):
    kind = b.pick(("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "silu", "HardSigmoid", "hardswish", "gelu", "none"))
    if kind == "none":
        return x
    if kind == "silu":
        return b.emit("Mul", [x, b.emit("Sigmoid", [x])])
    if kind == "hardswish":
        return b.emit("Mul", [x, b.emit("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])
    if kind == "gelu":
        return erf_gelu(b, x)
    if kind == "Clip":
        if b.opset < 11:
            return b.emit("Clip", [x], min=0.0, max=6.0)
        return b.emit("Clip", [x, number(b, x, 0), number(b, x, 6)])
    return b.emit(kind, [x])


def erf_gelu(b, x):
    erf = b.emit("Erf", [b.emit("Div", [x, number(b, x, math.sqrt(2))])])
    one = b.emit("Add", [erf, number(b, x, 1)])
    if b.chance(0.5):
        return b.emit("Mul", [b.emit("Mul", [x, one]), number(b, x, 0.5)])
    return b.emit("Mul", [x, b.emit("Mul", [one, number(b, x, 0.5)])])


def tanh_gelu(b, x):
    cube = b.emit("Pow", [x, number(b, x, 3)])
    inner = b.emit("Add", [x, b.emit("Mul", [cube, number(b, x, 0.044715)])])
    tanh = b.emit("Tanh", [b.emit("Mul", [inner, number(b, x, math.sqrt(2 / math.pi))])])
    return b.emit("Mul", [b.emit("Mul", [x, number(b, x, 0.5)]), b.emit("Add", [tanh, number(b, x, 1)])])


@pattern
def convolution_block(b):
    y = conv(b, "Conv", image(b, "Conv", types=(b.theme if b.theme in FLOATS else "f32",)))
    for _ in range(b.number(1, 3)):
        kind = b.pick(("bn", "activation", "residual", "bias", "scale"))
        if kind == "bn":
            y = batch_normalization(b, "BatchNormalization", y)
        elif kind == "activation":
            y = activation(b, y)
        elif kind == "residual":
            same = [v for v in b.values if v.dtype == y.dtype and all(
                p.shape == q.shape for p, q in zip(v.arrays, y.arrays)) and v.finite()]  # fmt: skip
            y = b.emit("Add", [y, b.pick(same)] if b.chance(0.5) else [b.pick(same), y])
        else:
            vector = b.fresh(y.dtype, [b.pick((1, y.dims[1]))] + [1] * (y.rank - 2), constant=0.9)
            y = b.emit("Add" if kind == "bias" else "Mul", [y, vector])


@pattern
def dense_block(b):
    y = matmul(b, "MatMul", b.value(("f32", "f32", "f64"), ranks=(2, 3, 3, 4), where=lambda v: v.dims[-1] is not None))
    if b.chance(0.8) and y.rank and isinstance(y.dims[-1], int):
        bias = b.fresh(y.dtype, [y.dims[-1]], constant=0.95)
        y = b.emit("Add", [y, bias] if b.chance(0.7) else [bias, y])
    y = b.pick((activation, erf_gelu, tanh_gelu))(b, y)
    if b.chance(0.4):
        matmul(b, "MatMul", y)


def reduced(b, operator, x, axis):
    """`operator` along one axis, which stays."""
    if b.opset < (13 if operator == "ReduceSum" else 18):
        return b.emit(operator, [x], axes=[axis])
    return b.emit(operator, [x, b.ints([axis])])


def mean_of_squares(b, x):
    kind = b.pick(("Pow", "Mul", "ReduceSumSquare"))
    if kind == "ReduceSumSquare":
        return b.emit("Div", [reduced(b, kind, x, -1), number(b, x, x.dims[-1])])
    square = b.emit("Pow", [x, number(b, x, 2)]) if kind == "Pow" else b.emit("Mul", [x, x])
    return reduced(b, "ReduceMean", square, -1)


@pattern
def layer_norm_spelt_out(b):
    x = b.value(("f32", "f64"), ranks=(2, 3, 4), where=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] > 1
                and not v.is_empty())  # fmt: skip
    centred, variance, epsilon = x, None, b.pick((1e-5, 1e-3))
    if b.chance(0.75):
        mean = reduced(b, "ReduceMean", x, -1)
        centred = b.emit("Sub", [x, mean])
        if b.chance(0.3):
            variance = b.emit("Sub", [mean_of_squares(b, x), b.emit("Mul", [mean, mean])])
            zero, epsilon = number(b, x, 0), 0.1  # above what the difference loses
            variance = b.emit("Max", [variance, zero] if b.chance(0.5) else [zero, variance])
    variance = variance or mean_of_squares(b, centred)
    epsilon = number(b, x, epsilon)
    root = b.emit("Sqrt", [b.emit("Add", [variance, epsilon] if b.chance(0.7) else [epsilon, variance])])
    scale = b.fresh(x.dtype, [x.dims[-1]], 0.5, 2, constant=0.9)
    kind = b.pick(("quotient", "product", "scaled before", "scaled root"))
    if kind == "quotient":
        y = b.emit("Mul", [b.emit("Div", [centred, root]), scale])
    elif kind == "product":
        y = b.emit("Mul", [b.emit("Mul", [centred, b.emit("Reciprocal", [root])]), scale])
    elif kind == "scaled before":
        y = b.emit("Div", [b.emit("Mul", [scale, centred]), root])
    else:
        y = b.emit("Mul", [centred, b.emit("Mul", [b.emit("Reciprocal", [root]), scale])])
    if b.chance(0.7):
        b.emit("Add", [y, b.fresh(x.dtype, [x.dims[-1]], constant=0.9)])


def masked(b, scores):
    """scores where a mask of 0 and 1 is 1, and a low number elsewhere, by arithmetic."""
    mask, low = b.partner(scores, -1, 1), number(b, scores, b.pick((-5, -1e4)))
    mask = b.emit("Cast", [b.emit("Less", [number(b, scores, 0), mask])], to=ELEMENT_TYPE[scores.dtype])
    hidden = b.emit("Sub", [number(b, scores, 1), mask])
    product = b.emit("Mul", [scores, mask])
    if b.chance(0.5):
        return b.emit("Add", [product, b.emit("Mul", [hidden, low])])
    return b.emit("Sub", [product, b.emit("Mul", [hidden, b.emit("Neg", [low])])])


def softmax_spelt_out(b, x, axis):
    exponentials = b.emit("Exp", [b.emit("Sub", [x, reduced(b, "ReduceMax", x, axis)])])
    total = reduced(b, "ReduceSum", exponentials, axis)
    if b.chance(0.5):
        return b.emit("Div", [exponentials, total])
    return b.emit("Mul", [exponentials, b.emit("Reciprocal", [total])])


@pattern
def log_softmax_spelt_out(b):
    x = b.value(("f32", "f64"), ranks=(1, 2, 3), where=lambda v: not v.is_empty())
    axis = b.number(0, x.rank - 1)
    shifted = b.emit("Sub", [x, reduced(b, "ReduceMax", x, axis)])
    total = reduced(b, "ReduceSum", b.emit("Exp", [shifted]), axis)
    b.emit("Sub", [shifted, b.emit("Log", [total])])


@pattern
def attention(b):
    heads, width = b.pick((1, 2, 3, 4)), b.pick((2, 4, 8))
    x = b.value(("f32",), ranks=(3,), dims=lambda: [b.dim(), b.dim(), heads * width],
                where=lambda v: v.dims[-1] == heads * width and not v.is_empty())  # fmt: skip
    shape = b.ints([0, 0, heads, width])

    def projected():
        y = b.emit("MatMul", [x, b.fresh("f32", [heads * width, heads * width], -0.5, 0.5, constant=1)])
        if b.chance(0.6):
            y = b.emit("Add", [y, b.fresh("f32", [heads * width], constant=1)])
        return b.emit("Reshape", [y, shape])

    query = b.emit("Transpose", [projected()], perm=[0, 2, 1, 3])
    value = b.emit("Transpose", [projected()], perm=[0, 2, 1, 3])
    if b.chance(0.5):
        key = b.emit("Transpose", [projected()], perm=[0, 2, 3, 1])
    else:
        key = b.emit("Transpose", [b.emit("Transpose", [projected()], perm=[0, 2, 1, 3])], perm=[0, 1, 3, 2])
    scale = number(b, x, math.sqrt(width))
    if b.chance(0.5):
        scores = b.emit("Div", [b.emit("MatMul", [query, key]), scale])
    else:
        scores = b.emit("MatMul", [b.emit("Div", [query, scale]), key])
    if b.chance(0.2):
        cap = number(b, x, b.pick((0.5, 3, 50)))
        scores = b.emit("Mul", [b.emit("Tanh", [b.emit("Div", [scores, cap])]), cap])
    if b.chance(0.4):
        kind = b.pick(("Add", "Sub"))
        scores = b.emit(kind, [scores, b.partner(scores, -5, 5)])
    if b.chance(0.3):
        scores = masked(b, scores)
    if b.chance(0.2):
        scores = b.emit("Mul", [scores, number(b, x, 0.5)])
    if b.chance(0.7):
        weights = b.emit("Softmax", [scores], axis=-1 if b.opset >= 13 else 3)
    else:
        weights = softmax_spelt_out(b, scores, 3)
    y = b.emit("Transpose", [b.emit("MatMul", [weights, value])], perm=[0, 2, 1, 3])
    b.emit("Reshape", [y, b.ints([0, 0, heads * width])])


@pattern
def group_norm_spelt_out(b):
    groups = b.pick((1, 2, 4))
    x = image(b, "InstanceNormalization", types=("f32",), ranks=(4,))
    if x.dims[1] % groups or x.is_empty():
        raise Rejected("channels")
    flat = b.emit("Reshape", [x, b.ints([0, groups, -1])])
    y = b.emit("InstanceNormalization", [flat, b.constant(np.ones(groups, np.float32)),
                                         b.constant(np.zeros(groups, np.float32))])  # fmt: skip
    y = b.emit("Reshape", [y, b.emit("Shape", [x])])
    y = b.emit("Mul", [y, b.fresh("f32", [x.dims[1], 1, 1], constant=0.9)])
    b.emit("Add", [y, b.fresh("f32", [x.dims[1], 1, 1], constant=0.9)])


@pattern
def moves(b):
    """Transposes, reshapes and their like behind one another."""
    x = b.value(ALL, ranks=(2, 3, 4, 5), special=True)
    for _ in range(b.number(2, 5)):
        kind = b.pick(("Transpose", "Transpose", "Reshape", "unsqueeze", "squeeze", "Flatten", "Neg", "Identity"))
        if kind == "Transpose":
            x = b.emit("Transpose", [x], exact=True, perm=[int(i) for i in b.rng.permutation(x.rank)])
        elif kind == "Reshape":
            keep = b.number(0, x.rank - 1)
            if x.is_empty():
                raise Rejected("no elements")
            x = b.emit("Reshape", [x, b.ints([0] * keep + [-1] + [1] * b.pick((0, 0, 1)))], exact=True)
        elif kind == "Flatten":
            x = b.emit("Flatten", [x], exact=True, axis=b.number(0, x.rank))
        elif kind in ("unsqueeze", "squeeze"):
            at = b.number(0, x.rank)
            if b.opset < 13:
                y = b.emit("Unsqueeze", [x], exact=True, axes=[at])
                x = b.emit("Squeeze", [y], exact=True, axes=[at]) if kind == "squeeze" else y
            else:
                y = b.emit("Unsqueeze", [x, b.ints([at])], exact=True)
                x = b.emit("Squeeze", [y, b.ints([at])], exact=True) if kind == "squeeze" else y
        elif kind == "Neg" and x.dtype in FLOATS:
            x = b.emit("Neg", [x], exact=True)
        else:
            x = b.emit("Identity", [x], exact=True)


@pattern
def shuffle(b):
    """Channel or pixel shuffle by six axes."""
    groups = b.pick((2, 3))
    x = image(b, "Conv", types=("f32", "f64"), ranks=(4,), channels=groups * b.pick((2, 4)))
    c = x.dims[1]
    if x.is_empty():
        raise Rejected("no elements")
    y = b.emit("Reshape", [x, b.emit("Concat", [
        *(b.emit("Gather", [b.emit("Shape", [x]), b.ints([i])]) for i in (0,)),
        b.ints([groups, c // groups, -1])], axis=0)])  # fmt: skip
    y = b.emit("Transpose", [y], exact=True, perm=[0, 2, 1, 3])
    b.emit("Reshape", [y, b.emit("Shape", [x])], exact=True)


@pattern
def slices_and_concats(b):
    x = b.value(ALL, ranks=(2, 3, 4), special=True, where=lambda v: any(isinstance(d, int) and d > 1 for d in v.dims))
    axis = b.pick([i for i, d in enumerate(x.dims) if isinstance(d, int) and d > 1])
    cut = b.number(1, x.dims[axis] - 1)

    def part(start, end, step=1):
        if b.opset < 10:
            return b.emit("Slice", [x], exact=True, axes=[axis], starts=[start], ends=[end])
        return b.emit("Slice", [x, b.ints([start]), b.ints([end]), b.ints([axis]), b.ints([step])], exact=True)

    if b.chance(0.4) and b.opset >= 10:
        parts = [part(i, 2**31 - 1, 2) for i in range(2)]
    else:
        parts = [part(0, cut), part(cut, 2**31 - 1)]
    if b.chance(0.5) and x.dtype in FLOATS:
        parts[0] = activation(b, parts[0]) if parts[0].finite() and x.dtype == "f32" else parts[0]
    if b.chance(0.4):
        parts.reverse()
    b.emit("Concat", parts, exact=True, axis=axis)


@pattern
def written_box(b):
    """x[:, 1:3] = y and x[:, 1:3] += y as exporters write them: indices that make up a box, now and then not quite."""
    if b.opset < 13:
        raise Rejected("no such scatter")
    x = b.value(
        FLOATS,
        ranks=(1, 2, 3, 4),
        where=lambda v: v.finite() and not v.is_empty() and all(isinstance(d, int) for d in v.dims),
    )
    depth = b.number(1, x.rank)
    starts = [b.number(0, size - 1) if b.chance(0.6) else 0 for size in x.dims[:depth]]
    ends = [b.number(start + 1, size) if b.chance(0.6) else size for start, size in zip(starts, x.dims)]
    ranges = [np.arange(start, end) for start, end in zip(starts, ends)]
    if b.chance(0.15):
        ranges[-1] = ranges[-1][::-1]
    indices = np.stack(np.meshgrid(*ranges, indexing="ij"), -1)
    if b.chance(0.3):
        indices = indices - np.int64(x.dims[:depth])
    if b.chance(0.5):
        indices = indices.reshape(-1, depth)
    shape = [*indices.shape[:-1], *x.dims[depth:]]
    updates = b.fresh(x.dtype, shape)
    if b.chance(0.5):
        own = b.emit("Slice", [x, b.ints(starts), b.ints(ends), b.ints(list(range(depth)))], exact=True)
        updates = b.emit("Add", [b.emit("Reshape", [own, b.ints(shape)], exact=True), updates])
    y = b.emit("ScatterND", [x, b.constant(indices.astype(np.int64)), updates], exact=True)
    if b.chance(0.5):
        b.emit("Softmax", [y], axis=-1)


@pattern
def rounded_and_back(b):
    """What a model converts to a type of 16 bits and back it means to round."""
    x = b.value(("f32",), exact=True, where=lambda v: v.finite())
    y = b.emit("Cast", [x], exact=True, to=TensorProto.FLOAT16)
    if b.chance(0.5) and y.rank > 1:
        y = b.emit("Transpose", [y], exact=True, perm=[int(i) for i in b.rng.permutation(y.rank)])
    y = b.emit("Cast", [y], exact=True, to=ELEMENT_TYPE[x.dtype])
    if y.finite():
        activation(b, y)


@pattern
def computed_shape(b):
    """Reshape, Expand, Tile and others by arithmetic on Shape."""
    x = b.value(ALL, ranks=(2, 3, 4), special=True, where=lambda v: not v.is_empty())
    shape = b.emit("Shape", [x])

    def size(i):
        if b.chance(0.3) and b.opset >= 10:
            return b.emit("Slice", [shape, b.ints([i]), b.ints([i + 1]), b.ints([0])])
        if b.chance(0.5):
            return b.emit("Gather", [shape, b.ints([i])])
        scalar = b.emit("Gather", [shape, b.constant(np.array(i, np.int64))])
        return b.emit("Unsqueeze", [scalar], axes=[0]) if b.opset < 13 else b.emit("Unsqueeze", [scalar, b.ints([0])])

    kind = b.pick(("merge", "swap", "split", "expand", "zeros", "range", "slice"))
    if kind == "merge":
        merged = b.emit("Mul", [size(0), size(1)])
        rest = [size(i) for i in range(2, x.rank)] if b.chance(0.5) else [b.ints([-1])]
        b.emit("Reshape", [x, b.emit("Concat", [merged, *rest], axis=0)], exact=True)
    elif kind == "swap":
        sizes = [size(i) for i in range(x.rank)]
        y = b.emit("Reshape", [x, b.emit("Concat", sizes[::-1], axis=0)], exact=True)
        b.emit("Transpose", [y], exact=True)
    elif kind == "split":
        last = x.dims[-1]
        if not isinstance(last, int):
            raise Rejected("unknown size")
        heads = b.pick([d for d in range(1, last + 1) if last % d == 0])
        width = b.emit("Div", [size(x.rank - 1), b.ints([heads])])
        lead = [size(i) for i in range(x.rank - 1)]
        b.emit("Reshape", [x, b.emit("Concat", [*lead, b.ints([heads]), width], axis=0)], exact=True)
    elif kind == "expand":
        target = b.emit("Concat", [b.ints([b.pick((1, 2))]), *(size(i) for i in range(x.rank))], axis=0)
        b.emit("Expand", [x, target], exact=True)
    elif kind == "zeros" and b.opset >= 9:
        target = b.emit("Concat", [size(0), b.ints([b.pick((1, 3))])], axis=0)
        b.emit("ConstantOfShape", [target], exact=True, value=helper.make_tensor("value", 1, [1], [0.5]))
    elif kind == "range" and b.opset >= 11:
        count = b.emit("Gather", [shape, b.constant(np.array(b.number(0, x.rank - 1), np.int64))])
        positions = b.emit("Range", [b.constant(np.array(0, np.int64)), count, b.constant(np.array(1, np.int64))])
        b.emit("Cast", [positions], exact=True, to=ELEMENT_TYPE["f32"])
    elif kind == "slice" and b.opset >= 10:
        axis = b.number(0, x.rank - 1)
        half = b.emit("Div", [b.emit("Add", [size(axis), b.ints([1])]), b.ints([2])])
        first = b.emit("Slice", [x, b.ints([0]), half, b.ints([axis])], exact=True)
        second = b.emit("Slice", [x, half, b.ints([2**31 - 1]), b.ints([axis])], exact=True)
        b.emit("Concat", [second, first], exact=True, axis=axis)
    else:
        raise Rejected("not in this operator set")


@pattern
def no_operation(b):
    """Arithmetic that changes nothing, or undoes itself."""
    x = b.value(FLOATS + ("i64", "i32"), special=True)
    kind = b.pick(("x+0", "x*1", "x/1", "x-0", "--x", "cast", "where", "pow1"))
    if kind == "x+0":
        b.emit("Add", [x, number(b, x, 0)] if b.chance(0.5) else [number(b, x, 0), x])
    elif kind == "x*1":
        b.emit("Mul", [b.constant(np.ones([1] * b.number(0, 2), NUMPY[x.dtype])), x])
    elif kind == "x/1":
        b.emit("Div", [x, number(b, x, 1)])
    elif kind == "x-0":
        b.emit("Sub", [x, number(b, x, 0)])
    elif kind == "--x":
        b.emit("Neg", [b.emit("Neg", [x], exact=True)], exact=True)
    elif kind == "cast" and x.dtype in FLOATS:
        wide = b.emit("Cast", [x], exact=True, to=ELEMENT_TYPE["f64"])
        b.emit("Cast", [wide], exact=True, to=ELEMENT_TYPE[x.dtype])
    elif kind == "where" and b.opset >= 9:
        condition = b.constant(np.array(b.chance(0.5)))
        b.emit("Where", [condition, x, b.partner(x, special=True)], exact=True)
    elif kind == "pow1" and x.dtype in FLOATS:
        b.emit("Pow", [x, number(b, x, 1)])
    else:
        raise Rejected("not in this operator set")


@pattern
def constants_only(b):
    """A part that folds."""
    dtype = b.dtype(FLOATS)
    x = b.fresh(dtype, b.dims(b.number(0, 3), symbolic=False), constant=1)
    y = b.fresh(dtype, b.partner_dims(x), constant=1)
    z = b.emit(b.pick(("Add", "Mul", "Sub")), [x, y])
    if b.chance(0.5):
        z = b.emit("Transpose", [z], exact=True)
    b.emit(b.pick(("Tanh", "Exp", "Abs", "Sigmoid")), [z])


@pattern
def squeeze_and_excite(b):
    x = image(b, "Conv", types=("f32",), ranks=(4,))
    if x.is_empty():
        raise Rejected("no elements")
    c, inner = x.dims[1], b.pick((1, 2, 4))
    y = b.emit("GlobalAveragePool", [x])
    y = b.emit("Conv", [y, b.fresh("f32", [inner, c, 1, 1], -1, 1, constant=1)])
    y = b.emit("Conv", [activation(b, y), b.fresh("f32", [c, inner, 1, 1], -1, 1, constant=1)])
    b.emit("Mul", [x, b.emit(b.pick(("Sigmoid", "HardSigmoid")), [y])])


def body_of(b, count, usable):
    """Nodes of a sub-graph: a builder whose values are the outer ones and what it adds."""
    body = GraphBuilder(b.rng, b.opset, b.theme, special=b.special, parent=b)
    body.values = list(usable)
    for _ in range(count):
        for _ in range(10):
            mark = body.mark()
            try:
                elementwise(body)
                break
            except Rejected:
                body.back_to(mark)
    return body


def elementwise(b):
    op = b.pick(("Add", "Mul", "Tanh", "Relu", "Sub", "Neg", "Transpose", "Concat"))
    x = b.value(("f32", "f64", "i64"), fresh=0)
    if op in ("Add", "Mul", "Sub"):
        b.emit(op, [x, b.partner(x)])
    elif op == "Transpose":
        b.emit(op, [x], exact=True)
    elif op == "Concat":
        if x.rank == 0:
            raise Rejected("scalar")
        b.emit(op, [x, x], exact=True, axis=b.number(0, x.rank - 1))
    elif x.dtype == "i64":
        raise Rejected("integers")
    else:
        b.emit(op, [x], exact=op != "Tanh" or None)


def inner_graph(body, name, inputs, outputs):
    from graph_builder import tensor_proto

    return helper.make_graph(
        body.nodes, name, inputs, [helper.make_empty_tensor_value_info(v) for v in outputs],
        [tensor_proto(c.arrays[0], c.name) for c in body.constants],
    )  # fmt: skip


def outer_values(b, body):
    """What a body reads from the graph around it."""
    read = {name for node in body.nodes for name in node.input}
    return [v for v in b.values if v.name in read]


def branch(b, usable, like):
    for _ in range(5):
        body = body_of(b, b.number(1, 3), usable)
        made = [v for v in body.values if v.kind == "node" and v not in usable and v.dtype == like.dtype]
        made = [v for v in made if v.rank == like.rank]  # other ranks: known_differences.md
        if made:
            return body, made[-1]
    raise Rejected("no branch")


@pattern
def conditional(b):
    if b.opset < 11 or b.parent:
        raise Rejected("control flow")
    x = b.value(("f32", "f64"), ranks=(1, 2, 3))
    usable = [v for v in b.values if v is x or b.chance(0.4)]
    (then, y), (otherwise, z) = (branch(b, usable, x) for _ in range(2))
    if b.chance(0.2):
        condition = b.constant(np.array(b.chance(0.5)))
    elif b.chance(0.3) and b.sets == 2:
        condition = b.given(lambda k: np.array(k == 0), [])
    else:
        condition = b.input("bool", [])
    reads = outer_values(b, then) + outer_values(b, otherwise)
    name = b.name()
    node = helper.make_node(
        "If", [condition.name], [name], name=b.name("/if/"),
        then_branch=inner_graph(then, "then", [], [y.name]),
        else_branch=inner_graph(otherwise, "else", [], [z.name]),
    )  # fmt: skip
    made = b.append([node], [condition, *reads], [name])
    made[0].depth += 3
    b.operators += then.operators + otherwise.operators


BODY_FUNCTIONS = {"Tanh": np.tanh, "Add": np.add, "Mul": np.multiply, "Neg": np.negative,
                  "Sigmoid": lambda x: 1 / (1 + np.exp(-x))}  # fmt: skip


def check_sigmoids(operators, state, outer, trips):
    """Rejects loops whose body has a Sigmoid with results near 0, as GraphBuilder.append() does beside loops."""
    value = state.astype(np.float64)
    for op in operators * trips:
        value = BODY_FUNCTIONS[op](*((value, outer) if op in ("Add", "Mul") else (value,)))
        if op == "Sigmoid" and value.size and value.max() < 1e-2:
            raise Rejected("near 0: known_differences.md")


@pattern
def loop(b):
    if b.opset < 11 or b.parent:
        raise Rejected("control flow")
    x = b.value(("f32",), ranks=(1, 2, 3), where=lambda v: v.within(-50, 50))
    trips = b.number(1, 4)  # none: known_differences.md
    body = GraphBuilder(b.rng, b.opset, "f32", parent=b)
    state, counter, running = (body.name(h) for h in ("state", "i", "go"))
    outer = b.fresh("f32", [1] * x.rank)
    body.values = [outer]
    nodes, operators = [], []
    value = state
    for _ in range(b.number(1, 3)):
        op, new = b.pick(tuple(BODY_FUNCTIONS)), body.name()
        operators.append(op)
        nodes.append(helper.make_node(op, [value, outer.name] if op in ("Add", "Mul") else [value], [new]))
        value = new
    scanned = body.name()
    nodes.append(helper.make_node("Exp" if b.chance(0.5) else "Identity", [value], [scanned]))
    go_on = body.name()
    nodes.append(helper.make_node("Identity", [running], [go_on]))
    graph = helper.make_graph(
        nodes, "body",
        [helper.make_tensor_value_info(counter, 7, []), helper.make_tensor_value_info(running, 9, []),
         helper.make_tensor_value_info(state, 1, [None] * x.rank)],
        [helper.make_tensor_value_info(go_on, 9, []), helper.make_tensor_value_info(value, 1, [None] * x.rank),
         helper.make_tensor_value_info(scanned, 1, [None] * x.rank)],
    )  # fmt: skip
    count = np.array(trips, np.int64)
    count = b.constant(count) if b.chance(0.5) else b.given(lambda k: count, [])
    condition = b.constant(np.array(True))
    names = [b.name(), b.name()]
    node = helper.make_node("Loop", [count.name, condition.name, x.name], names, name=b.name("/loop/"), body=graph)
    for k in range(b.sets):
        check_sigmoids(operators, x.arrays[k], outer.arrays[k], trips)
    made = b.append([node], [count, condition, x, outer], names)
    for v in made:
        v.depth += trips * 3
    b.operators += [("", n.op_type) for n in nodes]
