"""Operators from outside: loaded from files, or computed by Python functions."""

import ctypes
import hashlib
import inspect
import json
import os

from camshaft import _native

# What NumPy has of the library's types; the names of the others are in its documentation.
_NUMPY = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
}


def load_plugin(source):
    """Loads operators that models may use and engines may need, for the whole process: of a shared library (see
    camshaft/plugin.hpp), of an ONNX model whose functions are operators, or of one as text,
    "my::Scaled(x, alpha = 1) = alpha * tanh(x)"."""
    _native.load_plugin(os.fspath(source))


def plugins():
    """What is loaded: [{"name", "kind", "version", "file", "hash"}]."""
    return json.loads(_native.list_plugins())


def set_plugin_checks(*, guards=False, verify=False):
    """How plugins are checked from now on, for debugging. guards: they run on copies of their operands between guard
    zones, which find what they write where they must not. verify: builds run every tactic against its reference
    evaluation first, over sizes with tails."""
    _native.set_plugin_checks(guards, verify)


def plugin(name, *, version="1", shape=None):
    """Makes an operator of a function of NumPy arrays, which then computes the nodes of that domain and name:

        @camshaft.plugin("my::Softcap", shape=lambda x, limit: x.shape)
        def softcap(x: np.float32, limit=30.0):
            return limit * np.tanh(x / limit)

    Parameters without a default are operands (None for one that a node leaves out), those with one attributes. An
    operand's annotation, a type of NumPy, is what it may be; fp16 and bf16 are given as fp32 where that is.

    shape: the shape rule, called with Operands, whose `shape` has ints and Dims (expressions of the sizes that the model
        leaves open), and with the attributes. It returns a shape, or (dtype, shape), or a list of these for several
        results; None as a size is one that only running tells. Without it results are as operand 0 is.

    The function computes on copies of nothing: arrays are the engine's memory, valid during the call alone, and operands
    must not be written to. It is called with Python's lock, by any thread."""

    def register(body):
        domain, _, operator = name.rpartition("::")
        rule = shape or _shape_of_first
        made = _Operator(body, rule)
        texts = "\0".join(_source_of(function) for function in (body, rule))
        code = hashlib.sha256(texts.encode()).hexdigest()[:16]
        file = getattr(inspect.getmodule(body), "__name__", "Python") + "." + body.__name__
        _native.register_plugin(domain, operator, str(version), file, code, made, made.types())
        return body

    return register


def _shape_of_first(x, *_, **__):
    return x.shape


def _source_of(function):
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = function.__code__
        return repr((code.co_code, code.co_consts, code.co_names))


class Dim:
    """A size of expressions of symbols: n + 1, 2 * n, n // 2, Dim.min(n, m), …"""

    def __init__(self, text):
        self._text = str(text)

    def __str__(self):
        return self._text

    def __repr__(self):
        return f"Dim({self._text!r})"

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(self._text)

    @staticmethod
    def min(a, b):
        return Dim(f"min({a}, {b})")

    @staticmethod
    def max(a, b):
        return Dim(f"max({a}, {b})")

    def __add__(self, other):
        return Dim(f"({self}) + ({other})")

    def __radd__(self, other):
        return Dim(f"({other}) + ({self})")

    def __sub__(self, other):
        return Dim(f"({self}) - ({other})")

    def __rsub__(self, other):
        return Dim(f"({other}) - ({self})")

    def __mul__(self, other):
        return Dim(f"({self}) * ({other})")

    def __rmul__(self, other):
        return Dim(f"({other}) * ({self})")

    def __floordiv__(self, other):
        return Dim(f"floor_div({self}, {other})")

    def __rfloordiv__(self, other):
        return Dim(f"floor_div({other}, {self})")

    def __mod__(self, other):
        return Dim(f"mod({self}, {other})")


class Operand:
    """What a shape rule sees of an operand: `dtype` ("f32"), `shape`, and `values`, the elements of a small one of
    integers that is known before running, else None."""

    def __init__(self, dtype, dims, values):
        self.dtype = dtype
        self.shape = tuple(int(d) if d.isdigit() else Dim(d) for d in dims)
        self.values = values


class _Operator:
    """What the native module calls: see PythonPlugin in plugin_functions.cpp."""

    def __init__(self, body, rule):
        parameters = inspect.signature(body).parameters.values()
        self._body, self._rule = body, rule
        self._attributes = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._operands = [p for p in parameters if p.default is p.empty]

    def types(self):
        """[[dtype]] that each operand may have."""
        return [_types_of(p.annotation) for p in self._operands] or [list(_NUMPY)]

    def create(self, given):
        unknown = given.keys() - self._attributes.keys()
        if unknown:
            raise ValueError(f"there is no attribute {', '.join(sorted(unknown))}; there are {list(self._attributes)}")
        values = {key: _attribute(values, self._attributes[key]) for key, values in given.items()}
        return _Instance(self._body, self._rule, {**self._attributes, **values})


class _Instance:
    def __init__(self, body, rule, attributes):
        self._body, self._rule, self._attributes = body, rule, attributes

    def infer(self, operands, count):
        operands = [None if o is None else Operand(*o) for o in operands]
        results = self._rule(*operands, **self._attributes)
        first = next((o.dtype for o in operands if o is not None), "f32")
        listed = results if isinstance(results, list) else [results]
        if len(listed) != count:
            raise ValueError(f"the shape rule gives {len(listed)} results, the node has {count}")
        return [_result(r, first) for r in listed]

    def run(self, inputs, outputs):
        import numpy

        results = self._body(*[_array(i) for i in inputs], **self._attributes)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(outputs):
            raise ValueError(f"the function gives {len(results)} results, the node has {len(outputs)}")
        late = []
        for index, (result, output) in enumerate(zip(results, outputs)):
            result = numpy.asarray(result)
            if output is None:
                late.append((index, list(result.shape), numpy.ascontiguousarray(result).tobytes()))
                continue
            to = _array(output)
            if result.shape != to.shape:
                raise ValueError(f"result {index} has the shape {result.shape}, its shape rule says {to.shape}")
            numpy.copyto(to, result, casting="same_kind")
        return late


def _types_of(annotation):
    import numpy

    if annotation is inspect.Parameter.empty:
        return list(_NUMPY)
    wanted = numpy.dtype(annotation).name
    found = [ours for ours, theirs in _NUMPY.items() if theirs == wanted]
    if not found:
        raise TypeError(f"operands cannot be {annotation}: {', '.join(_NUMPY.values())} are possible")
    return found


def _attribute(values, default):
    """As the default is: a list, or its only element. A tensor is (dtype, dims, bytes)."""
    import numpy

    values = [numpy.frombuffer(v[2], dtype=_NUMPY[v[0]]).reshape(v[1]) if isinstance(v, tuple) else v for v in values]
    return values if isinstance(default, (list, tuple)) or len(values) != 1 else values[0]


def _result(result, first):
    dtype, shape = first, result
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], (str, type)):
        dtype, shape = result
    if not isinstance(dtype, str):
        dtype = _types_of(dtype)[0]
    return dtype, [None if d is None else str(d) for d in shape]


def _array(operand):
    """The memory of an operand, as it is."""
    import numpy

    if operand is None:
        return None
    address, dtype, dims = operand
    kind = numpy.dtype(_NUMPY[dtype])
    count = kind.itemsize
    for d in dims:
        count *= d
    if count == 0:
        return numpy.empty(dims, kind)
    memory = (ctypes.c_uint8 * count).from_address(address)
    return numpy.frombuffer(memory, dtype=kind).reshape(dims)
