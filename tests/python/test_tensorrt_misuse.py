"""Wrong arguments, memory that does not fit, and classes of the program's that raise: each gives one clear error, and
nothing is left behind."""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref

import numpy as np
import pytest
from tensorrt_model import write_network
from test_module import MODULE
from test_tensorrt import Heard, parsed, pictures, trt


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_network(tmp_path_factory.mktemp("misuse") / "model.onnx")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Wrong(ValueError):
    """Of a kind that the library takes for a wrong value of its own."""


def fixed(model, logger=None):
    builder, network = parsed(model, logger)
    network.get_input(0).shape = (2, 3, 32, 32)
    return builder, network, builder.create_builder_config()


def raising(of, method):
    """A class of the program's whose method raises."""

    def fail(self, *arguments):
        raise Wrong(f"{method} has no power")

    made = type("Raising", (of,), {method: fail})
    for other in ("phase_start", "phase_finish", "step_complete"):
        if other != method and of is trt.IProgressMonitor:
            setattr(made, other, lambda self, *arguments: True)
    if of is trt.IInt8MinMaxCalibrator and method != "get_batch":
        made.get_batch = lambda self, names: None if self.given else self.give()
        made.given = False

        def give(self):
            self.given, self.held = True, pictures(2)
            return [self.held.ctypes.data]

        made.give = give
    return made()


@pytest.mark.parametrize("method", ["get_batch", "read_calibration_cache", "write_calibration_cache"])
def test_what_calibrators_raise_is_raised(model, folder, method):
    builder, network, config = fixed(model)
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = raising(trt.IInt8MinMaxCalibrator, method)
    with pytest.raises(Wrong, match=f"{method} has no power"):
        builder.build_serialized_network(network, config)
    assert list(folder.iterdir()) == []
    alive = weakref.ref(config.int8_calibrator)
    config.int8_calibrator = None
    gc.collect()
    assert alive() is None
    config.clear_flag(trt.BuilderFlag.INT8)
    assert builder.build_serialized_network(network, config)


@pytest.mark.parametrize("method", ["phase_start", "step_complete", "phase_finish"])
def test_what_progress_monitors_raise_is_raised(model, folder, method):
    builder, network, config = fixed(model)
    config.progress_monitor = raising(trt.IProgressMonitor, method)
    with pytest.raises(Wrong, match=f"{method} has no power"):
        builder.build_serialized_network(network, config)
    assert list(folder.iterdir()) == []
    config.progress_monitor = None
    assert builder.build_serialized_network(network, config)


def test_what_loggers_allocators_profilers_and_readers_raise_is_raised(model):
    builder, network, config = fixed(model)
    engine = builder.build_engine_with_config(network, config)
    context = engine.create_execution_context()
    x, y = pictures(2), np.empty((2, 10), np.float32)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    context.profiler = raising(trt.IProfiler, "report_layer_time")
    with pytest.raises(Wrong, match="report_layer_time"):
        context.execute_async_v3(0)
    with pytest.raises(Wrong, match="report_layer_time"):
        context.report_to_profiler()
    context.profiler = None
    context.set_output_allocator("y", raising(trt.IOutputAllocator, "reallocate_output"))
    with pytest.raises(Wrong, match="reallocate_output"):
        context.execute_async_v3(0)
    with pytest.raises(Wrong, match="read has no power"):
        trt.Runtime(Heard()).deserialize_cuda_engine(raising(trt.IStreamReader, "read"))
    silent = raising(trt.ILogger, "log")
    with pytest.raises(Wrong, match="log has no power"):
        trt.Runtime(silent).deserialize_cuda_engine(b"no engine")
    assert context.set_output_allocator("y", None) and context.execute_async_v3(0)


