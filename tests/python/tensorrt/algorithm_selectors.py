"""Algorithm selectors of TensorRT 8: one writes down what was taken, one takes it again, one takes the others, and one
nothing; the results are the same."""

import numpy as np
import tensorrt as trt
from cuda import cudart

logger = trt.Logger(trt.Logger.WARNING)


class Recorder(trt.IAlgorithmSelector):
    def __init__(self):
        trt.IAlgorithmSelector.__init__(self)
        self.choices, self.taken = {}, {}

    def select_algorithms(self, context, choices):
        shapes = [context.get_shape(index) for index in range(context.num_inputs + context.num_outputs)]
        assert all(len(shape) == 3 for shape in shapes) and choices
        self.choices[context.name] = [choice.algorithm_variant.tactic for choice in choices]
        return list(range(len(choices)))

    def report_algorithms(self, contexts, choices):
        for context, choice in zip(contexts, choices):
            io = choice.get_algorithm_io_info(context.num_inputs)
            assert io.dtype == trt.float32 and len(io.strides) == len(context.get_shape(context.num_inputs)[0])
            assert choice.timing_msec >= 0 and choice.workspace_size >= 0
            self.taken[context.name] = (choice.algorithm_variant.implementation, choice.algorithm_variant.tactic)


class Replayer(Recorder):
    def __init__(self, wanted):
        Recorder.__init__(self)
        self.wanted = wanted

    def select_algorithms(self, context, choices):
        Recorder.select_algorithms(self, context, choices)
        tactics = self.choices[context.name]
        return [k for k, tactic in enumerate(tactics) if tactic == self.wanted[context.name]]


class Nothing(Recorder):
    def select_algorithms(self, context, choices):
        return []


def build(selector, flags=()):
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    kernels = np.random.default_rng(0).standard_normal((2, 32, 32, 3, 3)).astype(np.float32) / 17
    last = network.add_input("x", trt.float32, (1, 32, 28, 28))
    for index, kernel in enumerate(kernels):
        layer = network.add_convolution_nd(last, 32, (3, 3), trt.Weights(kernel), trt.Weights())
        layer.name, layer.padding_nd = f"conv{index}", (1, 1)
        last = network.add_activation(layer.get_output(0), trt.ActivationType.TANH).get_output(0)
    last.name = "y"
    network.mark_output(last)
    config = builder.create_builder_config()
    config.algorithm_selector = selector
    for flag in flags:
        config.set_flag(flag)
    return builder.build_engine_with_config(network, config)


def run(engine):
    x = np.random.default_rng(1).standard_normal((1, 32, 28, 28)).astype(np.float32)
    y = np.empty((1, 32, 28, 28), np.float32)
    device = [cudart.cudaMalloc(array.nbytes)[1] for array in (x, y)]
    kinds = cudart.cudaMemcpyKind
    cudart.cudaMemcpy(device[0], x.ctypes.data, x.nbytes, kinds.cudaMemcpyHostToDevice)
    assert engine.create_execution_context().execute_v2(device)
    cudart.cudaMemcpy(y.ctypes.data, device[1], y.nbytes, kinds.cudaMemcpyDeviceToHost)
    return y


first = Recorder()
want = run(build(first))
print(first.choices, first.taken)
assert any(len(tactics) > 1 for tactics in first.choices.values())
again = Replayer({name: taken[1] for name, taken in first.taken.items()})
np.testing.assert_allclose(run(build(again)), want, rtol=1e-3, atol=1e-4)
assert again.taken == first.taken
others = {
    name: next((t for t in tactics if t != first.taken[name][1]), tactics[0]) for name, tactics in first.choices.items()
}
last = Replayer(others)
np.testing.assert_allclose(run(build(last)), want, rtol=1e-3, atol=1e-4)
assert {name: taken[1] for name, taken in last.taken.items()} == others != {n: t[1] for n, t in first.taken.items()}
assert build(Nothing()) is not None
assert build(Nothing(), [trt.BuilderFlag.REJECT_EMPTY_ALGORITHMS]) is None
print("PASSED")
