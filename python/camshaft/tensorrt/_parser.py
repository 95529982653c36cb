"""The parser of ONNX models."""

import json
import os
from pathlib import Path

from camshaft import _native
from camshaft._plugin import plugins
from camshaft.tensorrt._enums import ErrorCode, OnnxParserFlag
from camshaft.tensorrt._log import Reporter, Severity
from camshaft.tensorrt._network import ITensor
from camshaft.tensorrt._onnx_file import Attribute, Model, Node, read_file, writable
from camshaft.tensorrt._parsed_layer import OnnxLayer
from camshaft.tensorrt._plugin_operator import REQUEST
from camshaft.tensorrt._plugin_registry import get_plugin_registry
from camshaft.tensorrt._protobuf import Malformed
from camshaft.tensorrt._quick_plugins import request_of
from camshaft.tensorrt._values import Dims, dtype_of_name

_INT = 2  # of ONNX's attributes


class ParserError:
    """What is wrong in a model, and where."""

    def __init__(self, code, desc, node_index=-1, node=None):
        self._code, self._desc, self._index, self._node = code, desc, node_index, node

    def code(self):
        return self._code

    def desc(self):
        return self._desc

    def file(self):
        return ""

    def line(self):
        return 0

    def func(self):
        return ""

    def node(self):
        """The number of the node in the graph; -1 for an error of the whole model."""
        return self._index

    def node_name(self):
        return "" if self._node is None else self._node.name

    def node_operator(self):
        return "" if self._node is None else self._node.op_type

    def local_function_stack(self):
        return []

    def local_function_stack_size(self):
        return 0

    def __str__(self):
        where = "" if self._node is None else f"In node {self._index} ({self.node_operator()} '{self.node_name()}'): "
        return f"{where}{self._code.name}: {self._desc}"

    __repr__ = __str__


class ErrorList(Reporter):
    """What keeps all that it finds wrong in a model."""

    def __init__(self, logger):
        super().__init__(logger)
        self._errors = []

    def _wrong(self, code, description):
        self._errors.append(ParserError(code, description))
        return self._fail(description)

    @property
    def num_errors(self):
        return len(self._errors)

    def get_error(self, index):
        return self._errors[index] if 0 <= index < len(self._errors) else None

    def clear_errors(self):
        self._errors = []


