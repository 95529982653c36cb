"""Plugins in Python that take tensors in TensorRT's formats, on the host and on an emulated GPU."""

import pytest
from test_module import module
from test_plugin_kernels import HEAD, on_gpu

trt = pytest.importorskip("camshaft.tensorrt") if module else None

TEXT = (
    HEAD
    + """
import ctypes
import camshaft.tensorrt as trt
from stream_memory import read, write

FORMATS = {INPUT}, {OUTPUT}  # of the operand and the result
GROUPS = dict(HWC=(1, True), HWC8=(8, True), CHW2=(2, False), CHW4=(4, False), CHW32=(32, False), DHWC8=(8, True))

def packed_shape(shape, format, spatial):
    if format == "LINEAR":
        return shape
    multiple, is_last = GROUPS[format]
    channels = -(-shape[-spatial - 1] // multiple) * multiple
    outer, inner = shape[:-spatial - 1], shape[-spatial:]
    return (*outer, *inner, channels) if is_last else (*outer, channels // multiple, *inner, multiple)

def pack(x, format, spatial):
    if format == "LINEAR":
        return x
    multiple, is_last = GROUPS[format]
    axis = x.ndim - spatial - 1
    padded = np.pad(x, [(0, -x.shape[a] % multiple if a == axis else 0) for a in range(x.ndim)])
    if is_last:
        return np.ascontiguousarray(np.moveaxis(padded, axis, -1))
    groups = padded.reshape(*x.shape[:axis], padded.shape[axis] // multiple, multiple, *x.shape[axis + 1:])
    return np.ascontiguousarray(np.moveaxis(groups, axis + 1, -1))

def unpack(y, shape, format, spatial):
    if format == "LINEAR":
        return y
    multiple, is_last = GROUPS[format]
    axis = len(shape) - spatial - 1
    if is_last:
        y = np.moveaxis(y, -1, axis)
    else:
        y = np.moveaxis(y, -1, axis + 1)
        y = y.reshape(*y.shape[:axis], y.shape[axis] * multiple, *shape[axis + 1:])
    return np.take(y, range(shape[axis]), axis)

def fetch(address, shape, kind, stream):
    if stream:
        return read(address, shape, stream)
    count = int(np.prod(shape))
    memory = (ctypes.c_uint8 * (count * np.dtype(kind).itemsize)).from_address(address)
    return np.frombuffer(memory, kind).reshape(shape).copy()

def store(address, array, stream):
    if stream:
        return write(address, array, stream)
    ctypes.memmove(address, array.ctypes.data, array.nbytes)

class Layered(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    plugin_name, plugin_version, plugin_namespace, num_outputs = "Layered", "1", "", 1

    def get_output_data_types(self, types):
        return types

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [inputs[0]]

    def supports_format_combination(self, place, descs, inputs):
        desc = descs[place].desc
        return desc.type == trt.float32 and desc.format == getattr(trt.TensorFormat, FORMATS[place])

    def get_workspace_size(self, inputs, outputs):
        return 64

    def enqueue(self, given, made, inputs, outputs, workspace, stream):
        assert [str(desc.format) for desc in (*given, *made)] == [f"TensorFormat.{name}" for name in FORMATS]
        shape, spatial = tuple(given[0].dims), SPATIAL
        found = fetch(inputs[0], packed_shape(shape, FORMATS[0], spatial), np.float32, stream)
        x = unpack(found, shape, FORMATS[0], spatial)
        assert np.array_equal(found, pack(x, FORMATS[0], spatial)), "padding is zeros"
        store(workspace, np.full(16, 3, np.float32), stream)
        channel = np.arange(1, shape[-spatial - 1] + 1, dtype=np.float32).reshape(-1, *[1] * spatial)
        store(outputs[0], pack(x * channel, FORMATS[1], spatial), stream)

    def clone(self):
        return Layered()

class Creator(trt.IPluginCreatorV3One):
    name, plugin_version, plugin_namespace = "Layered", "1", ""
    field_names = trt.PluginFieldCollection()

    def create_plugin(self, name, fields, phase):
        return Layered()

assert trt.get_plugin_registry().register_creator(Creator(), "")

class Log(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
    def log(self, severity, message):
        if severity <= trt.ILogger.ERROR:
            print(message)

builder = trt.Builder(Log())
network = builder.create_network()
shape = (2, 5, 3, 4, 2)[: 2 + SPATIAL]
x = network.add_input("x", trt.float32, shape)
network.mark_output(network.add_plugin_v3([x], [], Layered()).get_output(0))
plan = builder.build_serialized_network(network, builder.create_builder_config())
if plan:
    engine = camshaft.Engine(bytes(plan))
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    channel = np.arange(1, 6, dtype=np.float32).reshape(-1, *[1] * SPATIAL)
    for _ in range(2):
        np.testing.assert_array_equal(engine(values), values * channel)
    print("right")
"""
)


