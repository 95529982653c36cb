"""Plugins of TensorRT's Python interface: IPluginV3 and IPluginV2DynamicExt, their creators and the registry."""

import ctypes
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from camshaft_cli import BINARY
from test_module import module
from test_tensorrt import Heard

from onnx import TensorProto, helper

trt = pytest.importorskip("camshaft.tensorrt") if module else None
camshaft = pytest.importorskip("camshaft") if module else None


def at(address, desc):
    """The memory of a tensor, as a plugin on the host sees it."""
    kind = np.dtype(trt.nptype(desc.type))
    count = int(np.prod(desc.dims))
    memory = (ctypes.c_uint8 * max(1, count * kind.itemsize)).from_address(address)
    return np.frombuffer(memory, kind, count).reshape(desc.dims)


if trt:

    class Padded(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
        """Wraps the last axis around."""

        def __init__(self, fields=None, name="Padded"):
            for base in (
                trt.IPluginV3,
                trt.IPluginV3OneCore,
                trt.IPluginV3OneBuild,
                trt.IPluginV3OneRuntime,
            ):
                base.__init__(self)
            self.plugin_name, self.plugin_version, self.plugin_namespace = name, "1", ""
            self.num_outputs = 1
            self.pads = [1, 1]
            for field in fields or ():
                assert field.name == "pads"
                self.pads = field.data.tolist()

        def get_capability_interface(self, type):
            return self

        def get_output_data_types(self, input_types):
            return [input_types[0]]

        def get_output_shapes(self, inputs, shape_inputs, builder):
            shape = trt.DimsExprs(inputs[0])
            more = builder.constant(sum(self.pads))
            shape[len(shape) - 1] = builder.operation(trt.DimensionOperation.SUM, inputs[0][len(shape) - 1], more)
            return [shape]

        def get_fields_to_serialize(self):
            return trt.PluginFieldCollection(
                [trt.PluginField("pads", np.array(self.pads, np.int32), trt.PluginFieldType.INT32)]
            )

        def configure_plugin(self, inp, out):
            self.configured = [tuple(d.desc.dims) for d in (*inp, *out)]

        def on_shape_change(self, inp, out):
            self.shapes = [tuple(d.dims) for d in (*inp, *out)]

        def supports_format_combination(self, pos, in_out, num_inputs):
            desc = in_out[pos].desc
            return desc.format == trt.TensorFormat.LINEAR and desc.type == trt.float32

        def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
            assert [tuple(d.dims) for d in (*input_desc, *output_desc)] == self.shapes
            x = at(inputs[0], input_desc[0])
            at(outputs[0], output_desc[0])[...] = np.pad(x, [(0, 0)] * (x.ndim - 1) + [tuple(self.pads)], "wrap")

        def clone(self):
            cloned = Padded(name=self.plugin_name)
            cloned.__dict__.update(self.__dict__)
            return cloned

    class PaddedCreator(trt.IPluginCreatorV3One):
        def __init__(self, name="Padded"):
            trt.IPluginCreatorV3One.__init__(self)
            self.name, self.plugin_version, self.plugin_namespace = name, "1", ""
            self.field_names = trt.PluginFieldCollection(
                [trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)]
            )

        def create_plugin(self, name, fields, phase):
            return Padded(fields, self.name)

    class Scaled(trt.IPluginV2DynamicExt):
        """By a factor, as TensorRT 8 has plugins."""

        def __init__(self, factor=1.0):
            trt.IPluginV2DynamicExt.__init__(self)
            self.plugin_type, self.plugin_version, self.plugin_namespace = "Scaled", "2", "mine"
            self.num_outputs = 1
            self.factor = factor

        def get_output_datatype(self, index, input_types):
            return input_types[0]

        def get_output_dimensions(self, output_index, inputs, builder):
            return trt.DimsExprs(inputs[0])

        def serialize(self):
            return json.dumps({"factor": self.factor})

        def configure_plugin(self, inp, out):
            self.size = int(np.prod(inp[0].desc.dims))

        def supports_format_combination(self, pos, in_out, num_inputs):
            return in_out[pos].type == trt.float32

        def get_workspace_size(self, inp, out):
            return 4 * int(np.prod(inp[0].dims))

        def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
            kept = at(workspace, input_desc[0])
            kept[...] = at(inputs[0], input_desc[0])
            at(outputs[0], output_desc[0])[...] = self.factor * kept
            return 0

        def clone(self):
            cloned = Scaled()
            cloned.__dict__.update(self.__dict__)
            return cloned

    class ScaledCreator(trt.IPluginCreator):
        def __init__(self):
            trt.IPluginCreator.__init__(self)
            self.name, self.plugin_version, self.plugin_namespace = "Scaled", "2", "mine"
            self.field_names = trt.PluginFieldCollection(
                [trt.PluginField("factor", np.array([]), trt.PluginFieldType.FLOAT32)]
            )

        def create_plugin(self, name, fields):
            return Scaled(float(fields[0].data[0]) if fields else 1.0)

        def deserialize_plugin(self, name, data):
            return Scaled(json.loads(data.decode())["factor"])

    class Positive(Padded):
        """Elements above zero, whose number only running tells."""

        def __init__(self, name="Positive"):
            super().__init__(name=name)
            self.num_outputs = 2

        def get_output_data_types(self, input_types):
            return [input_types[0], trt.int64]

        def get_output_shapes(self, inputs, shape_inputs, builder):
            most = inputs[0][0]
            return [trt.DimsExprs([builder.declare_size_tensor(1, most, most)]), trt.DimsExprs(0)]

        def get_fields_to_serialize(self):
            return trt.PluginFieldCollection()

        def supports_format_combination(self, pos, in_out, num_inputs):
            return True

        def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
            x = at(inputs[0], input_desc[0])
            found = x[x > 0]
            at(outputs[0], output_desc[0])[: found.size] = found
            at(outputs[1], output_desc[1])[...] = found.size

        def clone(self):
            cloned = Positive()
            cloned.__dict__.update(self.__dict__)
            return cloned

    class PositiveCreator(PaddedCreator):
        def __init__(self):
            super().__init__("Positive")
            self.field_names = trt.PluginFieldCollection()

        def create_plugin(self, name, fields, phase):
            return Positive()

    for creator in (PaddedCreator(), ScaledCreator(), PositiveCreator()):
        trt.get_plugin_registry().register_creator(creator, "")


