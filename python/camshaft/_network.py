"""Models that a program makes node by node."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from camshaft import _native
from camshaft._errors import InvalidArgumentError
from camshaft._values import Value, dtype_name, literal, native_constant, onnx_number

if TYPE_CHECKING:
    from camshaft._operators import MicrosoftOperators, MlOperators, OnnxOperators, PreviewOperators
    from camshaft._types import Capsule, DType, Operand, Path, Record
else:
    OnnxOperators = object

_FLOAT, _INT, _TEXT, _TENSOR, _GRAPH, _FLOATS, _INTS, _TEXTS, _TYPE = 1, 2, 3, 4, 5, 6, 7, 8, 13  # of ONNX


@functools.cache
def _operator_names(domain: str) -> list[str]:
    listed = json.loads(_native.list_operators())
    return sorted({known["operator"] for known in listed if known["domain"] == (domain or "ai.onnx")})


class UnknownOperatorError(InvalidArgumentError, AttributeError):
    """Camshaft has no operator of that name."""


class Operators:
    """The operators of a domain of a network, as functions by their names."""

    def __init__(self, network: Network, domain: str) -> None:
        self._of = network
        self._domain = domain

    def __getattr__(self, name: str) -> Operator:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            schema = self._of._schema(self._domain, name)
        except InvalidArgumentError as error:
            raise UnknownOperatorError(str(error)) from None
        return Operator(self._of, schema)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_operator_names(self._domain)]


class Operator:
    """An operator of ONNX that adds nodes to a network.

    Inputs come first, in their order or by their names: values of the network, arrays, or numbers, lists and text, which
    become constants; None leaves one out. Attributes come by their names; element types may be given as NumPy's, and the
    bodies of If, Loop and Scan as functions (see Network). name: the node's. outputs: how many results there are to be, or
    their names. Gives a Value, or a tuple of several."""

    def __init__(self, network: Network, schema: Record) -> None:
        self._network = network
        self._schema = schema
        self.__name__: str = schema["operator"]
        self.__qualname__ = self.__name__
        self.__doc__ = _described(schema)
        self.__signature__ = _signature(schema)

    def __call__(
        self,
        *inputs: Operand | None,
        name: str | None = None,
        outputs: int | Sequence[str | None] | None = None,
        **keywords: Any,
    ) -> Any:
        return self._network._add(self._schema, inputs, keywords, name, outputs)

    def __repr__(self) -> str:
        return f"<camshaft operator {_described(self._schema).splitlines()[0]}>"


def _described(schema: Record) -> str:
    def listed(parameters: list[Record]) -> str:
        mark = {"one": "", "optional": "?", "any": "…"}
        return ", ".join(f"{p['name']}{mark[p['count']]}: {p['type']}" for p in parameters)

    title = f"{schema['operator']}({listed(schema['inputs'])}) -> ({listed(schema['outputs'])})"
    lines = [f"    {a['name']}: {a['type_name']}{', required' if a['required'] else ''}" for a in schema["attributes"]]
    since = f"{schema['domain'] or 'ONNX'}, version {schema['since']}"
    return "\n".join([title, "", f"Of {since}." + (" Attributes:" if lines else ""), *lines])


def _signature(schema: Record) -> inspect.Signature:
    kinds = inspect.Parameter
    parameters: list[inspect.Parameter] = []
    optional = False
    for p in schema["inputs"]:
        if not p["name"].isidentifier() or p["count"] == "any":
            parameters.append(kinds("inputs", kinds.VAR_POSITIONAL))
            break
        optional = optional or p["count"] == "optional"
        default = None if optional else kinds.empty
        parameters.append(kinds(p["name"], kinds.POSITIONAL_OR_KEYWORD, default=default))
    taken = {p.name for p in parameters}
    for a in schema["attributes"]:
        if a["name"] not in taken:
            default = kinds.empty if a["required"] else None
            parameters.append(kinds(a["name"], kinds.KEYWORD_ONLY, default=default))
    parameters += [kinds(word, kinds.KEYWORD_ONLY, default=None) for word in ("name", "outputs")]
    return inspect.Signature(parameters)


class Network(Operators, OnnxOperators):
    """A model under construction: `net.Conv(x, w, strides=[2, 2])` adds a node and gives its result.

    The methods are ONNX's operators under their names, dir(net) lists them, help(net.Conv) says what one takes;
    net.microsoft, net.ml and net.preview have those of other domains. A wrong operator, argument, type or shape raises
    InvalidArgumentError at once, which names it and what would be taken, and what Camshaft cannot run UnsupportedError; the
    network is as it was then.

    Bodies: `net.If(c, then_branch=lambda body: body.Neg(x), else_branch=lambda body: x)`. A Loop's function takes (body,
    iteration, condition, *carried) and gives the condition, what is carried, and what is collected; a Scan's (body,
    *states, *slices). It may be called several times. net.subgraph() makes a body by hand. Bodies see the values around
    them."""

    def __init__(self, name: str = "network", opset: int | None = None) -> None:
        """`opset`: the version of ONNX's operator set that operators are read by; the newest without one."""
        self._hold(name, _native.network_create(name, 0 if opset is None else opset), None)

    def _hold(self, name: str, handle: Capsule, outer: Network | None) -> None:
        self.name = name
        self._native = handle
        self._outer = outer  # which lives as long as its bodies
        self._inputs: list[Record] = []
        self._outputs: list[str] = []
        self._schemas: dict[tuple[str, str], Record] = {} if outer is None else outer._schemas
        self._numbers: Iterator[int] = itertools.count() if outer is None else outer._numbers  # of bodies' inputs
        self._domain = ""

    @property
    def _of(self) -> Network:  # type: ignore[override]  # no cycle: a body that is given up is freed, and its names with it
        return self

    @property
    def ml(self) -> MlOperators:
        """The operators of ai.onnx.ml."""
        return cast("MlOperators", Operators(self, "ai.onnx.ml"))

    @property
    def microsoft(self) -> MicrosoftOperators:
        """The operators of com.microsoft."""
        return cast("MicrosoftOperators", Operators(self, "com.microsoft"))

    @property
    def preview(self) -> PreviewOperators:
        """The operators of ai.onnx.preview."""
        return cast("PreviewOperators", Operators(self, "ai.onnx.preview"))

    def domain(self, name: str) -> Operators:
        """The operators of another domain, as of plugins that are loaded: net.domain("my").Softcap(x, limit=20.0)."""
        return Operators(self, name)

    @property
    def inputs(self) -> tuple[Value, ...]:
        return tuple(Value(self, described) for described in self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(self._outputs)

    def input(self, name: str, dtype: DType, shape: int | str | Sequence[SupportsIndex | str | None] = ()) -> Value:
        """An input: `shape` has numbers, names of sizes (the same name is the same size), and None. `dtype`: NumPy's,
        "f32", …, or a type as ONNX's schemas write it, "seq(tensor(float))"."""
        sizes: list[Any] = [shape] if isinstance(shape, (int, str)) else list(shape)
        dims = [-1 if isinstance(size, str) or size is None else operator.index(size) for size in sizes]
        if any(size < 1 and given is not None and not isinstance(given, str) for size, given in zip(dims, sizes)):
            raise InvalidArgumentError(
                f"the shape {tuple(sizes)} of input '{name}': sizes are 1 or more, names, or None"
            )
        names = [size if isinstance(size, str) else None for size in sizes]
        made = _native.network_input(self._native, name, dtype_name(dtype), dims, names)
        self._inputs.append(json.loads(made))
        return Value(self, self._inputs[-1])

    def constant(self, array: Operand, name: str | None = None) -> Value:
        """A constant: an array of NumPy, PyTorch, …, which is not copied where it is dense and must not be changed, or a
        number, list or text (floats are fp32)."""
        given = array if hasattr(array, "dtype") else literal(array, None)
        data, dtype, dims = native_constant(given)
        return Value(self, json.loads(_native.network_constant(self._native, name, data, dtype, dims)))

    def output(self, value: Operand, name: str | None = None) -> None:
        """Makes a value an output, under the name if there is one."""
        if not isinstance(value, Value):
            value = self.constant(value)
        _native.network_output(self._native, value.name, name)
        self._outputs.append(value.name if name is None else name)

    def subgraph(self, name: str = "body") -> Network:
        """The body of an If, a Loop or a Scan, to be given to that node of this network."""
        body = Network.__new__(Network)
        body._hold(name, _native.network_subgraph(self._native, name), self)
        return body

    def to_onnx(self) -> bytes:
        """The bytes of an ONNX file. UnsupportedError beyond 2 GiB, where save() writes the data beside the model."""
        return _native.network_bytes(self._native)

    def save(self, path: Path, external_data: bool = False) -> None:
        """Writes an ONNX file; `external_data` puts large tensors into "<path>.data"."""
        _native.network_save(self._native, os.fspath(path), bool(external_data))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{value.name}: {value.type}" for value in self.inputs)
        return f"<camshaft.Network {self.name} ({inputs}) -> ({', '.join(self._outputs)})>"

    def _schema(self, domain: str, name: str) -> Record:
        if (domain, name) not in self._schemas:
            self._schemas[domain, name] = json.loads(_native.network_operator(self._native, domain, name))
        return self._schemas[domain, name]

    def _add(
        self,
        schema: Record,
        inputs: Sequence[Any],
        named: dict[str, Any],
        name: str | None,
        outputs: int | Sequence[str | None] | None,
    ) -> Any:
        given, keywords = _sorted_inputs(schema, inputs, named)
        values = self._values(schema, given)
        kinds = {a["name"]: a["type"] for a in schema["attributes"]}
        bodies: dict[str, Network] = {}
        attributes: list[tuple[str, int, Any]] = []
        for keyword, value in keywords.items():
            if value is None:
                continue
            if kinds.get(keyword) == _GRAPH:
                bodies[keyword] = _body(self, schema, keyword, value, values, keywords)
                value = bodies[keyword]._native
            kind = kinds.get(keyword)
            if kind is None and schema.get("open"):
                kind = _kind_of(value)
            attributes.append((keyword, *_attribute(schema["operator"], keyword, kind, value)))
        if outputs is None:
            outputs = _count(schema, given, keywords, bodies)
        names = [None] * outputs if isinstance(outputs, int) else list(outputs)
        read = ["" if value is None else value.name for value in values]
        made = _native.network_node(self._native, schema["operator"], schema["domain"], name, read, attributes, names)
        results = tuple(None if value is None else Value(self, value) for value in json.loads(made))
        return results[0] if len(results) == 1 else results

    def _values(self, schema: Record, given: list[Any]) -> list[Value | None]:
        """Constants of what is no value yet; numbers and lists in the type of the values beside them."""
        parameters = schema["inputs"]
        kinds = [parameters[min(i, len(parameters) - 1)]["type"] if parameters else "" for i in range(len(given))]
        known: dict[str, str] = {}
        for kind, value in zip(kinds, given):
            if hasattr(value, "dtype"):
                known.setdefault(kind, value.dtype if isinstance(value, Value) else dtype_name(value.dtype))
        values = []
        for kind, value in zip(kinds, given):
            if value is not None and not isinstance(value, Value):
                if not hasattr(value, "dtype"):
                    dtype = dtype_name(_numpy_name(kind)) if kind.startswith("tensor(") else known.get(kind)
                    value = literal(value, dtype)
                value = self.constant(value)
            values.append(value)
        return values


def _numpy_name(kind: str) -> str:
    name = kind[len("tensor(") : -1]
    return {"float": "f32", "double": "f64", "float16": "f16"}.get(name, name)


def _sorted_inputs(schema: Record, inputs: Sequence[Any], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Inputs in their order, also those that are given by name; and attributes."""
    given, keywords = list(inputs), dict(named)
    for i, parameter in enumerate(schema["inputs"]):
        if parameter["name"] not in keywords or parameter["count"] == "any":
            continue
        if any(a["name"] == parameter["name"] for a in schema["attributes"]):
            continue
        value = keywords.pop(parameter["name"])
        if i < len(inputs):
            raise TypeError(f"operator {schema['operator']} is given its input {parameter['name']} twice")
        given += [None] * (i + 1 - len(given))
        given[i] = value
    while given and given[-1] is None:
        given.pop()
    return given, keywords


def _attribute(of: str, name: str, kind: int | None, value: Any) -> tuple[int, Any]:
    """(number of the type, value as the native module takes it)"""
    if kind is None:  # there is none of that name, which the library says
        return _TEXT, [""]
    try:
        if kind == _GRAPH:
            return kind, value
        if kind == _TENSOR:
            return kind, native_constant(value if hasattr(value, "dtype") else literal(value, None))
        if kind in (_TEXT, _TYPE):
            return kind, [_word(value)]
        if kind == _INT:
            is_type = isinstance(value, (str, type)) or hasattr(value, "kind") or str(value).startswith("torch.")
            return kind, [onnx_number(value) if is_type else operator.index(value)]
        if kind == _FLOAT:
            return kind, [float(value)]
        converters: dict[int, Callable[[Any], Any]] = {_FLOATS: float, _INTS: operator.index, _TEXTS: _word}
        convert = converters[kind]
        return kind, [convert(item) for item in value]
    except (TypeError, ValueError, KeyError):
        kinds = {1: "a float", 2: "an integer", 3: "text", 4: "an array", 6: "floats", 7: "integers", 8: "texts"}
        wanted = kinds.get(kind, "of a type that is not taken here")
        raise InvalidArgumentError(f"attribute '{name}' of operator {of} is {wanted}, not {value!r}") from None


def _kind_of(value: Any) -> int | None:
    """The kind of an attribute that its operator does not declare."""
    if hasattr(value, "dtype") and getattr(value, "shape", ()) != ():
        return _TENSOR
    if isinstance(value, (list, tuple)):
        words = any(isinstance(item, (str, bytes)) for item in value)
        return _TEXTS if words else _FLOATS if any(isinstance(item, float) for item in value) else _INTS
    if isinstance(value, (str, bytes)):
        return _TEXT
    return _INT if hasattr(value, "__index__") else _FLOAT


def _word(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError
    return value


def _count(schema: Record, inputs: list[Any], attributes: dict[str, Any], bodies: dict[str, Network]) -> int:
    """How many results a node has if nobody says."""
    results = schema["outputs"]
    if not results or results[-1]["count"] != "any":
        required = sum(p["count"] == "one" for p in results)
        return int(required or len(results))
    name = schema["operator"]
    if schema.get("open"):  # a plugin's, which does not say how many it has
        return 1
    if name in ("If", "Loop", "Scan"):
        body = next(iter(bodies.values()), None)
        return 1 if body is None else len(body.outputs) - (name == "Loop")
    if name == "Split":
        sizes = attributes.get("split") if len(inputs) < 2 else inputs[1]
        if attributes.get("num_outputs") is not None:
            return int(attributes["num_outputs"])
        if isinstance(sizes, Value) and sizes.shape and isinstance(sizes.shape[0], int):
            return sizes.shape[0]
        if sizes is not None and not isinstance(sizes, Value):
            return len(sizes)
    raise TypeError(f"operator {name} has any number of results: say how many, as outputs=2")


def _body(
    around: Network, schema: Record, keyword: str, given: Any, values: list[Value | None], attributes: dict[str, Any]
) -> Network:
    """The sub-network that `given` is, or that it makes when it is called."""
    if isinstance(given, Network):
        return given
    name = schema["operator"]
    if not callable(given):
        raise InvalidArgumentError(
            f"attribute '{keyword}' of operator {name} is a function or a subgraph(), not {given!r}"
        )
    if name == "Loop":
        inputs = [("iteration", "i64", ()), ("condition", "bool", ()), *map(_input_like, values[2:])]
        carried = len(values) - 2
    elif name == "Scan":
        scanned = attributes.get("num_scan_inputs", 0)
        carried = len(values) - scanned
        axes = attributes.get("scan_input_axes") or [0] * scanned
        slices = [_input_like(value, axis) for value, axis in zip(values[carried:], axes)]
        inputs = [*map(_input_like, values[:carried]), *slices]
    else:
        inputs, carried = [], 0
    first = 2 if name == "Loop" else 0
    # What is carried may grow from one run of the body to the next: sizes that differ then are unknown.
    while True:
        body = around.subgraph(keyword)
        made = [body.input(f"{keyword}.{label}{next(around._numbers)}", *of) for label, *of in inputs]
        results = given(body, *made)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        results = [value if isinstance(value, Value) else body.constant(value) for value in results]
        changed = False
        for i in range(first, first + carried):
            result = results[i - 1 if name == "Loop" else i] if len(results) > i - (name == "Loop") else None
            if result is None or result.shape is None or inputs[i][2] is None or len(result.shape) != len(inputs[i][2]):
                continue
            joined = tuple(
                a if a == b else None for a, b in zip(inputs[i][2], _known_shape(result.shape, inputs[i][2]))
            )
            if joined != inputs[i][2]:
                inputs[i] = (*inputs[i][:2], joined)
                changed = True
        if not changed:
            break
        del body, made, results
    for value in results:
        body.output(value)
    return body


def _known_shape(shape: Sequence[Any], wanted: Sequence[Any]) -> tuple[Any, ...]:
    """The result's shape, None where nothing was known of the input's."""
    return tuple(None if w is None else size for size, w in zip(shape, wanted))


def _input_like(value: Any, without_axis: int | None = None) -> tuple[str, str, Any]:
    if value.shape is None or "(" in value.dtype or value.dtype in ("seq", "opt", "map"):
        raise InvalidArgumentError(f"{value.name} is {value.type}: make the body with subgraph(), and its inputs there")
    shape = [size if isinstance(size, int) or str(size).isidentifier() else None for size in value.shape]
    if without_axis is not None:
        del shape[without_axis]
    return "state" if without_axis is None else "slice", value.dtype, tuple(shape)
