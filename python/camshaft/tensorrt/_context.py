"""Running engines."""

import ctypes

import numpy

import camshaft
from camshaft.tensorrt import _assertions, _cuda, _graphs
from camshaft.tensorrt._enums import ErrorCodeTRT, ProfilingVerbosity, TensorLocation
from camshaft.tensorrt._log import Reporter, theirs
from camshaft.tensorrt._values import Dims, bytes_of_element, nptype, volume

_ANY_DIRECTION = 4  # of cudaMemcpy


class IOutputAllocator:
    """Memory for outputs whose sizes only running tells: derive from it, and write reallocate_output_async(tensor_name,
    memory, size, alignment, stream), or reallocate_output() without the stream, which give an address, and
    notify_shape(tensor_name, shape)."""

    def __init__(self):
        pass

    def reallocate_output(self, tensor_name, memory, size, alignment):
        raise NotImplementedError("an output allocator needs reallocate_output()")

    def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
        return self.reallocate_output(tensor_name, memory, size, alignment)

    def notify_shape(self, tensor_name, shape):
        pass


class IProfiler:
    """Receives times of layers: derive from it, and write report_layer_time(layer_name, ms)."""

    def __init__(self):
        pass

    def report_layer_time(self, layer_name, ms):
        raise NotImplementedError("a profiler needs report_layer_time(layer_name, ms)")


class Profiler(IProfiler):
    """Prints the times of layers."""

    def report_layer_time(self, layer_name, ms):
        print(f"{layer_name}: {ms}ms")


class IDebugListener:
    """Receives debug tensors after a run: derive from it, and write process_debug_tensor(addr, location, type, shape, name,
    stream), which gives whether it could."""

    def __init__(self):
        pass

    def process_debug_tensor(self, addr, location, type, shape, name, stream):
        raise NotImplementedError("a debug listener needs process_debug_tensor()")


