"""Networks: layers and tensors, from an ONNX model or added one by one, and the model that they make."""

import itertools

import onnx
from camshaft.tensorrt._enums import DataType, TensorFormat, TensorLocation
from camshaft.tensorrt._log import Reporter
from camshaft.tensorrt._parsed_layer import names_of, property_of
from camshaft.tensorrt._values import Dims
from onnx import TensorProto

#: Of networks that no model was parsed into.
OPSET = 21

ONNX_TYPES = {
    DataType.FLOAT: TensorProto.FLOAT,
    DataType.HALF: TensorProto.FLOAT16,
    DataType.INT8: TensorProto.INT8,
    DataType.INT32: TensorProto.INT32,
    DataType.BOOL: TensorProto.BOOL,
    DataType.UINT8: TensorProto.UINT8,
    DataType.FP8: TensorProto.FLOAT8E4M3FN,
    DataType.BF16: TensorProto.BFLOAT16,
    DataType.INT64: TensorProto.INT64,
    DataType.INT4: TensorProto.INT4,
    DataType.FP4: TensorProto.FLOAT4E2M1,
}
_DATA_TYPES = {number: dtype for dtype, number in ONNX_TYPES.items()}

#: Constants above this many elements are no shapes: inferring does without their numbers.
_LARGEST_SHAPE = 64


class ITensor:
    """An input of the network, or a result of a layer."""

    def __init__(self, network, name, dtype=None, shape=None):
        self._network = network
        self._name = name
        self._dtype, self._shape = dtype, shape  # of inputs alone
        self._dim_names = {}
        self.allowed_formats = 1 << int(TensorFormat.LINEAR)
        self.location = TensorLocation.DEVICE
        self.broadcast_across_batch = False
        self.dynamic_range = None

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, name):
        self._network._rename(self, name)

    @property
    def shape(self):
        """-1 where a size is dynamic; no sizes where the rank is not known."""
        if self._shape is not None:
            return Dims(self._shape)
        return Dims(self._network._inferred(self._name)[1] or ())

    @shape.setter
    def shape(self, shape):
        if not self.is_network_input:
            raise ValueError(f"tensor '{self.name}' is computed: its shape follows from the layer's")
        self._shape = Dims(shape)
        self._network._changed()

    @property
    def dtype(self):
        if self._dtype is not None:
            return self._dtype
        return self._network._inferred(self._name)[0] or DataType.FLOAT

    @dtype.setter
    def dtype(self, dtype):
        """Of inputs. An output has the type that is computed: layer.set_output_type() and cast layers change it."""
        if self.is_network_input:
            self._dtype = DataType(dtype)
            self._network._changed()

    @property
    def is_network_input(self):
        return self in self._network._inputs

    @property
    def is_network_output(self):
        return self in self._network._outputs

    #: Whether it holds a shape. Such tensors are data like others here.
    is_shape_tensor = False
    is_execution_tensor = True

    def set_dynamic_range(self, min, max):
        """For int8 without a calibrator: numbers outside are clipped."""
        if not min <= max:
            raise ValueError(f"tensor '{self.name}': the range {min} to {max} is empty")
        self.dynamic_range = (min, max)
        return True

    def reset_dynamic_range(self):
        self.dynamic_range = None

    def set_dimension_name(self, index, name):
        """Sizes of one name are the same."""
        self._dim_names[index] = name

    def get_dimension_name(self, index):
        return self._dim_names.get(index)

    def __repr__(self):
        return f"<ITensor '{self.name}' {self.dtype} {self.shape}>"


