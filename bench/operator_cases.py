"""The models of one node that bench/operators measures: for each operator, what it is given at about n elements.

A description is a function of a Maker (random arrays of n elements in the shapes that are usual) and the operator's name
that yields Cases. The element types are those that the standard allows for the operator's first type parameter.
"""

import math
from dataclasses import dataclass, field

import numpy as np

import onnx

OPSET = 22  # of which ONNX Runtime has all kernels that it has of newer ones
NUMPY = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
    "i8": np.int8, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}  # fmt: skip
ELEMENT_TYPE = {short: onnx.helper.np_dtype_to_tensor_dtype(np.dtype(full)) for short, full in NUMPY.items()}
SHORT = {
    "tensor(float)": "f32", "tensor(double)": "f64", "tensor(float16)": "f16", "tensor(int64)": "i64",
    "tensor(int32)": "i32", "tensor(int16)": "i16", "tensor(int8)": "i8", "tensor(uint8)": "u8",
    "tensor(uint16)": "u16", "tensor(uint32)": "u32", "tensor(uint64)": "u64", "tensor(bool)": "bool",
}  # fmt: skip
FLOATS = ("f32", "f64", "f16")
DESCRIPTIONS = {}  # (domain, operator): (description, type parameter or list of types)


@dataclass
class Case:
    op: str
    elements: int
    title: str
    operands: list  # names; "" for what is left out
    feed: dict
    constants: dict
    attributes: dict = field(default_factory=dict)
    outputs: list = field(default_factory=lambda: [True])
    domain: str = ""
    opset: int = OPSET


def operator(*names, types="T", domain=""):
    """`types`: the type parameter that gives the element types, or their list."""

    def register(describe):
        for name in names:
            DESCRIPTIONS[domain, name] = describe, types
        return describe

    return register


