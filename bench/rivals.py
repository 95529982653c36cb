"""How the engines that Camshaft is measured beside are set up: one place, for the measurements and for the tests."""

import onnxruntime
import openvino_c


def onnxruntime_session(model, threads, optimised=True):
    """An ONNX Runtime session on the CPU for the model at that path, all at its defaults but the number of threads and,
    on request, the graph optimisations, which can be off."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


class OnnxRuntime:
    """Inputs and outputs are bound once, so that a run copies neither. It is called through its Python package, which takes
    0.6 µs of a run."""

    precision = "f32"

    def __init__(self, model, threads):
        self.session = onnxruntime_session(model, threads)
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.binding = self.session.io_binding()

    def bind(self, feed):
        for name, array in feed.items():
            self.binding.bind_cpu_input(name, array)
        for name in self.outputs:
            self.binding.bind_output(name, "cpu")

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def results(self):
        return self.binding.copy_outputs_to_cpu()


class OpenVino:
    """The latency hint, f32 throughout, threads fixed and not pinned (the others do not pin either)."""

    properties = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": "NO",
    }

    def __init__(self, model, threads):
        self.request = openvino_c.Request(
            openvino_c.library(), model, {**self.properties, "INFERENCE_NUM_THREADS": threads}
        )
        self.precision = self.request.property("INFERENCE_PRECISION_HINT")
        self.run = self.request.run

    def bind(self, feed):
        for name, array in feed.items():
            self.request.write(name, array)

    def results(self):
        return self.request.outputs()


class OpenVinoDefaults(OpenVino):
    """Nothing said but the number of threads: it computes in bf16 where the processor has that, and pins its threads."""

    properties = {}


RIVALS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "openvino_defaults": OpenVinoDefaults}