class OnnxParser(ErrorList):
    """Reads ONNX models into a network."""

    def __init__(self, network, logger):
        super().__init__(logger)
        self.network = network
        self.logger = logger
        self.flags = 1 << int(OnnxParserFlag.NATIVE_INSTANCENORM)
        self._model, self._data = None, None
        self._given = {}  # initializers whose data the program has

    # ---- Parsing ----

    def parse(self, model, path=None):
        """Of a model's bytes. False where something is wrong: get_error() has it all. `path`: where the model is from,
        in whose folder its external data lies."""
        return self._read(model) and self._take(None if path is None else Path(path).resolve().parent)

    def parse_with_weight_descriptors(self, model):
        return self.parse(model)

    def parse_from_file(self, model):
        """The same of a file."""
        path = Path(os.fspath(model))
        try:
            data = read_file(path)
        except OSError as error:
            return self._wrong(ErrorCode.MODEL_DESERIALIZE_FAILED, f"cannot read '{path}': {error.strerror}")
        return self.parse(data, path)

    def load_model_proto(self, model, path=None):
        return self._read(model)

    def load_initializer(self, name, data, size):
        """The numbers of an initializer that lies in another file, from memory: a buffer, or an address."""
        import ctypes

        self._given[name] = ctypes.string_at(data, size) if isinstance(data, int) else bytes(memoryview(data))[:size]
        return True

    def parse_model_proto(self):
        return self._model is not None and self._take(None)

    def _read(self, model):
        try:
            self._data = writable(model)
            self._model = Model(memoryview(self._data))
        except (Malformed, TypeError) as error:
            return self._wrong(ErrorCode.MODEL_DESERIALIZE_FAILED, f"this is no ONNX model: {error}")
        graph = self._model.graph
        if graph is None or not graph.output and not graph.node:
            return self._wrong(ErrorCode.MODEL_DESERIALIZE_FAILED, "this is no ONNX model: it has no graph")
        return True

    def _take(self, folder):
        model, network = self._model, self.network
        if network._layers or network._inputs:
            return self._wrong(ErrorCode.INVALID_GRAPH, "the network has layers: a model is parsed into an empty one")
        self._name_plugins(model.graph)
        if not self._supported(model):
            return False
        graph = model.graph
        versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
        network._opset = versions.get("") or None
        network._functions = {(function.domain, function.name): function for function in model.functions}
        network._folder = folder
        network.name = graph.name or network.name
        is_whole = not self._given
        for tensor in graph.initializer:
            if tensor.name in self._given:
                tensor.load(self._given[tensor.name])
            network._initializers[tensor.name] = tensor
        try:
            for info in graph.input:
                if info.name not in network._initializers:
                    self._add_input(info)
        except Malformed as error:
            return self._wrong(ErrorCode.INVALID_GRAPH, str(error))
        for node in graph.node:
            for name in node.output:
                if name:
                    network._tensors[name] = ITensor(network, name)
        for index, node in enumerate(graph.node):
            network._layers.append(OnnxLayer(network, node, index))
        for info in graph.output:
            network.mark_output(self._output_of(info.name))
        # Of constants that are given by load_initializer(), and of creators, the file knows nothing.
        network._source = self._data if is_whole and not self._has_plugins else None
        return True

    def _output_of(self, name):
        network = self.network
        if name not in network._tensors:  # a constant
            network._tensors[name] = tensor = ITensor(network, name)
            if name in network._initializers:
                identity = Node()
                identity.op_type, identity.input, identity.output = "Identity", [name], [name]
                network._layers.append(OnnxLayer(network, identity, len(network._layers)))
                network._layers[-1]._operands = [name]
            return tensor
        return network._tensors[name]

    def _add_input(self, info):
        kind = None if info.type is None else info.type.tensor_type
        if kind is None:
            raise Malformed(f"input '{info.name}' is no tensor")
        name = info.type.text()
        try:
            dtype_of_name(name)
        except TypeError:
            self._log(Severity.WARNING, f"input '{info.name}' is {name}, which TensorRT has no type for")
        sizes = [] if kind.shape is None else kind.shape.dim
        tensor = self.network._new_input(
            info.name, name, Dims(size.dim_value if size.dim_value > 0 else -1 for size in sizes)
        )
        for axis, size in enumerate(sizes):
            if size.dim_param and size.dim_value <= 0:
                tensor._dim_names[axis] = size.dim_param

    def _name_plugins(self, graph):
        """Nodes that mean a registered creator get the operator's name that it has here."""
        self._has_plugins = False
        get_plugin_registry().search_libraries()
        known = _known_operators()

        def name(nodes):
            for node in nodes:
                attributes = {attribute.name: _text_of(attribute.value) for attribute in node.attribute}
                found = None
                if (_domain(node.domain), node.op_type) not in known:
                    found = get_plugin_registry()._find(node.op_type, attributes)
                if found is not None:
                    node.domain, node.op_type, is_quick = found
                    node.attribute = [a for a in node.attribute if not a.name.startswith("plugin_")]
                    if is_quick:  # the network's flags, or the node, say whether it is compiled ahead of time
                        request = request_of(self.network, attributes.get("aot"))
                        node.attribute.append(_integer(REQUEST, int(request)))
                    self._has_plugins = True
                for attribute in node.attribute:
                    for body in [attribute.g, *attribute.graphs]:
                        if body is not None:
                            name(body.node)

        name(graph.node)

    def _supported(self, model):
        """Whether Camshaft has all operators; otherwise all that are missing become errors."""
        known = _known_operators() | {(function.domain, function.name) for function in model.functions}
        missing = [
            (index, node)
            for index, node in enumerate(model.graph.node)
            if (_domain(node.domain), node.op_type) not in known
        ]
        for index, node in missing:
            name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            self._errors.append(
                ParserError(
                    ErrorCode.UNSUPPORTED_NODE,
                    f"there is no operator {name}, and no creator of a plugin of that name is registered",
                    index,
                    node,
                )
            )
            self._fail(str(self._errors[-1]))
        return not missing

    def set_builder_config(self, config):
        """Kept for programs that call it: a model is parsed alike for all configurations."""
        return True

    # ---- Flags ----

    def set_flag(self, flag):
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag):
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag):
        return bool(self.flags >> int(flag) & 1)

    # ---- What is supported ----

    def supports_operator(self, op_name):
        return any(name == op_name for _, name in _known_operators())

    def supports_model(self, model, path=None):
        """(whether all of it is, [([numbers of nodes], whether these are)])"""
        if not self._read(model):
            return False, []
        self._name_plugins(self._model.graph)
        self._subgraphs = self._parted()
        return all(supported for _, supported in self._subgraphs), self._subgraphs

    def supports_model_v2(self, model, path=None):
        return self.supports_model(model, path)[0]

    def _parted(self):
        known = _known_operators() | {(function.domain, function.name) for function in self._model.functions}
        parts = []
        for index, node in enumerate(self._model.graph.node):
            supported = (_domain(node.domain), node.op_type) in known
            if not parts or parts[-1][1] != supported:
                parts.append(([], supported))
            parts[-1][0].append(index)
        return parts

    _subgraphs = ()
    _has_plugins = False
    num_subgraphs = property(lambda self: len(self._subgraphs))

    def is_subgraph_supported(self, index):
        return self._subgraphs[index][1]

    def get_subgraph_nodes(self, index):
        return self._subgraphs[index][0]

    def get_layer_output_tensor(self, name, i):
        for layer in self.network:
            if layer.name == name:
                return layer.get_output(i)
        return None

    def get_used_vc_plugin_libraries(self):
        return []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def get_nv_onnx_parser_version():
    return 10 * 10000 + 13 * 100


def _text_of(value):
    return bytes(value).decode(errors="replace") if isinstance(value, (bytes, bytearray, memoryview)) else value


def _integer(name, value):
    made = Attribute()
    made.__dict__.update(name=name, type=_INT, i=value)
    return made


def _domain(domain):
    return "" if domain == "ai.onnx" else domain


def _known_operators():
    known = {(_domain(entry["domain"]), entry["operator"]) for entry in json.loads(_native.list_operators())}
    # Exporters write TensorRT's own into ONNX's domain, too.
    known |= {("", name) for domain, name in known if domain == "TRT"}
    return known | {tuple(plugin["name"].rpartition("::")[::2]) for plugin in plugins()}