class Maker:
    def __init__(self, op, n, dtype, domain, types):
        self.op, self.n, self.dtype, self.domain, self.types = op, n, dtype, domain, types
        self.rng = np.random.default_rng(n)
        side = round(math.sqrt(n))
        columns = 10 ** max(1, math.ceil(math.log10(n) / 2) - (1 if n > 1e6 else 0))
        self.rows = [max(1, n // columns), columns]
        self.square = [side, side]
        self.cube = [max(1, n // 1600), 40, 40]  # a middle axis to work along
        channels = 16 if n < 50_000 else 64
        side = max(4, round(math.sqrt(n / channels)))
        self.image = [1, channels, side, side]
        self.short = [max(1, n // 13), 13]  # rows of less than some vectors
        self.planes = [max(1, n // 1568), 32, 7, 7]  # small images of many channels

    def case(self, label, operands, opset=OPSET, outputs=1, **attributes):
        """`operands`: arrays; a tuple holds one that is a constant; None is left out."""
        names, feed, constants = [], {}, {}
        for i, operand in enumerate(operands):
            name = "" if operand is None else f"x{i}"
            names.append(name)
            if isinstance(operand, tuple):
                constants[name] = operand[0]
            elif operand is not None:
                feed[name] = operand
        outputs = [True] * outputs if isinstance(outputs, int) else outputs
        attributes = {key: value for key, value in attributes.items() if value is not None}
        title = f"{self.op}{' ' + self.dtype if self.dtype else ''}{' ' + label if label else ''}"
        return Case(self.op, self.n, title, names, feed, constants, attributes, outputs, self.domain, opset)

    def array(self, shape=None, dtype=None, low=None, high=None):
        """Random numbers of both signs, or in [low, high); booleans half of which are set."""
        shape, dtype = self.rows if shape is None else shape, dtype or self.dtype
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtype in FLOATS:
            made = self.rng.standard_normal(shape, np.float32) if low is None else self.rng.uniform(low, high, shape)
            return made.astype(NUMPY[dtype])
        signed = not dtype.startswith("u")
        low, high = (-50 if signed else 0, 100) if low is None else (math.ceil(low), max(math.ceil(high), 1))
        return self.rng.integers(low, high, shape).astype(NUMPY[dtype])

    def scalar(self, number, dtype=None):
        return np.array(number, NUMPY[dtype or self.dtype])


def ints(*numbers):
    return (np.array(numbers, np.int64),)


def schema_types(op, parameter, domain, opset=OPSET):
    schema = onnx.defs.get_schema(op, opset, domain)
    for constraint in schema.type_constraints:
        if constraint.type_param_str == parameter:
            return [SHORT[t] for t in constraint.allowed_type_strs if t in SHORT]
    raise KeyError(f"{op} has no type parameter {parameter}")


def empty():
    return Maker("Identity", 1, "f32", "", None).case("", [np.zeros([1], np.float32)])


def cases(names, sizes, types, first=None):
    """Of these operators, sizes and types (all where there are none), from the operator `first` on."""
    for (domain, op), (describe, own) in DESCRIPTIONS.items():
        first = None if op == first else first
        if first or (names and op not in names):
            continue
        dtypes = schema_types(op, own, domain) if isinstance(own, str) else own
        order = sorted(dtypes, key=list(NUMPY).index) if None not in dtypes else [None]
        for dtype in order:
            if types and dtype is not None and dtype not in types:
                continue
            for n in sizes:
                yield from describe(Maker(op, n, dtype, domain, dtypes), op)


# Element by element.

DOMAINS = {
    "Acos": (-0.9, 0.9), "Acosh": (1.1, 50), "Asin": (-0.9, 0.9), "Atanh": (-0.9, 0.9), "Log": (0.1, 100),
    "Sqrt": (0, 100), "Reciprocal": (0.5, 4), "Tan": (-1.2, 1.2),
}  # fmt: skip


@operator("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Relu", "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Sigmoid",
          "Tanh", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Softplus",
          "Softsign", "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Mish", "Gelu",
          "Shrink", "Not", "BitwiseNot", "Identity", "Swish")  # fmt: skip
def unary(m, op):
    low, high = DOMAINS.get(op, (None, None))
    yield m.case("", [m.array(None, None, low, high)], opset=24 if op == "Swish" else OPSET)


DESCRIPTIONS["", "Identity"] = unary, "V"
DESCRIPTIONS["", "Swish"] = unary, ["f32", "f16"]


@operator("IsNaN", "IsInf", types="T1")
def tests_of_floats(m, op):
    yield m.case("", [m.array()])


@operator("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual",
          "BitwiseAnd", "BitwiseOr", "BitwiseXor", "PRelu")  # fmt: skip
def binary(m, op):
    low, high = (1, 20) if op == "Div" else (None, None)
    x = m.array()
    yield m.case("", [x, m.array(None, None, low, high)])
    if op not in ("And", "Or", "Xor"):
        yield m.case("row", [x, m.array(m.rows[1:], None, low, high)])
        yield m.case("column", [x, m.array([m.rows[0], 1], None, low, high)])
        yield m.case("scalar", [x, (m.array([], None, low, high),)])
        yield m.case("channels", [m.array(m.planes), m.array([32, 1, 1], None, low, high)])


@operator("Max", "Min", "Sum", "Mean")
def variadic(m, op):
    yield m.case("", [m.array(), m.array()])
    yield m.case("three", [m.array(), m.array(), m.array(m.rows[1:])])


@operator("Mod")
def mod(m, op):
    for fmod in (0, 1):
        if m.dtype not in FLOATS or fmod:
            yield m.case("fmod" if fmod else "", [m.array(), m.array(None, None, 1, 20)], fmod=fmod)


@operator("Pow")
def power(m, op):
    for label, exponent in (("2", 2), ("3", 3), ("0.5", 0.5), ("-1.5", -1.5)):
        if m.dtype in FLOATS or exponent in (2, 3):
            yield m.case(label, [m.array(None, None, 1, 4), (m.scalar(exponent),)])
    yield m.case("", [m.array(None, None, 1, 4), m.array(None, None, 0, 3)])


@operator("BitShift")
def bit_shift(m, op):
    yield m.case("", [m.array(), m.array(None, None, 0, 7)], direction="LEFT")


@operator("Clip")
def clip(m, op):
    low = 0 if m.dtype.startswith("u") else -1
    yield m.case("", [m.array(), (m.scalar(low),), (m.scalar(2),)])


@operator("Where", types=list(NUMPY))
def where(m, op):
    yield m.case("", [m.array(None, "bool"), m.array(), m.array()])
    yield m.case("row, scalar", [m.array(m.rows[1:], "bool"), m.array(), (m.array([]),)])
    yield m.case("column", [m.array([m.rows[0], 1], "bool"), m.array(), m.array()])


@operator("Cast", types=list(NUMPY))
def cast(m, op):
    for to in NUMPY:
        if to != m.dtype:
            x = m.array() if not to.startswith("u") or m.dtype == "bool" else m.array(None, None, 0, 100)
            yield m.case("to " + to, [x], to=ELEMENT_TYPE[to])


@operator("Dropout")
def dropout(m, op):
    yield m.case("", [m.array()])
    yield m.case("with mask", [m.array()], outputs=2)


@operator("QuantizeLinear", types=["f32", "f16"])
def quantize(m, op):
    for to in ("u8", "i8", "u16", "i16"):
        yield m.case("to " + to, [m.array(), (m.scalar(0.05),), (np.array(3, NUMPY[to]),)])
    yield m.case("rows", [m.array(), (m.array(m.rows[:1], None, 0.01, 0.1),),
                          (np.zeros(m.rows[:1], np.int8),)], axis=0)  # fmt: skip


@operator("DequantizeLinear", types=["u8", "i8", "i16", "u16", "i32"])
def dequantize(m, op):
    yield m.case("", [m.array(), (np.float32(0.05).reshape([]),), (m.scalar(0),)])
    yield m.case("columns", [m.array(), (m.array(m.rows[1:], "f32", 0.01, 0.1),),
                             (np.zeros(m.rows[1:], NUMPY[m.dtype]),)], axis=1)  # fmt: skip
    yield m.case("channels", [m.array(m.planes), (m.array([32], "f32", 0.01, 0.1),),
                              (np.zeros([32], NUMPY[m.dtype]),)], axis=1)  # fmt: skip


@operator("DynamicQuantizeLinear", types=["f32"])
def dynamic_quantize(m, op):
    yield m.case("", [m.array()], outputs=3)


# Moves.


@operator("Reshape", "Flatten", "Squeeze", "Unsqueeze", types=["f32", "i64", "u8"])
def reshape(m, op):
    if op == "Flatten":
        yield m.case("", [m.array(m.cube)], axis=1)
        return
    target = {"Reshape": [-1], "Squeeze": [0], "Unsqueeze": [0]}[op]
    yield m.case("", [m.array([1, *m.rows] if op == "Squeeze" else None), ints(*target)])


@operator("Transpose", types=["f32", "f64", "f16", "i64", "u8", "bool"])
def transpose(m, op):
    yield m.case("2d", [m.array()], perm=[1, 0])
    yield m.case("to channels last", [m.array(m.image)], perm=[0, 2, 3, 1])
    yield m.case("to channels first", [m.array([m.image[i] for i in (0, 2, 3, 1)])], perm=[0, 3, 1, 2])
    yield m.case("heads", [m.array([1, max(1, m.n // 256), 4, 64])], perm=[0, 2, 1, 3])
    yield m.case("reversed", [m.array(m.cube)], perm=[2, 1, 0])
    yield m.case("to rows of 5", [m.array([5, m.n // 5])], perm=[1, 0])
    yield m.case("from rows of 5", [m.array([m.n // 5, 5])], perm=[1, 0])


@operator("Concat", types=list(NUMPY))
def concat(m, op):
    yield m.case("rows", [m.array([m.rows[0] // 2, m.rows[1]])] * 2, axis=0)
    yield m.case("columns", [m.array([m.rows[0], m.rows[1] // 2])] * 2, axis=1)
    yield m.case("middle", [m.array([m.cube[0], n, 40]) for n in (10, 20, 10)], axis=1)


@operator("Split", types=list(NUMPY))
def split(m, op):
    yield m.case("rows", [m.array([m.rows[0] // 2 * 2, m.rows[1]])], outputs=2, axis=0, num_outputs=2)
    yield m.case("columns", [m.array()], outputs=2, axis=1, num_outputs=2)


@operator("Slice", types=list(NUMPY))
def slice_(m, op):
    yield m.case("rows", [m.array(), ints(1), ints(2**40), ints(0)])
    yield m.case("columns", [m.array(), ints(1), ints(-1), ints(1)])
    yield m.case("columns step 2", [m.array(), ints(0), ints(2**40), ints(1), ints(2)])
    yield m.case("columns reversed", [m.array(), ints(-1), ints(-(2**40)), ints(1), ints(-1)])


@operator("Pad", types=list(NUMPY))
def pad(m, op):
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield m.case(mode, [m.array(m.image), ints(0, 0, 1, 2, 0, 0, 2, 1)], mode=mode)
    yield m.case("columns", [m.array(), ints(0, 3, 0, 5)])


@operator("Expand", types=list(NUMPY))
def expand(m, op):
    yield m.case("rows", [m.array([1, m.rows[1]]), ints(*m.rows)])
    yield m.case("columns", [m.array([m.rows[0], 1]), ints(*m.rows)])
    yield m.case("middle", [m.array([m.cube[0], 1, 40]), ints(*m.cube)])
    yield m.case("scalar", [m.array([]), ints(*m.rows)])
    yield m.case("short columns", [m.array([m.short[0], 1]), ints(*m.short)])
    yield m.case("rows and columns", [m.array([m.n // 468, 1, 13, 1]), ints(m.n // 468, 4, 13, 9)])


@operator("Tile", types=list(NUMPY))
def tile(m, op):
    yield m.case("rows", [m.array([m.rows[0] // 2, m.rows[1]]), ints(2, 1)])
    yield m.case("columns", [m.array([m.rows[0], m.rows[1] // 2]), ints(1, 2)])
    yield m.case("short columns", [m.array([m.n // 20, 5]), ints(1, 4)])
    yield m.case("three axes", [m.array([max(1, m.n // 600), 10, 5]), ints(2, 3, 2)])


@operator("DepthToSpace", "SpaceToDepth", types=["f32", "f64", "f16", "u8", "i64"])
def depth_to_space(m, op):
    side = m.image[2] // 2 * 2
    shape = [1, m.image[1], side, side]
    yield m.case("", [m.array(shape)], blocksize=2)
    if op == "DepthToSpace":
        yield m.case("CRD", [m.array(shape)], blocksize=2, mode="CRD")


@operator("Gather", types=list(NUMPY))
def gather(m, op):
    x = m.array()
    for kind in (np.int64, np.int32):
        label = f" {np.dtype(kind).name}" if kind == np.int32 else ""
        yield m.case("rows" + label, [x, m.rng.integers(0, m.rows[0], m.rows[0]).astype(kind)], axis=0)
        yield m.case("columns" + label, [x, m.rng.integers(0, m.rows[1], m.rows[1]).astype(kind)], axis=1)
    yield m.case("elements", [m.array([m.n]), m.rng.integers(0, m.n, m.n)])
    yield m.case("one row", [x, (np.array(0, np.int64),)], axis=0)
    yield m.case("one column", [x, (np.array(1, np.int64),)], axis=1)


@operator("GatherElements", types=list(NUMPY))
def gather_elements(m, op):
    for axis in (0, 1):
        index = m.rng.integers(0, m.rows[axis], m.rows)
        yield m.case(f"axis {axis}", [m.array(), index], axis=axis)
        yield m.case(f"axis {axis} constant", [m.array(), (index,)], axis=axis)
    index = m.rng.integers(-m.cube[1], m.cube[1], m.cube).astype(np.int32)
    yield m.case("middle int32", [m.array(m.cube), index], axis=1)
    heads, length = (1, 16) if m.n < 10_000 else (2, 128) if m.n < 1_000_000 else (40, 256)
    distances = np.clip(np.arange(length)[:, None] - np.arange(length) + length // 2, 0, length - 1)
    distances = np.broadcast_to(distances, [heads, length, length]).copy()
    yield m.case("relative positions", [m.array([heads, length, length]), (distances,)], axis=2)


@operator("GatherND", types=list(NUMPY))
def gather_nd(m, op):
    index = np.stack([m.rng.integers(0, size, m.n) for size in m.rows], -1)
    yield m.case("elements", [m.array(), index])
    yield m.case("rows", [m.array(), m.rng.integers(0, m.rows[0], [m.rows[0], 1])])


@operator("ScatterElements", types=list(NUMPY))
def scatter_elements(m, op):
    for axis in (0, 1):
        index = np.argsort(m.rng.random(m.rows), axis=axis)
        yield m.case(f"axis {axis}", [m.array(), index, m.array()], axis=axis)
    if m.dtype != "bool":
        for reduction in ("add", "max"):
            yield m.case(reduction, [m.array(), index, m.array()], axis=1, reduction=reduction)


@operator("ScatterND", types=list(NUMPY))
def scatter_nd(m, op):
    flat = m.rng.permutation(math.prod(m.rows))
    index = np.stack(np.unravel_index(flat, m.rows), -1)
    yield m.case("elements", [m.array(), index, m.array([len(index)])])
    order = m.rng.permutation(m.rows[0])[:, None]
    yield m.case("rows", [m.array(), order, m.array()])
    yield m.case("few rows", [m.array(), order[: max(1, len(order) // 10)],
                              m.array([max(1, len(order) // 10), m.rows[1]])])  # fmt: skip
    if m.dtype != "bool":
        yield m.case("rows add", [m.array(), order, m.array()], reduction="add")
        yield m.case("elements add", [m.array(), index, m.array([len(index)])], reduction="add")


@operator("Compress", types=list(NUMPY))
def compress(m, op):
    yield m.case("elements", [m.array(), m.array([m.n], "bool")])
    yield m.case("rows", [m.array(), m.array(m.rows[:1], "bool")], axis=0)
    yield m.case("columns", [m.array(), m.array(m.rows[1:], "bool")], axis=1)


@operator("ReverseSequence", types=list(NUMPY))
def reverse_sequence(m, op):
    time, batch = 40, max(1, m.n // 1600)
    lengths = m.rng.integers(1, time + 1, batch)
    yield m.case("time first", [m.array([time, batch, 40]), lengths])
    yield m.case("batch first", [m.array([batch, time, 40]), lengths], batch_axis=0, time_axis=1)
    yield m.case("elements", [m.array([time, m.n // time]), m.rng.integers(1, time + 1, m.n // time)])


@operator("Trilu", types=list(NUMPY))
def trilu(m, op):
    for upper in (0, 1):
        yield m.case("upper" if upper else "lower", [m.array(m.square)], upper=upper)
    yield m.case("batch", [m.array(m.cube)])


@operator("EyeLike", types=["f32", "f64", "i64", "i32"])
def eye_like(m, op):
    yield m.case("", [m.array(m.square)])


@operator("CenterCropPad", types=["f32", "u8"])
def center_crop_pad(m, op):
    side = m.image[2]
    yield m.case("", [m.array(m.image), ints(side + 2, side - 2)], axes=[2, 3])


@operator("OneHot", types=["i64", "i32", "f32"])
def one_hot(m, op):
    for to in ("f32", "i64"):
        values = (np.array([0, 1], NUMPY[to]),)
        yield m.case("to " + to, [m.array(m.rows[:1], None, 0, m.rows[1]), ints(m.rows[1]), values])
    yield m.case("first axis", [m.array(m.rows[1:], None, 0, m.rows[0]), ints(m.rows[0]), values], axis=0)


@operator("Range", types=["f32", "f64", "i64", "i32", "i16"])
def range_(m, op):
    if m.dtype != "i16" or m.n < 30_000:
        yield m.case("", [m.scalar(0), m.scalar(m.n), m.scalar(1)])


@operator("ConstantOfShape", types=["f32", "i64", "u8", "bool"])
def constant_of_shape(m, op):
    value = onnx.numpy_helper.from_array(np.ones([1], NUMPY[m.dtype]))
    yield m.case("", [np.array(m.rows, np.int64)], value=value)


@operator("NonZero", types=["f32", "i64", "i32", "u8", "bool"])
def non_zero(m, op):
    yield m.case("half", [m.array() * m.array(None, "bool") if m.dtype != "bool" else m.array()])
    few = m.rng.random(m.rows) < 0.01
    yield m.case("few", [few.astype(NUMPY[m.dtype])])


@operator("Shape", "Size", types=["f32", "u8"])
def shape(m, op):
    yield m.case("", [m.array()])


@operator("Col2Im", types=["f32"])
def col2im(m, op):
    side = max(4, round(math.sqrt(m.n / 9 / 16)))
    yield m.case("", [m.array([1, 16 * 9, side * side]), ints(side + 2, side + 2), ints(3, 3)])


@operator("TensorScatter", types=["f32"])
def tensor_scatter(m, op):
    length = max(4, m.n // 256)
    yield m.case("", [m.array([1, 4, length, 64]), m.array([1, 4, 2, 64]), np.array([1], np.int64)], opset=24)


# Along an axis.


@operator("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
          "ReduceLogSum", "ReduceLogSumExp")  # fmt: skip
def reduce(m, op):
    low, high = (0.5, 2) if op == "ReduceLogSum" else (None, None)
    x = m.array(None, None, low, high)
    for label, axes in (("last", [1]), ("first", [0]), ("all", [0, 1])):
        yield m.case(label, [x, ints(*axes)], opset=22, keepdims=0)
    yield m.case("middle", [m.array(m.cube, None, low, high), ints(1)])
    yield m.case("outer", [m.array(m.cube, None, low, high), ints(0, 2)])
    yield m.case("image", [m.array(m.image, None, low, high), ints(2, 3)])
    yield m.case("short", [m.array([m.n // 4, 4], None, low, high), ints(1)])


@operator("ArgMax", "ArgMin")
def arg_reduce(m, op):
    for axis in (0, 1):
        yield m.case(f"axis {axis}", [m.array()], axis=axis)
    yield m.case("middle", [m.array(m.cube)], axis=1)
    yield m.case("short", [m.array([m.n // 4, 4])], axis=1)


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(m, op):
    yield m.case("last", [m.array()], axis=-1)
    yield m.case("first", [m.array()], axis=0)
    yield m.case("middle", [m.array(m.cube)], axis=1)
    yield m.case("short", [m.array(m.short)], axis=-1)


@operator("CumSum", types=["f32", "f64", "i64", "i32"])
def cumsum(m, op):
    for axis in (0, 1):
        yield m.case(f"axis {axis}", [m.array(), (np.array(axis, np.int64),)])
    yield m.case("reverse exclusive", [m.array(), (np.array(1, np.int64),)], reverse=1, exclusive=1)
    yield m.case("few neighbours", [m.array([max(1, m.n // 40), 10, 4]), (np.array(1, np.int64),)])


@operator("TopK")
def top_k(m, op):
    for k in (1, 10, m.rows[1] // 2):
        yield m.case(f"k {k} of {m.rows[1]}", [m.array(None, None, 0, 100) if m.dtype in ("i8", "u8") else m.array(),
                                               ints(k)], outputs=2)  # fmt: skip
    yield m.case("smallest, first axis", [m.array(), ints(min(5, m.rows[0]))], outputs=2, axis=0, largest=0)
    yield m.case("2 of 13", [m.array(m.short), ints(2)], outputs=2)
    half = m.rows[1] // 2
    yield m.case("k as input", [m.array(), np.array([10], np.int64)], outputs=2)
    yield m.case("half in any order", [m.array(), ints(half)], outputs=2, sorted=0)
    yield m.case("all in any order", [m.array(), ints(m.rows[1])], outputs=2, sorted=0)
    if m.n >= 1e5:
        yield m.case("100 of all", [m.array([m.n]), ints(100)], outputs=2)


@operator("Unique", types=["f32", "f64", "i64", "i8"])
def unique(m, op):
    for sorted_ in (1, 0):
        label = "sorted" if sorted_ else "unsorted"
        yield m.case(label, [m.array()], sorted=sorted_)
        yield m.case(label + " all outputs", [m.array()], outputs=4, sorted=sorted_)
    if m.n < 1e6:
        yield m.case("axis", [m.array(None, None, 0, 4)], axis=0)
        yield m.case("last axis", [m.array([m.rows[0] // 10, m.rows[1] * 10], None, 0, 4)], axis=1, sorted=0)


@operator("LayerNormalization", types=["f32", "f64", "f16"])
def layer_norm(m, op):
    parameters = [(m.array(m.rows[1:]),), (m.array(m.rows[1:]),)]
    yield m.case("", [m.array(), *parameters], axis=-1)


@operator("RMSNormalization", types=["f32", "f64", "f16"])
def rms_norm(m, op):
    yield m.case("", [m.array(), (m.array(m.rows[1:]),)], axis=-1, opset=23)


@operator("BatchNormalization", types=FLOATS)
def batch_norm(m, op):
    parameters = [(m.array([m.image[1]], None, 0.5, 2),) for _ in range(4)]
    yield m.case("", [m.array(m.image), *parameters])


@operator("InstanceNormalization", types=["f32"])
def instance_norm(m, op):
    parameters = [(m.array([m.image[1]]),) for _ in range(2)]
    yield m.case("", [m.array(m.image), *parameters])


@operator("GroupNormalization", types=["f32"])
def group_norm(m, op):
    parameters = [(m.array([m.image[1]]),) for _ in range(2)]
    yield m.case("", [m.array(m.image), *parameters], num_groups=4)


@operator("LpNormalization", types=["f32", "f64"])
def lp_norm(m, op):
    for p in (1, 2):
        yield m.case(f"p {p}", [m.array()], p=p, axis=1)
        yield m.case(f"p {p} first", [m.array()], p=p, axis=0)


@operator("MeanVarianceNormalization", types=["f32"])
def mean_variance(m, op):
    yield m.case("", [m.array(m.image)])


@operator("LRN", types=["f32"])
def lrn(m, op):
    yield m.case("", [m.array(m.image)], size=5)


@operator("NegativeLogLikelihoodLoss", types=["f32"])
def nll(m, op):
    yield m.case("", [m.array(), m.rng.integers(0, m.rows[1], m.rows[0])])
    yield m.case("none", [m.array(), m.rng.integers(0, m.rows[1], m.rows[0])], reduction="none")


@operator("SoftmaxCrossEntropyLoss", types=["f32"])
def cross_entropy(m, op):
    yield m.case("", [m.array(), m.rng.integers(0, m.rows[1], m.rows[0])])


# Products and windows.


@operator("MatMul", types=["f32", "f64", "i32", "i64", "u32"])
def matmul(m, op):
    if m.n <= 1e5 or m.dtype in FLOATS:
        side = round(math.sqrt(m.n)) if m.n <= 1e5 else 512 if m.n <= 1e6 else 1024
        yield m.case(f"{side} square constant", [m.array([side, side]), (m.array([side, side]),)])
        yield m.case(f"{side} square", [m.array([side, side]), m.array([side, side])])
    if m.n <= 1e6:
        yield m.case("vector", [m.array([1, m.rows[1]]), m.array(m.rows[::-1])])
        yield m.case("batch", [m.array([max(1, m.n // 256), 16, 16]), m.array([max(1, m.n // 256), 16, 16])])


@operator("Gemm", types=["f32", "f64"])
def gemm(m, op):
    side = round(math.sqrt(m.n)) if m.n <= 1e5 else 512
    yield m.case("transB", [m.array([side, side]), (m.array([side, side]),), (m.array([side]),)], transB=1)
    yield m.case("activations", [m.array([side, side]), m.array([side, side]), m.array([side])], transA=1, alpha=0.5)


@operator("MatMulInteger", types=["u8"])
def matmul_integer(m, op):
    side = min(512, round(math.sqrt(m.n)))
    yield m.case("", [m.array([side, side]), (m.array([side, side]),)])
    yield m.case("activations", [m.array([side, side]), m.array([side, side])])


@operator("Einsum", types=["f32", "f64", "i64"])
def einsum(m, op):
    side = min(256, round(math.sqrt(m.n)))
    yield m.case("ij,jk->ik", [m.array([side, side]), m.array([side, side])], equation="ij,jk->ik")
    yield m.case("ij->ji", [m.array()], equation="ij->ji")
    yield m.case("ij->i", [m.array()], equation="ij->i")
    yield m.case("bhid,bhjd->bhij", [m.array([1, 4, side // 2, 32]), m.array([1, 4, side // 2, 32])],
                 equation="bhid,bhjd->bhij")  # fmt: skip


@operator("Conv", types=["f32"])
def conv(m, op):
    side = max(6, round(math.sqrt(min(m.n, 1_000_000) / 32)))
    x = m.array([1, 32, side, side])
    yield m.case("3x3", [x, (m.array([32, 32, 3, 3]),), (m.array([32]),)], pads=[1] * 4)
    yield m.case("1x1", [x, (m.array([64, 32, 1, 1]),), (m.array([64]),)])
    yield m.case("depthwise", [x, (m.array([32, 1, 3, 3]),)], pads=[1] * 4, group=32)
    yield m.case("scale", [x, (m.array([32, 1, 1, 1]),), (m.array([32]),)], group=32)
    yield m.case("activations", [x, m.array([32, 32, 3, 3])], pads=[1] * 4)
    yield m.case("activations depthwise", [x, m.array([32, 1, 3, 3])], pads=[1] * 4, group=32)
    yield m.case("activations 1x1", [x, m.array([16, 32, 1, 1])])
    few = max(6, round(math.sqrt(min(m.n, 1_000_000) / 4)))
    yield m.case("activations few channels", [m.array([1, 4, few, few]), m.array([8, 4, 3, 3])], pads=[1] * 4)
    yield m.case("1d", [m.array([1, 32, max(8, m.n // 32)]), (m.array([32, 32, 3]),)], pads=[1] * 2)
    if side >= 16:
        cube = max(4, round((m.n / 8) ** (1 / 3)))
        yield m.case("3d", [m.array([1, 8, cube, cube, cube]), (m.array([8, 8, 3, 3, 3]),)], pads=[1] * 6)


@operator("ConvTranspose", types=["f32"])
def conv_transpose(m, op):
    for channels in (4, 32):
        side = max(4, round(math.sqrt(min(m.n, 1_000_000) / channels)))
        x = m.array([1, channels, side, side])
        yield m.case(f"{channels} channels 2x2", [x, (m.array([channels, channels, 2, 2]),)], strides=[2, 2])
        yield m.case(f"{channels} channels 4x4", [x, (m.array([channels, channels, 4, 4]),)], strides=[2, 2],
                     pads=[1] * 4)  # fmt: skip
        yield m.case(f"{channels} channels 3x3", [x, (m.array([channels, channels, 3, 3]),)], pads=[1] * 4)
        yield m.case(f"activations {channels} channels 2x2", [x, m.array([channels, channels, 2, 2])], strides=[2, 2])
    yield m.case("grouped", [x, (m.array([32, 8, 3, 3]),)], group=4, strides=[2, 2])
    yield m.case("depthwise", [x, (m.array([32, 1, 4, 4]),)], group=32, strides=[2, 2])
    yield m.case("1d", [m.array([1, 32, side * side]), (m.array([32, 16, 4]),)], strides=[2])
    yield m.case("activations", [x, m.array([32, 32, 3, 3])])
    cube = max(3, round((min(m.n, 1_000_000) / 8) ** (1 / 3)))
    yield m.case("3d", [m.array([1, 8, cube, cube, cube]), (m.array([8, 8, 2, 2, 2]),)], strides=[2] * 3)


@operator("MaxPool", "AveragePool", "LpPool", types=["f32", "f64", "u8", "i8"])
def pool(m, op):
    if op != "MaxPool" and m.dtype != "f32":
        return
    x = m.array(m.image)
    yield m.case("2x2", [x], kernel_shape=[2, 2], strides=[2, 2])
    yield m.case("3x3", [x], kernel_shape=[3, 3], pads=[1] * 4)
    side = max(5, round(math.sqrt(m.n / 256)))
    yield m.case("dilated", [m.array([1, 256, side, side])], kernel_shape=[3, 3], pads=[2] * 4, dilations=[2, 2])
    yield m.case("1d", [m.array([1, 16, m.n // 16])], kernel_shape=[3])
    cube = max(3, round((m.n / 8) ** (1 / 3)))
    yield m.case("3d", [m.array([1, 8, cube, cube, cube])], kernel_shape=[2] * 3, strides=[2] * 3)
    if op == "MaxPool":
        yield m.case("indices", [x], outputs=2, kernel_shape=[2, 2], strides=[2, 2])


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", types=["f32"])
def global_pool(m, op):
    yield m.case("", [m.array(m.image)])


@operator("MaxUnpool", types=["f32"])
def max_unpool(m, op):
    side = m.image[2] // 2
    shape = [1, m.image[1], side, side]
    planes = np.arange(m.image[1])[:, None, None] * (4 * side * side)
    index = planes + (2 * np.arange(side)[:, None]) * (2 * side) + 2 * np.arange(side)
    yield m.case("", [m.array(shape), (index[None] + m.rng.integers(0, 2, shape)).astype(np.int64)],
                 kernel_shape=[2, 2], strides=[2, 2])  # fmt: skip


@operator("Resize", types=["f32", "u8", "i32"])
def resize(m, op):
    side = max(2, m.image[2] // 2)
    scales = (np.array([1, 1, 2, 2], np.float32),)
    for shape, label in (([1, m.image[1], side, side], ""), ([1, 1, side * 4, side * 4], " one channel")):
        x = m.array(shape)
        yield m.case("nearest" + label, [x, None, scales], mode="nearest", nearest_mode="floor",
                     coordinate_transformation_mode="asymmetric")  # fmt: skip
        yield m.case("nearest half pixel" + label, [x, None, scales], mode="nearest")
        yield m.case("linear" + label, [x, None, scales], mode="linear")
        if m.dtype == "f32":
            yield m.case("cubic" + label, [x, None, scales], mode="cubic")
        third = (np.array([1, 1, 1.25, 0.75], np.float32),)
        yield m.case("nearest 1.25 0.75" + label, [x, None, third], mode="nearest")
        yield m.case("linear 1.25 0.75" + label, [x, None, third], mode="linear")
    yield m.case("linear channels last", [m.array([1, side, side, m.image[1]]), None,
                                          (np.array([1, 2, 2, 1], np.float32),)], mode="linear")  # fmt: skip
    cube = max(2, round((m.n / 64) ** (1 / 3)))
    yield m.case("linear 3d", [m.array([1, 8, cube, cube, cube]), None, (np.array([1, 1, 2, 2, 2], np.float32),)],
                 mode="linear")  # fmt: skip
    yield m.case("nearest 3d", [m.array([1, 4, 8, side, side]), None, (np.array([1, 1, 2, 2, 2], np.float32),)],
                 mode="nearest")  # fmt: skip


@operator("Upsample", types=["f32"])
def upsample(m, op):
    x = m.array([1, m.image[1], m.image[2] // 2, m.image[3] // 2])
    for mode in ("nearest", "linear"):
        yield m.case(mode, [x, (np.array([1, 1, 2, 2], np.float32),)], mode=mode, opset=9)


@operator("GridSample", types=["f32"])
def grid_sample(m, op):
    side = m.image[2]
    grid = m.rng.uniform(-1, 1, [1, side, side, 2]).astype(np.float32)
    for mode in ("linear", "nearest", "cubic"):
        yield m.case(mode, [m.array(m.image), grid], mode=mode)


@operator("AffineGrid", types=["f32"])
def affine_grid(m, op):
    side = round(math.sqrt(m.n / 2))
    yield m.case("", [m.array([1, 2, 3]), ints(1, 1, side, side)])


@operator("RoiAlign", types=["f32"])
def roi_align(m, op):
    count = max(1, m.n // (m.image[1] * 49))
    corners = m.rng.uniform(0, m.image[2] / 2, [count, 2])
    boxes = np.concatenate([corners, corners + m.rng.uniform(1, m.image[2] / 2, [count, 2])], 1).astype(np.float32)
    yield m.case("", [m.array(m.image), boxes, np.zeros([count], np.int64)], output_height=7, output_width=7,
                 sampling_ratio=2)  # fmt: skip


@operator("MaxRoiPool", types=["f32"])
def max_roi_pool(m, op):
    count = max(1, m.n // (m.image[1] * 49))
    corners = m.rng.uniform(0, m.image[2] / 2, [count, 2])
    boxes = np.concatenate([np.zeros([count, 1]), corners, corners + m.image[2] / 3], 1).astype(np.float32)
    yield m.case("", [m.array(m.image), boxes], pooled_shape=[7, 7])


@operator("NonMaxSuppression", types=["f32"])
def non_max_suppression(m, op):
    count = min(max(10, m.n // 4), 25_000)
    corners = m.rng.uniform(0, 100, [1, count, 2])
    boxes = np.concatenate([corners, corners + m.rng.uniform(1, 10, [1, count, 2])], 2).astype(np.float32)
    scores = m.rng.random([1, 1, count]).astype(np.float32)
    limits = [(np.float32(0.5).reshape([1]),), (np.float32(0.3).reshape([1]),)]
    yield m.case("", [boxes, scores, ints(100), *limits])
    many = m.rng.random([1, 20, min(count, 2000)]).astype(np.float32)
    yield m.case("20 classes", [boxes[:, : many.shape[2]], many, ints(100), *limits])


@operator("DeformConv", types=["f32"])
def deform_conv(m, op):
    side = max(4, round(math.sqrt(min(m.n, 300_000) / 16)))
    yield m.case("", [m.array([1, 16, side, side]), (m.array([16, 16, 3, 3]),), m.array([1, 18, side, side])],
                 pads=[1] * 4)  # fmt: skip


@operator("Attention", types=["f32"])
def attention(m, op):
    length = max(4, min(512, m.n // 256))
    heads = [m.array([1, 4, length, 64]) for _ in range(3)]
    yield m.case("", heads, opset=23)


@operator("RotaryEmbedding", types=["f32"])
def rotary(m, op):
    length = max(4, m.n // 256)
    angles = [m.array([length, 32]) for _ in range(2)]
    yield m.case("", [m.array([1, 4, length, 64]), *angles, np.arange(length, dtype=np.int64)[None]], opset=23)


@operator("LSTM", "GRU", "RNN", types=["f32"])
def recurrent(m, op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    hidden = 16 if m.n < 1e5 else 64 if m.n < 1e6 else 128
    steps = max(2, min(m.n // hidden, 200))
    x = m.array([steps, 1, hidden])
    weights = [m.array([1, gates * hidden, hidden]) * np.float32(0.1) for _ in range(2)]
    weights.append(m.array([1, 2 * gates * hidden]) * np.float32(0.1))
    yield m.case("constant weights", [x, *((w,) for w in weights)], hidden_size=hidden)
    yield m.case("batch 8", [m.array([steps, 8, hidden]), *((w,) for w in weights)], hidden_size=hidden)
    yield m.case("weights as inputs", [x, *weights], hidden_size=hidden)
    yield m.case("both ways", [x, *((np.concatenate([w, w]),) for w in weights)], hidden_size=hidden,
                 direction="bidirectional")  # fmt: skip


# Signals, features and the like.


@operator("DFT", types=["f32", "f64"])
def dft(m, op):
    for length in (256, 250, 1000):
        yield m.case(f"length {length}", [m.array([max(1, m.n // length), length, 1]), None, ints(1)[0].reshape([]) * 1],
                     opset=20)  # fmt: skip


@operator("STFT", types=["f32"])
def stft(m, op):
    length = max(512, m.n // 4)
    yield m.case("", [m.array([1, length, 1]), (np.array(64, np.int64),), (m.array([256], None, 0, 1),)])


@operator("HannWindow", "HammingWindow", "BlackmanWindow", types=[None])
def window(m, op):
    yield m.case("", [np.array(m.n, np.int64)])


@operator("MelWeightMatrix", types=[None])
def mel(m, op):
    yield m.case("", [np.array(max(2, m.n // 1000), np.int64), np.array(1998, np.int64), np.array(16000, np.int64),
                      np.array(0, np.float32).reshape([]), np.array(8000, np.float32).reshape([])])  # fmt: skip


@operator("Det", types=["f32", "f64"])
def det(m, op):
    yield m.case("4x4", [m.array([max(1, m.n // 16), 4, 4])])
    yield m.case("20x20", [m.array([max(1, m.n // 400), 20, 20])])


@operator("TfIdfVectorizer", types=["i64", "i32"])
def tf_idf(m, op):
    pool = [int(i) for i in range(20)] + [int(i) for i in m.rng.integers(0, 20, 40)]
    yield m.case("", [m.array(None, None, 0, 20)], mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=1,
                 ngram_counts=[0, 20], ngram_indexes=list(range(40)), pool_int64s=pool)  # fmt: skip


@operator("RandomNormal", "RandomUniform", types=[None])
def random(m, op):
    yield m.case("", [], shape=m.rows, seed=1.0)


@operator("RandomNormalLike", "RandomUniformLike", "Bernoulli", types=["f32"])
def random_like(m, op):
    yield m.case("", [m.array(None, None, 0, 1)], seed=1.0)


@operator("Multinomial", types=["f32"])
def multinomial(m, op):
    yield m.case("", [m.array()], sample_size=10, seed=1.0)


@operator("Scaler", "Binarizer", "Normalizer", "Imputer", types=["f32"], domain="ai.onnx.ml")
def features(m, op):
    attributes = {
        "Scaler": {"offset": [0.5], "scale": [2.0]},
        "Binarizer": {"threshold": 0.5},
        "Normalizer": {"norm": "L2"},
        "Imputer": {"imputed_value_floats": [1.0], "replaced_value_float": 0.0},
    }[op]
    yield m.case("", [m.array()], **attributes)


@operator("ArrayFeatureExtractor", types=["f32", "i64"], domain="ai.onnx.ml")
def array_feature(m, op):
    yield m.case("", [m.array(), m.rng.integers(0, m.rows[1], [1, 5])])


@operator("LinearRegressor", "LinearClassifier", types=["f32"], domain="ai.onnx.ml")
def linear_model(m, op):
    coefficients = m.array([3 * m.rows[1]]).tolist()
    if op == "LinearRegressor":
        yield m.case("", [m.array()], coefficients=coefficients, targets=3, intercepts=[0.0, 0.1, 0.2])
    else:
        yield m.case("", [m.array()], outputs=2, coefficients=coefficients, intercepts=[0.0, 0.1, 0.2],
                     classlabels_ints=[0, 1, 2], post_transform="SOFTMAX")  # fmt: skip


@operator("LabelEncoder", "OneHotEncoder", types=["i64"], domain="ai.onnx.ml")
def label_encoder(m, op):
    if op == "LabelEncoder":
        yield m.case(
            "", [m.array(None, None, 0, 30)], keys_int64s=list(range(25)), values_floats=[float(i) for i in range(25)]
        )
    else:
        yield m.case("", [m.array([m.n // 10], None, 0, 10)], cats_int64s=list(range(10)))


@operator("TreeEnsembleRegressor", types=["f32"], domain="ai.onnx.ml")
def trees(m, op):
    features, depth, count = 20, 5, 50
    nodes = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    targets = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    inner = 2**depth - 1
    for tree in range(count):
        for node in range(2 * inner + 1):
            leaf = node >= inner
            for key, value in (("treeids", tree), ("nodeids", node), ("featureids", int(m.rng.integers(features))),
                               ("values", float(m.rng.standard_normal())), ("modes", "LEAF" if leaf else "BRANCH_LEQ"),
                               ("truenodeids", 0 if leaf else 2 * node + 1),
                               ("falsenodeids", 0 if leaf else 2 * node + 2)):  # fmt: skip
                nodes[key].append(value)
            if leaf:
                for key, value in (
                    ("treeids", tree),
                    ("nodeids", node),
                    ("ids", 0),
                    ("weights", float(m.rng.random())),
                ):
                    targets[key].append(value)
    attributes = {f"nodes_{key}": value for key, value in nodes.items()}
    attributes |= {f"target_{key}": value for key, value in targets.items()}
    rows = max(1, min(m.n, 1_000_000) // features)
    yield m.case("", [m.array([rows, features])], n_targets=1, **attributes)


# com.microsoft


@operator("FastGelu", "QuickGelu", "Gelu", "BiasGelu", types=["f32"], domain="com.microsoft")
def gelus(m, op):
    yield m.case("microsoft", [m.array()] + ([(m.array(m.rows[1:]),)] if op == "BiasGelu" else []))


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", types=["f32"], domain="com.microsoft")
def skip_norm(m, op):
    count = 2 if op == "SkipLayerNormalization" else 1
    parameters = [(m.array(m.rows[1:]),) for _ in range(count)]
    yield m.case("", [m.array([1, *m.rows]), m.array([1, *m.rows]), *parameters])


@operator("QLinearAdd", "QLinearMul", types=["u8", "i8"], domain="com.microsoft")
def quantized_pair(m, op):
    scale, zero = (np.float32(0.05).reshape([]),), (m.scalar(3),)
    yield m.case("", [m.array(), scale, zero, m.array(), scale, zero, scale, zero])


@operator("QLinearSigmoid", "QLinearLeakyRelu", types=["u8"], domain="com.microsoft")
def quantized_single(m, op):
    scale, zero = (np.float32(0.05).reshape([]),), (m.scalar(3),)
    yield m.case("", [m.array(), scale, zero, scale, zero], alpha=0.1 if op == "QLinearLeakyRelu" else None)


@operator("FusedMatMul", types=["f32"], domain="com.microsoft")
def fused_matmul(m, op):
    side = min(512, round(math.sqrt(m.n)))
    yield m.case("", [m.array([side, side]), m.array([side, side])], transA=1, alpha=0.5)


@operator("MatMulNBits", types=["f32"], domain="com.microsoft")
def matmul_bits(m, op):
    side = max(32, min(1024, round(math.sqrt(m.n)) // 32 * 32))
    blocks = side // 32
    weights = m.rng.integers(0, 256, [side, blocks, 16]).astype(np.uint8)
    for rows in (1, 64):
        yield m.case(f"{rows} rows", [m.array([rows, side]), (weights,), (m.array([side * blocks], None, 0.01, 0.1),)],
                     K=side, N=side, bits=4, block_size=32)  # fmt: skip


@operator("BiasSoftmax", types=["f32"], domain="com.microsoft")
def bias_softmax(m, op):
    yield m.case("", [m.array(), m.array()], axis=1, is_inner_broadcast=0)


@operator("CDist", types=["f32", "f64"], domain="com.microsoft")
def cdist(m, op):
    side = min(1000, round(math.sqrt(m.n)))
    yield m.case("", [m.array([side, 32]), m.array([side, 32])], metric="euclidean")


@operator("UnfoldTensor", "IsAllFinite", "ComplexMul", types=["f32"], domain="com.microsoft")
def other_microsoft(m, op):
    if op == "UnfoldTensor":
        yield m.case("", [m.array()], dim=-1, size=4, step=2)
    elif op == "IsAllFinite":
        yield m.case("", [m.array()])
    else:
        yield m.case("", [m.array([m.n // 2, 2]), m.array([m.n // 2, 2])])
