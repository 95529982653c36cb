"""TensorRT's interface: programs for TensorRT 8 and 10, and what its calls answer."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tensorrt_model import write_network
from test_module import MODULE, module

from onnx import TensorProto, helper

trt = pytest.importorskip("camshaft.tensorrt") if module else None
PROGRAMS = Path(__file__).parent / "tensorrt"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_network(tmp_path_factory.mktemp("tensorrt") / "model.onnx")


class Heard(trt.ILogger if trt else object):
    """Keeps what it is told."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.messages = []

    def log(self, severity, msg):
        self.messages.append((severity, msg))

    def errors(self):
        return [text for severity, text in self.messages if severity <= trt.Logger.ERROR]


def parsed(model, logger=None):
    builder = trt.Builder(logger or Heard())
    network = builder.create_network()
    parser = trt.OnnxParser(network, builder.logger)
    assert parser.parse_from_file(str(model)), [str(parser.get_error(i)) for i in range(parser.num_errors)]
    return builder, network


def built(model, shapes=((1, 3, 32, 32), (4, 3, 32, 32), (8, 3, 32, 32)), logger=None):
    builder, network = parsed(model, logger)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", *shapes)
    assert config.add_optimization_profile(profile) == 0
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(builder.logger).deserialize_cuda_engine(plan)


def expected(model, x):
    return onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]


def pictures(batch, seed=1):
    return np.random.default_rng(seed).standard_normal((batch, 3, 32, 32)).astype(np.float32)


@pytest.mark.parametrize("program", sorted(path.name for path in PROGRAMS.glob("*.py")))
def test_programs_run_as_they_are(program, model, tmp_path):
    """Each checks its own results against ONNX Runtime's."""
    (tmp_path / "model.onnx").write_bytes(Path(model).read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    run = subprocess.run(
        [sys.executable, "-m", "camshaft.tensorrt", PROGRAMS / program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "PASSED" in run.stdout


def test_engine_says_what_its_tensors_are(model):
    engine = built(model)
    assert [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)] == ["x", "y"]
    assert engine.get_tensor_mode("x") == trt.TensorIOMode.INPUT
    assert engine.get_tensor_mode("y") == trt.TensorIOMode.OUTPUT
    assert engine.get_tensor_mode("z") == trt.TensorIOMode.NONE
    assert engine.get_tensor_shape("x") == (-1, 3, 32, 32)
    assert engine.get_tensor_dtype("y") == trt.float32
    assert engine.get_tensor_profile_shape("x", 0) == [(1, 3, 32, 32), (4, 3, 32, 32), (8, 3, 32, 32)]
    assert engine.num_layers > 0 and engine.device_memory_size > 0
    assert engine["x"] == 0 and engine[1] == "y" and list(engine) == ["x", "y"]
    inspector = engine.create_engine_inspector()
    listed = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    assert len(listed["Layers"]) == engine.num_layers
    assert any("conv" in layer["Origin"] for layer in listed["Layers"])
    assert listed["Layers"][0]["Inputs"][0]["Dimensions"] == [-1, 3, 32, 32]
    with pytest.raises(ValueError, match="no tensor 'z', but x, y"):
        engine.get_tensor_shape("z")


def test_shapes_outside_a_profile_are_refused(model):
    logger = Heard()
    context = built(model, logger=logger).create_execution_context()
    assert context.infer_shapes() == ["x"]
    assert context.get_tensor_shape("y") == (-1, 10)
    assert not context.set_input_shape("x", (9, 3, 32, 32))
    assert "outside every profile" in logger.errors()[-1]
    assert not context.set_input_shape("y", (1, 10))
    assert not context.set_input_shape("x", (4, 3, 32))
    assert context.set_input_shape("x", (4, 3, 32, 32))
    assert context.get_tensor_shape("y") == (4, 10)
    assert context.get_tensor_strides("x") == (3072, 1024, 32, 1)


def test_running_without_addresses_or_shapes_says_so(model):
    logger = Heard()
    context = built(model, logger=logger).create_execution_context()
    assert not context.execute_async_v3(0)
    assert "the shape of input 'x' is not set" in logger.errors()[-1]
    context.set_input_shape("x", (1, 3, 32, 32))
    assert not context.execute_async_v3(0)
    assert "input 'x' has no address" in logger.errors()[-1]
    x = pictures(1)
    context.set_tensor_address("x", x.ctypes.data)
    assert not context.execute_async_v3(0)
    assert "output 'y' has no address" in logger.errors()[-1]
    assert not context.execute_v2([x.ctypes.data])
    assert "1 addresses for 2 bindings: x, y" in logger.errors()[-1]


def test_errors_reach_the_recorder(model):
    class Recorder(trt.IErrorRecorder):
        def __init__(self):
            super().__init__()
            self.errors = []

        def report_error(self, code, desc):
            self.errors.append((code, desc))

    engine = built(model)
    context = engine.create_execution_context()
    context.error_recorder = Recorder()
    context.set_input_shape("x", (99, 3, 32, 32))
    assert context.error_recorder.errors[0][0] == trt.ErrorCodeTRT.INVALID_ARGUMENT


def test_no_engine_of_other_bytes():
    logger = Heard()
    assert trt.Runtime(logger).deserialize_cuda_engine(b"ftrt of another library") is None
    assert logger.errors()


def test_parser_names_what_it_cannot_read(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="f", domain="my.ops")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    bad = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)])
    logger = Heard()
    parser = trt.OnnxParser(trt.Builder(logger).create_network(), logger)
    assert not parser.parse(bad.SerializeToString())
    error = parser.get_error(0)
    assert parser.num_errors == 1 and error.code() == trt.ErrorCode.UNSUPPORTED_NODE
    assert error.node() == 0 and error.node_name() == "f" and "my.ops::Frobnicate" in error.desc()
    parser.clear_errors()
    assert parser.num_errors == 0
    assert not parser.parse(b"no model")
    assert parser.get_error(0).code() == trt.ErrorCode.MODEL_DESERIALIZE_FAILED
    assert not parser.parse_from_file(str(tmp_path / "none.onnx"))
    assert "cannot read" in parser.get_error(1).desc()
    assert parser.supports_operator("Conv") and not parser.supports_operator("Frobnicate")
    assert parser.supports_model(bad.SerializeToString()) == (False, [([0], False)])