class ILayer:
    """A layer of a network."""

    name, type, metadata = "", None, ""

    def __init__(self, network, type, name, inputs, outputs):
        self.__dict__["_network"] = network
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self.type = type
        self.name = name
        self.metadata = ""
        self._precision = None
        self._output_types = {}

    def __setattr__(self, name, value):
        """A property is set: what was inferred may have changed."""
        if self._is_of_parsed(name):
            raise NotImplementedError(
                f"layer '{self.name}' is a node of the ONNX model: change its {name} there, before it is parsed"
            )
        super().__setattr__(name, value)
        if not name.startswith("_") and name not in ("name", "__class__"):
            self._network._changed()

    def __getattr__(self, name):
        """TensorRT's properties of a node of a parsed model."""
        node = self.__dict__.get("_node")
        if node is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        return property_of(node, self._network, name)

    def __dir__(self):
        names = set() if "_node" not in self.__dict__ else set(names_of(self._node))
        return sorted(names | {name for name in super().__dir__() if name.startswith("__") or not name.startswith("_")})

    def _is_of_parsed(self, name):
        """Programs make a layer's class the one of its type, as TensorRT wants it; nodes stay what they are."""
        node = self.__dict__.get("_node")
        if node is None or name.startswith("_") or name in self.__dict__:
            return False
        return name in names_of(node)

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))

    def get_input(self, index):
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index):
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def set_input(self, index, tensor):
        """Replaces an operand, or gives an optional one."""
        if "_node" in self.__dict__:
            self._node.input[index] = tensor.name
            self._inputs = [self._network._tensors[name] for name in self._node.input if name in self._network._tensors]
        else:
            self._inputs += [None] * (index + 1 - len(self._inputs))
            self._inputs[index] = tensor
        self._network._changed()

    @property
    def precision(self):
        return DataType.FLOAT if self._precision is None else self._precision

    @precision.setter
    def precision(self, dtype):
        self._precision = DataType(dtype)

    precision_is_set = property(lambda self: self._precision is not None)

    def reset_precision(self):
        self._precision = None

    def set_output_type(self, index, dtype):
        self._output_types[index] = DataType(dtype)

    def get_output_type(self, index):
        return self._output_types.get(index, self._outputs[index].dtype)

    def output_type_is_set(self, index):
        return index in self._output_types

    def reset_output_type(self, index):
        self._output_types.pop(index, None)

    def _nodes(self):
        """Its ONNX nodes, named by the layer."""
        raise NotImplementedError(f"layers of {self.type} cannot be built")

    def __repr__(self):
        return f"<{type(self).__name__} '{self.name}'>"


def _rename_in(node, old, new):
    for names in (node.input, node.output):
        for k, name in enumerate(names):
            if name == old:
                names[k] = new
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                _rename_in(inner, old, new)
            for output in graph.output:
                if output.name == old:
                    output.name = new


