"""tensorrt.plugin: operators of two decorated functions, from networks and from models, in engines and across processes."""

import ctypes
import os
import re
import subprocess
import sys
import time
from typing import List, Tuple  # as TensorRT's documentation writes its annotations

import numpy as np
import numpy.typing as npt
import pytest
from camshaft_cli import ROOT
from test_module import MODULE
from test_tensorrt import Heard, trt

from onnx import TensorProto, helper

trtp = trt.plugin


taken = []  # tactics, by each call


@trtp.register("quick::wrap")
def describe_wrap(x: trtp.TensorDesc, pads: npt.NDArray[np.int32]) -> trtp.TensorDesc:
    made = x.like()
    for axis in range(len(pads) // 2):
        made.shape_expr[x.ndim - axis - 1] += int(pads[2 * axis] + pads[2 * axis + 1])
    return made


@trtp.autotune("quick::wrap")
def wrap_types(x: trtp.TensorDesc, outputs: Tuple[trtp.TensorDesc]) -> List[trtp.AutoTuneCombination]:
    combination = trtp.AutoTuneCombination()
    combination.pos([0, 1], "FP32|FP16")
    combination.tactics([3, 4])
    return [combination]


@trtp.impl("quick::wrap")
def wrap(x, pads, outputs, stream, tactic):
    assert tactic in (3, 4) and stream == 0
    end = time.process_time() + (0.01 if tactic == 3 else 0)
    while time.process_time() < end:
        pass
    taken.append(tactic)
    widths = [(0, 0)] * (x.ndim - 2) + [tuple(pads[2:4]), tuple(pads[:2])]
    np.copyto(np.asarray(outputs[0]), np.pad(np.asarray(x), widths, "wrap"))


@trtp.register("quick::add_")
def describe_add(x: trtp.TensorDesc, delta: int, scale: float, name: str) -> trtp.TensorDesc:
    return x.aliased()


@trtp.impl("quick::add_")
def add_in_place(x, delta, name, outputs, stream):
    assert name == "plus" and x.get_aliased() is outputs[0] and x.data_ptr == outputs[0].data_ptr
    array = np.asarray(x)
    array += delta


@trtp.register("quick::places")
def describe_places(x: trtp.TensorDesc) -> Tuple[trtp.TensorDesc, trtp.TensorDesc]:
    most = x.shape_expr.numel()
    count = trtp.size_tensor(most // 2, most)
    return trtp.from_shape_expr((count.expr(), 2), dtype=trt.int32), count


@trtp.impl("quick::places")
def places(x, outputs, stream):
    found = np.argwhere(np.asarray(x)).astype(np.int32)
    assert outputs[0].is_data_dependent
    np.copyto(np.asarray(outputs[0].aliased(found.shape)), found)
    np.asarray(outputs[1])[...] = len(found)
    with pytest.raises(ValueError, match="more elements than the"):
        outputs[0].aliased((10**6,))


def run(network, inputs, outputs, builder, config=None):
    """{name: array} of an engine that was saved and loaded."""
    plan = builder.build_serialized_network(network, config or builder.create_builder_config())
    assert plan, builder.logger.errors()
    context = trt.Runtime(builder.logger).deserialize_cuda_engine(plan).create_execution_context()
    for name, array in inputs.items():
        assert context.set_input_shape(name, array.shape)
    results = {name: np.empty(shape, dtype) for name, (shape, dtype) in outputs.items()}
    for name, array in {**inputs, **results}.items():
        assert context.set_tensor_address(name, array.ctypes.data)
    assert context.execute_async_v3(0), builder.logger.errors()
    return results


def test_in_networks_with_sizes_that_change():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (-1, 3, 8, 6))
    pads = np.array([1, 2, 0, 3], np.int32)
    wrapped = network.add_plugin(trtp.op.quick.wrap(x, pads=pads))
    assert isinstance(wrapped, trt.IPluginV3Layer) and wrapped.get_output(0).shape == (-1, 3, 11, 9)
    added = network.add_plugin(trtp.op.quick.add_(wrapped.get_output(0), delta=3, scale=1.0, name="plus"), aot=False)
    added.get_output(0).name = "y"
    network.mark_output(added.get_output(0))
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 3, 8, 6), (2, 3, 8, 6), (4, 3, 8, 6))
    config.add_optimization_profile(profile)
    for batch in (1, 3):
        taken.clear()
        given = np.random.default_rng(batch).standard_normal((batch, 3, 8, 6)).astype(np.float32)
        kept = given.copy()
        y = run(network, {"x": given}, {"y": ((batch, 3, 11, 9), np.float32)}, builder, config)["y"]
        np.testing.assert_array_equal(y, np.pad(given, [(0, 0), (0, 0), (0, 3), (1, 2)], "wrap") + 3)
        assert taken[-1] == 4  # which is faster
        np.testing.assert_array_equal(given, kept)  # what it changes in place is not the program's


