"""Nodes of an ONNX file, added to a camshaft.Network as they stand there."""

import json

from camshaft import InvalidArgumentError, UnsupportedError, _native
from camshaft._arrays import capsule_of
from camshaft._network import _input_like
from camshaft._values import Value

_FLOAT, _INT, _TEXT, _TENSOR, _GRAPH, _FLOATS, _INTS, _TEXTS, _TYPE = 1, 2, 3, 4, 5, 6, 7, 8, 13  # of ONNX


def native_tensor(tensor, folder):
    """What the native module takes for a tensor of a file: (data, dtype or "", dims)."""
    data, dtype, dims = tensor.constant(folder)
    return data if isinstance(data, list) else capsule_of(data), dtype, dims


def add_constant(net, tensor, folder, name=None):
    """A tensor of a file as a constant: its Value."""
    return Value(net, json.loads(_native.network_constant(net._native, name, *native_tensor(tensor, folder))))


class Replay:
    """Adds nodes of one file."""

    def __init__(self, functions, folder):
        """functions: {(domain, name): Function}, of the model's own; folder: of external data, or None."""
        self._functions, self._folder = functions, folder

    def add(self, net, node, find, name, outputs, given=None):
        """A node: its Values, None for those left out. find(name): the Value of a name. name: the node's, or None.
        outputs: names of the results, None for one that is made up. given: attributes of the function around it."""
        function = self._functions.get((node.domain, node.op_type))
        if function is not None:
            return self._call(net, node, function, find, given or {})
        schema = net._schema(node.domain, node.op_type)
        known = {attribute["name"] for attribute in schema["attributes"]}
        attributes = [
            self._attribute(net, node, attribute, find, given or {})
            for attribute in (self._referred(attribute, given or {}) for attribute in node.attribute)
            if attribute is not None and (attribute.name in known or schema.get("open"))
        ]
        read = ["" if not operand else find(operand).name for operand in node.input]
        names = [made if result else "" for made, result in zip(outputs, node.output)]
        made = _native.network_node(net._native, node.op_type, node.domain, name, read, attributes, names)
        return [None if value is None else Value(net, value) for value in json.loads(made)]

    @staticmethod
    def _referred(attribute, given):
        """The attribute that one in a function stands for; None where the call has none."""
        if not attribute.ref_attr_name:
            return attribute
        referred = given.get(attribute.ref_attr_name)
        if referred is None:
            return None
        renamed = type(attribute)()
        renamed.__dict__.update(referred.__dict__, name=attribute.name)
        return renamed

    def _attribute(self, net, node, attribute, find, given):
        """(name, number of the type, value as the native module takes it)"""
        kind, value = attribute.type, attribute.value
        if kind in (_FLOAT, _INT):
            value = [value]
        elif kind == _TEXT:
            value = [bytes(value).decode()]
        elif kind == _TEXTS:
            value = [bytes(item).decode() for item in value]
        elif kind == _TENSOR:
            value = native_tensor(value, self._folder)
        elif kind == _TYPE:
            value = [value.text()]
        elif kind == _GRAPH:
            value = self._body(net, node, attribute, find, given)._native
        elif kind not in (_FLOATS, _INTS):
            raise UnsupportedError(
                f"attribute '{attribute.name}' of node '{node.name}' ({node.op_type}) is of a kind that only models are "
                "built with that nothing is changed in"
            )
        return attribute.name, kind, value

    def _call(self, net, node, function, find, given):
        """The nodes of a function of the model, in the place of the node that calls it."""
        values = {inner: find(operand) for inner, operand in zip(function.input, node.input) if operand and inner}
        attributes = {attribute.name: attribute for attribute in function.attribute_proto}
        for attribute in node.attribute:
            referred = self._referred(attribute, given)
            if referred is not None:
                attributes[attribute.name] = referred
        self._nodes(net, function.node, values, values.get, attributes)
        return [values.get(name) for name in function.output[: len(node.output)]]

    def _nodes(self, net, nodes, values, find, given):
        """Adds them all; what they give stands in `values`."""
        for node in nodes:
            absent = [name for name in node.input if name and find(name) is None]
            if absent:  # an optional input of a function that its call leaves out
                node = _without(node, absent)
            made = self.add(net, node, find, None, [None] * len(node.output), given)
            values.update({name: value for name, value in zip(node.output, made) if name})

    def _body(self, net, node, attribute, find, given):
        graph = attribute.g
        if graph.sparse_initializer:
            raise UnsupportedError(
                f"node '{node.name}': sparse initializers are taken of models that nothing is changed in"
            )
        body = net.subgraph(attribute.name)
        values = {}

        def look(name):
            return values[name] if name in values else find(name)

        operands = [None if not name else find(name) for name in node.input]
        expected = _inputs_of_body(node, operands, len(graph.input))
        for info, like in zip(graph.input, expected):
            number = next(net._numbers)
            values[info.name] = body.input(f"{attribute.name}.{info.name}.{number}", *_declared(info, like))
        for tensor in graph.initializer:
            values[tensor.name] = add_constant(body, tensor, self._folder)
        self._nodes(body, graph.node, values, look, given)
        for info in graph.output:
            body.output(look(info.name))
        return body


def _without(node, names):
    left_out = type(node)()
    left_out.__dict__.update(node.__dict__, input=["" if name in names else name for name in node.input])
    return left_out


def _inputs_of_body(node, operands, count):
    """(dtype, shape) of what the body of a Loop or Scan gets, by what its node gets; None where nothing tells."""
    likes = []
    if node.op_type == "Loop":
        likes = [("i64", ()), ("bool", ()), *(_like(value) for value in operands[2:])]
    elif node.op_type == "Scan":
        settings = {attribute.name: attribute.value for attribute in node.attribute}
        scanned = settings.get("num_scan_inputs", 0)
        axes = settings.get("scan_input_axes") or [0] * scanned
        states = len(operands) - scanned
        likes = [_like(value) for value in operands[:states]]
        likes += [_like(value, axis) for value, axis in zip(operands[states:], axes)]
    return (likes + [None] * count)[:count]


def _like(value, axis=None):
    try:
        return _input_like(value, axis)[1:]
    except InvalidArgumentError:  # a sequence, or of unknown rank
        return None


def _declared(info, like):
    """(type, shape) of a body's input, by its own declaration as far as it goes. Sizes have no names: in bodies these say
    little, and what is carried may grow."""
    tensor = None if info.type is None else info.type.tensor_type
    if tensor is None and info.type is not None:
        return (info.type.text(),)
    if tensor is not None and tensor.elem_type:
        dtype = info.type.text()
    elif like is not None:
        dtype = like[0]
    else:
        raise InvalidArgumentError(f"input '{info.name}' of a body has no type")
    if tensor is not None and tensor.shape is not None:
        return dtype, [size.dim_value if size.dim_value > 0 else None for size in tensor.shape.dim]
    if like is None:
        raise InvalidArgumentError(f"input '{info.name}' of a body has no shape")
    return dtype, [None] * len(like[1])
