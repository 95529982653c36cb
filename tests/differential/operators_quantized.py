"""How to use quantisation and products of integers. See table.py.

Scales are powers of two: all arithmetic is exact then, and so is the rounding of ties to even.
"""

import numpy as np
from graph_builder import ELEMENT_TYPE, NUMPY, Rejected
from table import operator

SCALES = (0.0625, 0.125, 0.25, 0.5, 1.0)
MICROSOFT = "com.microsoft"


def scale(b, dims=(), dtype="f32"):
    return b.constant(np.asarray(b.rng.choice(SCALES, dims)).astype(NUMPY[dtype]))


def zero_point(b, dtype, dims=(), zero=False):
    limits = np.iinfo(NUMPY[dtype])
    low, high = max(limits.min, -20), min(limits.max, 140)
    points = np.zeros(dims) if zero else b.rng.integers(low, high + 1, dims)
    return b.constant(np.asarray(points).astype(NUMPY[dtype]))


def eight_bits(b, dtypes=("u8", "i8"), ranks=(2, 3, 4), where=None, dims=None):
    return b.value(dtypes, ranks=ranks, where=where, dims=dims, fresh=0.3)


@operator("QuantizeLinear")
def quantize(b, op):
    x = b.value(("f32",), ranks=(0, 1, 2, 3, 4), exact=True, where=lambda v: v.within(-1e4, 1e4))
    axis = b.number(0, x.rank - 1) if b.opset >= 13 and x.rank and b.chance(0.4) else None
    if axis is not None and not isinstance(x.dims[axis], int):
        raise Rejected("unknown size")
    dims = [x.dims[axis]] if axis is not None else []
    inputs = [x, scale(b, dims)]
    if b.chance(0.7):
        inputs.append(zero_point(b, b.pick(("u8", "i8") if b.opset < 21 else ("u8", "i8", "u16", "i16")), dims))
    b.emit(op, inputs, exact=True, axis=axis - x.rank if axis is not None and b.chance(0.3) else axis)


@operator("DequantizeLinear")
def dequantize(b, op):
    dtypes = ("u8", "i8", "i32") if b.opset < 21 else ("u8", "i8", "i32", "u16", "i16")
    x = b.value(dtypes, ranks=(0, 1, 2, 3, 4), where=lambda v: v.within(-(2**20), 2**20))
    axis = b.number(0, x.rank - 1) if b.opset >= 13 and x.rank and b.chance(0.4) else None
    if axis is not None and not isinstance(x.dims[axis], int):
        raise Rejected("unknown size")
    dims = [x.dims[axis]] if axis is not None else []
    wide = "f16" if b.opset >= 19 and b.chance(0.2) else "f32"
    inputs = [x, scale(b, dims, wide)]
    if b.chance(0.7):
        inputs.append(zero_point(b, x.dtype, dims, zero=x.dtype == "i32"))
    b.emit(op, inputs, exact=wide == "f32" or None, axis=axis)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(b, op):
    x = b.value(("f32",), ranks=(1, 2, 3), exact=True, where=lambda v: not v.is_empty() and v.within(-1e3, 1e3)
                and any(a.any() for a in v.arrays))  # fmt: skip
    values, step, _ = b.emit(op, [x], outputs=3)
    # An element may lie between two steps; the step itself is what is checked.
    b.hide(values)
    b.hide(step)


@operator("MatMulInteger")
def matmul_integer(b, op):
    # Sums of nothing: known_differences.md.
    a = eight_bits(b, where=lambda v: v.dims[-1] is not None and v.min_size(-1) > 0)
    other = b.fresh(b.pick(("u8", "i8")), [a.dims[-1], b.dim()], constant=0.8)
    inputs = [a, other]
    if b.chance(0.7):
        inputs += [zero_point(b, a.dtype), zero_point(b, other.dtype)][: b.number(1, 2)]
    b.emit(op, inputs)


@operator("QLinearMatMul")
def qlinear_matmul(b, op):
    a = eight_bits(b, where=lambda v: v.dims[-1] is not None and v.min_size(-1) > 0)
    other = b.fresh(b.pick(("u8", "i8")) if a.dtype == "u8" else "i8", [a.dims[-1], b.dim()], constant=0.9)
    b.emit(op, [a, scale(b), zero_point(b, a.dtype), other, scale(b), zero_point(b, other.dtype), scale(b),
                zero_point(b, a.dtype)])  # fmt: skip