def test_layers_of_a_parsed_model(model):
    builder, network = parsed(model)
    assert [layer.name for layer in network] == ["conv", "relu", "pool", "flatten", "scores"]
    conv = network.get_layer(0)
    conv.__class__ = trt.IConvolutionLayer  # as programs for TensorRT do
    assert conv.type == trt.LayerType.CONVOLUTION
    assert conv.stride_nd == (2, 1) and conv.pre_padding == (1, 1) and conv.num_output_maps == 16
    assert conv.kernel.shape == (16 * 27,) and conv.bias.size == 0
    assert isinstance(conv, trt.IConvolutionLayer) and not any(name.startswith("_n") for name in dir(conv))
    assert conv.get_output(0).shape == (-1, 16, 16, 32)
    with pytest.raises(NotImplementedError, match="stride_nd"):
        conv.stride_nd = (1, 1)
    network.mark_output(conv.get_output(0))
    network.get_output(0).name = "scores"
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    assert list(engine) == ["x", "scores", "c"] and engine.name == "pictures"
    network.unmark_output(network.get_output(1))
    assert list(builder.build_engine_with_config(network, builder.create_builder_config())) == ["x", "scores"]


def test_layers_are_added_behind_a_parsed_model(model):
    builder, network = parsed(model)
    top = network.add_topk(network.get_output(0), trt.TopKOperation.MAX, 3, 1 << 1)
    network.unmark_output(network.get_output(0))
    for k, name in enumerate(("values", "indices")):
        top.get_output(k).name = name
        network.mark_output(top.get_output(k))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context = engine.create_execution_context()
    x = pictures(2)
    values, indices = np.empty((2, 3), np.float32), np.empty((2, 3), np.int32)
    context.set_input_shape("x", x.shape)
    assert context.execute_v2([a.ctypes.data for a in (x, values, indices)])
    scores = expected(model, x)
    np.testing.assert_array_equal(indices, np.argsort(-scores, axis=1)[:, :3])
    np.testing.assert_allclose(values, -np.sort(-scores, axis=1)[:, :3], rtol=1e-4, atol=1e-5)


