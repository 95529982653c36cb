"""TensorRT's plugins in Python on a GPU, an emulated one here: they get its memory, and the run's stream."""

from test_plugin_kernels import HEAD, on_gpu

PLUGINS = (
    HEAD
    + """
import camshaft.tensorrt as trt
trtp = trt.plugin

from stream_memory import read, write

class Sum(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    plugin_name, plugin_version, plugin_namespace, num_outputs = "GpuSum", "1", "", 1
    workspace = 64

    def get_output_data_types(self, types):
        return types[:1]

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [inputs[0]]

    def supports_format_combination(self, place, descs, inputs):
        return descs[place].desc.type == trt.float32

    def get_workspace_size(self, inputs, outputs):
        return self.workspace

    def enqueue(self, given, made, inputs, outputs, workspace, stream):
        assert stream != 0 and workspace % 64 == 0
        shape = tuple(given[0].dims)
        write(workspace, np.full(16, 3, np.float32), stream)
        made = read(inputs[0], shape, stream) + read(inputs[1], shape, stream) * read(workspace, (1,), stream)
        write(outputs[0], made, stream)

    def clone(self):
        return Sum()

class SumCreator(trt.IPluginCreatorV3One):
    name, plugin_version, plugin_namespace = "GpuSum", "1", ""
    field_names = trt.PluginFieldCollection()

    def create_plugin(self, name, fields, phase):
        return Sum()

assert trt.get_plugin_registry().register_creator(SumCreator(), "")

@trtp.register("gpu::add_")
def describe_add(x: trtp.TensorDesc, by: int) -> trtp.TensorDesc:
    return x.aliased()

@trtp.impl("gpu::add_")
def add_in_place(x, by, outputs, stream):
    assert stream != 0 and x.data_ptr == outputs[0].data_ptr and x.__dlpack_device__() == (2, 0)
    write(x.data_ptr, read(x.data_ptr, tuple(x.shape), stream) + np.float32(by), stream)

@trtp.register("gpu::places")
def describe_places(x: trtp.TensorDesc) -> "tuple[trtp.TensorDesc, trtp.TensorDesc]":
    most = x.shape_expr.numel()
    count = trtp.size_tensor(most // 2, most)
    return trtp.from_shape_expr((count.expr(), 2), dtype=trt.int32), count

@trtp.impl("gpu::places")
def places(x, outputs, stream):
    found = np.argwhere(read(x.data_ptr, tuple(x.shape), stream)).astype(np.int32)
    write(outputs[0].aliased(found.shape).data_ptr, found, stream)
    write(outputs[1].data_ptr, np.int32(len(found)), stream)

class Log(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.errors = []
    def log(self, severity, message):
        if severity <= trt.ILogger.ERROR:
            self.errors.append(message)

def engine_of(fill, sizes=((1, 5), (2, 5), (40, 5))):
    builder = trt.Builder(Log())
    network = builder.create_network()
    x = network.add_input("x", trt.float32, tuple(-1 if a != c else a for a, c in zip(sizes[0], sizes[2])))
    for index, output in enumerate(fill(network, x)):
        output.name = f"y{index}"
        network.mark_output(output)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", *sizes)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan, builder.logger.errors
    return camshaft.Engine(bytes(plan))

def tactics(engine):
    return [layer["tactic"] for layer in engine.inspect()["layers"] if "plugin" in layer["tactic"]]
"""
)


def test_an_ipluginv3_with_a_workspace():
    said = on_gpu(
        PLUGINS
        + """
def fill(network, x):
    doubled = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    return [network.add_plugin_v3([x, doubled], [], Sum()).get_output(0)]

engine = engine_of(fill)
assert tactics(engine) == ["cuda_plugin"], tactics(engine)
for count in (1, 7, 40):
    x = rows(count)
    for _ in range(3):
        np.testing.assert_allclose(engine(x), 7 * x, rtol=1e-6)
print("right")
"""
    )
    assert said.endswith("right\n")