class INetworkDefinition(Reporter):
    """Layers, from Builder.create_network() and the add_ functions or OnnxParser."""

    def __init__(self, builder, flags, logger):
        super().__init__(logger)
        self.builder = builder
        self.flags = flags
        self.name = "Unnamed Network 0"
        self.has_implicit_batch_dimension = False
        self._inputs, self._outputs, self._layers = [], [], []
        self._tensors = {}  # by name
        self._initializers = {}  # TensorProtos by name
        self._functions = []
        self._opsets = {"": OPSET}
        self._ir_version = 10
        self._folder = None  # of external data
        self._numbers = itertools.count()
        self._types = None  # what was inferred, until something changes
        self._written = None  # the nodes so far, while they are being written
        self._types_so_far = (0, {})

    # ---- Inputs, outputs, layers ----

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))
    num_layers = property(lambda self: len(self._layers))

    def get_input(self, index):
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index):
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def get_layer(self, index):
        return self._layers[index] if 0 <= index < len(self._layers) else None

    def __len__(self):
        return len(self._layers)

    def __getitem__(self, index):
        return self._layers[index]

    def __iter__(self):
        return iter(self._layers)

    def get_flag(self, flag):
        return bool(self.flags >> int(flag) & 1)

    def add_input(self, name, dtype, shape):
        """None, with a message to the logger, where there is one of that name."""
        if name in self._tensors:
            self._fail(f"there is a tensor '{name}' already")
            return None
        tensor = ITensor(self, name, DataType(dtype), Dims(shape))
        self._inputs.append(tensor)
        self._tensors[name] = tensor
        self._changed()
        return tensor

    def mark_output(self, tensor):
        if tensor not in self._outputs:
            self._outputs.append(tensor)

    def unmark_output(self, tensor):
        if tensor in self._outputs:
            self._outputs.remove(tensor)

    def remove_tensor(self, tensor):
        """What nothing reads is left out of engines anyway."""
        if tensor in self._inputs:
            self._inputs.remove(tensor)
        self.unmark_output(tensor)
        self._tensors.pop(tensor.name, None)
        self._changed()

    def mark_output_for_shapes(self, tensor):
        self.mark_output(tensor)
        return True

    def unmark_output_for_shapes(self, tensor):
        self.unmark_output(tensor)
        return True

    def set_weights_name(self, weights, name):
        return True

    def mark_debug(self, tensor):
        return self._fail(f"tensor '{tensor.name}': there are no debug tensors; mark it as an output")

    def unmark_debug(self, tensor):
        return True

    def is_debug_tensor(self, tensor):
        return False

    def mark_unfused_tensors_as_debug_tensors(self):
        return self._fail("there are no debug tensors: mark tensors as outputs")

    def unmark_unfused_tensors_as_debug_tensors(self):
        return True

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    # ---- The model ----

    def _changed(self):
        self._types = None

    def _new_tensor(self, name):
        while not name or name in self._tensors or name in self._initializers:
            name = f"{name or 'tensor'}_{next(self._numbers)}"
        tensor = self._tensors[name] = ITensor(self, name)
        return tensor

    def _rename(self, tensor, name):
        if name == tensor.name:
            return
        if name in self._tensors:
            raise ValueError(f"there is a tensor '{name}' already")
        self._tensors.pop(tensor.name, None)
        for layer in self._layers:
            if "_node" in layer.__dict__:
                _rename_in(layer._node, tensor.name, name)
        tensor._name = name
        self._tensors[name] = tensor
        self._changed()

    def _input_info(self, tensor):
        dims = [
            tensor.get_dimension_name(axis) or f"{tensor.name}.{axis}" if size < 0 else int(size)
            for axis, size in enumerate(tensor.shape)
        ]
        return onnx.helper.make_tensor_value_info(tensor.name, ONNX_TYPES[tensor.dtype], dims)

    def _all_nodes(self):
        """In an order in which each has its operands."""
        self._written, self._types_so_far = [], (0, {})
        try:
            for layer in self._sorted_layers():
                self._written.extend(self._nodes_of(layer))
            return self._written
        finally:
            self._written = None

    def _sorted_layers(self):
        """Layers after those whose results they read; else in the order in which they were added."""
        source = {id(tensor): layer for layer in self._layers for tensor in layer._outputs}
        placed, order = set(), []
        for first in self._layers:
            stack = [first]
            while stack:
                layer = stack[-1]
                before = [source.get(id(tensor)) for tensor in layer._inputs if tensor is not None]
                waiting = [other for other in before if other is not None and id(other) not in placed]
                if id(layer) in placed or not waiting:
                    stack.pop()
                    if id(layer) not in placed:
                        placed.add(id(layer))
                        order.append(layer)
                    continue
                if waiting[0] in stack:
                    raise ValueError(f"layer '{layer.name}' reads what follows from its own result")
                stack.append(waiting[0])
        return order

    def _model(self, nodes, outputs, initializers):
        graph = onnx.helper.make_graph(
            nodes,
            self.name,
            [self._input_info(tensor) for tensor in self._inputs],
            outputs,
            initializers,
        )
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in self._opsets.items()]
        model = onnx.helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=self._ir_version,
            functions=self._functions,
            producer_name="camshaft",
        )
        return model

    @staticmethod
    def _nodes_of(layer):
        node = layer.__dict__.get("_node")
        if node is None:
            return layer._nodes()
        node.name = layer.name
        return [node]

    def _tensor_or_initializer_shape(self, name):
        if name in self._initializers:
            return list(self._initializers[name].dims)
        return self._inferred(name)[1]

    def _to_onnx(self):
        """The model's bytes. Raises ValueError for a network without outputs."""
        if not self._outputs:
            raise ValueError("the network has no outputs: call mark_output()")
        outputs = [onnx.ValueInfoProto(name=tensor.name) for tensor in self._outputs]
        model = self._model(self._all_nodes(), outputs, self._initializers.values())
        entry = model.metadata_props.add()
        entry.key, entry.value = "network_name", self.name
        return model.SerializeToString()

    def _inferred(self, name):
        """(DataType, [size, -1 where it is dynamic]) of a tensor; None for what is not known."""
        if self._written is not None:  # a layer that is being written asks for its operands
            if self._types_so_far[0] != len(self._written):
                self._types_so_far = len(self._written), self._infer(self._written)
            return self._types_so_far[1].get(name, (None, None))
        if self._types is None:
            self._types = self._infer(self._all_nodes())
        return self._types.get(name, (None, None))

    def _infer(self, nodes):
        initializers, known = [], []
        for tensor in self._initializers.values():
            if sum(tensor.dims) <= _LARGEST_SHAPE and not tensor.external_data:
                initializers.append(tensor)
            else:
                known.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        model = self._model(nodes, [], initializers)
        model.graph.input.extend(known)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        types = {}
        for info in [*inferred.value_info, *inferred.input, *inferred.output]:
            kind = info.type.tensor_type
            dims = None
            if kind.HasField("shape"):
                dims = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
            types[info.name] = _DATA_TYPES.get(kind.elem_type), dims
        for tensor in initializers:
            types[tensor.name] = _DATA_TYPES.get(tensor.data_type), list(tensor.dims)
        return types