def convolution(b, extra):
    x = eight_bits(b, ranks=(3, 4), where=lambda v: isinstance(v.dims[1], int) and v.dims[1] > 0
                   and all(v.min_size(i) >= 3 for i in range(2, v.rank)),
                   dims=lambda: [b.dim(), b.pick((1, 2, 4)), *(b.number(3, 8) for _ in range(b.pick((1, 2))))])  # fmt: skip
    kernel = [b.pick((1, 2, 3)) for _ in range(x.rank - 2)]
    groups = x.dims[1] if b.chance(0.2) else 1
    outputs = groups * b.pick((1, 2, 3))
    weights = b.fresh(b.pick(("u8", "i8")) if x.dtype == "u8" else "i8", [outputs, x.dims[1] // groups, *kernel],
                      constant=1)  # fmt: skip
    attributes = {"group": groups}
    if b.chance(0.5):
        attributes["pads"] = [k // 2 for k in kernel] * 2
    if b.chance(0.3):
        attributes["strides"] = [2] * len(kernel)
    return x, weights, outputs, attributes


@operator("ConvInteger")
def conv_integer(b, op):
    x, weights, _, attributes = convolution(b, 0)
    inputs = [x, weights]
    if b.chance(0.6):
        inputs += [zero_point(b, x.dtype), zero_point(b, weights.dtype)][: b.number(1, 2)]
    b.emit(op, inputs, **attributes)


@operator("QLinearConv")
def qlinear_conv(b, op):
    x, weights, outputs, attributes = convolution(b, 0)
    per_channel = [outputs] if b.chance(0.4) else []
    inputs = [x, scale(b), zero_point(b, x.dtype), weights, scale(b, per_channel),
              zero_point(b, weights.dtype, per_channel, zero=bool(per_channel)), scale(b), zero_point(b, x.dtype)]  # fmt: skip
    if b.chance(0.5):
        inputs.append(b.constant(b.rng.integers(-100, 100, outputs).astype(np.int32)))
    b.emit(op, inputs, **attributes)


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_arithmetic(b, op):
    x = eight_bits(b, ranks=(1, 2, 3))
    y = b.partner(x)
    values = b.emit(op, [x, scale(b), zero_point(b, x.dtype), y, scale(b), zero_point(b, x.dtype), scale(b),
                         zero_point(b, x.dtype)], domain=MICROSOFT)  # fmt: skip
    values.slack = 1
    b.hide(values)


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_unary(b, op):
    x = eight_bits(b, ranks=(1, 2, 3))
    alpha = {"alpha": b.pick((0.1, 0.25))} if op == "QLinearLeakyRelu" else {}
    inputs = [x, scale(b), zero_point(b, x.dtype), b.constant(np.float32(1 / 64)), zero_point(b, x.dtype)]
    values = b.emit(op, inputs, domain=MICROSOFT, **alpha)
    values.slack = 1
    b.hide(values)


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(b, op):
    x = eight_bits(b, ranks=(2, 3))
    axis = b.number(0, x.rank - 1)
    dims = list(x.dims)
    dims[axis] = b.dim()
    if None in dims:
        raise Rejected("unknown size")
    inputs = [scale(b), zero_point(b, x.dtype)]
    for part in (x, b.fresh(x.dtype, dims)):
        inputs += [part, scale(b), zero_point(b, x.dtype)]
    values = b.emit(op, inputs, domain=MICROSOFT, axis=axis)
    values.slack = 1
    b.hide(values)


@operator("QLinearGlobalAveragePool", "QLinearAveragePool", domain=MICROSOFT)
def qlinear_pool(b, op):
    x = eight_bits(b, ranks=(4,), where=lambda v: not v.is_empty() and v.min_size(2) > 1 and v.min_size(3) > 1)
    shape = {"kernel_shape": [2, 2], "strides": b.pick(([1, 1], [2, 2]))} if op == "QLinearAveragePool" else {}
    inputs = [x, scale(b), zero_point(b, x.dtype), scale(b), zero_point(b, x.dtype)]
    values = b.emit(op, inputs, domain=MICROSOFT, **shape)
    values.slack = 1
    b.hide(values)


@operator("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def microsoft_quantize(b, op):
    if op == "QuantizeLinear":
        x = b.value(("f32",), ranks=(1, 2, 3), exact=True, where=lambda v: v.within(-1e4, 1e4))
        b.emit(op, [x, scale(b), zero_point(b, b.pick(("u8", "i8")))], domain=MICROSOFT, exact=True)
    else:
        x = eight_bits(b)
        b.emit(op, [x, scale(b), zero_point(b, x.dtype)], domain=MICROSOFT, exact=True)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(b, op):
    a = eight_bits(b, where=lambda v: v.dims[-1] is not None and not v.is_empty())
    n = b.number(1, 8)
    other = b.fresh(b.pick(("u8", "i8")), [a.dims[-1], n], constant=0.9)
    inputs = [a, other, scale(b), scale(b, b.pick(([], [n])))]
    if b.chance(0.6):
        inputs += [zero_point(b, a.dtype), zero_point(b, other.dtype)]
        if b.chance(0.5):
            inputs.append(b.fresh("f32", [n], constant=0.9))
    b.emit(op, inputs, domain=MICROSOFT)


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(b, op):
    block, n = 16, b.number(1, 6)
    k = b.pick((16, 32, 48, 40))
    x = b.value(("f32",), ranks=(1, 2, 3), dims=lambda: [*b.dims(b.number(0, 2)), k],
                where=lambda v: v.dims[-1] == k and not v.is_empty())  # fmt: skip
    blocks = -(-k // block)
    weights = b.constant(b.rng.integers(0, 256, (n, blocks, block // 2)).astype(np.uint8))
    inputs = [x, weights, b.constant(b.rng.uniform(0.1, 1, n * blocks).astype(np.float32))]
    if b.chance(0.5):
        inputs.append(b.constant(b.rng.integers(0, 256, n * ((blocks + 1) // 2)).astype(np.uint8)))
    b.emit(op, inputs, domain=MICROSOFT, K=k, N=n, bits=4, block_size=block)


@operator("BitCast")
def bit_cast(b, op):
    same = (("f32", "i32", "u32"), ("f64", "i64", "u64"), ("i16", "u16"), ("i8", "u8"))
    group = b.pick(same)
    x = b.value(group, exact=True)
    b.emit(op, [x], exact=True, to=ELEMENT_TYPE[b.pick([t for t in group if t[0] != "f"])])