def test_outputs_whose_size_only_running_tells():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (2, 3))
    found = network.add_non_zero(x).get_output(0)
    found.name = "found"
    network.mark_output(found)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context = engine.create_execution_context()

    class Allocator(trt.IOutputAllocator):
        def __init__(self):
            super().__init__()
            self.memory, self.shape = None, None

        def reallocate_output(self, tensor_name, memory, size, alignment):
            self.memory = np.empty(size, np.uint8)
            return self.memory.ctypes.data

        def notify_shape(self, tensor_name, shape):
            self.shape = tuple(shape)

    allocator = Allocator()
    assert context.set_output_allocator("found", allocator)
    for numbers in ([[0, 1, 0], [2, 0, 3]], [[1, 1, 1], [1, 1, 1]], [[0, 0, 0], [0, 0, 0]]):
        array = np.array(numbers, np.float32)
        context.set_tensor_address("x", array.ctypes.data)
        assert context.execute_async_v3(0)
        count = np.count_nonzero(array)
        assert allocator.shape == (2, count)
        got = allocator.memory[: 8 * count].view(np.int32).reshape(2, count)
        np.testing.assert_array_equal(got, np.array(np.nonzero(array)))


def test_profiler_gets_every_layer(model):
    class Times(trt.IProfiler):
        def __init__(self):
            super().__init__()
            self.layers = []

        def report_layer_time(self, layer_name, ms):
            self.layers.append((layer_name, ms))

    engine = built(model)
    context = engine.create_execution_context()
    context.profiler = Times()
    x, y = pictures(4), np.empty((4, 10), np.float32)
    context.set_input_shape("x", x.shape)
    for _ in range(2):
        assert context.execute_v2([x.ctypes.data, y.ctypes.data])
    assert len(context.profiler.layers) == 2 * engine.num_layers
    assert all(ms > 0 for _, ms in context.profiler.layers)


def test_progress_monitor_is_told_and_stops_a_build(model):
    class Monitor(trt.IProgressMonitor):
        def __init__(self, steps):
            super().__init__()
            self.steps, self.open, self.seen = steps, [], []

        def phase_start(self, phase_name, parent_phase, num_steps):
            self.open.append(phase_name)
            self.seen.append(phase_name)

        def step_complete(self, phase_name, step):
            self.steps -= 1
            return self.steps > 0

        def phase_finish(self, phase_name):
            self.open.remove(phase_name)

    builder, network = parsed(model)
    config = builder.create_builder_config()
    config.progress_monitor = Monitor(10**6)
    assert builder.build_serialized_network(network, config)
    assert config.progress_monitor.seen and not config.progress_monitor.open
    config.progress_monitor = Monitor(1)
    assert builder.build_serialized_network(network, config) is None
    assert not config.progress_monitor.open


def test_timing_cache_serves_the_next_build(model):
    builder, network = parsed(model)
    config = builder.create_builder_config()
    cache = config.create_timing_cache(b"")
    assert config.set_timing_cache(cache, ignore_mismatch=False)
    first = builder.build_serialized_network(network, config)
    data = bytes(config.get_timing_cache().serialize())
    again = builder.create_builder_config()
    again.set_timing_cache(again.create_timing_cache(data), False)
    assert builder.build_serialized_network(network, again) == first
    other = again.create_timing_cache(b"")
    assert other.combine(again.get_timing_cache(), True) and len(other.serialize()) > 2
    with pytest.raises(ValueError, match="no timing cache of Camshaft's"):
        config.create_timing_cache(b"of TensorRT")