def find(name, version="1", namespace=""):
    return trt.get_plugin_registry().get_creator(name, version, namespace)


def run(plan, x, output="y"):
    engine = trt.Runtime(Heard()).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    context.set_input_shape("x", x.shape)
    y = np.empty(context.get_tensor_shape(output), np.float32)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address(output, y.ctypes.data)
    assert context.execute_async_v3(0)
    return y


def network_of(add, shape=(2, -1)):
    """The plan of a network: add(network, x) gives the layer whose result is the output."""
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    layer = add(network, network.add_input("x", trt.float32, shape))
    assert layer.get_output(0).shape[0] == shape[0]
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert plan is not None, logger.errors()
    return plan


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_a_v3_plugin_is_a_layer():
    fields = trt.PluginFieldCollection([trt.PluginField("pads", np.array([2, 1]), trt.PluginFieldType.INT32)])
    plugin = find("Padded").create_plugin("p", fields, trt.TensorRTPhase.BUILD)
    plugin.request = "its own"  # a name that quickly deployable plugins have for something else

    def add(network, x):
        layer = network.add_plugin_v3([x], [], plugin)
        assert layer.type == trt.LayerType.PLUGIN_V3 and layer.plugin is plugin
        return network.add_activation(layer.get_output(0), trt.ActivationType.RELU)

    plan = network_of(add)
    for columns in (3, 8):
        x = numbers(2, columns)
        np.testing.assert_array_equal(run(plan, x), np.maximum(np.pad(x, [(0, 0), (2, 1)], "wrap"), 0))


