"""Networks: layers and tensors, from an ONNX model or added one by one, and the model that they make."""

import itertools

from camshaft.tensorrt._enums import DataType, TensorFormat, TensorLocation
from camshaft.tensorrt._log import Reporter
from camshaft.tensorrt._onnx_file import metadata_entry
from camshaft.tensorrt._values import Dims, Weights, address_of, dtype_of_name, name_of_dtype
from camshaft.tensorrt._writing import Writer


class ITensor:
    """An input of the network, or a result of a layer."""

    def __init__(self, network, name, dtype=None, shape=None):
        self._network = network
        self._name = name
        self._dtype, self._shape = dtype, shape  # of inputs alone; the type by Camshaft's name
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
        sizes = self._shape if self._shape is not None else self._network._known(self)[1]
        return Dims(size if isinstance(size, int) else -1 for size in sizes or ())

    @shape.setter
    def shape(self, shape):
        if not self.is_network_input:
            raise ValueError(f"tensor '{self.name}' is computed: its shape follows from the layer's")
        self._shape = Dims(shape)
        self._network._changed()

    @property
    def dtype(self):
        name = self._dtype if self._dtype is not None else self._network._known(self)[0]
        try:
            return DataType.FLOAT if name is None else dtype_of_name(name)
        except TypeError:  # of an ONNX model: TensorRT has no such type
            return DataType.FLOAT

    @dtype.setter
    def dtype(self, dtype):
        """Of inputs. An output has the type that is computed: layer.set_output_type() and cast layers change it."""
        if self.is_network_input:
            self._dtype = name_of_dtype(dtype)
            self._network._changed()

    def _as_input(self):
        """What camshaft.Network.input() takes."""
        sizes = [self._dim_names.get(axis) if size < 0 else size for axis, size in enumerate(self._shape)]
        # Exporters write these where they know no name, and Camshaft gives names with @ itself.
        unnamed = [isinstance(size, str) and (size in ("", "?", "-1", "None") or size[0] == "@") for size in sizes]
        return self._name, self._dtype, [None if skip else size for skip, size in zip(unnamed, sizes)]

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
        self._network._changed()

    def get_dimension_name(self, index):
        return self._dim_names.get(index)

    def __repr__(self):
        return f"<ITensor '{self.name}' {self.dtype} {self.shape}>"


class ILayer:
    """A layer of a network."""

    name, type, metadata, num_ranks = "", None, "", 1
    _construct = None  # the loop or conditional whose boundary this is a part of

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
        """A property is set: what is known of results may have changed."""
        super().__setattr__(name, value)
        if not name.startswith("_") and name not in ("metadata", "precision", "__class__"):
            self._network._changed(self)

    def __dir__(self):
        """Programs list properties by it."""
        return [name for name in object.__dir__(self) if name.startswith("__") or not name.startswith("_")]

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))

    def get_input(self, index):
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index):
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def set_input(self, index, tensor):
        """Replaces an operand, or gives an optional one."""
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

    def _reads(self):
        """The tensors that it needs."""
        return [tensor for tensor in self._inputs if tensor is not None]

    def _write_into(self, scope, plan):
        """Adds its nodes to a graph, and tells the scope what its results are."""
        raise NotImplementedError(f"layers of {self.type} cannot be built")

    def __repr__(self):
        return f"<{type(self).__name__} '{self.name}'>"


