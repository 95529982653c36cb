"""How the engines that Camshaft is measured beside are set up: one place, for the measurements and for the tests."""

import onnxruntime


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
    """Inputs and outputs are bound once, so that a run copies neither."""

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
        return dict(zip(self.outputs, self.binding.copy_outputs_to_cpu()))


class OpenVino:
    """The latency hint, f32 throughout, threads fixed and not pinned (the others do not pin either)."""

    def __init__(self, model, threads):
        import openvino

        self.tensor = openvino.Tensor
        properties = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,
        }
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(str(model)), "CPU", properties)
        self.request = compiled.create_infer_request()
        self.outputs = [sorted(port.get_names()) for port in compiled.outputs]

    def bind(self, feed):
        for name, array in feed.items():
            self.request.set_tensor(name, self.tensor(array, shared_memory=array.ndim > 0))

    def run(self):
        self.request.infer()

    def results(self):
        return {
            name: self.request.get_output_tensor(index).data.copy()
            for index, names in enumerate(self.outputs)
            for name in names
        }


RIVALS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}