def test_the_fastest_tactic_is_taken(monkeypatch):
    """They are numbers of the plugin's own, asked once it is configured; the build measures each."""
    taken, told = [], []

    def tactics(self):
        told.append(self.configured)
        return [9, 5, 12]

    def enqueue(self, *arguments):
        taken.append(self.tactic)
        end = time.process_time() + {9: 0.01, 12: 0.02}.get(self.tactic, 0)
        while time.process_time() < end:
            pass
        return original(self, *arguments)

    original = Padded.enqueue
    monkeypatch.setattr(Padded, "get_valid_tactics", tactics)
    monkeypatch.setattr(Padded, "set_tactic", lambda self, tactic: setattr(self, "tactic", tactic), raising=False)
    monkeypatch.setattr(Padded, "enqueue", enqueue)
    plan = network_of(
        lambda network, x: network.add_plugin_v3(
            [x], [], find("Padded").create_plugin("p", trt.PluginFieldCollection(), trt.TensorRTPhase.BUILD)
        ),
        (2, 3),
    )
    x = numbers(2, 3)
    np.testing.assert_array_equal(run(plan, x), np.pad(x, [(0, 0), (1, 1)], "wrap"))
    assert taken[-1] == 5 and {9, 5, 12} == set(taken), taken
    assert all(shapes == [(2, 3), (2, 5)] for shapes in told), told


def test_tactics_that_depend_on_sizes(monkeypatch):
    """They are asked of the sizes that are run, while other threads run others: of more than 16 rows there are two."""

    def tactics(self):
        rows = self.configured[0][0]
        time.sleep(1e-4)  # another thread's turn
        return [rows, 1000 + rows] if rows > 16 else [rows]

    def enqueue(self, input_desc, *others):
        rows = input_desc[0].dims[0]
        taken.append((rows, self.tactic))
        end = time.process_time() + (0.01 if self.tactic == rows > 16 else 0)
        while time.process_time() < end:
            pass
        return original(self, input_desc, *others)

    original, taken = Padded.enqueue, []
    monkeypatch.setattr(Padded, "get_valid_tactics", tactics)
    monkeypatch.setattr(Padded, "set_tactic", lambda self, tactic: setattr(self, "tactic", tactic), raising=False)
    monkeypatch.setattr(Padded, "enqueue", enqueue)
    logger = Heard()
    builder = trt.Builder(logger)
    network, config = builder.create_network(), builder.create_builder_config()
    plugin = find("Padded").create_plugin("p", trt.PluginFieldCollection(), trt.TensorRTPhase.BUILD)
    network.mark_output(network.add_plugin_v3([network.add_input("x", trt.float32, (-1, 3))], [], plugin).get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 3), (64, 3), (64, 3))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None, logger.errors()
    engine = module.Engine(bytes(plan))
    taken.clear()

    def run_often(rows):
        for _ in range(20):
            np.testing.assert_array_equal(engine(numbers(rows, 3)), np.pad(numbers(rows, 3), [(0, 0), (1, 1)], "wrap"))

    sizes = (2, 7, 16, 40, 64)
    threads = [threading.Thread(target=run_often, args=(rows,)) for rows in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [(rows, rows if rows <= 16 else 1000 + rows) for rows in sizes for _ in range(20)]


def test_a_v2_plugin_is_a_layer():
    plan = network_of(lambda network, x: network.add_plugin_v2([x], Scaled(2.5)))
    x = numbers(2, 7)
    np.testing.assert_allclose(run(plan, x), 2.5 * x)


def test_sizes_that_a_plugin_tells():
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    layer = network.add_plugin_v3([network.add_input("x", trt.float32, (-1,))], [], Positive())
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    assert engine is not None, logger.errors()
    x = numbers(20)
    np.testing.assert_array_equal(module.Engine(bytes(engine.serialize()))(x), x[x > 0])


def onnx_model(operator, domain="", **attributes):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m" + name]) for name in "xy"]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node(operator, ["r"], ["y"], domain=domain, **attributes),
    ]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    "operator, attributes, what",
    [
        ("Padded", {"pads": [1, 2]}, lambda x: np.pad(x, [(0, 0), (1, 2)], "wrap")),
        ("Padded", {}, lambda x: np.pad(x, [(0, 0), (1, 1)], "wrap")),
        ("Scaled", {"factor": 0.5, "plugin_version": "2", "plugin_namespace": "mine"}, lambda x: x / 2),
    ],
)
@pytest.mark.parametrize("domain", ["", "anyone"])
def test_nodes_of_models_name_creators(operator, attributes, what, domain):
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(onnx_model(operator, domain, **attributes)), logger.errors()
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert plan is not None, logger.errors()
    x = numbers(3, 5)
    np.testing.assert_allclose(run(plan, x), what(np.maximum(x, 0)))