def test_sizes_that_only_running_tells():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    layer = network.add_plugin(trtp.op.quick.places(network.add_input("x", trt.float32, (4, 5))))
    for index, name in enumerate(("places", "count")):
        layer.get_output(index).name = name
        network.mark_output(layer.get_output(index))
    x = np.zeros((4, 5), np.float32)
    x[1, 2] = x[3, 0] = 1
    results = run(network, {"x": x}, {"places": ((20, 2), np.int32), "count": ((), np.int32)}, builder)
    assert results["count"] == 2 and results["places"][:2].tolist() == [[1, 2], [3, 0]]


def test_an_output_may_be_given_an_inputs_memory():
    """As TensorRT's own sample of plugins that work in place does."""
    builder = trt.Builder(Heard())
    network = builder.create_network()
    y = network.add_input("x", trt.float32, (4, 5))
    for delta in (2, 4):
        y = network.add_plugin(trtp.op.quick.add_(y, delta=delta, scale=1.0, name="plus")).get_output(0)
    y.name = "y"
    network.mark_output(y)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    context = trt.Runtime(builder.logger).deserialize_cuda_engine(plan).create_execution_context()
    x = np.ones((4, 5), np.float32)
    for name in "xy":
        assert context.set_tensor_address(name, x.ctypes.data)
    for expected in (7, 13):
        assert context.execute_async_v3(0), builder.logger.errors()
        assert (x == expected).all()
    other = np.zeros_like(x)
    assert context.set_tensor_address("y", other.ctypes.data) and context.execute_async_v3(0)
    assert (other == 19).all() and (x == 13).all()


def test_nodes_of_models_name_them():
    node = helper.make_node("wrap", ["x"], ["y"], name="w", pads=[1, 1, 1, 1], plugin_namespace="quick", aot=0)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 1, 4, 4]), ("y", None))]  # fmt: skip
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    builder = trt.Builder(Heard())
    network = builder.create_network()
    parser = trt.OnnxParser(network, builder.logger)
    assert parser.parse(model.SerializeToString()), parser.get_error(0)
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    y = run(network, {"x": x}, {"y": ((1, 1, 6, 6), np.float32)}, builder)["y"]
    np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], "wrap"))