def test_flags_that_cannot_be_had_are_refused(model):
    logger = Heard()
    builder, network = parsed(model, logger)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.SAFETY_SCOPE)
    assert config.get_flag(trt.BuilderFlag.SAFETY_SCOPE) and not config.get_flag(trt.BuilderFlag.FP16)
    assert builder.build_serialized_network(network, config) is None
    assert "SAFETY_SCOPE: there are no safety engines" in logger.errors()[-1]
    config.clear_flag(trt.BuilderFlag.SAFETY_SCOPE)
    assert builder.build_serialized_network(network, config)


@pytest.mark.parametrize("kind", ["IInt8EntropyCalibrator2", "IInt8MinMaxCalibrator", "IInt8LegacyCalibrator"])
def test_calibrators_give_batches_and_keep_a_cache(model, kind):
    class Calibrator(getattr(trt, kind)):
        def __init__(self, cache=None):
            super().__init__()
            self.batches, self.cache, self.held = 4, cache, None

        def get_batch_size(self):
            return 4

        def get_batch(self, names):
            assert names == ["x"]
            if self.batches == 0:
                return None
            self.batches -= 1
            self.held = pictures(4, self.batches)
            return [self.held.ctypes.data]

        def read_calibration_cache(self):
            return self.cache

        def write_calibration_cache(self, cache):
            self.cache = bytes(cache)

    def build(calibrator):
        builder, network = parsed(model)
        config = builder.create_builder_config()
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = calibrator
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *[(4, 3, 32, 32)] * 3)
        config.add_optimization_profile(profile)
        assert builder.build_serialized_network(network, config)
        return calibrator

    calibrator = build(Calibrator())
    assert calibrator.batches == 0 and calibrator.cache.startswith(b"TRT-")
    again = build(Calibrator(calibrator.cache))
    assert again.batches == 4  # the cache was enough


def test_what_a_calibrator_raises_comes_through(model):
    class Broken(trt.IInt8EntropyCalibrator2):
        def get_batch(self, names):
            raise RuntimeError("no pictures left")

    builder, network = parsed(model)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = Broken()
    network.get_input(0).shape = (1, 3, 32, 32)
    with pytest.raises(RuntimeError, match="no pictures left"):
        builder.build_serialized_network(network, config)


def test_ranges_by_hand(model):
    builder, network = parsed(model)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    for tensor in [network.get_input(0), *(layer.get_output(0) for layer in network)]:
        assert tensor.set_dynamic_range(-3.0, 3.0)
    engine = builder.build_engine_with_config(network, config)
    context = engine.create_execution_context()
    x, y = pictures(2), np.empty((2, 10), np.float32)
    context.set_input_shape("x", x.shape)
    assert context.execute_v2([x.ctypes.data, y.ctypes.data])
    np.testing.assert_allclose(y, expected(model, np.clip(x, -3, 3)), atol=0.1)


def test_shapes_are_given_as_values():
    """As TensorRT 8 sets them: by set_shape_input(), with no address for the binding."""
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (-1,))
    sizes = network.add_input("sizes", trt.int32, (2,))
    layer = network.add_shuffle(x)
    layer.set_input(1, sizes)
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine(network, builder.create_builder_config())
    context, array = engine.create_execution_context(), np.arange(12, dtype=np.float32)
    assert context.set_binding_shape(0, (12,)) and not context.set_shape_input(0, (1, 2))
    with pytest.raises(ValueError, match="'sizes' has no values"):
        context.get_shape(1)
    for shape in ((3, 4), (6, 2)):
        assert context.set_shape_input(engine.get_binding_index("sizes"), shape)
        assert context.get_shape(1) == shape
        y = np.zeros(shape, np.float32)
        assert context.execute_v2([array.ctypes.data, 0, y.ctypes.data]), builder.logger.errors()
        np.testing.assert_array_equal(y, array.reshape(shape))