def test_a_version_that_nobody_registered_is_missing():
    logger = Heard()
    parser = trt.OnnxParser(trt.Builder(logger).create_network(), logger)
    assert not parser.parse(onnx_model("Padded", plugin_version="7"))
    assert "no creator of a plugin of that name is registered" in parser.get_error(0).desc()


def test_the_registry():
    registry = trt.get_plugin_registry()
    assert not registry.register_creator(PaddedCreator(), "")  # there is one
    assert {"Padded", "Scaled"} <= {creator.name for creator in registry.all_creators}
    assert registry.get_plugin_creator("Scaled", "2", "mine").name == "Scaled"
    assert registry.get_plugin_creator("Padded", "1") is None  # no creator of TensorRT 8's
    assert registry.get_creator("Padded", "2") is None
    with pytest.raises(TypeError):
        registry.register_creator(Padded())
    with pytest.raises(camshaft.Error, match="libnvinfer_plugin.so"):
        registry.load_library("libnvinfer_plugin.so")


def test_a_creator_that_is_registered_again_and_again_is_kept_once():
    registry, creator = trt.get_plugin_registry(), PaddedCreator("Again")
    for turn in range(50):
        assert registry.register_creator(creator, "") and registry.deregister_creator(creator)
        if turn == 0:
            once = sys.getrefcount(creator), sys.getrefcount(registry._operators[id(creator)])
    assert (sys.getrefcount(creator), sys.getrefcount(registry._operators[id(creator)])) == once


