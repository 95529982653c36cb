"""Runtimes and engines."""

import functools
import json

import camshaft
from camshaft.tensorrt import _assertions, _cuda
from camshaft.tensorrt._context import IExecutionContext
from camshaft.tensorrt._enums import (
    EngineCapability,
    ExecutionContextAllocationStrategy,
    HardwareCompatibilityLevel,
    LayerInformationFormat,
    ProfilingVerbosity,
    SerializationFlag,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)
from camshaft.tensorrt._log import Reporter, theirs
from camshaft.tensorrt._values import Dims, IHostMemory, dtype_of_name


class Runtime(Reporter):
    """Loads engines."""

    def __init__(self, logger):
        super().__init__(logger)
        self.logger = logger
        self.gpu_allocator = None
        self.max_threads = 0
        self.DLA_core = -1
        self.num_DLA_cores = 0
        self.temporary_directory = None
        self.tempfile_control_flags = 0
        self.engine_host_code_allowed = False

    def deserialize_cuda_engine(self, serialized_engine=None, *, stream_reader=None, stream_reader_v2=None):
        """An engine of bytes that a build gave, or of an IStreamReader; None, with a message to the logger, for others."""
        with self._reporting():
            given = (serialized_engine, stream_reader, stream_reader_v2)
            data = next((source for source in given if source is not None), b"")
            self.get_plugin_registry().search_libraries()
            if hasattr(data, "read") and not isinstance(data, (bytes, bytearray, memoryview)):
                data = _everything(data)
            return ICudaEngine(camshaft.Engine(bytes(data), _cuda.device() if _cuda.has_gpu() else None), self.logger)
        return None

    def load_runtime(self, path):
        raise NotImplementedError("engines need no lean runtime: load_runtime() has nothing to load")

    def get_plugin_registry(self):
        from camshaft.tensorrt import get_plugin_registry

        return get_plugin_registry()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def _name_of(metadata):
    """The network's: of a parsed model that was built as it is, or of one that was written. Else the model is a file."""
    model = metadata.get("model", "")
    written = "" if model.endswith(".onnx") else model
    return metadata.get("model.network_name", written) or "Unnamed Network 0"


class IStreamReader:
    """Gives an engine's bytes: derive from it, and write read(size), which gives none at the end."""

    def __init__(self):
        pass

    def read(self, size):
        raise NotImplementedError("a stream reader needs read(size)")


class IStreamReaderV2(IStreamReader):
    """The same with read(size, stream), and seek(offset, where)."""

    def seek(self, offset, where):
        raise NotImplementedError("a stream reader needs seek(offset, where)")


class IStreamWriter:
    """Takes an engine's bytes: derive from it, and write write(data), which gives how many it took."""

    def __init__(self):
        pass

    def write(self, data):
        raise NotImplementedError("a stream writer needs write(data)")


_PIECE = 1 << 24  # bytes that a reader is asked for at once


def _everything(reader):
    """All that a stream reader gives."""
    arguments = (_PIECE, 0) if isinstance(reader, IStreamReaderV2) else (_PIECE,)
    pieces = []
    with theirs():
        while piece := reader.read(*arguments):
            pieces.append(bytes(piece))
    return b"".join(pieces)


class ISerializationConfig:
    """What a serialised engine is to hold."""

    def __init__(self):
        self.flags = 0

    def set_flag(self, flag):
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag):
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag):
        return bool(self.flags >> int(flag) & 1)


class IRuntimeConfig:
    """How contexts get their memory: they plan it exactly, whatever is asked for."""

    def __init__(self):
        self._strategy = ExecutionContextAllocationStrategy.STATIC

    def set_execution_context_allocation_strategy(self, strategy):
        self._strategy = strategy

    def get_execution_context_allocation_strategy(self):
        return self._strategy


def _by_index_or_name(call):
    """A binding's number or name is the one argument, by either word."""

    @functools.wraps(call)
    def called(self, *key, **named):
        values = [*key, *named.values()]
        if len(values) != 1 or not named.keys() <= {"index", "name"}:
            raise TypeError(f"{call.__name__}() takes the index or the name of a binding")
        return call(self, *values)

    return called


