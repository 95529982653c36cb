"""Camshaft from Python: engines of ONNX models, tuned for this machine.

    engine = camshaft.build("model.onnx", fp16=True)   # or camshaft.Engine("model.engine")
    y = engine(x)                                       # NumPy arrays, tensors of PyTorch, CuPy, JAX, …

For int8, ranges of the model's tensors are learnt from data like what it will see:

    calibration = camshaft.calibrate("model.onnx", batches)
    engine = camshaft.build("model.onnx", int8=True, calibration=calibration)

What serves requests keeps a context, whose outputs are not copied:

    context = engine.create_context()
    outputs = context.run({"x": pixels})               # waits; np.from_dlpack(outputs["y"])

Where an event loop must not stand still:

    outputs = await engine.run_async({"x": pixels})

On a GPU, in the caller's memory and stream, without waiting:

    stream = torch.cuda.current_stream().cuda_stream
    outputs = context.run({"x": x}, stream=stream)     # x: a tensor on cuda; torch.from_dlpack(outputs["y"])

and with outputs in memory of the caller's, bound once:

    context.set_input("x", x)
    context.bind_output("y", y)
    context.enqueue(stream)

An operator that ONNX does not have may be a function of arrays:

    @camshaft.plugin("my::Softcap")                     # of nodes Softcap of the domain "my"
    def softcap(x: np.float32, limit=30.0):
        return limit * np.tanh(x / limit)

A model may be made without ONNX, node by node, by ONNX's operators:

    net = camshaft.Network()
    x = net.input("x", np.float32, ("batch", 3, 224, 224))
    net.output(net.Relu(net.Conv(x, w, b, strides=[2, 2])), "y")
    engine = camshaft.build(net)                        # net.to_onnx() is the same model as a file
"""

from camshaft import _native
from camshaft._arrays import Array, Memory
from camshaft._build import build, options, quantize, simplify
from camshaft._calibration import Calibration, calibrate
from camshaft._communicator import Communicator
from camshaft._engine import Context, Engine, Profiler, TensorInfo, devices
from camshaft._errors import (
    CancelledError,
    CorruptEngineError,
    Error,
    FileError,
    InternalError,
    InvalidArgumentError,
    InvalidModelError,
    OutOfMemoryError,
    UnsupportedError,
    VerificationError,
)
from camshaft._export import export
from camshaft._foreign_launches import numba_launch, triton_launch
from camshaft._network import Network
from camshaft._options import BuildOptions, CalibrationOptions
from camshaft._plugin import Dim, load_ort_custom_ops, load_plugin, plugin, plugins, set_plugin_checks
from camshaft._plugin_kernels import DeviceArray, Launch
from camshaft._refit import Refitter, model_weights
from camshaft._values import Value
from camshaft._verify import verify

__version__ = _native.version()
__all__ = [
    "Array",
    "BuildOptions",
    "Calibration",
    "CalibrationOptions",
    "CancelledError",
    "Communicator",
    "Context",
    "CorruptEngineError",
    "DeviceArray",
    "Dim",
    "Engine",
    "Error",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidModelError",
    "Launch",
    "Memory",
    "Network",
    "OutOfMemoryError",
    "Profiler",
    "Refitter",
    "TensorInfo",
    "UnsupportedError",
    "Value",
    "VerificationError",
    "build",
    "calibrate",
    "devices",
    "export",
    "load_ort_custom_ops",
    "load_plugin",
    "model_weights",
    "numba_launch",
    "options",
    "plugin",
    "plugins",
    "quantize",
    "set_plugin_checks",
    "simplify",
    "triton_launch",
    "verify",
]