def test_the_runtime_says_whose_memory_a_pointer_is():
    from camshaft.tensorrt import cudart

    kinds = cudart.cudaMemoryType
    array = np.zeros(64, np.uint8)
    for made, kind, free in [
        (cudart.cudaMalloc(64), kinds.cudaMemoryTypeDevice, cudart.cudaFree),
        (cudart.cudaMallocHost(64), kinds.cudaMemoryTypeHost, cudart.cudaFreeHost),
        (cudart.cudaMallocManaged(64), kinds.cudaMemoryTypeManaged, cudart.cudaFree),
    ]:
        status, found = cudart.cudaPointerGetAttributes(made[1] + 8)
        assert status == 0 and found.type == kind and found.device == 0, kind
        assert (found.hostPointer == 0) == (kind == kinds.cudaMemoryTypeDevice)
        assert free(made[1])[0] == 0
        assert cudart.cudaPointerGetAttributes(made[1])[1].type == kinds.cudaMemoryTypeUnregistered
    assert cudart.cudaHostRegister(array, array.nbytes)[0] == 0
    assert cudart.cudaHostRegister(array, array.nbytes)[0] == cudart.cudaError_t.cudaErrorHostMemoryAlreadyRegistered
    assert cudart.cudaPointerGetAttributes(array.ctypes.data)[1].type == kinds.cudaMemoryTypeHost
    assert cudart.cudaHostUnregister(array)[0] == 0
    assert cudart.cudaHostUnregister(array)[0] == cudart.cudaError_t.cudaErrorHostMemoryNotRegistered
    status, pitched, pitch = cudart.cudaMallocPitch(100, 3)
    assert status == 0 and pitch >= 100 and pitch % 256 == 0
    assert cudart.cudaMemset2D(pitched, pitch, 7, 100, 3)[0] == 0
    assert (
        cudart.cudaMemset2D(pitched, pitch, 7, 100, 4)[0] == cudart.cudaError_t.cudaErrorInvalidValue
    )  # beyond the end
    rows = np.zeros((3, 100), np.uint8)
    assert cudart.cudaMemcpy2D(rows, 100, pitched, pitch, 100, 3, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)[0] == 0
    assert (rows == 7).all() and cudart.cudaFree(pitched)[0] == 0
    called = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(called.append)
    assert cudart.cudaLaunchHostFunc(0, function, 5)[0] == 0 and called == [5]


def test_what_the_stand_ins_lack_says_what_to_install(tmp_path):
    program = """
import camshaft.tensorrt, sys
camshaft.tensorrt.install()
from cuda import cudart
from pycuda.compiler import SourceModule
import pycuda.driver
for call in (lambda: cudart.cudaTextureSomething, lambda: pycuda.driver.Array, lambda: SourceModule("")):
    try:
        call()
    except (AttributeError, NotImplementedError) as error:
        print(error)
from cuda.bindings import driver, nvrtc, runtime
assert runtime.cudaMalloc(16)[0] == cudart.cudaError_t.cudaSuccess and nvrtc.nvrtcGetErrorString(6)[1] == b"NVRTC_ERROR_COMPILATION"
try:
    nvrtc.nvrtcCreateProgram(b"", b"", 0, [], [])
except NotImplementedError as error:
    print(error)
print(hasattr(cudart, "nothing"))
"""
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert "cudaTextureSomething is not there" in lines[0] and "install cuda-python" in lines[0]
    assert "pycuda.driver.Array is not there" in lines[1] and "install pycuda" in lines[1]
    assert "kernels cannot be compiled" in lines[2] and "kernels cannot be compiled" in lines[3]
    assert lines[4] == "False"


def test_missing_things_name_themselves():
    network = trt.Builder(Heard()).create_network()
    with pytest.raises(TypeError, match="takes an IPluginV2DynamicExt"):
        network.add_plugin_v2([], None)
    assert trt.get_plugin_registry().get_plugin_creator("NMS", "1") is None
    assert trt.init_libnvinfer_plugins(None, "")