class IExecutionContext(Reporter):
    """Runs an engine, one run at a time. Where the engine is for the CPU, addresses are the host's, and a run is done when
    the call returns, whatever the stream."""

    def __init__(self, engine, context, logger):
        super().__init__(logger)
        self.engine = engine
        self.name = ""
        self.debug_sync = False
        self.enqueue_emits_profile = True
        self.persistent_cache_limit = 0
        self.nvtx_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.temporary_allocator = None
        self.device_memory = 0
        self.unfused_tensors_debug_state = False
        self._context = context
        self._profile = 0
        self._shapes = {}  # of inputs, as they were set
        self._addresses = {}
        self._shape_values = {}  # arrays on the host
        self._bound = {}  # what the context was last given: (address, shape) by name
        self._allocators = {}
        self._profiler = None
        self._times = None
        self._consumed_event = 0
        self._debug_listener = None
        self._debugged = set()  # names of the debug tensors that the listener gets
        for info in engine._engine.inputs:
            if -1 not in info.shape:
                self._shapes[info.name] = Dims(info.shape)
        self._data_dependent = set()

    # ---- Shapes ----

    def set_input_shape(self, name, shape):
        """False, with a message to the logger, for a shape that the engine does not take."""
        with self._reporting():
            shape = Dims(shape)
            if self.engine._info(name).name not in self.engine._inputs:
                return self._fail(f"'{name}' is an output: shapes are set of inputs")
            self._check_profiles(name, shape)
            self._context.set_input_shape(name, shape)
            self._shapes[name] = shape
            return True
        return False

    def _check_profiles(self, name, shape):
        """The engine itself says it of all inputs together, once they are set."""
        ranges = [profile[name] for profile in self.engine._engine.profiles if name in profile]
        for allowed in ranges:
            if len(allowed["min"]) != len(shape):
                return  # the engine names the rank
            if all(low <= size <= high for low, size, high in zip(allowed["min"], shape, allowed["max"])):
                return
        if ranges:
            listed = " or ".join(f"{Dims(allowed['min'])} to {Dims(allowed['max'])}" for allowed in ranges)
            raise ValueError(f"input '{name}' is {shape}, which is outside every profile: {listed}")

    def get_tensor_shape(self, name):
        """Of an output: for the shapes of the inputs; -1 where they are not set, or only running tells."""
        info = self.engine._info(name)
        if name in self.engine._inputs:
            return Dims(self._shapes.get(name, info.shape))
        if -1 not in info.shape:
            return Dims(info.shape)
        if self.infer_shapes():
            return Dims(info.shape)
        try:
            self._set_shapes()
            return Dims(self._context.output_shape(name))
        except camshaft.Error:
            return Dims(info.shape)

    def _set_shapes(self):
        for name, shape in self._shapes.items():
            if self._bound.get(name, (None, None))[1] != shape:
                self._context.set_input_shape(name, shape)

    def get_tensor_strides(self, name):
        """In elements."""
        strides = [1]
        for size in reversed(self.get_tensor_shape(name)[1:]):
            strides.insert(0, strides[0] * max(1, size))
        return Dims(strides if self.get_tensor_shape(name) else [])

    def infer_shapes(self):
        """The names of inputs whose shape is still to be set."""
        return [info.name for info in self.engine._engine.inputs if info.name not in self._shapes]

    @property
    def all_binding_shapes_specified(self):
        return not self.infer_shapes()

    all_shape_inputs_specified = True

    def get_max_output_size(self, name):
        """Bytes that an output has at most: at the largest shapes of the profile, or, without one, at those that are set.
        -1 where these are not known, and where nothing bounds what depends on the data."""
        ranges = {
            info.name: self.engine.get_tensor_profile_shape(info.name, self._profile)[2]
            for info in self.engine._engine.inputs
        }
        if any(-1 in shape for shape in ranges.values()):
            ranges = self._shapes
        context = self.engine._engine.create_context(1)
        try:
            for input_name, shape in ranges.items():
                context.set_input_shape(input_name, shape)
            return volume(context.largest_output_shape(name)) * self.engine.get_tensor_dtype(name).itemsize
        except camshaft.Error:
            return -1

    # ---- Addresses ----

    def set_tensor_address(self, name, memory):
        with self._reporting():
            self.engine._info(name)
            self._addresses[name] = _cuda.address_of(memory)
            return True
        return False

    def get_tensor_address(self, name):
        self.engine._info(name)
        return self._addresses.get(name, 0)

    def set_output_allocator(self, name, output_allocator):
        with self._reporting():
            if self.engine._info(name).name in self.engine._inputs:
                return self._fail(f"'{name}' is an input: allocators are for outputs")
            self._allocators[name] = output_allocator
            return True
        return False

    def get_output_allocator(self, name):
        return self._allocators.get(name)

    # ---- Running ----

    def execute_async_v3(self, stream_handle):
        """False, with a message to the logger, when something went wrong."""
        return self._execute(_cuda.address_of(stream_handle) if stream_handle else 0)

    def execute_async_v2(self, bindings, stream_handle, input_consumed=None):
        """Of TensorRT 8: addresses in the order of the bindings."""
        return self._bind(bindings) and self.execute_async_v3(stream_handle)

    def execute_v2(self, bindings):
        """The same, and waits."""
        return self._bind(bindings) and self._execute(None)

    def execute(self, batch_size=1, bindings=()):
        """Of TensorRT 7, whose batches were implicit: there are none here."""
        return self.execute_v2(bindings)

    def execute_async(self, batch_size=1, bindings=(), stream_handle=0, input_consumed=None):
        return self.execute_async_v2(bindings, stream_handle)

    def _bind(self, bindings):
        names = list(self.engine)
        if len(bindings) < len(names):
            return self._fail(f"{len(bindings)} addresses for {len(names)} bindings: {', '.join(names)}")
        first = self._profile * len(names)  # of TensorRT 8, where each profile has bindings of its own
        if len(bindings) >= first + len(names):
            bindings = bindings[first:]
        return all(self.set_tensor_address(name, address) for name, address in zip(names, bindings))

    def _execute(self, stream):
        with self._reporting():
            if missing := self.infer_shapes():
                return self._fail(f"the shape of input '{missing[0]}' is not set: call set_input_shape()")
            self._bind_inputs()
            unbound = self._bind_outputs()
            for name in self.engine._debug_tensors:
                self._context.keep_output(name, on_device=_cuda.has_gpu())
            for name in self.engine._assertions:
                self._context.keep_output(name)
            if self._times is not None:
                self._times.reset()
            if stream is None or not _cuda.has_gpu():
                if stream is not None and _graphs.record(stream, self._context.run):
                    return True
                self._context.run()
            else:
                self._context.enqueue(stream)
            if not self._check_assertions():
                return False
            self._tell_listener(stream or 0)
            self._hand_over(unbound, stream or 0)
            if self._profiler is not None and self.enqueue_emits_profile:
                self._report_times()
            return True
        return False

    def _check_assertions(self):
        if self.engine._assertions and _cuda.has_gpu():
            self._context.synchronize()
        for name in self.engine._assertions:
            if wrong := _assertions.failed(name, self._context.output(name)):
                return self._fail(wrong, ErrorCodeTRT.FAILED_EXECUTION)
        return True

    def _bind_inputs(self):
        for info in self.engine._engine.inputs:
            address, shape = self._addresses.get(info.name, 0), self._shapes[info.name]
            if address == 0 and info.name in self._shape_values:
                self._context.set_input(info.name, self._shape_values[info.name])
                self._bound.pop(info.name, None)
                continue
            if address == 0 and 0 not in shape:
                raise ValueError(f"input '{info.name}' has no address: call set_tensor_address()")
            if self._bound.get(info.name) != (address, shape):
                self._check_size(info, address, shape)
                self._context.set_input(info.name, camshaft.Memory(address, info.dtype, shape, self._device()))
                self._bound[info.name] = address, shape

    def _bind_outputs(self):
        """Binds the outputs whose shapes are known; the others' names: they are handed over after the run."""
        unbound = []
        for info in self.engine._outputs:
            shape = None if info.name in self._data_dependent else self._output_shape(info.name)
            allocator = self._allocators.get(info.name)
            if shape is None or allocator is not None or self._lies_in_an_input(info):
                self._context.keep_output(info.name)
                self._bound.pop(info.name, None)
                unbound.append(info)
                continue
            address = self._addresses.get(info.name, 0)
            if address == 0 and 0 not in shape:
                raise ValueError(f"output '{info.name}' has no address: call set_tensor_address()")
            if self._bound.get(info.name) != (address, shape):
                self._check_size(info, address, shape)
                self._context.bind_output(info.name, camshaft.Memory(address, info.dtype, shape, self._device()))
                self._bound[info.name] = address, shape
        return unbound

    def _lies_in_an_input(self, info):
        """Whether a program gives an output the memory of an input, as for plugins that work in place: the input may be
        read until the run ends."""
        address = self._addresses.get(info.name, 0)
        inputs = (other.name for other in self.engine._engine.inputs if other.name != info.aliased_input)
        return address != 0 and any(self._addresses.get(name) == address for name in inputs)

    @staticmethod
    def _check_size(info, address, shape):
        _cuda.check_size(info.name, address, volume(shape) * bytes_of_element(info.dtype))

    def _output_shape(self, name):
        try:
            return Dims(self._context.output_shape(name))
        except camshaft.InvalidArgumentError:  # only running tells
            self._data_dependent.add(name)
            return None

    def _hand_over(self, infos, stream):
        """Copies outputs that the context kept on the host, where their sizes are needed, to where they are wanted."""
        if infos and _cuda.has_gpu():
            self._context.synchronize()
        for info in infos:
            output = self._context.output(info.name)
            size = volume(output.shape) * self.engine.get_tensor_dtype(info.name).itemsize
            allocator, address = self._allocators.get(info.name), self._addresses.get(info.name, 0)
            if allocator is not None:
                with theirs():
                    address = allocator.reallocate_output_async(info.name, address or None, max(size, 1), 256, stream)
                if not address:
                    raise ValueError(f"the allocator of output '{info.name}' gave no memory for {size} bytes")
            if size:
                if address == 0:
                    raise ValueError(f"output '{info.name}' has neither an address nor an allocator")
                source = ctypes.c_void_p(numpy.asarray(output).ctypes.data)
                status = _cuda.call(
                    "cudaMemcpy", ctypes.c_void_p(address), source, ctypes.c_size_t(size), _ANY_DIRECTION
                )
                if status != 0:
                    raise ValueError(f"output '{info.name}' cannot be copied: {_cuda.error_text(status)}")
            if allocator is not None:
                with theirs():
                    allocator.notify_shape(info.name, Dims(output.shape))

    def _device(self):
        return self.engine._engine.device

    # ---- Profiles ----

    @property
    def active_optimization_profile(self):
        return self._profile

    @active_optimization_profile.setter
    def active_optimization_profile(self, profile_index):
        if not self.set_optimization_profile_async(profile_index, 0):
            raise ValueError(f"there is no profile {profile_index}")

    def set_optimization_profile_async(self, profile_index, stream_handle):
        """Kept for programs that ask: the profile is that of the shapes that come."""
        if not 0 <= profile_index < self.engine.num_optimization_profiles:
            return self._fail(
                f"there is no profile {profile_index}: the engine has {self.engine.num_optimization_profiles}",
            )
        self._profile = profile_index
        return True

    # ---- Bindings, of TensorRT 8 ----

    def set_binding_shape(self, binding, shape):
        return self.set_input_shape(self.engine._binding(binding), shape)

    def get_binding_shape(self, binding):
        return self.get_tensor_shape(self.engine._binding(binding))

    def get_strides(self, binding):
        return self.get_tensor_strides(self.engine._binding(binding))

    def set_shape_input(self, binding, shape):
        """The values of an input that holds a shape, which needs no address then."""
        name = self.engine._binding(binding)
        with self._reporting():
            info = self.engine._info(name)
            if name not in self.engine._inputs or info.dtype not in ("i32", "i64"):
                return self._fail(f"'{name}' is {info.type}: shapes are inputs of integers")
            values = numpy.asarray(shape, nptype(self.engine.get_tensor_dtype(name)))
            sizes = self.get_tensor_shape(name)
            if -1 not in sizes:
                values = values.reshape(tuple(sizes))
            elif not self.set_input_shape(name, values.shape):
                return False
            self._shape_values[name] = values
            return True
        return False

    def get_shape(self, binding):
        """The values that set_shape_input() was given."""
        name = self.engine._binding(binding)
        if name not in self._shape_values:
            raise ValueError(f"'{name}' has no values: set_shape_input() sets those of inputs")
        return Dims(self._shape_values[name].ravel())

    # ---- Profiling ----

    @property
    def profiler(self):
        return self._profiler

    @profiler.setter
    def profiler(self, profiler):
        self._profiler = profiler
        self._times = None if profiler is None else camshaft.Profiler()
        self._context.set_profiler(self._times)

    def report_to_profiler(self):
        """Hands the times of the last run to the profiler, layer by layer."""
        if self._profiler is None:
            return self._fail("there is no profiler to report to", ErrorCodeTRT.INVALID_STATE)
        with self._reporting():
            self._report_times()
            return True
        return False

    def _report_times(self):
        for layer in self._times.layers():
            with theirs():
                self._profiler.report_layer_time(layer["name"], 1000 * layer["seconds"])

    # ---- Debug tensors: outputs that only a listener gets ----

    def set_debug_listener(self, listener):
        self._debug_listener = listener
        return True

    def get_debug_listener(self):
        return self._debug_listener

    def set_tensor_debug_state(self, name, flag):
        """Whether the listener gets it. False, with a message to the logger, for what was not marked when building."""
        if name not in self.engine._debug_tensors:
            return self._fail(f"'{name}' is no debug tensor: call network.mark_debug() before building")
        (self._debugged.add if flag else self._debugged.discard)(name)
        return True

    def get_debug_state(self, name):
        return name in self._debugged

    def set_all_tensors_debug_state(self, flag):
        self._debugged = set(self.engine._debug_tensors) if flag else set()
        return True

    def _tell_listener(self, stream):
        """Hands over what is in the context's memory, in the order in which it was marked. On a GPU it is there when the
        stream has come to it, as for TensorRT's listeners."""
        if self._debug_listener is None:
            return
        for name in self.engine._debug_tensors:
            if name not in self._debugged:
                continue
            output = camshaft.Memory.of(self._context.output(name))
            with theirs():
                done = self._debug_listener.process_debug_tensor(
                    output.address,
                    TensorLocation.DEVICE,
                    self.engine._dtype_of(name),
                    Dims(output.shape),
                    name,
                    stream,
                )
            if done is False:
                raise ValueError(f"the debug listener could not take tensor '{name}'")

    # ---- What has no effect, or nothing to do, here ----

    def set_device_memory(self, memory, size):
        """Contexts plan their own memory."""

    def update_device_memory_size_for_shapes(self):
        return self.engine.device_memory_size

    def set_input_consumed_event(self, event):
        """Kept; inputs are consumed when the work in the stream is done."""
        self._consumed_event = event
        return True

    def get_input_consumed_event(self):
        return self._consumed_event

    def set_aux_streams(self, aux_streams):
        pass

    def get_runtime_config(self):
        return self.engine.create_runtime_config()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass
