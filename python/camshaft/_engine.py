"""Engines, and the contexts that run them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from camshaft import _native
from camshaft._arrays import DLPACK, Array, Exported, capsule_of, device_name
from camshaft._errors import InvalidArgumentError
from camshaft._objects import OBJECTS, native_value, of_caller, python_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from camshaft._communicator import Communicator
    from camshaft._types import Capsule, Inputs, InputValue, Outputs, Path, Record, Shape, SupportsDLPack

_IN_USE = "the context is in use by another thread or task: make one for each with create_context()"
_LORA = "lora"  # the input that chooses an adapter, and what the metadata list them under


class TensorInfo(NamedTuple):
    """An input or output of an engine."""

    name: str
    dtype: str  # "f32", "i64", …
    shape: tuple[int, ...]  # -1 where the size is dynamic
    dim_names: tuple[str, ...]  # the same as text: numbers, symbols ("batch") or expressions of them
    type: str  # "f32[batch, 3]"
    # Of an output: the input whose memory it may be bound to, which a run then updates in place; empty: none.
    aliased_input: str = ""


def infos_of(tuples: Iterable[_native.Described]) -> list[TensorInfo]:
    return [TensorInfo(name, dtype, tuple(dims), tuple(names), *rest) for name, dtype, dims, names, *rest in tuples]


class Engine:
    """A compiled model. `device` is what it runs on: "cpu", "cuda:0", …. May be used from several threads."""

    def __init__(self, path: Path | bytes, device: str | None = None, weight_budget: str | int | None = None) -> None:
        """Maps an engine file, as `camshaft build` makes it; or takes the bytes of one. `device`: what it is to run on,
        "cpu", "cuda" (the first GPU) or "cuda:1", of the kind that it was built for. Without it, an engine for GPUs runs
        on the one that is current in this thread (torch.cuda.set_device), or on the first. `weight_budget`: see
        set_weight_budget()."""
        wanted = "" if device is None else str(device)
        budget = "" if weight_budget is None else str(weight_budget)
        if isinstance(path, bytes):
            self._hold(_native.load_bytes(path, wanted, budget))
        else:
            self._hold(_native.load(os.fspath(path), wanted, budget))

    def _hold(self, engine: Capsule, report: Record | None = None) -> None:
        self._engine = engine
        self._of_thread = threading.local()
        self._idle: list[Context] = []  # contexts of run_async()
        self.device = device_name(_native.device(engine))
        self.inputs = infos_of(_native.inputs(engine))
        self.outputs = infos_of(_native.outputs(engine))
        self._input_names = [info.name for info in self.inputs]
        self.metadata = dict(_native.metadata(engine))
        #: The adapters that it was built with (the option lora); the input "lora" chooses one, by its name or number.
        self.adapters: list[str] = [name for name in self.metadata.get(_LORA, "").split(", ") if name]
        #: What build() did, as its docstring says; None for an engine that was loaded.
        self.report: Record | None = report

    @classmethod
    def _of(cls, engine: Capsule, report: Record) -> Engine:
        made = cls.__new__(cls)
        made._hold(engine, report)
        return made

    @classmethod
    def load(cls, path: Path | bytes, device: str | None = None, weight_budget: str | int | None = None) -> Engine:
        """The engine of a file that save() wrote, or of its bytes: the same as Engine(path)."""
        return cls(path, device, weight_budget)

    def save(self, path: Path) -> None:
        """Writes the engine file: `path` is either complete or untouched."""
        _native.save(self._engine, os.fspath(path))

    def __bytes__(self) -> bytes:
        """What the file would hold."""
        return _native.save_bytes(self._engine, -1)

    def to_bytes(self, *, weights: bool) -> bytes:
        """The same with the weights that a refit can replace or without, however the engine was built (strip_weights)."""
        return _native.save_bytes(self._engine, int(weights))

    @property
    def profiles(self) -> list[dict[str, dict[str, list[int]]]]:
        """The shapes that it was tuned for and accepts: [{input: {"min", "opt", "max"}}]; none: it takes all."""
        return json.loads(_native.info(self._engine))["profiles"]

    def layers(self) -> list[Record]:
        """The steps of a run: [{"name", "op", "tactic", "description", "inputs", "outputs", "sources", "tried", "notes",
        …}]: what was fused, and which tactics were measured."""
        return json.loads(_native.layers(self._engine))

    def layers_onnx(self) -> bytes:
        """The layers as the bytes of an ONNX file to look at (Netron), without weights, as `camshaft inspect --onnx`
        writes it."""
        return _native.layers_onnx(self._engine)

    def memory(self) -> dict[str, int]:
        """Bytes at the optimum of the first profile: {"arena_bytes", "arena_lower_bound", "weight_bytes",
        "kept_bytes"}."""
        return json.loads(_native.memory(self._engine))

    def inspect(self) -> Record:
        """All that is known of it, as `camshaft inspect --json` has it: {"device", "inputs", "outputs", "profiles",
        "metadata", "memory", "weight_streaming", "layers"}."""
        return {
            **json.loads(_native.info(self._engine)),
            "memory": self.memory(),
            "weight_streaming": self.weight_streaming(),
            "layers": self.layers(),
        }

    @property
    def is_refittable(self) -> bool:
        """Whether its weights can be replaced: it was built with refit=True."""
        return bool(json.loads(_native.info(self._engine))["refittable"])

    def refit(self, weights: Mapping[str, SupportsDLPack] | Path, threads: int = 0) -> None:
        """Replaces weights of an engine that was built with refit=True: {name of an initializer: array}, or the path of
        a model (.onnx), .safetensors or .npz file with them. See Refitter."""
        from camshaft._refit import Refitter

        refitter = Refitter(self)
        if isinstance(weights, (str, os.PathLike)):
            refitter.set_file(weights)
        else:
            for name, array in weights.items():
                refitter.set(name, array)
        refitter.refit(threads)

    def set_weight_budget(self, budget: str | int | None) -> None:
        """How many bytes of weights may be in memory at once, from the next run of each context on: a number, "800MiB",
        "1.5GB", "40%", "auto" (what is free), or None for all. What does not fit comes in from the engine's file ahead of
        the layers that read it; results are the same. Waits for a run under way."""
        _native.set_weight_budget(self._engine, "" if budget is None else str(budget))

    def weight_streaming(self) -> dict[str, int | float]:
        """What the budget does, in bytes: {"weight_bytes", "streamable_bytes", "least_budget", "automatic_budget",
        "budget" (-1: none), "staying_bytes", "window_bytes", "loads_bytes" (that come in for each run), "brought_bytes",
        "waited_seconds"}."""
        return json.loads(_native.weight_streaming(self._engine))

    def create_context(self, threads: int = 0) -> Context:
        """`threads` are those of the host that a run uses; 0: one for each core."""
        return Context(self, threads)

    def run(self, inputs: Inputs) -> Outputs:
        """Computes all outputs for a dict of inputs: {name: NumPy array}, which are the caller's. Arrays of NumPy whose
        elements lie in another order, as those of transposed ones do, are copied first. Texts are arrays of str or bytes,
        in results of str; a sequence is a list, a map a dict, and None an optional without a value. Each thread that
        calls has a context of its own; what serves many requests, or keeps outputs on a GPU, makes contexts itself."""
        if type(inputs) is not dict:
            _check_named(inputs)
        for name in self._input_names:
            if name not in inputs:
                inputs = self._completed(inputs)
        run: Callable[[Inputs], Outputs]
        try:
            run = self._of_thread.run
        except AttributeError:
            run = self._of_thread.run = _run_to_copies(self.create_context())
        return run(inputs)

    async def run_async(self, inputs: Inputs) -> Outputs:
        """The same without holding up the event loop. Runs at a time have a context each, which later ones use again: a
        semaphore of the caller's bounds how many there are."""
        _check_named(inputs)
        inputs = self._completed(inputs)
        context = self._idle.pop() if self._idle else self.create_context()
        try:
            outputs = await context.run_async(_row_major(inputs))
            return {name: of_caller(output) for name, output in outputs.items()}
        finally:
            self._idle.append(context)

    def _completed(self, inputs: Inputs) -> Inputs:
        for info in self.inputs:  # which a context would take from the run before
            if info.name not in inputs:
                if self.adapters and info.name == _LORA:
                    inputs = {**inputs, _LORA: "none"}
                else:
                    raise InvalidArgumentError(f"input '{info.name}' ({info.type}) is not given")
        return inputs

    def _adapter(self, name: InputValue) -> SupportsDLPack:
        """The value of the input "lora" for an adapter, or "none"."""
        import numpy

        if not isinstance(name, str):
            known = ", ".join(f"'{adapter}'" for adapter in ["none", *self.adapters])
            raise TypeError(f"lora is the name of an adapter, not {name!r}; there are: {known}")
        if name not in ("none", *self.adapters):
            known = ", ".join(["none", *self.adapters])
            raise InvalidArgumentError(f"the engine has no adapter '{name}'; there are: {known}")
        return numpy.array(0 if name == "none" else 1 + self.adapters.index(name), numpy.int64)

    def __call__(self, *arrays: InputValue, **named: InputValue) -> Any:
        """run() for arrays in the order of the inputs, or by their names: the output, or a tuple of several."""
        if len(arrays) > len(self.inputs):
            raise TypeError(f"{len(arrays)} arrays for {len(self.inputs)} inputs")
        inputs: dict[str, InputValue] = {info.name: array for info, array in zip(self.inputs, arrays)}
        if named:
            if twice := sorted(inputs.keys() & named.keys()):
                raise TypeError(f"input '{twice[0]}' is given twice")
            inputs.update(named)
        outputs = tuple(self.run(inputs).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        def listed(infos: list[TensorInfo]) -> str:
            return ", ".join(f"{info.name}: {info.type}" for info in infos)

        return f"<camshaft.Engine ({listed(self.inputs)}) -> ({listed(self.outputs)}) on {self.device}>"


def _check_named(inputs: Inputs) -> None:
    if not isinstance(inputs, Mapping):
        raise TypeError(
            f"inputs are given as a dict, {{name: array}}, not as {type(inputs).__name__}; the engine itself is called "
            f"with arrays in the order of its inputs"
        )


def _row_major(inputs: Inputs) -> Inputs:
    """With copies of NumPy's arrays that have their elements in another order."""
    import numpy

    return {
        name: numpy.asarray(value, order="C") if isinstance(value, numpy.ndarray) else value
        for name, value in inputs.items()
    }


def _run_to_copies(context: Context) -> Callable[[Inputs], Outputs]:
    """A function like Context.run() whose outputs are the caller's, for a context that nobody else uses. NumPy's views of
    the outputs are kept from call to call, as long as these lie where they did: making them is 1 us of a call."""
    import numpy

    if any(dtype in OBJECTS for dtype in context._dtypes.values()):
        return lambda inputs: {name: of_caller(output) for name, output in context.run(_row_major(inputs)).items()}
    objects = context._objects
    outputs = [
        (name, Exported(functools.partial(_native.output_dlpack, context._context, name))) for name in context._dtypes
    ]
    of_library, bound, set_input, from_dlpack = context._context, context._bound, context.set_input, numpy.from_dlpack
    bind, run_in_place, array_type = _native.set_input, _native.run_in_place, numpy.ndarray
    places = _native.output_places([name for name, _ in outputs])
    views: list[tuple[str, NDArray[Any]]] | None = None

    def run_to_copies(inputs: Inputs) -> Outputs:
        nonlocal views
        for name, array in inputs.items():
            if type(array) is array_type and name not in objects:  # set_input() without what others need
                try:
                    capsule = array.__dlpack__(max_version=DLPACK)
                except TypeError:  # NumPy 1
                    capsule = array.__dlpack__()
                except BufferError:
                    set_input(name, array)  # raises what is wrong with it
                    continue
                try:
                    bind(of_library, name, capsule)
                except InvalidArgumentError:
                    if array.flags.c_contiguous:
                        raise
                    set_input(name, numpy.asarray(array, order="C"))
                    continue
                bound["in", name] = capsule
            else:
                set_input(name, array)
        if not run_in_place(of_library, places) or views is None:
            views = None  # should NumPy not have the type
            views = [(name, from_dlpack(output)) for name, output in outputs]
        return {name: view.copy() for name, view in views}

    return run_to_copies


class _Turn:
    """Of who uses the library's context, which has no room for two: others are told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InvalidArgumentError(_IN_USE)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Context:
    """Memory for one run at a time. Contexts of one engine are independent: use one a thread."""

    def __init__(self, engine: Engine, threads: int = 0) -> None:
        self.engine = engine
        self._context = _native.create_context(engine._engine, threads)
        self._dtypes = {info.name: info.dtype for info in engine.outputs}
        self._objects = {info.name: info.type for info in engine.inputs if info.dtype in OBJECTS}
        self._bound: dict[tuple[str, str], Capsule] = {}  # what the context points to
        self._kept: set[str] = set()  # outputs that keep_output() placed
        self._on_device = False  # where the others are that the context keeps
        self._stream: int | None = None  # of the last run, where it was not waited for
        self._turn = _Turn()

    def __repr__(self) -> str:
        bound = ", ".join(f"{name} {'from' if way == 'in' else 'to'} an array" for way, name in self._bound)
        return f"<camshaft.Context of {self.engine!r}{': ' if bound else ''}{bound}>"

    def set_input(self, name: str, array: InputValue) -> None:
        """Sets an input's shape and binds the array's memory, on the host or on the GPU, without a copy: row-major
        elements of the input's dtype, unchanged until the run is done. Texts, sequences, optionals and maps, as
        Engine.run() takes them, are copied. The input "lora" of an engine with adapters also takes the name of one, or
        "none", which it is as long as it is not set."""
        with self._turn:
            self._bind_input(name, array)

    def _bind_input(self, name: str, array: InputValue) -> None:
        if name == _LORA and self.engine.adapters and not hasattr(array, "__dlpack__"):
            array = self.engine._adapter(array)
        if name in self._objects:
            _native.set_input(self._context, name, native_value(array, self._objects[name], f"input '{name}'"))
            return
        capsule = capsule_of(array, f"input '{name}'")
        _native.set_input(self._context, name, capsule)
        self._bound["in", name] = capsule

    def _bind_inputs(self, inputs: Inputs | None, lora: str | None) -> None:
        if inputs is not None:
            _check_named(inputs)
        if lora is not None and not self.engine.adapters:
            raise InvalidArgumentError(f"the engine has no adapters, so that there is no '{lora}' to run with")
        if lora is not None and _LORA in (inputs or {}):
            raise TypeError(f"input '{_LORA}' is given twice: among the inputs, and as lora={lora!r}")
        for name, array in (inputs or {}).items():
            self._bind_input(name, array)
        if lora is not None:
            self._bind_input(_LORA, lora)

    def bind_output(self, name: str, array: SupportsDLPack) -> None:
        """The output is written to this array, on the host or on the GPU, which is at least as large as the output is,
        and of its dtype. It may be the array of the output's `aliased_input`, which is then updated in place."""
        capsule = capsule_of(array, f"output '{name}'")
        with self._turn:
            _native.bind_output(self._context, name, self._dtypes.get(name, ""), capsule)
            self._bound["out", name] = capsule
            self._kept.discard(name)

    def set_communicator(self, communicator: Communicator) -> None:
        """For an engine of one of several ranks: runs meet the others over it, which run at the same time. Without one such
        an engine does not run."""
        with self._turn:
            _native.set_communicator(self._context, communicator._communicator)

    def keep_output(self, name: str, on_device: bool = False) -> None:
        """The context keeps the output, on the host or on the GPU, whichever way it is run."""
        with self._turn:
            self._keep(name, on_device)
            self._bound.pop(("out", name), None)
            self._kept.add(name)

    def set_input_shape(self, name: str, shape: Shape) -> None:
        """Sets an input's shape alone, as output_shape() needs it; set_input() sets it, too."""
        with self._turn:
            _native.set_input_shape(self._context, name, shape)

    def set_profiler(self, profiler: Profiler | None) -> None:
        """Adds the times of layers to a Profiler from the next run on; None stops."""
        _native.set_profiler(self._context, None if profiler is None else profiler._profiler)
        self._profiler = profiler  # which must outlive the runs

    def output_shape(self, name: str) -> tuple[int, ...]:
        """For the shapes of the inputs set so far."""
        with self._turn:
            return tuple(_native.output_shape(self._context, name))

    def largest_output_shape(self, name: str) -> tuple[int, ...]:
        """The largest shape that it can have for these, where its own depends on the data. Raises InvalidArgumentError
        where nothing bounds it."""
        with self._turn:
            return tuple(_native.largest_output_shape(self._context, name))

    def run(
        self, inputs: Inputs | None = None, *, stream: int | None = None, lora: str | None = None
    ) -> dict[str, Array | Any]:
        """Sets the inputs of a dict and computes all outputs: {name: Array}. `lora` names an adapter of the engine, or
        "none", for this run and those that follow. Waits for them, unless `stream` is given, a
        CUDA stream as a number (torch.cuda.current_stream().cuda_stream): then the work goes there, as with
        enqueue(). Outputs that are neither bound nor placed by keep_output() are on the host without a stream, and on
        the GPU with one."""
        with self._turn:
            self._bind_inputs(inputs, lora)
            self._place_outputs(stream is not None)
            if stream is None:
                self._stream = None
                _native.run(self._context)
            else:
                _native.enqueue(self._context, stream)
                self._stream = stream
            return {name: self.output(name) for name in self._dtypes}

    async def run_async(self, inputs: Inputs | None = None, *, lora: str | None = None) -> dict[str, Array | Any]:
        """run() on a thread of the context, while the event loop goes on: {name: Array}, on the host where they are not
        placed. The context may not be used until then. Where the task is cancelled, the run ends soon, and the task when
        it has."""
        with self._turn:
            self._bind_inputs(inputs, lora)
            return await self._run_async()

    async def _run_async(self) -> dict[str, Array | Any]:
        self._place_outputs(False)
        self._stream = None
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Exception | None] = loop.create_future()

        def finish(error: Exception | None) -> None:  # on a thread of the library's
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(done.set_result, error)

        cancellation = _native.create_cancellation()
        _native.set_cancellation(self._context, cancellation)
        _native.run_async(self._context, finish)
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            _native.cancel(cancellation)
            while not done.done():  # arrays that are bound are the run's until then
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([done])
            raise
        finally:
            if done.done():
                _native.set_cancellation(self._context, _native.create_cancellation())
        if (error := done.result()) is not None:
            raise error
        return {name: self.output(name) for name in self._dtypes}

    def enqueue(self, stream: int) -> None:
        """Puts a run into a CUDA stream, a number (0 is the default stream), and returns without waiting for it. Arrays
        that are bound must live until it is done. Errors that kernels find in the data (an index out of range) are
        raised by the next call that waits."""
        with self._turn:
            _native.enqueue(self._context, stream)
            self._stream = stream

    def synchronize(self) -> None:
        """Waits for the runs that were enqueued; raises what went wrong in them."""
        _native.synchronize(self._context)
        self._stream = None

    def output(self, name: str) -> Array | Any:
        """The result of the last run, where it is; written again by the next one. Of texts, sequences, optionals and maps a
        copy, as Engine.run() gives it."""
        if self._dtypes.get(name) in OBJECTS:
            return python_value(_native.output_value(self._context, name))
        return Array(self, name)

    def _keep(self, name: str, on_device: bool) -> None:
        # An engine for the CPU is asked for a GPU's memory too: it says why it has none.
        gpu = max(0, _native.device(self.engine._engine))
        _native.keep_output(self._context, name, gpu if on_device else -1)

    def _place_outputs(self, on_device: bool) -> None:
        if self._on_device == on_device:
            return
        for name, dtype in self._dtypes.items():
            if ("out", name) not in self._bound and name not in self._kept and dtype not in OBJECTS:
                self._keep(name, on_device)
        self._on_device = on_device

    def _finish_for(self, stream: int) -> None:
        if self._stream is not None and self._stream != stream:
            self.synchronize()


