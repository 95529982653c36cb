"""How to use com.microsoft's operators that move elements, and its quantised ones beside operators_quantized.py. See
table.py."""

import numpy as np
from graph_builder import Rejected
from operators_quantized import MICROSOFT, eight_bits, scale, zero_point
from table import operator


@operator("GatherND", domain=MICROSOFT)
def microsoft_gather_nd(b, op):
    x = b.value(("f32", "i32", "i64", "u8", "f64"), ranks=(1, 2, 3, 4), special=True, where=lambda v: not v.is_empty())
    depth = b.number(1, x.rank)
    dims = [*b.dims(b.pick((0, 1, 2))), depth]
    dtype = b.pick((np.int64, np.int32))
    indices = b.given(lambda k: b.rng.integers(0, x.arrays[k].shape[:depth], b.concrete(dims, k)).astype(dtype), dims)
    b.emit(op, [x, indices], domain=MICROSOFT, exact=True)


@operator("UnfoldTensor", domain=MICROSOFT)
def unfold_tensor(b, op):
    x = b.value(("f32", "i64", "u8"), ranks=(1, 2, 3), special=True, where=lambda v: not v.is_empty())
    axis = b.number(0, x.rank - 1)
    size = b.number(1, min(x.min_size(axis), 8))
    if max(a.size for a in x.arrays) * size > b.largest:
        raise Rejected("too large")
    b.emit(op, [x], domain=MICROSOFT, exact=True, dim=axis, size=size, step=b.number(1, 3))


@operator("QGemm", domain=MICROSOFT)
def qgemm(b, op):
    x = eight_bits(b, ranks=(2,), where=lambda v: None not in v.dims and not v.is_empty())
    trans_a, trans_b = b.chance(0.3), b.chance(0.5)
    _, k = reversed(x.dims) if trans_a else x.dims
    n = b.pick((1, 3, 8, 17))
    other = b.fresh(x.dtype, [n, k] if trans_b else [k, n], constant=1)
    inputs = [x, scale(b), zero_point(b, x.dtype), other, scale(b), zero_point(b, x.dtype), None, None, None]
    if b.chance(0.5):
        inputs[6] = b.constant(b.rng.integers(-100, 100, [1, n]).astype(np.int32))
    quantized = b.chance(0.5)
    if quantized:
        inputs[7:] = [scale(b), zero_point(b, x.dtype)]
    values = b.emit(op, inputs, domain=MICROSOFT, transA=int(trans_a), transB=int(trans_b))
    if quantized:
        values.slack = 1
        b.hide(values)


@operator("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(b, op):
    # A probability of 1 differs: known_differences.md. Of two numbers that are at most 4 apart none has it.
    x = eight_bits(b, ranks=(2, 3), where=lambda v: not v.is_empty() and v.min_size(-1) > 1)
    zero = -128 if x.dtype == "i8" else 0
    step = b.constant(np.array(zero, np.int8 if x.dtype == "i8" else np.uint8))
    values = b.emit(op, [x, b.constant(np.float32(1 / 64)), zero_point(b, x.dtype), b.constant(np.float32(1 / 256)), step],
                    domain=MICROSOFT, axis=-1, opset=13)  # fmt: skip
    values.slack = 1
    b.hide(values)


@operator("QLinearConv", domain=MICROSOFT)
def channels_last_qlinear_conv(b, op):
    x = eight_bits(b, ranks=(4,), where=lambda v: isinstance(v.dims[3], int) and not v.is_empty() and v.min_size(1) > 2
                   and v.min_size(2) > 2, dims=lambda: [b.dim() or 1, b.number(3, 8), b.number(3, 8), b.pick((1, 2, 4))])  # fmt: skip
    kernel, outputs = [b.pick((1, 2, 3)) for _ in range(2)], b.number(1, 4)
    weights = b.fresh(x.dtype, [outputs, x.dims[3], *kernel], constant=1)
    inputs = [x, scale(b), zero_point(b, x.dtype), weights, scale(b), zero_point(b, x.dtype, zero=True), scale(b),
              zero_point(b, x.dtype)]  # fmt: skip
    b.emit(op, inputs, domain=MICROSOFT, channels_last=1, pads=[k // 2 for k in kernel] * 2)


@operator("Tokenizer", domain=MICROSOFT)
def tokenizer(b, op):
    x = b.value(("string",), ranks=(1, 2), where=lambda v: not v.is_empty())
    how = b.pick(({"separators": [" "]}, {"separators": ["a", " "]}, {"tokenexp": "[a-zA-Z]+"}, {"separators": [""]}))
    tokens = b.emit(
        op, [x], domain=MICROSOFT, exact=True, mark=b.number(0, 1), mincharnum=b.pick((1, 1, 2)), pad_value="#", **how
    )
    if tokens.is_empty():  # marks around none: known_differences.md
        raise Rejected("no tokens")