class ICudaEngine(Reporter):
    """An engine. Tensors are asked for by name, as TensorRT 10 has them, or as bindings by number, as TensorRT 8 had."""

    def __init__(self, engine, logger):
        super().__init__(logger)
        self._engine = engine
        self._debug_tensors = [name for name in engine.metadata.get("debug_tensors", "").split("\n") if name]
        self._assertions = [info.name for info in engine.outputs if info.name.startswith(_assertions.PREFIX)]
        hidden = {*self._debug_tensors, *self._assertions}
        self._outputs = [info for info in engine.outputs if info.name not in hidden]
        self._infos = {info.name: info for info in engine.inputs + self._outputs}
        self._names = list(self._infos)
        self._inputs = {info.name for info in engine.inputs}
        self._profile_count = max(1, len(engine.profiles))
        self.name = _name_of(engine.metadata)
        self.has_implicit_batch_dimension = False
        self.max_batch_size = 1
        self.refittable = engine.is_refittable
        self.engine_capability = EngineCapability.STANDARD
        self.hardware_compatibility_level = HardwareCompatibilityLevel.NONE
        self.profiling_verbosity = ProfilingVerbosity.DETAILED
        self.num_aux_streams = 0
        self.tactic_sources = 0
        self._budget = None  # as it was set; None: all weights stay

    # ---- Tensors ----

    @property
    def num_io_tensors(self):
        return len(self._names)

    def _info(self, name):
        if name not in self._infos:
            raise ValueError(f"the engine has no tensor '{name}', but {', '.join(self._names)}")
        return self._infos[name]

    def get_tensor_name(self, index):
        return self._names[index]

    def get_tensor_mode(self, name):
        if name not in self._infos:
            return TensorIOMode.NONE
        return TensorIOMode.INPUT if name in self._inputs else TensorIOMode.OUTPUT

    def get_tensor_shape(self, name):
        """-1 where a size is dynamic."""
        return Dims(self._info(name).shape)

    def get_tensor_dtype(self, name):
        """Raises TypeError for types that TensorRT has not."""
        return dtype_of_name(self._info(name).dtype)

    def get_tensor_location(self, name):
        self._info(name)
        return TensorLocation.DEVICE

    def is_shape_inference_io(self, name):
        """No: inputs that hold shapes are data like others, and are read where all inputs are."""
        self._info(name)
        return False

    def get_tensor_bytes_per_component(self, name, profile_index=0):
        return self.get_tensor_dtype(name).itemsize

    def get_tensor_components_per_element(self, name, profile_index=0):
        self._info(name)
        return 1

    def get_tensor_format(self, name, profile_index=0):
        self._info(name)
        return TensorFormat.LINEAR

    def get_tensor_format_desc(self, name, profile_index=0):
        return f"Row major linear {self.get_tensor_dtype(name).name} format (kLINEAR)"

    def get_tensor_vectorized_dim(self, name, profile_index=0):
        self._info(name)
        return -1

    def get_aliased_input_tensor(self, name):
        self._info(name)

    def is_debug_tensor(self, name):
        return name in self._debug_tensors

    def _dtype_of(self, debug_tensor):
        return dtype_of_name(next(info.dtype for info in self._engine.outputs if info.name == debug_tensor))

    # ---- Profiles ----

    @property
    def num_optimization_profiles(self):
        return self._profile_count

    def get_tensor_profile_shape(self, name, profile_index):
        """[smallest, usual, largest]"""
        info = self._info(name)
        if name not in self._inputs:
            raise ValueError(f"'{name}' is an output: profiles are of inputs")
        if not 0 <= profile_index < self.num_optimization_profiles:
            raise ValueError(f"there is no profile {profile_index}: the engine has {self.num_optimization_profiles}")
        profiles = self._engine.profiles
        ranges = profiles[profile_index].get(name) if profiles else None
        if ranges is None:
            return [Dims(info.shape)] * 3
        return [Dims(ranges[which]) for which in ("min", "opt", "max")]

    def get_tensor_profile_values(self, name, profile_index):
        return []

    # ---- Bindings, of TensorRT 8, which has as many for each profile: those of the second are "x [profile 1]" ----

    def __len__(self):
        """Of TensorRT 10, as iterating is: each tensor once."""
        return len(self._names)

    @property
    def num_bindings(self):
        return len(self._names) * self.num_optimization_profiles

    def __iter__(self):
        return iter(self._names)

    def __getitem__(self, key):
        """The number of a binding's name, or its name."""
        return self.get_binding_index(key) if isinstance(key, str) else self.get_binding_name(key)

    def _binding(self, key):
        """The tensor of a binding, by its number or name."""
        if isinstance(key, str):
            return key if key in self._infos else key.partition(" [profile ")[0]
        if not 0 <= key < self.num_bindings:
            raise IndexError(f"there is no binding {key}: the engine has {self.num_bindings}")
        return self._names[key % len(self._names)]

    def get_binding_name(self, index):
        name, profile = self._binding(index), index // len(self._names)
        return f"{name} [profile {profile}]" if profile else name

    def get_binding_index(self, name):
        for index in range(self.num_bindings):
            if self.get_binding_name(index) == name:
                return index
        return -1

    @_by_index_or_name
    def binding_is_input(self, key):
        return self._info(self._binding(key)).name in self._inputs

    @_by_index_or_name
    def get_binding_shape(self, key):
        return self.get_tensor_shape(self._binding(key))

    @_by_index_or_name
    def get_binding_dtype(self, key):
        return self.get_tensor_dtype(self._binding(key))

    @_by_index_or_name
    def get_location(self, key):
        return self.get_tensor_location(self._binding(key))

    def get_profile_shape(self, profile_index, binding):
        return self.get_tensor_profile_shape(self._binding(binding), profile_index)

    def get_profile_shape_input(self, profile_index, binding):
        return []

    def is_shape_binding(self, binding):
        return False

    def is_execution_binding(self, binding):
        return True

    def get_binding_format(self, index):
        return self.get_tensor_format(self._binding(index))

    def get_binding_format_desc(self, index):
        return self.get_tensor_format_desc(self._binding(index))

    def get_binding_bytes_per_component(self, index):
        return self.get_tensor_bytes_per_component(self._binding(index))

    def get_binding_components_per_element(self, index):
        return 1

    def get_binding_vectorized_dim(self, index):
        return -1

    # ---- The engine ----

    @property
    def num_layers(self):
        return len(self._engine.layers())

    @property
    def device_memory_size(self):
        """Bytes that a context needs at the first profile's usual shapes."""
        return self._engine.memory()["arena_bytes"]

    device_memory_size_v2 = device_memory_size

    def get_device_memory_size_for_profile(self, profile_index):
        return self.device_memory_size

    get_device_memory_size_for_profile_v2 = get_device_memory_size_for_profile

    def serialize(self):
        return IHostMemory(bytes(self._engine))

    def create_serialization_config(self):
        return ISerializationConfig()

    def serialize_with_config(self, config):
        """With EXCLUDE_WEIGHTS without the weights that a refit can replace; else with all of them, also of an engine
        that was built without. None, with a message to the logger, where it has none, or no refit could bring them back."""
        with self._reporting():
            if config.get_flag(SerializationFlag.EXCLUDE_WEIGHTS):
                return IHostMemory(self._engine.to_bytes(weights=False))
            return IHostMemory(self._engine.to_bytes(weights=True))
        return None

    def create_execution_context(self, strategy=ExecutionContextAllocationStrategy.STATIC, runtime_config=None):
        """A context. It plans its own memory, whatever the strategy is."""
        with self._reporting():
            return IExecutionContext(self, self._engine.create_context(), self._logger)
        return None

    def create_execution_context_without_device_memory(self):
        return self.create_execution_context()

    def create_runtime_config(self):
        return IRuntimeConfig()

    def create_engine_inspector(self):
        return EngineInspector(self)

    # ---- Weights that come in from the engine's file ----

    @property
    def streamable_weights_size(self):
        """Of all weights that layers read; any engine's can be streamed, whether it was built for that or not."""
        return self._engine.weight_streaming()["weight_bytes"]

    @property
    def weight_streaming_budget_v2(self):
        """Bytes of weights that are in memory at once; all of them, as at first: none is streamed. One that is less than
        the least is that (minimum_weight_streaming_budget)."""
        return self.streamable_weights_size if self._budget is None else self._budget

    @weight_streaming_budget_v2.setter
    def weight_streaming_budget_v2(self, budget):
        if budget < 0:
            raise ValueError(f"a weight streaming budget cannot be {budget}")
        with self._reporting():
            if budget >= self.streamable_weights_size:
                self._engine.set_weight_budget(None)
                self._budget = None
            else:
                self._engine.set_weight_budget(max(budget, self.minimum_weight_streaming_budget))
                self._budget = budget

    @property
    def weight_streaming_budget(self):
        """As weight_streaming_budget_v2, in the words of TensorRT 10.0: 0 streams nothing, -1 is the automatic budget."""
        return 0 if self._budget is None else self._budget

    @weight_streaming_budget.setter
    def weight_streaming_budget(self, budget):
        if budget == 0:
            budget = self.streamable_weights_size
        elif budget == -1:
            budget = self.get_weight_streaming_automatic_budget()
        self.weight_streaming_budget_v2 = budget

    @property
    def minimum_weight_streaming_budget(self):
        if self._engine.weight_streaming()["least_budget"] < 0:
            self._engine.set_weight_budget("100%")  # which puts weights that are in memory into a file
        return self._engine.weight_streaming()["least_budget"]

    @property
    def weight_streaming_scratch_memory_size(self):
        """Of the budget, what is for weights that come in."""
        return self._engine.weight_streaming()["window_bytes"]

    def get_weight_streaming_automatic_budget(self):
        """What is free, or all weights."""
        return self._engine.weight_streaming()["automatic_budget"]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class EngineInspector(Reporter):
    """What an engine's layers are, as TensorRT's inspector writes it."""

    def __init__(self, engine):
        super().__init__(engine._logger)
        self._layers = engine._engine.layers()
        self._engine = engine
        #: For its shapes; sizes that no context has set are left out.
        self.execution_context = None

    @staticmethod
    def _described(layer):
        return {
            "Name": layer["name"],
            "LayerType": layer["op"],
            "Inputs": [_tensor(text) for text in layer["inputs"]],
            "Outputs": [_tensor(text) for text in layer["outputs"]],
            "TacticValue": layer["tactic"],
            "TacticName": layer["tactic"],
            "Origin": ", ".join(layer["sources"]),
            "StreamId": 0,
            "Metadata": layer["description"],
        }

    def _text(self, layer, format):
        if format == LayerInformationFormat.JSON:
            return json.dumps(self._described(layer))
        return f"{layer['name']}: {layer['op']}, {layer['tactic']}\n"

    def get_layer_information(self, layer_index, format):
        if not 0 <= layer_index < len(self._layers):
            self._fail(f"there is no layer {layer_index}: the engine has {len(self._layers)}")
            return ""
        return self._text(self._layers[layer_index], format)

    def get_engine_information(self, format):
        if format != LayerInformationFormat.JSON:
            return "".join(self._text(layer, format) for layer in self._layers)
        described = [self._described(layer) for layer in self._layers]
        return json.dumps({"Layers": described, "Bindings": list(self._engine)})


_FORMATS = {
    "f32": "FP32",
    "f16": "FP16",
    "bf16": "BFloat16",
    "i8": "Int8",
    "i32": "Int32",
    "i64": "Int64",
    "bool": "Bool",
}


def _tensor(text):
    """Of "name: f32[n, 3]", as layers are listed."""
    name, _, kind = text.rpartition(": ")
    dtype, _, dims = kind.rstrip("]").partition("[")
    sizes = [int(size) if size.isdecimal() else -1 for size in dims.split(", ") if size]
    described = f"Row major linear {_FORMATS[dtype]}" if dtype in _FORMATS else "N/A"
    return {"Name": name, "Location": "Device", "Dimensions": sizes, "Format/Datatype": described}