def text_of(given, made):
    text = TEXT.replace("{INPUT}", repr(given)).replace("{OUTPUT}", repr(made))
    return text.replace("SPATIAL", "3" if given.startswith("D") else "2")


@pytest.mark.parametrize(
    "given, made",
    [("HWC", "HWC"), ("HWC8", "LINEAR"), ("LINEAR", "CHW4"), ("CHW2", "CHW32"), ("CHW4", "HWC8"), ("DHWC8", "DHWC8")],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_formats(given, made, device):
    text = text_of(given, made)
    if device == "cpu":
        text = f"import os\nos.environ['CAMSHAFT_TENSORRT_DEVICE'] = 'cpu'\n{text}"
    assert on_gpu(text).endswith("right\n")


def test_a_format_that_there_is_not():
    said = on_gpu(text_of("DLA_LINEAR", "LINEAR"))
    assert "does not take DataType.FLOAT in any format as input 0" in said and "but DataType" not in said, said


EQUAL = (
    TEXT[: TEXT.index("builder = trt.Builder")]
    + """
def formats_of(dims):  # by the rank and the number of channels
    if len(dims) == 3:
        return "LINEAR", "LINEAR"
    return ("HWC8", "CHW4") if dims[1] % 8 == 0 else ("CHW32", "LINEAR")

class ByRank(Layered):
    plugin_name = "ByRank"

    def supports_format_combination(self, place, descs, inputs):
        desc = descs[place].desc
        return desc.format == getattr(trt.TensorFormat, formats_of(descs[0].desc.dims)[place])

    def enqueue(self, given, made, inputs, outputs, workspace, stream):
        global FORMATS
        FORMATS = formats_of(given[0].dims)
        return Layered.enqueue(self, given, made, inputs, outputs, workspace, stream)

    def clone(self):
        return ByRank()

class RankCreator(Creator):
    name = "ByRank"
    def create_plugin(self, name, fields, phase):
        return ByRank()

assert trt.get_plugin_registry().register_creator(RankCreator(), "")
shapes = {"a": ("n", 3, "w"), "b": ("n", 5, "h", 4), "c": ("n", 16, "h", 4)}
infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
results = [helper.make_tensor_value_info(n + "y", onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
nodes = [helper.make_node("ByRank", [n], [n + "y"], domain="trt.plugins") for n in shapes]
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("trt.plugins", 1)]
made = helper.make_model(helper.make_graph(nodes, "g", infos, results), opset_imports=opsets, ir_version=8)
engine = camshaft.build(made, device=DEVICE)
for sizes in ((1, 1, 1), (3, 7, 2), (2, 6, 3), (40, 2, 9), (1, 1, 1), (0, 3, 2)):
    bound = dict(zip("nwh", sizes))
    given = {
        name: np.random.default_rng(1).standard_normal([bound.get(d, d) for d in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }
    for name, y in engine.run(given).items():
        x = given[name[0]]
        np.testing.assert_array_equal(y, x * np.arange(1, x.shape[-3] + 1, dtype=np.float32).reshape(-1, 1, 1))
print("right")
"""
)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_equal_nodes_of_other_ranks_and_channels(device):
    text = (
        EQUAL.replace("SPATIAL", "2").replace("DEVICE", repr(device)).replace("{INPUT}", "0").replace("{OUTPUT}", "0")
    )
    if device == "cpu":
        text = f"import os\nos.environ['CAMSHAFT_TENSORRT_DEVICE'] = 'cpu'\n{text}"
    said = on_gpu(text)
    assert said.endswith("right\n"), said
