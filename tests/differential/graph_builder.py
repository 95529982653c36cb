"""A random ONNX graph under construction, with the value of everything in it.

Every node is run by ONNX Runtime, alone, as soon as it is appended: shapes, ranges and dtypes of all values are known,
and a node that ONNX Runtime refuses never becomes part of the graph. With dynamic shapes there are two sets of inputs,
and each value has one array for each.
"""

import math

import numpy as np
import onnxruntime

import onnx
from onnx import helper

FLOATS = ("f32", "f64", "f16")
SIGNED = ("i64", "i32", "i16", "i8")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + ("bool", "string")
NUMPY = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
    "i8": np.int8, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
    "string": np.object_,
}  # fmt: skip
SHORT = {np.dtype(full): short for short, full in NUMPY.items()}
ONNX_NAMES = {
    "tensor(float)": "f32", "tensor(double)": "f64", "tensor(float16)": "f16", "tensor(int64)": "i64",
    "tensor(int32)": "i32", "tensor(int16)": "i16", "tensor(int8)": "i8", "tensor(uint8)": "u8",
    "tensor(uint16)": "u16", "tensor(uint32)": "u32", "tensor(uint64)": "u64", "tensor(bool)": "bool",
    "tensor(string)": "string",
}  # fmt: skip
ELEMENT_TYPE = {short: helper.np_dtype_to_tensor_dtype(np.dtype(full)) for short, full in NUMPY.items()}
WORDS = ("", "a", "b", "abc", "Zebra", "x y", "ünï", "42", "-1.5", "hello world")
IR_VERSION = 10
NEWEST_OPSET = 26  # of onnxruntime 1.31
LARGEST = 30_000  # elements of a value
LARGE = (33_000, 120_000)  # elements of most values in graphs of large ones: enough for kernels to share among threads
LARGEST_OF_LARGE = 600_000
LATE = {"If", "Loop", "Scan", "NonZero", "Compress", "Unique", "NonMaxSuppression", "StringSplit", "SplitToSequence"}
# Of these ONNX Runtime computes in f32, whatever the dtype; see known_differences.md.
IN_F32 = {"GroupNormalization", "LayerNormalization", "RMSNormalization", "HannWindow", "HammingWindow",
          "BlackmanWindow", "Shrink"}  # fmt: skip


class Rejected(Exception):
    """What was tried makes no sense here; the graph is as it was before."""


class Value:
    """A tensor of the graph: one array for each set of inputs."""

    def __init__(self, name, arrays, kind, exact, depth=0, dims=None):
        self.name, self.arrays, self.kind = name, arrays, kind
        self.exact = exact  # every right implementation gives just these bits
        self.depth = depth  # how many rounding operators are behind it
        self.dims = dims  # a number, a symbol, or None for a size that depends on symbols
        self.dtype = SHORT[arrays[0].dtype]
        self.rank = arrays[0].ndim
        self.late = False  # whether only running tells its sizes
        self.narrow = False  # f64 that was f32 on the way
        self.slack = 0  # what integers may be off by

    @property
    def shape(self):
        return self.arrays[0].shape

    @property
    def is_constant(self):
        return self.kind == "constant"

    @property
    def is_static(self):
        return all(isinstance(d, int) for d in self.dims)

    def numbers(self):
        return [a.astype(np.float64) if a.dtype != np.bool_ else a.astype(np.float64) for a in self.arrays if a.size]

    def finite(self):
        return self.dtype not in FLOATS or all(np.isfinite(a).all() for a in self.arrays)

    def within(self, low, high):
        return all((a >= low).all() and (a <= high).all() for a in self.numbers())

    def min_size(self, axis):
        return min(a.shape[axis] for a in self.arrays)

    def is_empty(self):
        return any(a.size == 0 for a in self.arrays)


def session_options(optimised):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


PLAIN = session_options(False)
OPTIMISED = session_options(True)


