"""How to use each elementwise operator. See operators.py."""

import numpy as np
from graph_builder import ALL, FLOATS, INTEGERS, NUMBERS, NUMPY, Rejected
from table import operator


def margin(values, distance):
    """Whether no element of inexact values is so near a jump that rounding decides on which side it is."""
    if all(v.exact for v in values):
        return True
    for parts in zip(*(v.arrays for v in values)):
        try:
            d = distance(*parts)
        except ValueError as error:  # the other set of sizes does not broadcast
            raise Rejected(str(error)) from error
        if d.size and not (np.isfinite(d).all() and d.min() > 2e-3 * max(1, np.abs(parts[0]).max())):
            return False
    return True


def to_integer(x):
    return np.abs(x - np.round(x))


@operator("Neg", "Abs", "Relu", "Identity", "Sign")
def exact_unary(b, op):
    x = b.value(b.types(op, "V" if op == "Identity" and b.opset >= 14 else "T"), special=op != "Sign")
    if op == "Sign" and not margin([x], np.abs):
        raise Rejected("near a jump")
    b.emit(op, [x], exact=True)


@operator("Ceil", "Floor", "Round")
def rounding(b, op):
    x = b.value(b.types(op), special=True)
    if not margin([x], lambda v: np.abs(v * 2 - np.round(v * 2))):
        raise Rejected("near a jump")
    b.emit(op, [x], exact=True)


DOMAINS = {
    "Acos": (-0.99, 0.99), "Acosh": (1.01, 50), "Asin": (-0.99, 0.99), "Asinh": (-50, 50), "Atan": (-50, 50),
    "Atanh": (-0.98, 0.98), "Cos": (-50, 50), "Cosh": (-6, 6), "Erf": (-50, 50), "Exp": (-50, 8), "Log": (0.01, 1e4),
    "Sigmoid": (-50, 50), "Sin": (-50, 50), "Sinh": (-6, 6), "Softplus": (-50, 50), "Softsign": (-50, 50),
    "Sqrt": (0, 1e4), "Tan": (-1.4, 1.4), "Tanh": (-50, 50),
}  # fmt: skip
USUAL = {"Acos": 0.9, "Asin": 0.9, "Atanh": 0.9, "Tan": 1.3}


@operator(*DOMAINS)
def transcendental(b, op):
    low, high = DOMAINS[op]
    types = b.types(op)
    x = b.value(types, where=lambda v: v.within(low, high)) if b.chance(0.5) else usual(b, op, types)
    b.emit(op, [x])


def usual(b, op, types):
    low, high = DOMAINS[op]
    return b.value([t for t in types if t in FLOATS], low=max(low, -3), high=min(high, 8))


@operator("Reciprocal")
def reciprocal(b, op):
    x = b.value(b.types(op), where=lambda v: all(np.abs(a).min(initial=1) > 0.05 for a in v.arrays))
    b.emit(op, [x])


@operator("Elu", "Celu", "LeakyRelu", "ThresholdedRelu")
def with_alpha(b, op):
    alpha = b.pick((None, 0.5, 0.1, 1.5))
    types = b.types(op)
    x = b.value(types)
    if op == "ThresholdedRelu" and not margin([x], lambda v: np.abs(v - (1.0 if alpha is None else alpha))):
        raise Rejected("near a jump")
    b.emit(op, [x], alpha=alpha)


@operator("Selu")
def selu(b, op):
    b.emit(op, [b.value(b.types(op))], alpha=b.pick((None, 1.3)), gamma=b.pick((None, 0.7)))


@operator("HardSigmoid")
def hard_sigmoid(b, op):
    b.emit(op, [b.value(b.types(op))], alpha=b.pick((None, 0.25)), beta=b.pick((None, 0.4)))


@operator("HardSwish", "Mish")
def no_attributes(b, op):
    b.emit(op, [b.value(b.types(op))])


@operator("Gelu")
def gelu(b, op):
    b.emit(op, [b.value(b.types(op))], approximate=b.pick((None, "none", "tanh")))


@operator("Swish")
def swish(b, op):
    b.emit(op, [b.value(b.types(op))], alpha=b.pick((None, 1.702)))


@operator("Shrink")
def shrink(b, op):
    x = b.value(b.types(op), where=lambda v: v.within(-1e5, 1e5))  # large integers: known_differences.md
    bound = b.pick((0.5, 0.25, 1.0))
    if not margin([x], lambda v: np.abs(np.abs(v) - bound)):
        raise Rejected("near a jump")
    b.emit(op, [x], lambd=bound, bias=b.pick((None, 0.5, 0.125)))


