"""What is measured beside each other: each gives functions that run a model on inputs, of one shape or of any."""

import os
import time

from camshaft._engine import Engine
from camshaft.jobs import _operations, _settings
from camshaft.jobs._file import existing


class NotMeasured(Exception):
    """Why a runtime is left out."""


class Camshaft:
    """The model's engines, built as the job says; `open` ones are for all batches."""

    label = "Camshaft"

    def __init__(self, job, calibration=None):
        self.job, self.calibration = job, calibration
        self.precision = [name for name in (*_settings.PRECISIONS, "best") if job.get(name)]
        self.engines, self.build_s = {}, 0.0

    def prepare(self, profiles):
        key = str(profiles)
        if key not in self.engines:
            begin = time.perf_counter()
            self.engines[key] = _operations.built(self.job, profiles, self.precision, self.calibration, None)
            self.build_s += time.perf_counter() - begin
        return self.engines[key]

    def first(self):
        return next(iter(self.engines.values()))

    def size(self):
        """Bytes that the first engine has as a file."""
        return len(bytes(self.first()))

    def runner(self, profiles, inputs, threads, streams=1):
        return _of_context(self.prepare(profiles), inputs, threads)


class EngineFile:
    """An engine that was built before, as it is."""

    def __init__(self, path, job):
        self.engine = Engine(existing(path, "the engine", job.get("_file")))
        self.path, self.label = path, os.path.basename(path)

    def first(self):
        return self.engine

    def size(self):
        return os.path.getsize(self.path)

    def runner(self, profiles, inputs, threads, streams=1):
        return _of_context(self.engine, inputs, threads)


class OnnxRuntime:
    """A session is shared by all streams, and has the threads of all of them; where each has one, it is the caller's."""

    label = "ONNX Runtime"

    def __init__(self, job):
        self.onnxruntime = _imported("onnxruntime")
        self.path, self.sessions = job["onnx_path"], {}

    def runner(self, profiles, inputs, threads, streams=1):
        threads = threads * streams if threads > 1 else 1
        if threads not in self.sessions:
            options = self.onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
            options.log_severity_level = 3
            self.sessions[threads] = self.onnxruntime.InferenceSession(
                self.path, options, providers=["CPUExecutionProvider"]
            )
        session = self.sessions[threads]
        names = [output.name for output in session.get_outputs()]
        return lambda: dict(zip(names, session.run(names, inputs)))


class OpenVino:
    """In fp32, as the others are; where every profile has one size, compiled for it."""

    label = "OpenVINO"

    def __init__(self, job):
        self.openvino = _imported("openvino")
        self.path, self.core, self.compiled = job["onnx_path"], self.openvino.Core(), {}

    def runner(self, profiles, inputs, threads, streams=1):
        fixed = all(low == high for profile in profiles for low, _, high in profile.values())
        shapes = {name: list(array.shape) for name, array in inputs.items()} if fixed else None
        key = (str(shapes), threads, streams)
        if key not in self.compiled:
            model = self.core.read_model(self.path)
            names = [output.get_any_name() for output in model.outputs]
            if shapes:
                model.reshape(shapes)
            settings = {
                "INFERENCE_NUM_THREADS": threads * streams,
                "INFERENCE_PRECISION_HINT": "f32",
                "NUM_STREAMS": streams,
            }
            self.compiled[key] = self.core.compile_model(model, "CPU", settings), names
        compiled, names = self.compiled[key]
        request = compiled.create_infer_request()

        def run():
            # By default it copies both, which none of the others does: 5 % of the 0.6 ms of a small encoder.
            results = request.infer(inputs, share_inputs=True, share_outputs=True)
            return {name: results[index] for index, name in enumerate(names)}

        return run


class PyTorch:
    label = "PyTorch"

    def __init__(self, job):
        if "torch_path" not in job:
            raise NotMeasured("there is no torch_path, the model as PyTorch reads it")
        self.torch = torch = _imported("torch")
        path = existing(job["torch_path"], "the model for PyTorch", job.get("_file"))
        self.module = torch.export.load(path).module() if path.endswith(".pt2") else torch.jit.load(path).eval()

    def runner(self, profiles, inputs, threads, streams=1):
        torch = self.torch
        arrays = [torch.from_numpy(array) for array in inputs.values()]

        def run():
            torch.set_num_threads(threads)
            with torch.inference_mode():
                results = self.module(*arrays)
            results = results if isinstance(results, (list, tuple)) else [results]
            return [result.numpy() for result in results]

        return run


RIVALS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "pytorch": PyTorch}


def opened(job, calibration):
    """The runtimes that a job measures, and those that are left out: [{"runtime", "reason"}]."""
    wanted = job.get("runtimes", ["camshaft", *RIVALS])
    found, left_out = [], []
    if "onnx_path" in job and "camshaft" in wanted:
        found.append(Camshaft(job, calibration))
    found += [EngineFile(path, job) for path in job.get("engines", [])]
    for name in [name for name in wanted if name in RIVALS]:
        kind = RIVALS[name]
        try:
            if "onnx_path" not in job:
                raise NotMeasured("there is no onnx_path")
            if job.get("device", "cpu") != "cpu":
                raise NotMeasured("it is measured on the CPU alone, and the device is a GPU")
            found.append(kind(job))
        except NotMeasured as reason:
            left_out.append({"runtime": kind.label, "reason": str(reason)})
    return found, left_out


def _of_context(engine, inputs, threads):
    """Runs to arrays of NumPy's, as the others do: views of what the next run writes, so that none is timed with copies."""
    import numpy

    context = engine.create_context(threads)
    for name, array in inputs.items():
        context.set_input(name, array)
    return lambda: {name: numpy.from_dlpack(value) for name, value in context.run().items()}


def _imported(name):
    try:
        return __import__(name)
    except ImportError as error:
        raise NotMeasured(f"it is not installed ({error})") from None
