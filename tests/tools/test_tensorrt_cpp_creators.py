"""Creators in C++ in the registry of camshaft.tensorrt, as programs for TensorRT find them."""

import hashlib
import os
import re
import subprocess

import pytest
from camshaft_cli import BINARY, ROOT
from test_tensorrt_cpp_plugins import SOURCES, compiled, kept_model, stretch_model

PRELUDE = """
import ctypes
import numpy as np
import camshaft
import camshaft.tensorrt as trt
logger = trt.Logger(trt.Logger.WARNING)
registry = trt.get_plugin_registry()
F, T = trt.PluginField, trt.PluginFieldType

def built(add, columns, names=("y",)):
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    layer = add(network, network.add_input("x", trt.float32, (-1, columns)))
    for index, name in enumerate(names):
        layer.get_output(index).name = name
        network.mark_output(layer.get_output(index))
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (1, columns), (4, columns), (9, columns))
    config.add_optimization_profile(profile)
    return camshaft.Engine(bytes(builder.build_serialized_network(network, config)))

def parsed(path):
    network = trt.Builder(logger).create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(path), [str(parser.get_error(i)) for i in range(parser.num_errors)]

def stretch_fields(times=3):
    return trt.PluginFieldCollection([
        F("times", np.array([times], np.int32), T.INT32),
        F("scale", np.array([0.5], np.float32), T.FLOAT32),
        F("mode", b"negative", T.CHAR),
    ])

x = np.arange(10, dtype=np.float32).reshape(2, 5)
"""