def session(model, optimised):
    return onnxruntime.InferenceSession(
        model.SerializeToString(), OPTIMISED if optimised else PLAIN, providers=["CPUExecutionProvider"]
    )


def opset_imports(opset):
    return [
        helper.make_opsetid("", opset),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("ai.onnx.ml", 4),
    ]


def tensor_proto(array, name):
    if array.dtype == np.object_:
        strings = [str(s).encode() for s in array.reshape(-1)]
        return helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, strings)
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def since_version(op, opset, domain=""):
    try:
        return onnx.defs.get_schema(op, opset if domain == "" else 1, domain).since_version
    except onnx.defs.SchemaError:
        return 1


# What ONNX Runtime has no kernel for: (operator, version, dtypes of the inputs).
lacking = set()


class GraphBuilder:
    def __init__(self, rng, opset, theme="f32", dynamic=False, special=False, empty=False, parent=None,
                 large=False):  # fmt: skip
        self.large = large
        self.rng, self.opset, self.theme, self.special, self.empty = rng, opset, theme, special, empty
        self.sets = 2 if dynamic else 1
        self.symbols = {}
        if parent:
            self.symbols, self.sets = parent.symbols, parent.sets
        elif dynamic:
            for name in ("N", "M", "K"):
                sizes = rng.choice(7, 2, replace=False) + (0 if rng.random() < 0.05 else 1)
                self.symbols[name] = tuple(int(s) for s in sizes)
        self.parent = parent
        self.values = list(parent.values) if parent else []
        self.nodes, self.inputs, self.constants = [], [], []
        self.operators = []  # of each node appended, for statistics
        self.hidden = []  # values that are outputs and nothing else
        self.counter = parent.counter if parent else [0]

    @property
    def largest(self):
        return LARGEST_OF_LARGE if self.large else LARGEST

    # Choices.
    def chance(self, probability):
        return self.rng.random() < probability

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def number(self, low, high):
        """An integer, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def uniform(self, low, high):
        return float(np.float32(self.rng.uniform(low, high)))

    def name(self, hint="v"):
        self.counter[0] += 1
        return f"{hint}{self.counter[0]}"

    # Shapes: lists of numbers and symbols.
    def dim(self, symbolic=True):
        if symbolic and self.symbols and self.chance(0.3):
            return self.pick(list(self.symbols))
        if self.empty and self.chance(0.08):
            return 0
        return self.pick((1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 16, 17))

    def elements(self, dims):
        """The most of all sets of inputs."""
        return max(math.prod(self.concrete(dims, k)) for k in range(self.sets))

    def dims(self, rank, symbolic=True):
        dims = [self.dim(symbolic) for _ in range(rank)]
        # Results are products of such sizes and those of a large value.
        while self.elements(dims) > (40 if self.large else 4000):
            dims[self.number(0, rank - 1)] = self.pick((1, 2, 3))
        return dims

    def usual_dims(self, rank):
        """Those of a value of which nothing else is asked: in graphs of large ones mostly so that it is one."""
        dims = self.dims(rank)
        if not self.large or not dims or 0 in dims or self.chance(0.2):
            return dims
        axes = [int(a) for a in self.rng.permutation(rank)]
        for axis in axes[1:]:
            if self.chance(0.5):
                dims[axis] = self.pick((17, 31, 33, 64, 65, 100, 130))
        while self.elements(dims) > LARGE[1]:
            dims[self.pick(axes)] = self.pick((1, 2, 3))
        dims[axes[0]] = 1
        least = -(-LARGE[0] // max(self.elements(dims), 1))
        dims[axes[0]] = self.number(least, 2 * least)
        return dims

    def width(self):
        """The size of a further axis of a product."""
        return self.pick((1, 16, 17, 33, 48, 64, 65, 100, 130)) if self.large and self.chance(0.7) else self.dim()

    def concrete(self, dims, k):
        return [self.symbols[d][k] if isinstance(d, str) else d for d in dims]

    def known_dims(self, arrays):
        dims = []
        for sizes in zip(*(a.shape for a in arrays)):
            if len(set(sizes)) == 1:
                dims.append(int(sizes[0]))
            else:
                dims.append(next((name for name, pair in self.symbols.items() if pair == sizes), None))
        return dims

    def partner_dims(self, value, axes=None):
        """Dims that broadcast with those of `value`."""
        dims = [d if d is not None and self.chance(0.7) else 1 for d in value.dims]
        if self.chance(0.2):
            dims = [d if d is not None else 1 for d in value.dims]
        while dims and self.chance(0.25):
            dims = dims[1:]
        if self.chance(0.1) and len(dims) < 5:
            dims = [self.pick((1, 2, 3)), *dims]
        return dims

    # Data.
    def random_array(self, dtype, shape, low=None, high=None, special=False):
        rng = self.rng
        if dtype == "string":
            return np.array([self.pick(WORDS) for _ in range(math.prod(shape))], dtype=object).reshape(shape)
        if dtype == "bool":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype in FLOATS:
            if low is None and high is None:
                array = rng.integers(-24, 25, shape) / 8 if self.chance(0.3) else rng.standard_normal(shape)
            else:
                array = rng.uniform(low, high, shape)
            array = np.asarray(array).astype(NUMPY[dtype])
            if special and array.size:
                flat = array.reshape(-1)
                for _ in range(self.number(1, 3)):
                    flat[self.number(0, flat.size - 1)] = self.pick((np.nan, np.inf, -np.inf, -0.0, 0.0))
            return array
        limits = np.iinfo(NUMPY[dtype])
        if low is None and self.chance(0.05):
            low, high = int(limits.min), int(limits.max)
        low = max(-10 if low is None else math.ceil(low), int(limits.min))
        high = min(10 if high is None else math.floor(high), int(limits.max))
        return np.asarray(rng.integers(low, high, shape, dtype=NUMPY[dtype], endpoint=True))

    def add_value(self, value):
        self.values.append(value)
        return value

    def constant(self, array, hint="c"):
        array = np.asarray(array)
        value = Value(self.name(hint), [array] * self.sets, "constant", True, 0, list(array.shape))
        self.constants.append(value)
        return self.add_value(value)

    def ints(self, numbers, dtype="i64"):
        return self.constant(np.array(numbers, NUMPY[dtype]))

    def input(self, dtype, dims, low=None, high=None, special=False):
        if self.parent:  # bodies have no inputs of their own
            if any(isinstance(d, str) for d in dims):
                raise Rejected("a body's input")
            return self.constant(self.random_array(dtype, dims, low, high, special))
        arrays = [self.random_array(dtype, self.concrete(dims, k), low, high, special) for k in range(self.sets)]
        value = Value(self.name("in"), arrays, "input", True, 0, list(dims))
        self.inputs.append(value)
        return self.add_value(value)

    def given(self, array_of_set, dims):
        """An input of which each set has its own array, made by array_of_set(k)."""
        if self.parent:
            raise Rejected("a body's input")
        value = Value(self.name("in"), [np.asarray(array_of_set(k)) for k in range(self.sets)], "input", True, 0, dims)
        self.inputs.append(value)
        return self.add_value(value)

    def fresh(self, dtype, dims, low=None, high=None, special=False, constant=0.4):
        if None in dims:
            raise Rejected("unknown size")
        static = not any(isinstance(d, str) for d in dims)
        if static and (self.parent or self.chance(constant)):
            return self.constant(self.random_array(dtype, dims, low, high, special))
        return self.input(dtype, dims, low, high, special)

    def dtype(self, dtypes):
        dtypes = [d for d in dtypes if d in NUMPY]
        if not dtypes:
            raise Rejected("no dtype")
        if self.theme in dtypes and self.chance(0.85):
            return self.theme
        if "f32" in dtypes and self.chance(0.4):
            return "f32"
        return self.pick(dtypes)

    def value(self, dtypes=FLOATS, ranks=(0, 1, 2, 3, 4, 5, 6), low=None, high=None, special=False, exact=False,
              where=None, fresh=0.2, constant=0.15, dims=None):  # fmt: skip
        """A tensor of the graph that fits, the latest most likely; or a new one."""
        ranks = list(range(ranks[0], 7)) if ranks and ranks[-1] is Ellipsis else ranks

        def fits(v):
            return (
                v.dtype in dtypes
                and v.rank in ranks
                and (special or v.finite())
                and (not exact or v.exact)
                and (low is None or v.within(low, high))
                and (where is None or where(v))
            )

        if not self.chance(fresh):
            candidates = [v for v in self.values if fits(v) and (v.kind != "constant" or self.chance(0.4))]
            if candidates:
                latest = candidates[-3:]
                return self.pick(latest) if self.chance(0.75) else self.pick(candidates)
        for _ in range(10):
            dtype = self.dtype(dtypes)
            rank = self.pick([r for r in ranks for _ in range(3 if 2 <= r <= 4 else 1)])
            shape = dims() if dims else self.usual_dims(rank)
            before = len(self.values), len(self.inputs), len(self.constants)
            made = self.fresh(dtype, shape, low, high, special and self.special and dtype in FLOATS, constant)
            if where is None or where(made):
                return made
            del self.values[before[0] :], self.inputs[before[1] :], self.constants[before[2] :]
        raise Rejected("no such value")

    def partner(self, value, low=None, high=None, special=False):
        """An operand that broadcasts with `value`."""
        if self.chance(0.4):
            others = [
                v for v in self.values
                if v.dtype == value.dtype and broadcasts(v, value, self.largest)
                and (special or v.finite()) and (low is None or v.within(low, high))
            ]  # fmt: skip
            if others:
                return self.pick(others)
        return self.fresh(value.dtype, self.partner_dims(value), low, high, special and self.special)

    # Nodes.
    def types(self, op, parameter="T", domain=""):
        """What the standard allows for a type parameter of the operator in this version."""
        try:
            schema = onnx.defs.get_schema(op, self.opset, domain)
        except onnx.defs.SchemaError as error:
            raise Rejected(str(error)) from error
        if schema.deprecated:
            raise Rejected("deprecated")
        for constraint in schema.type_constraints:
            if constraint.type_param_str == parameter:
                return [ONNX_NAMES[t] for t in constraint.allowed_type_strs if t in ONNX_NAMES]
        raise KeyError(f"{op} has no type parameter {parameter}")

    def emit(self, op, inputs, outputs=1, domain="", exact=None, limit=1e5, **attributes):
        """Appends a node; returns its outputs (the one, or a list; None for those that `outputs` leaves out).

        `outputs` is a number, or a list of booleans. Rejected when ONNX Runtime does not run it.
        """
        used = [True] * outputs if isinstance(outputs, int) else list(outputs)
        names = [self.name() if u else "" for u in used]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        node = helper.make_node(
            op, [v.name if v else "" for v in inputs], names, domain=domain, name=self.name("/node/"), **attributes
        )
        results = self.append([node], [v for v in inputs if v], [n for n in names if n], exact, limit)
        if isinstance(outputs, int) and outputs == 1:
            return results[0]
        results = iter(results)
        return [next(results) if u else None for u in used]

    def append(self, nodes, inputs, outputs, exact=None, limit=1e5, constants=()):
        """Appends nodes that read `inputs`; returns the Values of `outputs` (names)."""
        key = (
            nodes[0].op_type,
            since_version(nodes[0].op_type, self.opset, nodes[0].domain),
            tuple(v.dtype for v in inputs),
            tuple((a.name, a.i) for a in nodes[0].attribute if a.name in ("to", "dtype")),
        )
        if len(nodes) == 1 and key in lacking:
            raise Rejected("ONNX Runtime has no kernel")
        distinct = list({v.name: v for v in inputs}.values())
        fed = [v for v in distinct if not v.is_constant]
        graph = helper.make_graph(
            nodes,
            "one",
            [helper.make_tensor_value_info(v.name, ELEMENT_TYPE[v.dtype], [None] * v.rank) for v in fed],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [tensor_proto(v.arrays[0], v.name) for v in distinct if v.is_constant]
            + [tensor_proto(c.arrays[0], c.name) for c in constants],
        )
        model = helper.make_model(graph, opset_imports=opset_imports(self.opset), ir_version=IR_VERSION)
        try:
            runner = session(model, optimised=False)
            results = [runner.run(outputs, {v.name: v.arrays[k] for v in fed}) for k in range(self.sets)]
        except Exception as error:  # whatever ONNX Runtime throws
            message = str(error)
            if "NOT_IMPLEMENTED" in message or "Could not find an implementation" in message:
                lacking.add(key)
            raise Rejected(message) from None
        exact_inputs = all(v.exact for v in inputs)
        made = []
        for i, name in enumerate(outputs):
            arrays = [as_array(r[i]) for r in results]
            if arrays[0].dtype not in SHORT:
                raise Rejected(f"dtype {arrays[0].dtype}")
            self.check(arrays, inputs, limit)
            if nodes[0].op_type == "Sigmoid" and any(a.size and a.max() < 1e-2 for a in arrays):
                raise Rejected("near 0: known_differences.md")
            floating = SHORT[arrays[0].dtype] in FLOATS
            same_bits = exact_inputs and (exact if exact is not None else not floating)
            depth = max((v.depth for v in inputs), default=0) + (0 if same_bits else 1)
            made.append(Value(name, arrays, "node", same_bits, depth, self.known_dims(arrays)))
        self.nodes += nodes
        self.operators += [(n.domain, n.op_type) for n in nodes]
        late = any(n.op_type in LATE for n in nodes) or any(v.late for v in inputs)
        narrow = any(n.op_type in IN_F32 for n in nodes) or any(v.narrow or v.dtype == "f32" for v in inputs)
        for v in made:
            v.late, v.narrow = late, narrow
        self.values += made
        return made

    def check(self, arrays, inputs, limit):
        for array in arrays:
            if array.size > self.largest:
                raise Rejected("too large")
            if array.dtype.kind != "f" or not array.size:
                continue
            if np.isfinite(array).all():
                if np.abs(array).max() > (min(limit, 2e3) if array.dtype == np.float16 else limit):
                    raise Rejected("large values")
            elif not self.special and all(v.finite() for v in inputs):
                raise Rejected("not finite")

    def since(self, op):
        """Rejects operators of the standard that the operator set does not have."""
        if not onnx.defs.has(op):  # one of ONNX Runtime's own in the standard's domain
            return
        try:
            if onnx.defs.get_schema(op, self.opset).deprecated:
                raise Rejected("deprecated")
        except onnx.defs.SchemaError as error:
            raise Rejected(str(error)) from error

    def hide(self, value):
        """Keeps a value as an output only: nothing is made of it."""
        self.hidden.append(value)
        self.values.remove(value)

    def mark(self):
        return tuple(len(x) for x in (self.values, self.nodes, self.inputs, self.constants, self.operators,
                                     self.hidden))  # fmt: skip

    def back_to(self, mark):
        for items, size in zip(
            (self.values, self.nodes, self.inputs, self.constants, self.operators, self.hidden), mark
        ):
            del items[size:]


def as_array(result):
    array = np.asarray(result)
    return array.astype(object) if array.dtype.kind in "US" else array


def broadcasts(a, b, largest=LARGEST):
    for x, y in zip(a.arrays, b.arrays):
        try:
            if math.prod(np.broadcast_shapes(x.shape, y.shape)) > largest:
                return False
        except ValueError:
            return False
    return True