class INetworkDefinition(Reporter):
    """Layers, from Builder.create_network() and the add_ functions or OnnxParser."""

    def __init__(self, builder, flags, logger):
        super().__init__(logger)
        self.builder = builder
        self.flags = flags
        self.name = "Unnamed Network 0"
        self.has_implicit_batch_dimension = self.has_explicit_precision = False
        self._inputs, self._outputs, self._layers = [], [], []
        self._tensors = {}  # by name
        self._initializers = {}  # of a parsed model: tensors of the file by name
        self._functions = {}  # likewise: {(domain, name): function of the file}
        self._opset = None  # of a parsed model
        self._folder = None  # of external data
        self._source = None  # the parsed model's bytes, as long as nothing is changed in it
        self._names_of_weights = {}  # by where their elements are
        self._marked_weights = set()
        self._debug_tensors = []
        self._numbers = itertools.count()
        self._writer = None  # what was written, until something in it changes

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
        return self._new_input(name, name_of_dtype(dtype), Dims(shape))

    def _new_input(self, name, dtype, shape):
        tensor = ITensor(self, name, dtype, shape)
        self._inputs.append(tensor)
        self._tensors[name] = tensor
        self._source = None
        return tensor

    def mark_output(self, tensor):
        if not isinstance(tensor, ITensor):
            raise TypeError(f"an output is an ITensor, not {tensor!r}")
        if tensor not in self._outputs:
            self._outputs.append(tensor)
            self._source = None

    def unmark_output(self, tensor):
        if tensor in self._outputs:
            self._outputs.remove(tensor)
            self._source = None

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
        """The name by which a refit replaces them; False where others have it, and for those of a parsed model, which have
        the names of its initializers."""
        if self._initializers:
            return self._fail(f"weights of a parsed model keep the names that it gives them: '{name}' is not set")
        where = address_of(weights.numpy() if isinstance(weights, Weights) else weights)
        if name in (known for other, known in self._names_of_weights.items() if other != where):
            return self._fail(f"other weights have the name '{name}' already")
        self._names_of_weights[where] = name
        self._changed()
        return True

    def mark_weights_refittable(self, name):
        """With the flag REFIT_INDIVIDUAL these can be replaced, and so can all others."""
        self._marked_weights.add(name)
        return True

    def unmark_weights_refittable(self, name):
        self._marked_weights.discard(name)
        return True

    def are_weights_marked_refittable(self, name):
        return name in self._marked_weights

    def mark_debug(self, tensor):
        """A listener of a context may get it (set_debug_listener): fusion keeps it, and the engine has no output more."""
        if tensor.is_network_input:
            return self._fail(f"tensor '{tensor.name}' is an input, and cannot be a debug tensor")
        if tensor not in self._debug_tensors:
            self._debug_tensors.append(tensor)
        return True

    def unmark_debug(self, tensor):
        if tensor in self._debug_tensors:
            self._debug_tensors.remove(tensor)
        return True

    def is_debug_tensor(self, tensor):
        return tensor in self._debug_tensors

    def mark_unfused_tensors_as_debug_tensors(self):
        return self._fail("only building tells which tensors fusion leaves: call mark_debug() for those that you want")

    def unmark_unfused_tensors_as_debug_tensors(self):
        return True

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    # ---- The model ----

    def _changed(self, layer=None):
        """What was written is no longer so; of a layer that was not written yet, all is as it was."""
        self._source = None
        if layer is None or (self._writer is not None and layer in self._writer.seen):
            self._writer = None

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
        tensor._name = name
        self._tensors[name] = tensor
        self._changed()

    def _written(self):
        """The writer, with all layers."""
        if self._writer is None:
            self._writer = Writer(self)
        self._writer.catch_up()
        return self._writer

    def _known(self, tensor):
        """(Camshaft's name of the type, sizes, text where one is dynamic) of a tensor; None for what is not known."""
        if self._writer is not None and tensor in self._writer.known:
            return self._writer.known[tensor]
        return self._written().known.get(tensor, (None, None))

    def _shape_of(self, operand):
        """[size, -1 where it is dynamic] of a tensor, or of a parsed model's constant."""
        return list(operand.shape) if isinstance(operand, ITensor) else list(self._initializers[operand].dims)

    def _has_external_data(self):
        return any(tensor.is_external for tensor in self._initializers.values())

    def _to_model(self):
        """(what camshaft.build() takes, {layer: [name of a node]}): the bytes of a parsed model that nothing was changed
        in, or a camshaft.Network. Raises what is wrong, as ValueError for a network without outputs."""
        if not self._outputs:
            raise ValueError("the network has no outputs: call mark_output()")
        if self._source is not None:
            nodes = {layer: [layer._node.name] for layer in self._layers}
            asked = [layer for layer in self._layers if layer.precision_is_set or layer._output_types]
            if all(nodes[layer] != [""] for layer in asked):
                return b"".join([self._source, metadata_entry("network_name", self.name)]), nodes
        return self._to_network()

    def _to_network(self):
        writer = self._written()
        return self._with_outputs(
            {tensor.name: tensor for tensor in self._outputs} | self._conditions()
        ), writer.nodes()

    def _with_outputs(self, outputs):
        """The network as a model with these outputs: {name: tensor}."""
        writer = self._written()
        self._writer = None  # outputs may be others next time
        return writer.finish(outputs)

    def _needed(self):
        """The layers that results come from, as far as that is known: all where there are loops or conditionals."""
        if any(layer._construct is not None for layer in self._layers):
            return set(self._layers)
        from_layer = {tensor: layer for layer in self._layers for tensor in layer._outputs}
        ends = [layer for layer in self._layers if not layer._outputs]  # such as assertions
        found, stack = set(ends), [tensor for layer in ends for tensor in layer._reads()]
        stack += [*self._outputs, *self._debug_tensors, *self._conditions().values()]
        while stack:
            layer = from_layer.get(stack.pop())
            if layer is not None and layer not in found:
                found.add(layer)
                stack += layer._reads()
        return found

    def _conditions(self):
        """Outputs that are not the program's: {name: tensor}."""
        return {}