def program(text):
    environment = {"PYTHONPATH": str(BINARY.parent.parent / "python"), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    done = subprocess.run(
        [ROOT / ".venv/bin/python", "-c", PRELUDE + text],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("creators")
    return {name: compiled(SOURCES / f"{name}.cpp", folder / f"{name}.so") for name in ("stretch", "kept_rows")}


LOADERS = {
    "ctypes": "ctypes.CDLL({path!r})",
    "global": "ctypes.CDLL({path!r}, mode=ctypes.RTLD_GLOBAL)",
    "registry": "registry.load_library({path!r})",
    "camshaft": "camshaft.load_plugin({path!r})",
}


@pytest.mark.parametrize("how", LOADERS)
def test_a_v2_creator_of_a_library_that_is_loaded(libraries, tmp_path, how):
    model = stretch_model(tmp_path / "m.onnx")
    program(
        LOADERS[how].format(path=str(libraries["stretch"]))
        + f"""
trt.init_libnvinfer_plugins(logger, "")
creator = registry.get_plugin_creator("Stretch", "1", "")
assert creator is registry.get_creator("Stretch", "1", "") and isinstance(creator, trt.IPluginCreator)
assert creator in registry.plugin_creator_list and creator in registry.all_creators
assert (creator.name, creator.plugin_version, creator.plugin_namespace) == ("Stretch", "1", "")
assert [(field.name, field.type) for field in creator.field_names] == [
    ("times", T.INT32), ("scale", T.FLOAT32), ("mode", T.CHAR)]
plugin = creator.create_plugin("s", stretch_fields())
assert plugin.num_outputs == 1 and plugin.plugin_type == "Stretch" and plugin.serialize()[8:] == b"negative"
assert creator.create_plugin("s", trt.PluginFieldCollection()) is None
for made in (plugin, plugin.clone(), creator.deserialize_plugin("s", plugin.serialize())):
    np.testing.assert_array_equal(built(lambda n, t: n.add_plugin_v2([t], made), 5)(x), np.repeat(-0.5 * x, 3, axis=0))
parsed({str(model)!r})
"""
    )


def test_v3_creators(libraries, tmp_path):
    program(
        f"""
ctypes.CDLL({str(libraries["kept_rows"])!r})
assert registry.get_plugin_creator("Weighted", "1", "") is None  # these are of IPluginCreator alone
creator = registry.get_creator("Weighted", "1", "")
plugin = creator.create_plugin("w", trt.PluginFieldCollection([
    F("weights", np.array([1, 2, 3], np.float32), T.FLOAT32),
    F("order", np.array([0, 2, 1]), T.INT64)]), trt.TensorRTPhase.BUILD)
assert [(f.name, f.data.tolist()) for f in plugin.get_fields_to_serialize()] == [
    ("weights", [1, 2, 3]), ("order", [0, 2, 1])]
row = np.array([[1, 2, 3]], np.float32)
np.testing.assert_array_equal(built(lambda n, t: n.add_plugin_v3([t], [], plugin), 3)(row), [[1, 6, 6]])

def padded(network, tensor):
    by = network.add_constant((1,), np.array([2], np.int64)).get_output(0)
    return network.add_plugin_v3([tensor], [by], plugin)

np.testing.assert_array_equal(built(padded, 3)(row), [[1, 6, 6, -1, -1]])
kept = registry.get_creator("KeptRows", "2", "own").create_plugin("k", trt.PluginFieldCollection([
    F("threshold", np.array([0.5], np.float32), T.FLOAT32)]), trt.TensorRTPhase.BUILD)
rows, count = built(lambda n, t: n.add_plugin_v3([t], [], kept), 3, ("y", "count"))(np.eye(3, dtype=np.float32))
assert rows.tolist() == [[1, 0, 0]] and count == 1
parsed({str(kept_model(tmp_path / "m.onnx"))!r})
"""
    )


def test_an_engine_finds_a_library_that_was_loaded_for_it(libraries, tmp_path):
    library = str(libraries["stretch"])
    program(
        f"""
ctypes.CDLL({library!r})
plugin = registry.get_creator("Stretch", "1", "").create_plugin("s", stretch_fields())
built(lambda n, t: n.add_plugin_v2([t], plugin), 5).save({str(tmp_path / "e")!r})
"""
    )
    load = f'engine = trt.Runtime(logger).deserialize_cuda_engine(open({str(tmp_path / "e")!r}, "rb").read())\n'
    program(f"ctypes.CDLL({library!r})\n{load}assert engine.num_io_tensors == 2")
    assert "stretch.so" in program(f"{load}assert engine is None")


def test_creators_that_a_function_of_the_library_registers(tmp_path):
    """As MMDeploy's and TensorRT's own libraries have it: none is there until the program calls the function."""
    text = (SOURCES / "stretch.cpp").read_text()
    old = "REGISTER_TENSORRT_PLUGIN(StretchCreator);\n\n}  // namespace\n"
    assert text.count(old) == 1
    new = """}  // namespace
extern "C" TENSORRTAPI bool initPlugins(void*, char const* space) {
  static StretchCreator creator;
  return getPluginRegistry()->registerCreator(creator, space);
}
"""
    (tmp_path / "later.cpp").write_text(text.replace(old, new))
    library = compiled(tmp_path / "later.cpp", tmp_path / "later.so")
    program(
        f"""
library = ctypes.CDLL({str(library)!r})
assert registry.get_creator("Stretch", "1", "later") is None
assert library.initPlugins(None, b"later")
creator = registry.get_creator("Stretch", "1", "later")
plugin = creator.create_plugin("s", stretch_fields(2))
np.testing.assert_array_equal(built(lambda n, t: n.add_plugin_v2([t], plugin), 5)(x), np.repeat(-0.5 * x, 2, axis=0))
"""
    )


@pytest.mark.parametrize("major", [8, 10])
def test_fields_that_are_dims(tmp_path, major):
    """Whose sizes have 32 bits before TensorRT 10."""
    text = (SOURCES / "stretch.cpp").read_text()
    for old, new in [
        (
            'PluginField("times", nullptr, nvinfer1::PluginFieldType::kINT32',
            'PluginField("times", nullptr, nvinfer1::PluginFieldType::kDIMS',
        ),
        (
            "times = *static_cast<int32_t const*>(fc->fields[i].data);",
            "times = static_cast<int32_t>(static_cast<nvinfer1::Dims const*>(fc->fields[i].data)->d[1]) * "
            "static_cast<nvinfer1::Dims const*>(fc->fields[i].data)->nbDims;",
        ),
    ]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "dims.cpp").write_text(text)
    library = compiled(tmp_path / "dims.cpp", tmp_path / "dims.so", f"-DNV_TENSORRT_MAJOR={major}")
    program(
        f"""
ctypes.CDLL({str(library)!r})
fields = stretch_fields()
fields[0] = F("times", np.array([7, 2], np.int32), T.DIMS)
plugin = registry.get_creator("Stretch", "1", "").create_plugin("s", fields)
assert plugin.serialize()[:4] == (4).to_bytes(4, "little")
"""
    )


def test_creators_that_are_deregistered_or_come_second(libraries):
    warnings = program(
        f"""
class Creator(trt.IPluginCreator):
    name, plugin_version, plugin_namespace = "Stretch", "1", ""

ctypes.CDLL({str(libraries["stretch"])!r})
creator = registry.get_creator("Stretch", "1", "")
assert registry.register_creator(Creator()) is False
assert registry.deregister_creator(creator) and registry.get_creator("Stretch", "1", "") is None
assert registry.register_creator(creator) and registry.get_creator("Stretch", "1", "") is creator
"""
    )
    assert "Stretch" not in warnings
    warnings = program(
        f"""
class Creator(trt.IPluginCreator):
    name, plugin_version, plugin_namespace = "Stretch", "1", ""

ours = Creator()
assert registry.register_creator(ours)
ctypes.CDLL({str(libraries["stretch"])!r})
assert registry.get_creator("Stretch", "1", "") is ours
"""
    )
    assert "stretch.so are not registered" in warnings and "Stretch.1" in warnings


def test_a_logger_finder_may_throw_as_tensorrt_s_may(tmp_path):
    """TensorRT declares findLogger() without noexcept, and so do classes of programs."""
    (tmp_path / "finder.cpp").write_text(
        """#include <NvInferRuntime.h>
class Finder : public nvinfer1::ILoggerFinder {
 public:
  nvinfer1::ILogger* findLogger() override { return getLogger(); }
};
extern "C" TENSORRTAPI void* make() { return new Finder; }
"""
    )
    compiled(tmp_path / "finder.cpp", tmp_path / "finder.so")


# Of the classes that libraries hand to each other, and of camshaft_tensorrt_creators_table.
INTERFACES = ("base", "expressions", "plugins", "process")
KNOWN = (200, "b3b06265bec34dd9")


def test_other_interfaces_have_another_number():
    """Libraries that were compiled with other headers must not call each other's objects."""
    folder = ROOT / "include/camshaft/tensorrt/detail"
    texts = [(folder / f"{name}.h").read_text() for name in INTERFACES]
    number = int(re.search(r"interface_number = (\d+) \+", texts[-1])[1])
    code = "".join(re.sub(r"//[^\n]*", "", text) for text in texts)
    now = number, hashlib.sha256("".join(code.split()).encode()).hexdigest()[:16]
    assert now == KNOWN, (
        "the headers of plugins' interfaces have changed: where a class that libraries hand to each other has other "
        "virtual functions or members, or the table of the registry another layout, raise interface_number in "
        f"process.h by 100; then put {now} as KNOWN here"
    )
