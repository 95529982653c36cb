"""Camshaft from Python: load an engine and run it on arrays of NumPy, PyTorch, CuPy or whatever else speaks DLPack.

    engine = camshaft.Engine("model.engine")
    context = engine.create_context()
    outputs = context.run({"x": pixels})               # waits; np.from_dlpack(outputs["y"])

On a GPU, in the caller's memory and stream, without waiting:

    stream = torch.cuda.current_stream().cuda_stream
    outputs = context.run({"x": x}, stream=stream)     # x: a tensor on cuda; torch.from_dlpack(outputs["y"])

and with outputs in memory of the caller's, bound once:

    context.set_input("x", x)
    context.bind_output("y", y)
    context.enqueue(stream)
"""

from typing import NamedTuple

from camshaft import _native
from camshaft._native import Error

__all__ = ["Array", "Context", "Engine", "Error", "TensorInfo"]

_CPU, _CUDA = 1, 2  # of DLPack


class TensorInfo(NamedTuple):
    """An input or output of an engine."""

    name: str
    dtype: str  # "f32", "i64", …
    shape: tuple  # -1 where the size is dynamic
    dim_names: tuple  # the same as text: numbers, symbols ("batch") or expressions of them
    type: str  # "f32[batch, 3]"


def _infos(tuples):
    return [TensorInfo(name, dtype, tuple(dims), tuple(names), kind) for name, dtype, dims, names, kind in tuples]


def _device_name(ordinal):
    return "cpu" if ordinal < 0 else f"cuda:{ordinal}"


class Engine:
    """A compiled model. `device` is what it runs on: "cpu", "cuda:0", …. May be used from several threads."""

    def __init__(self, path, device=None):
        """Maps an engine file, as `camshaft build` makes it; or takes the bytes of one. `device`: what it is to run on,
        "cpu", "cuda" (the first GPU) or "cuda:1", of the kind that it was built for. Without it, an engine for GPUs runs
        on the one that is current in this thread (torch.cuda.set_device), or on the first."""
        wanted = "" if device is None else str(device)
        load = _native.load_bytes if isinstance(path, bytes) else _native.load
        self._engine = load(path if isinstance(path, bytes) else str(path), wanted)
        self.device = _device_name(_native.device(self._engine))
        self.inputs = _infos(_native.inputs(self._engine))
        self.outputs = _infos(_native.outputs(self._engine))
        self.metadata = dict(_native.metadata(self._engine))

    def create_context(self, threads=0):
        """`threads` are those of the host that a run uses; 0: one for each core."""
        return Context(self, threads)


class Array:
    """An output that a context keeps, on the host or on the GPU: np.from_dlpack(array), torch.from_dlpack(array), … Its
    memory is written again by the context's next run."""

    def __init__(self, context, name):
        self._context = context
        self._name = name
        self.dtype, dims, self._ordinal = _native.output(context._context, name)
        self.shape = tuple(dims)
        self.device = _device_name(self._ordinal)
        self.on_device = self._ordinal >= 0

    def __dlpack_device__(self):
        return (_CUDA, self._ordinal) if self.on_device else (_CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """`stream`: the consumer's. What was enqueued into another one is waited for."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"output '{self._name}' is on another device and is not copied")
        if self.on_device and stream is not None and stream != -1:
            self._context._finish_for(0 if stream == 1 else stream)  # 1: the default stream
        return _native.output_dlpack(self._context._context, self._name)

    def __repr__(self):
        return f"<camshaft.Array {self.dtype}{list(self.shape)} on {self.device if self.on_device else 'the host'}>"


def _capsule(array):
    """The array's DLPack capsule. Arrays on a GPU are taken as they are: work is done in the order of its stream."""
    export = getattr(array, "__dlpack__", None)
    if export is None:
        raise TypeError(f"{type(array).__name__} has no __dlpack__: give an array of NumPy, PyTorch, CuPy, …")
    options = {} if array.__dlpack_device__()[0] == _CPU else {"stream": -1}
    try:
        return export(max_version=(1, 1), **options)  # which allows arrays that may not be written
    except TypeError:
        return export(**options)


class Context:
    """Memory for one run at a time. Contexts of one engine are independent: use one a thread."""

    def __init__(self, engine, threads=0):
        self.engine = engine
        self._context = _native.create_context(engine._engine, threads)
        self._dtypes = {info.name: info.dtype for info in engine.outputs}
        self._bound = {}  # what the context points to
        self._kept = set()  # outputs that keep_output() placed
        self._on_device = False  # where the others are that the context keeps
        self._stream = None  # of the last run, where it was not waited for

    def set_input(self, name, array):
        """Sets an input's shape and binds the array's memory, on the host or on the GPU, without a copy: row-major
        elements of the input's dtype, unchanged until the run is done."""
        capsule = _capsule(array)
        _native.set_input(self._context, name, capsule)
        self._bound["in", name] = capsule

    def bind_output(self, name, array):
        """The output is written to this array, on the host or on the GPU, which is at least as large as the output is,
        and of its dtype."""
        capsule = _capsule(array)
        _native.bind_output(self._context, name, self._dtypes.get(name, ""), capsule)
        self._bound["out", name] = capsule
        self._kept.discard(name)

    def keep_output(self, name, on_device=False):
        """The context keeps the output, on the host or on the GPU, whichever way it is run."""
        self._keep(name, on_device)
        self._bound.pop(("out", name), None)
        self._kept.add(name)

    def output_shape(self, name):
        """For the shapes of the inputs set so far."""
        return tuple(_native.output_shape(self._context, name))

    def run(self, inputs=None, *, stream=None):
        """Sets the inputs of a dict and computes all outputs: {name: Array}. Waits for them, unless `stream` is given, a
        CUDA stream as a number (torch.cuda.current_stream().cuda_stream): then the work goes there, as with
        enqueue(). Outputs that are neither bound nor placed by keep_output() are on the host without a stream, and on
        the GPU with one."""
        for name, array in (inputs or {}).items():
            self.set_input(name, array)
        self._place_outputs(stream is not None)
        if stream is None:
            self._stream = None
            _native.run(self._context)
        else:
            self.enqueue(stream)
        return {name: self.output(name) for name in self._dtypes}

    def enqueue(self, stream):
        """Puts a run into a CUDA stream, a number (0 is the default stream), and returns without waiting for it. Arrays
        that are bound must live until it is done. Errors that kernels find in the data (an index out of range) are
        raised by the next call that waits."""
        _native.enqueue(self._context, stream)
        self._stream = stream

    def synchronize(self):
        """Waits for the runs that were enqueued; raises what went wrong in them."""
        _native.synchronize(self._context)
        self._stream = None

    def output(self, name):
        """The result of the last run, where it is; written again by the next one."""
        return Array(self, name)

    def _keep(self, name, on_device):
        # An engine for the CPU is asked for a GPU's memory too: it says why it has none.
        gpu = max(0, _native.device(self.engine._engine))
        _native.keep_output(self._context, name, gpu if on_device else -1)

    def _place_outputs(self, on_device):
        if self._on_device == on_device:
            return
        for name in self._dtypes:
            if ("out", name) not in self._bound and name not in self._kept:
                self._keep(name, on_device)
        self._on_device = on_device

    def _finish_for(self, stream):
        if self._stream is not None and self._stream != stream:
            self.synchronize()