class Profiler:
    """Collects the times of layers over the runs of a context (Context.set_profiler)."""

    def __init__(self) -> None:
        self._profiler = _native.create_profiler()

    def __repr__(self) -> str:
        layers = self.layers()
        runs = max((layer["runs"] for layer in layers), default=0)
        return f"<camshaft.Profiler: {len(layers)} layers in {runs} runs>"

    def layers(self) -> list[Record]:
        """In execution order: [{"name", "op", "tactic", "sources", "seconds", "runs", "at_binding"}]."""
        return json.loads(_native.profiled_layers(self._profiler))

    def keep_runs(self, most: int) -> None:
        """Keeps when each layer began in the next runs, so many at most, instead of those kept before."""
        _native.keep_runs(self._profiler, most)

    def runs(self) -> list[dict[str, Any]]:
        """Those that were kept: [{"start", "seconds", "thread", "layers": [{"layer" (its place in Engine.layers()),
        "device", "start", "seconds"}]}], starts in seconds since keep_runs()."""
        return json.loads(_native.kept_runs(self._profiler))

    def reset(self) -> None:
        _native.reset_profiler(self._profiler)


def devices() -> list[Record]:
    """What engines can run on, the host first: [{"kind", "device" ("cpu", "cuda:1"), "name", "isa", "cores",
    "memory_bytes", "warning", …}]. Of GPUs that cannot be used, "warning" says why; where there is none, the last entry
    has the kind "cuda", no name, and the reason."""
    return json.loads(_native.list_devices())