@operator("PRelu")
def prelu(b, op):
    x = b.value(b.types(op), where=lambda v: v.rank > 0 or b.opset >= 9)
    dims = [d if d is not None and b.chance(0.6) else 1 for d in x.dims]
    dims = dims[b.number(0, len(dims)):] if b.chance(0.3) else dims  # fmt: skip
    b.emit(op, [x, b.fresh(x.dtype, dims, constant=0.7)])


@operator("Clip")
def clip(b, op):
    # Not NaN or infinities: a missing bound is the lowest finite number to some; see known_differences.md.
    if b.opset < 11:
        low = b.pick((None, -0.5, 0.0))
        b.emit(op, [b.value(b.types(op))], exact=True, min=low, max=b.pick((None, 0.75, 6.0)))
        return
    x = b.value(b.types(op))
    unsigned = x.dtype.startswith("u")

    def bound(options):
        number = b.pick(options)
        if number is None or (unsigned and number < 0):
            return None
        array = np.array(number).astype(NUMPY[x.dtype])
        return b.constant(array) if b.chance(0.8) else b.given(lambda k: array, [])

    b.emit(op, [x, bound((None, -1, 0, 0.25)), bound((None, 0.5, 6, 2))], exact=True)


@operator("Dropout")
def dropout(b, op):
    x = b.value(b.types(op), special=True)
    if b.opset < 12:
        b.emit(op, [x], exact=True, ratio=b.pick((None, 0.3)))
        return
    inputs = [x]
    if b.chance(0.3):
        inputs.append(b.constant(np.array(0.3, np.float32)))
    b.emit(op, inputs, outputs=2 if b.chance(0.2) else 1, exact=True)


def axis_of(b, x, *more):
    """One that is in range, None for the default: 1 before operator set 13, which vectors do not have."""
    default = (None,) if x.rank > 1 or b.opset >= 13 else ()
    return b.pick((*default, *more, b.number(-x.rank, x.rank - 1)))


@operator("Softmax", "LogSoftmax")
def softmax(b, op):
    x = b.value(b.types(op), ranks=(1, 2, 3, 4, 5), where=lambda v: v.within(-60, 60))
    b.emit(op, [x], axis=axis_of(b, x, -1))


@operator("Hardmax")
def hardmax(b, op):
    # Only values without ties within a slice, which is more than unique neighbours: all different.
    x = b.value(b.types(op), ranks=(1, 2, 3, 4), exact=True,
                where=lambda v: all(np.unique(a).size == a.size for a in v.arrays))  # fmt: skip
    b.emit(op, [x], exact=True, axis=axis_of(b, x))


@operator("Add", "Sub", "Mul")
def arithmetic(b, op):
    x = b.value(b.types(op), special=True)
    y = b.partner(x, special=True)
    b.emit(op, [x, y] if b.chance(0.6) else [y, x])


def nonzero(b, like):
    if like.dtype in FLOATS:
        return b.fresh(like.dtype, b.partner_dims(like), 0.5, 4)
    return b.fresh(like.dtype, b.partner_dims(like), 1, 10)


@operator("Div")
def div(b, op):
    x = b.value(b.types(op), special=True)
    b.emit(op, [x, nonzero(b, x)])


@operator("Mod")
def mod(b, op):
    x = b.value(b.types(op))
    y = nonzero(b, x)
    if x.dtype in FLOATS:
        if not x.exact:
            raise Rejected("near a jump")
        b.emit(op, [x, y], exact=True, fmod=1)
        return
    if x.dtype in ("i64", "i32", "i16", "i8") and b.chance(0.5):
        y = b.emit("Neg", [y], exact=True) if b.opset >= 13 or y.dtype != "i16" else y
    # fmod of numbers that a double does not hold: known_differences.md.
    fmod = b.pick((None, 1)) if x.within(-(2.0**50), 2.0**50) else None
    b.emit(op, [x, y], fmod=fmod)


@operator("Pow")
def power(b, op):
    types = b.types(op)
    x = b.value([t for t in types if t in FLOATS], where=lambda v: v.within(-20, 20))
    exponents = b.types(op, "T1") if b.opset >= 12 else [x.dtype]
    dtype = b.pick(exponents)
    exponent = (
        b.pick((0, 1, 2, 3)) if dtype not in FLOATS or not x.within(0.1, 1e3) else b.pick((0.5, 1.5, -0.5, 2, -1))
    )
    if b.chance(0.6):
        b.emit(op, [x, b.constant(np.full(b.pick(([], [1])), exponent, NUMPY[dtype]))])
    elif x.within(0.1, 100):
        y = b.fresh(dtype, b.partner_dims(x), 0, 2)
        b.emit(op, [x, y])
    else:
        raise Rejected("roots of negative numbers")


@operator("Max", "Min", "Sum", "Mean")
def variadic(b, op):
    # NaN: known_differences.md.
    x = b.value(b.types(op))
    inputs = [x] + [b.partner(x) for _ in range(b.pick((0, 1, 1, 2, 3)))]
    b.emit(op, inputs, exact=True if op in ("Max", "Min") else None)


@operator("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def comparison(b, op):
    x = b.value(b.types(op), special=True)
    y = b.partner(x, special=True)
    if x.dtype in FLOATS and not margin([x, y], lambda p, q: np.abs(np.subtract(p, q))):
        raise Rejected("near a jump")
    b.emit(op, [x, y], exact=True)


@operator("And", "Or", "Xor")
def logic(b, op):
    x = b.value(["bool"])
    b.emit(op, [x, b.partner(x)])


@operator("Not")
def negation(b, op):
    b.emit(op, [b.value(["bool"])])


@operator("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(b, op):
    x = b.value(INTEGERS)
    b.emit(op, [x, b.partner(x)])


@operator("BitwiseNot")
def bitwise_not(b, op):
    b.emit(op, [b.value(INTEGERS)])


@operator("BitShift")
def bit_shift(b, op):
    x = b.value(b.types(op))
    b.emit(op, [x, b.fresh(x.dtype, b.partner_dims(x), 0, 7)], direction=b.pick(("LEFT", "RIGHT")))


@operator("IsNaN")
def is_nan(b, op):
    b.emit(op, [b.value([t for t in b.types(op, "T1") if t in FLOATS], special=True)], exact=True)


@operator("IsInf")
def is_inf(b, op):
    x = b.value([t for t in b.types(op, "T1") if t in FLOATS], special=True)
    b.emit(op, [x], exact=True, detect_negative=b.pick((None, 0, 1)), detect_positive=b.pick((None, 0, 1)))


@operator("Where")
def where(b, op):
    x = b.value([t for t in ALL], special=True)
    y = b.partner(x, special=True)
    condition = b.fresh("bool", b.partner_dims(x), constant=0.3)
    b.emit(op, [condition, x, y], exact=True)


def castable(v, to):
    """Whether the standard says what the cast gives."""
    if v.dtype in FLOATS and to in INTEGERS:
        limits = np.iinfo(NUMPY[to])
        return v.finite() and v.within(max(limits.min, -(2**31)) + 1, min(limits.max, 2**31) - 1)
    if to == "string" or v.dtype == "string":
        return v.exact and v.finite()
    return True


@operator("Cast")
def cast(b, op):
    to = b.dtype([t for t in b.types(op, "T2") if t != "string"])
    if b.chance(0.05):
        to = "string"
    x = b.value([t for t in b.types(op, "T1") if t != "string"], special=True, where=lambda v: castable(v, to))
    if x.dtype in FLOATS and to in (*INTEGERS, "bool") and not margin([x], to_integer):
        raise Rejected("near a jump")
    if to == "string" and x.dtype in FLOATS:
        raise Rejected("how many digits is not said")
    if x.dtype == "f64" and to == "f16":
        raise Rejected("ONNX Runtime rounds twice")
    b.emit(op, [x], exact=True, to=element_type(to))


def element_type(dtype):
    from graph_builder import ELEMENT_TYPE

    return ELEMENT_TYPE[dtype]


@operator("CastLike")
def cast_like(b, op):
    like = b.value(NUMBERS + ("bool",))
    x = b.value(NUMBERS + ("bool",), where=lambda v: castable(v, like.dtype))
    if x.dtype in FLOATS and like.dtype in (*INTEGERS, "bool") and not margin([x], to_integer):
        raise Rejected("near a jump")
    if x.dtype == "f64" and like.dtype == "f16":
        raise Rejected("ONNX Runtime rounds twice")
    b.emit(op, [x, like], exact=True)


@operator("BiasGelu", "FastGelu", domain="com.microsoft")
def bias_gelu(b, op):
    x = b.value(("f32", "f16"), ranks=(2, 3, 4), where=lambda v: isinstance(v.dims[-1], int))
    bias = b.fresh(x.dtype, [x.dims[-1]], constant=0.8)
    b.emit(op, [x, bias] if op == "BiasGelu" or b.chance(0.6) else [x], domain="com.microsoft")


@operator("Gelu", domain="com.microsoft")
def microsoft_gelu(b, op):
    b.emit(op, [b.value(("f32",))], domain="com.microsoft")


@operator("QuickGelu", domain="com.microsoft")
def quick_gelu(b, op):
    x = b.value(("f32",))
    b.emit(op, [x], domain="com.microsoft", alpha=b.pick((None, 1.0, 1.5)))
    for a in b.values[-1].arrays:
        if a.size and 0 < np.abs(a).max() < 1e-2:  # known_differences.md: gates near 0
            raise Rejected("too small")