def test_tactics_are_measured_and_work_that_may_be_is_recorded():
    said = on_gpu(
        PLUGINS
        + """
import time
driver = ctypes.CDLL("libcuda.so.1")
calls = []

class Copied(Sum):
    plugin_name, workspace = "Copied", 0

    def get_valid_tactics(self):
        return [3, 6]

    def set_tactic(self, tactic):
        self.tactic = tactic

    def enqueue(self, given, made, inputs, outputs, workspace, stream):
        calls.append(self.tactic)
        size, many = ctypes.c_size_t(4 * given[0].dims[0] * given[0].dims[1]), 400 if self.tactic == 3 else 1
        for _ in range(many):
            to, origin = ctypes.c_uint64(outputs[0]), ctypes.c_uint64(inputs[0])
            assert driver.cuMemcpyDtoDAsync_v2(to, origin, size, ctypes.c_void_p(stream)) == 0

    def clone(self):
        return Copied()

class CopiedCreator(SumCreator):
    name = "Copied"

    def create_plugin(self, name, fields, phase):
        return Copied()

class RecordedCreator(CopiedCreator):
    name, camshaft_is_recorded = "Recorded", True

    def create_plugin(self, name, fields, phase):
        made = Copied()
        made.plugin_name = "Recorded"
        return made

for creator in CopiedCreator(), RecordedCreator():
    assert trt.get_plugin_registry().register_creator(creator, "")
    plugin = creator.create_plugin("p", trt.PluginFieldCollection(), trt.TensorRTPhase.BUILD)

    def fill(network, x):
        doubled = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
        y = network.add_plugin_v3([doubled], [], plugin).get_output(0)
        return [network.add_unary(y, trt.UnaryOperation.NEG).get_output(0)]

    engine, x = engine_of(fill), rows(7)
    assert set(calls) == {3, 6}, calls
    assert "cuda_plugin(variant=1)" in tactics(engine), tactics(engine)
    for _ in range(3):
        np.testing.assert_array_equal(engine(x), -2 * x)
    calls.clear()
    for _ in range(5):
        np.testing.assert_array_equal(engine(x), -2 * x)
    print(creator.name, calls)
"""
    )
    assert said.splitlines()[-2:] == ["Copied [6, 6, 6, 6, 6]", "Recorded []"]


def test_outputs_that_lie_in_an_input():
    said = on_gpu(
        PLUGINS
        + """
def fill(network, x):
    y = network.add_plugin(trtp.op.gpu.add_(x, by=2)).get_output(0)
    return [network.add_plugin(trtp.op.gpu.add_(y, by=4)).get_output(0)]

engine, x = engine_of(fill), np.ones((3, 5), np.float32)
assert tactics(engine) == ["cuda_plugin"] * 2, tactics(engine)
for _ in range(3):
    assert (engine(x) == 7).all() and (x == 1).all()
print("right")
"""
    )
    assert said.endswith("right\n")


def test_sizes_that_only_running_tells_come_back_from_the_gpu():
    said = on_gpu(
        PLUGINS
        + """
def fill(network, x):
    layer = network.add_plugin(trtp.op.gpu.places(x))
    return [layer.get_output(0), layer.get_output(1)]

engine = engine_of(fill, ((4, 5),) * 3)
x = np.zeros((4, 5), np.float32)
for places in ([], [(1, 2), (3, 0)], [(i, j) for i in range(4) for j in range(5)]):
    x[...] = 0
    for place in places:
        x[place] = 1
    found, count = engine(x)
    assert count == len(places) and np.asarray(found).tolist() == [list(place) for place in places]
print("right")
"""
    )
    assert said.endswith("right\n")


def test_what_a_plugin_raises_ends_the_build():
    said = on_gpu(
        PLUGINS
        + """
Sum.enqueue = lambda self, *arguments: 1 / 0
builder = trt.Builder(Log())
network = builder.create_network()
x = network.add_input("x", trt.float32, (4,))
network.mark_output(network.add_plugin_v3([x, x], [], Sum()).get_output(0))
assert builder.build_serialized_network(network, builder.create_builder_config()) is None
print(builder.logger.errors[-1])
"""
    )
    assert "ZeroDivisionError" in said and "tensorrt::GpuSum.1" in said, said


def test_the_second_gpu(monkeypatch):
    """Plugins of an engine on another GPU than the first one run there, also where they are verified and guarded."""
    monkeypatch.setenv("CAMSHAFT_EMULATED_DEVICES", "2")
    said = on_gpu(
        PLUGINS
        + """
from camshaft.tensorrt import _plugin_operator

ran, run_on_device = [], _plugin_operator._Instance.run_on_device
def seen(self, *arguments):
    number = ctypes.c_int()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(number)) == 0
    ran.append(number.value)
    return run_on_device(self, *arguments)
_plugin_operator._Instance.run_on_device = seen

@trtp.impl("gpu::add_")
def add_there(x, by, outputs, stream):
    number = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(number))
    assert x.__dlpack_device__() == (2, number.value)
    write(x.data_ptr, read(x.data_ptr, tuple(x.shape), stream) + np.float32(by), stream)

infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 5]) for n in "xy"]
nodes = [helper.make_node("GpuSum", ["x", "x"], ["s"], domain="trt.plugins"),
         helper.make_node("add_", ["s"], ["y"], domain="trt.plugins", plugin_namespace="gpu", by=2)]
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("trt.plugins", 1)]
made = helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:]), opset_imports=opsets, ir_version=8)
before = camshaft.build(made, device="cuda:0")  # the backend that was there first
assert set(ran) == {0}, ran
ran.clear()
camshaft.set_plugin_checks(guards=True, verify=True)
engine = camshaft.build(made, device="cuda:1")
for count in (1, 7):
    np.testing.assert_allclose(engine(rows(count)), 4 * rows(count) + 2, rtol=1e-6)
assert set(ran) == {1}, ran
print("right")
"""
    )
    assert said.endswith("right\n"), said