@pytest.mark.parametrize(
    "change, what",
    [
        ({"supports_format_combination": lambda *_: False}, "the plugin does not take DataType.FLOAT"),
        ({"get_output_data_types": lambda *_: []}, "the plugin has 0 outputs, the node 1"),
        ({"enqueue": lambda *_: 3}, "enqueue\\(\\) gave 3"),
        ({"enqueue": lambda *_: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_what_goes_wrong_is_named(change, what, monkeypatch):
    for name, function in change.items():
        monkeypatch.setattr(Padded, name, function)
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    layer = network.add_plugin_v3([network.add_input("x", trt.float32, (2, 3))], [], Padded())
    network.mark_output(layer.get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    import re

    assert re.search(what, "\n".join(logger.errors())), logger.errors()


def test_an_engine_needs_its_creator(tmp_path):
    plan = network_of(lambda network, x: network.add_plugin_v2([x], Scaled(2.5)))
    (tmp_path / "a.plan").write_bytes(plan)
    program = f"""
import sys
sys.path.insert(0, {str(BINARY.parent.parent / "python")!r})
import camshaft.tensorrt as trt
engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(open({str(tmp_path / "a.plan")!r}, "rb").read())
assert engine is None
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tensorrt.mine::Scaled.2" in done.stderr + done.stdout


@pytest.mark.parametrize("gives_itself", [False, True])
def test_plugins_are_told_of_shapes_where_these_change(gives_itself):
    """One whose clone() gives itself is of all nodes, and each tells it anew."""
    told = []

    class Counted(Padded):
        def configure_plugin(self, inp, out):
            told.append("configured")

        def on_shape_change(self, inp, out):
            super().on_shape_change(inp, out)
            told.append(self.shapes)

        def clone(self):
            return self if gives_itself else Counted(name=self.plugin_name)

    class CountedCreator(PaddedCreator):
        def create_plugin(self, name, fields, phase):
            return Counted(None, self.name)

    name = f"Counted{int(gives_itself)}"
    assert trt.get_plugin_registry().register_creator(CountedCreator(name), "")
    nodes = [helper.make_node(name, ["x"], ["a"]), helper.make_node(name, ["a"], ["y"])]
    values = [helper.make_tensor_value_info(v, TensorProto.FLOAT, ["n", None]) for v in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    engine = camshaft.build(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))

    def check(n):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        once = np.pad(x, [(0, 0), (1, 1)], "wrap")
        np.testing.assert_array_equal(engine.run({"x": x})["y"], np.pad(once, [(0, 0), (1, 1)], "wrap"))

    check(2)
    told.clear()
    for _ in range(5):
        check(2)
    assert gives_itself or told == []
    check(4)
    assert len([each for each in told if each != "configured"]) >= 2


def test_what_a_plugin_stored_is_for_the_phase_of_running():
    """A creator may read other fields then than those that programs give."""

    class Rolled(Padded):
        def get_fields_to_serialize(self):
            stored = trt.PluginField("stored", np.array(self.pads, np.int32), trt.PluginFieldType.INT32)
            return trt.PluginFieldCollection([stored])

        def clone(self):
            cloned = Rolled(name=self.plugin_name)
            cloned.__dict__.update(self.__dict__)
            return cloned

    class RolledCreator(PaddedCreator):
        def create_plugin(self, name, fields, phase):
            plugin = Rolled(None, self.name)
            wanted = "pads" if phase == trt.TensorRTPhase.BUILD else "stored"
            (plugin.pads,) = [field.data.tolist() for field in fields if field.name == wanted]
            return plugin

    creator = RolledCreator("Rolled")
    assert trt.get_plugin_registry().register_creator(creator, "")
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network()
    field = trt.PluginField("pads", np.array([2, 1], np.int32), trt.PluginFieldType.INT32)
    plugin = creator.create_plugin("p", trt.PluginFieldCollection([field]), trt.TensorRTPhase.BUILD)
    y = network.add_plugin_v3([network.add_input("x", trt.float32, (2, 4))], [], plugin).get_output(0)
    y.name = "y"
    network.mark_output(y)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    y = camshaft.Engine.load(bytes(plan)).run({"x": x})["y"]
    np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (2, 1)], "wrap"))


def test_plugins_that_run_themselves_are_configured_for_what_they_run():
    """Also where the workspace for other sizes was asked for meanwhile."""
    from camshaft.tensorrt._plugin_operator import PluginOperator

    class Itself(Padded):
        def clone(self):
            return self

        def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
            assert self.configured == self.shapes
            super().enqueue(input_desc, output_desc, inputs, outputs, workspace, stream)

    class ItselfCreator(PaddedCreator):
        def create_plugin(self, name, fields, phase):
            return Itself(None, self.name)

    instance = PluginOperator(ItselfCreator("Itself")).create({})
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 5), np.float32)
    given, made = [(x.ctypes.data, "f32", [2, 3])], [(y.ctypes.data, "f32", [2, 5])]
    for _ in range(2):
        instance.run(given, made, 0)
        np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (1, 1)], "wrap"))
        instance.workspace_bytes([(0, "f32", [4, 3])], [(0, "f32", [4, 5])])


def test_a_loaded_plugin_goes_before_what_stands_for_tensorrts_own():
    """Of version 2, as what is registered stays: nodes of version 1 mean TensorRT's."""
    creator = PaddedCreator("LayerNorm")
    creator.plugin_version = "2"
    assert trt.get_plugin_registry().register_creator(creator, "")
    values = [helper.make_tensor_value_info(v, TensorProto.FLOAT, ["n", None]) for v in "xy"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for domain in ("", "TRT"):
        node = helper.make_node("LayerNorm", ["x"], ["y"], domain=domain, plugin_version="2")
        opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
        graph = helper.make_graph([node], "g", values[:1], values[1:])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        y = camshaft.build(model.SerializeToString()).run({"x": x})["y"]
        np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (1, 1)], "wrap"))