def test_algorithm_selectors_that_raise_or_choose_what_is_not_there(model):
    class Selector(trt.IAlgorithmSelector):
        def __init__(self, answer):
            trt.IAlgorithmSelector.__init__(self)
            self.answer = answer

        def select_algorithms(self, context, choices):
            return self.answer(choices)

        def report_algorithms(self, contexts, choices):
            raise Wrong("in the report")

    def build(answer):
        builder, network, config = fixed(model)
        config.algorithm_selector = Selector(answer)
        return builder.build_serialized_network(network, config), builder.logger

    for answer, what in ((lambda choices: 1 // 0, ZeroDivisionError), (lambda choices: [0], Wrong)):
        with pytest.raises(what):
            _, logger = build(answer)
            raise AssertionError(f"nothing was raised: {logger.errors()}")
    for answer in (lambda choices: [len(choices)], lambda choices: [-1], lambda choices: ["0"]):
        plan, logger = build(answer)
        assert plan is None and "the algorithm selector chose" in logger.errors()[-1]


def test_a_selector_is_not_asked_about_a_chain_that_runs_by_steps(model):
    """Its parts are layers of their own. Which of both is faster is a matter of the clock, so that a cache says it."""
    asked = []

    class First(trt.IAlgorithmSelector):
        def __init__(self):
            trt.IAlgorithmSelector.__init__(self)

        def select_algorithms(self, context, choices):
            asked.append(context.name)
            return [0]

        def report_algorithms(self, contexts, choices):
            pass

    def build(known):
        builder, network, config = fixed(model)
        cache = config.create_timing_cache(known)
        config.set_timing_cache(cache, False)
        config.algorithm_selector = First()
        return builder.build_serialized_network(network, config), config.get_timing_cache().serialize(), builder.logger

    _, measured, _ = build(b"")
    times = json.loads(bytes(measured))
    chains = [t for machine in times["machines"].values() for t in machine.values() if "steps" in t]
    assert chains, times
    for tactics in chains:
        tactics.update({name: 1 if name == "steps" else 10**6 for name in tactics})
    asked.clear()
    plan, _, logger = build(json.dumps(times).encode())
    assert plan is not None, logger.errors()
    assert len(asked) == len(set(asked)), asked


def test_memory_that_is_too_small(model):
    """Of the stand-in's allocations the size is known; that of others is the program's business."""
    script = f"""
import numpy as np
import camshaft.tensorrt as trt

trt.install()
import pycuda.driver as cuda

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network()
assert trt.OnnxParser(network, logger).parse_from_file({str(model)!r})
engine = builder.build_engine_with_config(network, builder.create_builder_config())
context = engine.create_execution_context()
context.set_input_shape("x", (4, 3, 32, 32))
x, small, y = cuda.mem_alloc(4 * 3 * 32 * 32 * 4), cuda.mem_alloc(1024), cuda.mem_alloc(160)
context.set_tensor_address("x", small)
context.set_tensor_address("y", y)
assert not context.execute_async_v3(0)
context.set_tensor_address("x", int(x) + 256)
assert not context.execute_async_v3(0)
context.set_tensor_address("x", x)
assert context.execute_async_v3(0)
context.set_input_shape("x", (16, 3, 32, 32))
assert not context.execute_async_v3(0)
x.free()
try:
    context.set_tensor_address("x", x)
except cuda.LogicError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "this memory was given back" in done.stdout
    assert done.stderr.count("tensor 'x' has 49152 bytes, which is more than what was allocated at") == 2
    assert done.stderr.count("tensor 'x' has 196608 bytes") == 1


def test_arguments_that_are_no_tensors_of_the_network():
    builder = trt.Builder(Heard())
    network, other = builder.create_network(), builder.create_network()
    x, y = (net.add_input("x", trt.float32, (2, 3)) for net in (network, other))
    with pytest.raises(TypeError, match="takes an ITensor, not None"):
        network.add_activation(None, trt.ActivationType.RELU)
    with pytest.raises(TypeError, match="takes an ITensor, not array"):
        network.add_elementwise(x, np.zeros(3), trt.ElementWiseOperation.SUM)
    with pytest.raises(ValueError, match="tensor 'x' is of another network"):
        network.add_elementwise(x, y, trt.ElementWiseOperation.SUM)
    with pytest.raises(TypeError, match="an output is an ITensor"):
        network.mark_output(None)
    with pytest.raises(ValueError, match="float99"):
        network.add_input("z", "float99", (1,))
    with pytest.raises(TypeError, match="no type for float64"):
        trt.Weights(np.zeros(3))
    with pytest.raises(ValueError, match="at most 8"):
        network.add_input("z", trt.float32, (1,) * 9)
    assert network.num_layers == 0 and network.num_inputs == 1
    network.mark_output(network.add_identity(x).get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config())


def test_operands_of_different_types_name_the_layer():
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    a, b = network.add_input("a", trt.float32, (2,)), network.add_input("b", trt.int32, (2,))
    layer = network.add_elementwise(a, b, trt.ElementWiseOperation.SUM)
    layer.name = "mixed"
    assert layer.get_output(0).shape == ()  # not known
    network.mark_output(layer.get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "'mixed'" in logger.errors()[-1] and "i32" in logger.errors()[-1]


def test_threads_build_and_run_side_by_side(model):
    """Each with objects of its own, and one with a monitor that raises."""
    builder, network, config = fixed(model)
    plan = builder.build_serialized_network(network, config)
    want, failures = None, []

    def work(seed):
        try:
            engine = trt.Runtime(Heard()).deserialize_cuda_engine(plan)
            x, y = pictures(2), np.empty((2, 10), np.float32)
            context = engine.create_execution_context()
            for _ in range(20):
                assert context.execute_v2([x.ctypes.data, y.ctypes.data])
            other = fixed(model)
            if seed == 0:
                other[2].progress_monitor = raising(trt.IProgressMonitor, "step_complete")
                with pytest.raises(Wrong):
                    other[0].build_serialized_network(*other[1:])
            else:
                assert other[0].build_serialized_network(*other[1:])
            results.append(y)
        except BaseException as error:
            failures.append(error)

    results = []
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(results) == 3
    want = results[0]
    for got in results[1:]:
        np.testing.assert_array_equal(got, want)


def test_networks_and_engines_are_given_back(model):
    builder, network, config = fixed(model)
    engine = builder.build_engine_with_config(network, config)
    context = engine.create_execution_context()
    loop = network.add_loop()
    loop.add_recurrence(network.get_input(0))
    assert network.get_layer(0).get_output(0).shape == (2, 16, 16, 32)
    watched = [weakref.ref(thing) for thing in (network, engine, context, loop, network.get_layer(0))]
    del network, engine, context, loop, builder
    gc.collect()
    assert [reference() for reference in watched] == [None] * len(watched)