def test_types_that_no_combination_has():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x = network.add_input("x", trt.int32, (1, 1, 4, 4))
    layer = network.add_plugin(trtp.op.quick.wrap(x, pads=np.ones(4, np.int32)))
    network.mark_output(layer.get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "the plugin does not take DataType.INT32" in builder.logger.errors()[-1]


def test_combinations():
    def expanded(*given):
        return [[kind.name for kind, _ in of] for of, _ in trtp.AutoTuneCombination(*given)._expanded()]

    assert expanded("FP32|FP16, FP32|FP16, INT32") == [["FLOAT", "FLOAT", "INT32"], ["HALF", "HALF", "INT32"]]
    assert expanded("FP32*FP16, BF16") == [["FLOAT", "BF16"], ["HALF", "BF16"]]
    assert len(expanded("FP32, FP32", "LINEAR*HWC")) == 4
    with pytest.raises(ValueError, match="different lengths"):
        expanded("FP32|FP16, FP32|FP16|INT8")
    with pytest.raises(ValueError, match="either"):
        expanded("FP32|FP16*INT8, FP32")
    with pytest.raises(ValueError, match="do not fit together"):
        trtp.AutoTuneCombination("FP32, FP32", "LINEAR, LINEAR, LINEAR")
    with pytest.raises(ValueError, match="position 0 has types already"):
        trtp.AutoTuneCombination("FP32").pos(0, "FP16")


def test_what_is_wrong_is_said_where_it_is_written():
    with pytest.raises(ValueError, match="'nothing' is no name of a plugin"):
        trtp.register("nothing")(describe_wrap)
    with pytest.raises(ValueError, match="there is a plugin 'quick::wrap' already"):
        trtp.register("quick::wrap")(describe_wrap)

    def without_types(x, alpha):
        return x

    def with_default(x: trtp.TensorDesc, alpha: float = 1.0) -> trtp.TensorDesc:
        return x

    def of_nothing(x: trtp.TensorDesc) -> int:
        return 1

    for function, match in (
        (without_types, "argument 'x' needs an annotation"),
        (with_default, "'alpha' has a default value"),
        (of_nothing, "it returns TensorDesc"),
    ):
        with pytest.raises(ValueError, match=match):
            trtp.register(f"quick::{function.__name__}")(function)
    with pytest.raises(ValueError, match="there is no plugin 'quick::none'"):
        trtp.impl("quick::none")
        trtp.impl("quick::none")(wrap)
    with pytest.raises(ValueError, match="in their order"):
        trtp.impl("quick::wrap")(lambda pads, x, outputs, stream: None)
    with pytest.raises(AttributeError, match="has no 'nothing'"):
        trtp.op.quick.nothing  # noqa: B018
    network = trt.Builder(Heard()).create_network()
    x = network.add_input("x", trt.float32, (4, 4))
    for wrong, match in (
        (lambda: trtp.op.quick.wrap(x), "takes the tensors x and the attributes pads"),
        (lambda: trtp.op.quick.wrap(x, pads=[1, 1]), "is of type NDArray"),
        (lambda: trtp.op.quick.wrap(np.ones(3), pads=np.ones(4, np.int32)), "an input is an ITensor"),
        (lambda: trtp.op.quick.add_(x, delta=1.5, scale=1.0, name="plus"), "'delta' is of type int"),
    ):
        with pytest.raises(ValueError, match=match):
            wrong()
    with pytest.raises(ValueError, match="has no aot_impl function, which STRICT_AOT asks for"):
        network.add_plugin(trtp.op.quick.wrap(x, pads=np.ones(4, np.int32)), aot=True)

    @trtp.register("quick::undone", lazy_register=True)
    def undone(x: trtp.TensorDesc) -> trtp.TensorDesc:
        return x.like()

    with pytest.raises(ValueError, match="no function to compute it"):
        network.add_plugin(trtp.op.quick.undone(x))


def test_expressions_of_sizes():
    three, four = trtp.ShapeExpr(3), trtp.ShapeExpr(4)
    for expr, value in (
        (three + 4, 7),
        (2 + three, 5),
        (9 - four, 5),
        (three * four, 12),
        (four // 3, 1),
        (trtp.cdiv(four, 3), 2),
        (trtp.max(three, 4), 4),
        (trtp.min(2, four), 2),
        (three < four, 1),
        (three == four, 0),
        (trtp.ShapeExprs.from_tuple((three, four, 2)).numel(), 24),
    ):
        assert expr.is_constant and expr.constant_value() == value
    with pytest.raises(ValueError, match="compute with ints yourself"):
        trtp.cdiv(4, 3)
    with pytest.raises(ValueError, match="at most 8"):
        trtp.ShapeExprs(9)
    alone = trtp.size_tensor(three, four).expr()
    with pytest.raises(ValueError, match="stands alone"):
        alone + 1
    shape = trtp.Shape((2, -1))
    assert shape.is_dynamic and list(shape) == [2, -1] and repr(shape) == "Shape(2, -1)"
    with pytest.raises(ValueError, match="not known"):
        shape.numel()


def test_arrays_are_named_as_every_numpy_names_them():
    """NumPy 2.5 has an alias where others have the array that it stands for."""
    import types

    from camshaft.tensorrt._quick_plugins import _array_type

    assert _array_type(npt.NDArray[np.int32]) == np.int32
    assert _array_type(types.GenericAlias(npt.NDArray, (np.int32,))) == np.int32
    assert _array_type(int) is None and _array_type(List[int]) is None


PROGRAM = """
import sys
import camshaft.tensorrt
camshaft.tensorrt.install()
import numpy as np
import tensorrt as trt
import tensorrt.plugin as trtp

assert trtp is trt.plugin

@trtp.register("saved::shift")
def describe(x: trtp.TensorDesc, by: float) -> trtp.TensorDesc:
    return x.like()

if sys.argv[1] != "without":
    @trtp.impl("saved::shift")
    def shift(x, by, outputs, stream):
        np.add(np.asarray(x), np.float32(by), out=np.asarray(outputs[0]))

logger = trt.Logger(trt.Logger.ERROR)
if sys.argv[1] == "build":
    builder = trt.Builder(logger)
    network = builder.create_network()
    layer = network.add_plugin(trtp.op.saved.shift(network.add_input("x", trt.float32, (3,)), by=2.5))
    network.mark_output(layer.get_output(0))
    open("saved.plan", "wb").write(builder.build_serialized_network(network, builder.create_builder_config()))
engine = trt.Runtime(logger).deserialize_cuda_engine(open("saved.plan", "rb").read())
if engine is not None:
    x, y = np.ones(3, np.float32), np.empty(3, np.float32)
    assert engine.create_execution_context().execute_v2([x.ctypes.data, y.ctypes.data])
    print(y.tolist())
"""


def test_engines_find_them_in_another_process(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}

    def program(how):
        command = [sys.executable, "program.py", how]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done

    assert program("build").stdout == program("load").stdout == "[3.5, 3.5, 3.5]\n"
    assert "tensorrt.saved::shift.1" in program("without").stderr


def test_resources_are_shared_and_released():
    class Table(trt.IPluginResource):
        made = 0

        def clone(self):
            other = Table()
            Table.made += 1
            return other

        def release(self):
            Table.made -= 1

    registry = trt.get_plugin_registry()
    one, other = (registry.acquire_plugin_resource("table", Table()) for _ in range(2))
    assert one is other and Table.made == 1
    assert registry.release_plugin_resource("table") == 0 and Table.made == 1
    assert registry.release_plugin_resource("table") == 0 and Table.made == 0
    assert registry.release_plugin_resource("table") == -1
    assert Table().interface_info.kind == "IPluginResource" and Table().api_language == trt.APILanguage.PYTHON


class InPlace(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuildV2, trt.IPluginV3OneRuntime):
    """An IPluginV3 whose output lies in its input."""

    plugin_name, plugin_version, plugin_namespace, num_outputs = "InPlace", "1", "", 1

    def get_aliased_input(self, output_index):
        return 0

    def get_output_data_types(self, types):
        return types

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [inputs[0]]

    def supports_format_combination(self, place, descs, inputs):
        return descs[place].desc.type == trt.float32

    def enqueue(self, given, made, inputs, outputs, workspace, stream):
        assert inputs == outputs
        array = np.ctypeslib.as_array((ctypes.c_float * 4).from_address(outputs[0]))
        array *= 2

    def clone(self):
        return InPlace()


class InPlaceCreator(trt.IPluginCreatorV3One):
    name, plugin_version, plugin_namespace = "InPlace", "1", ""
    field_names = trt.PluginFieldCollection()

    def create_plugin(self, name, fields, phase):
        return InPlace()


def test_outputs_that_lie_in_an_input():
    assert trt.get_plugin_registry().register_creator(InPlaceCreator(), "")
    builder = trt.Builder(Heard())
    network = builder.create_network()
    layer = network.add_plugin_v3([network.add_input("x", trt.float32, (4,))], [], InPlace())
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    x = np.arange(4, dtype=np.float32)
    assert run(network, {"x": x}, {"y": ((4,), np.float32)}, builder)["y"].tolist() == [0, 2, 4, 6]
    assert x.tolist() == [0, 1, 2, 3]


def test_checkers_are_told_of_all_names():
    told = (ROOT / "python/camshaft/tensorrt/plugin.pyi").read_text()
    for name, thing in vars(trtp).items():
        if name.startswith("_"):
            continue
        assert re.search(rf"^(class|def) {name}\b|^{name}: ", told, re.M), name
        if isinstance(thing, type):  # what a class above is told to have, too
            of = [
                re.search(rf"^class {kind.__name__}\b.*?(?=^\S|\Z)", told, re.M | re.S) for kind in thing.__mro__[:-1]
            ]
            bodies = "".join(found.group() for found in of)
            missing = [member for member in vars(thing) if member[0] != "_" and not re.search(rf"\b{member}\b", bodies)]
            assert not missing, (name, missing)
