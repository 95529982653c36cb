"""Fp32, and the ways to int8 that are compared: each makes a function {input: array} to the list of outputs, and says how
many of the model's layers it computes on integers."""

import re
import subprocess
import sys
from pathlib import Path

import camshaft_cli
import numpy as np
import onnx.version_converter
import rivals

import onnx

LAYERS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU")


def onnxruntime_runner(model):
    session = rivals.onnxruntime_session(model, 1)
    return lambda feed: session.run(None, feed)


def quantised_layers(model):
    """ "12 of 14": the products and convolutions whose operands both come from DequantizeLinear."""
    graph = onnx.load(str(model), load_external_data=False).graph
    real = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    constants = {tensor.name for tensor in graph.initializer}
    layers = [n for n in graph.node if n.op_type in LAYERS and (n.input[1] in constants or n.input[1] in real)]
    quantised = sum(node.input[0] in real and node.input[1] in real for node in layers)
    return f"{quantised} of {len(layers)}"


class Float:
    name = "fp32"

    def make(self, part, folder):
        return onnxruntime_runner(part.model()), ""


class Camshaft:
    """`options` are those of `camshaft calibrate`. Kernels are chosen by estimate, so that every layer that may be is
    computed on integers; by measuring, those that gain no time stay in floating point."""

    def __init__(self, name="camshaft", options=()):
        self.name, self.options = name, options

    def make(self, part, folder):
        data = folder / "data"
        if not data.exists():
            data.mkdir()
            for index, feed in enumerate(part.calibration()):
                np.savez(data / f"{index:04}.npz", **feed)
        ranges, engine = folder / f"{self.name}.ranges", folder / f"{self.name}.engine"
        threads = ("--threads", 1)
        camshaft_cli.camshaft("calibrate", part.model(), "--data", data, "-o", ranges, *threads, *self.options)
        build = ("--int8", "--calibration", ranges, "--tuning", "heuristic", "--no-verify", "-o", engine)
        said = camshaft_cli.camshaft("build", part.model(), *build, *threads).stdout
        layers = re.search(r"precision (\d+ of \d+)", said)
        return self.runner(engine), layers[1] if layers else "0"

    @staticmethod
    def runner(engine):
        sys.path.insert(0, str(camshaft_cli.BINARY.parents[1] / "python"))
        import camshaft

        context = camshaft.Engine(str(engine)).create_context(1)
        return lambda feed: [np.from_dlpack(array).copy() for array in context.run(feed).values()]


class Reader:
    """Calibration data as ONNX Runtime asks for it."""

    def __init__(self, feeds):
        self.feeds = iter(feeds)

    def get_next(self):
        return next(self.feeds, None)


class OnnxRuntime:
    """quantize_static as its documentation advises: on a model that quant_pre_process has prepared, Q/DQ, weights by
    channels; all else at its defaults."""

    name = "onnxruntime"

    def make(self, part, folder):
        from onnxruntime.quantization import QuantFormat, QuantType, quant_pre_process, quantize_static

        prepared, quantised = folder / "prepared.onnx", folder / f"{self.name}.onnx"
        model = onnx.load(str(part.model()))
        if model.opset_import[0].version < 13:  # the first whose Q/DQ have scales by channels
            model = onnx.version_converter.convert_version(model, 13)
        onnx.save(model, folder / "model.onnx")
        try:
            quant_pre_process(str(folder / "model.onnx"), str(prepared), skip_symbolic_shape=True)
        except Exception:  # its optimiser and shape inference refuse some models
            prepared = folder / "model.onnx"
        quantize_static(
            str(prepared),
            str(quantised),
            Reader(part.calibration()),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnxruntime_runner(quantised), quantised_layers(quantised)


class Nncf:
    """nncf.quantize at its defaults, told which models are transformers, by another Python that has NNCF."""

    name = "nncf"

    def __init__(self, python):
        self.python = python

    def make(self, part, folder):
        data, quantised = folder / "nncf.npz", folder / f"{self.name}.onnx"
        feeds = part.calibration()
        np.savez(data, **{f"{i}/{name}": array for i, feed in enumerate(feeds) for name, array in feed.items()})
        script = Path(__file__).with_name("nncf_quantize.py")
        kind = "transformer" if part.transformer else "any"
        done = subprocess.run(
            [self.python, script, part.model(), data, quantised, kind], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return onnxruntime_runner(quantised), quantised_layers(quantised)
