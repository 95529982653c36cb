"""Plugins in C++ whose sources are written for TensorRT, compiled with camshaft/tensorrt/NvInfer.h."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft, run
from test_plugins import EMULATOR, model_of, numbers, on_gpu

from onnx import TensorProto, helper, numpy_helper

SOURCES = ROOT / "tests/tools/tensorrt_plugins"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def compiled(source, library, *flags, standard="c++17"):
    includes = [f"-I{ROOT / 'include/camshaft/tensorrt'}", f"-I{ROOT / 'include'}"]
    options = [f"-std={standard}", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *includes, *flags]
    subprocess.run(["c++", *options, str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def stretch(tmp_path_factory):
    return compiled(SOURCES / "stretch.cpp", tmp_path_factory.mktemp("v2") / "stretch.so", standard="c++20")


@pytest.fixture(scope="module")
def kept_rows(tmp_path_factory):
    return compiled(SOURCES / "kept_rows.cpp", tmp_path_factory.mktemp("v3") / "kept_rows.so")


def stretch_model(path, domain="trt.plugins", **attributes):
    attributes = {"times": 3, "scale": 0.5, "mode": "negative", **attributes}
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"]),
        helper.make_node("Stretch", ["a"], ["s"], domain=domain, name="stretched", **attributes),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    return model_of(path, nodes, [("x", FLOAT, ["n", 5])], [("y", FLOAT, ["m", 5])], [domain] if domain else [])


@pytest.mark.parametrize("domain", ["trt.plugins", ""])
def test_a_v2_plugin_is_built_saved_loaded_and_run(stretch, tmp_path, domain):
    model, engine = stretch_model(tmp_path / "m.onnx", domain), tmp_path / "m.engine"
    camshaft("build", model, "-o", engine, "--plugin", stretch)
    for rows in (1, 7, 100):
        x = numbers(rows, 5, seed=rows)
        want = np.repeat(np.float32(0.5) * (x * x), 3, axis=0)
        np.testing.assert_array_equal(run(engine, {"x": x}, "--plugin", stretch)["y"], want)
    text = camshaft("inspect", engine, "--plugin", stretch).stdout
    assert "tensorrt::Stretch.1" in text and "3*n" in text


def test_tactics_threads_and_guards(stretch, tmp_path):
    model, engine = stretch_model(tmp_path / "m.onnx"), tmp_path / "m.engine"
    camshaft("build", model, "-o", engine, "--plugin", stretch, "--plugin-verify", "--plugin-guards")
    x = numbers(9, 5)
    got = run(engine, {"x": x}, "--plugin", stretch, "--plugin-guards", "--threads", 2)["y"]
    np.testing.assert_array_equal(got, np.repeat(np.float32(0.5) * (x * x), 3, axis=0))


# ---- For fixed sizes ----

INT32 = TensorProto.INT32
KINDS = {"IPluginV2IOExt": [], "IPluginV2Ext": ["-DOF_EXT"], "IPluginV2": ["-DPLAIN"]}


def columns_model(path, outputs, rows=4, kind=FLOAT):
    results = [("y", kind, [rows, 3]), ("sign", INT32, [rows, 3])][:outputs]
    nodes = [helper.make_node("Columns", ["x"], [name for name, _, _ in results], domain="my", factor=0.5)]
    return model_of(path, nodes, [("x", kind, [rows, 3])], results, ["my"])


@pytest.mark.parametrize("interface", KINDS)
def test_plugins_for_fixed_sizes(tmp_path, interface):
    library = compiled(SOURCES / "columns.cpp", tmp_path / "columns.so", *KINDS[interface])
    model, engine = columns_model(tmp_path / "m.onnx", 1 if interface == "IPluginV2" else 2), tmp_path / "m.engine"
    camshaft("build", model, "-o", engine, "--plugin", library, "--plugin-guards")
    x = numbers(4, 3)
    got = run(engine, {"x": x}, "--plugin", library, "--threads", 2)
    np.testing.assert_array_equal(got["y"], x * np.array([0, 0.5, 1], np.float32))
    if "sign" in got:
        np.testing.assert_array_equal(got["sign"], np.sign(x).astype(np.int32))


@pytest.mark.parametrize("interface", KINDS)
def test_what_plugins_for_fixed_sizes_do_not_take(tmp_path, interface):
    library = compiled(SOURCES / "columns.cpp", tmp_path / "columns.so", *KINDS[interface])
    outputs = 1 if interface == "IPluginV2" else 2
    for model, what in [
        (columns_model(tmp_path / "open.onnx", outputs, rows="n"), "axis 0 of input 0 is open"),
        (
            columns_model(tmp_path / "half.onnx", outputs, kind=TensorProto.FLOAT16),
            "does not take kHALF in any format as input 0, but k",
        ),
    ]:
        done = camshaft("build", model, "-o", tmp_path / "e", "--plugin", library, check=False)
        assert done.returncode > 0 and what in done.stderr, done.stderr


@pytest.mark.parametrize("operation, of", [("kLESS", lambda n: n < 4), ("kEQUAL", lambda n: n == 4)])
def test_comparisons_of_open_sizes(tmp_path, operation, of):
    """As Stretch, with a row of ones behind where the comparison of the number of rows with 4 holds."""
    text = (SOURCES / "stretch.cpp").read_text()
    for old, new in [
        (
            "    return output;\n",
            f"""
    auto const& holds = *exprBuilder.operation(nvinfer1::DimensionOperation::{operation}, *inputs[0].d[0],
                                               *exprBuilder.constant(4));
    output.d[0] = exprBuilder.operation(nvinfer1::DimensionOperation::kSUM, *output.d[0], holds);
    return output;
""",
        ),
        (
            "const* inputDesc, nvinfer1::PluginTensorDesc const*,",
            "const* inputDesc, nvinfer1::PluginTensorDesc const* out,",
        ),
        (
            "    return 0;\n  }\n  nvinfer1::DataType getOutputDataType",
            """
    float const* end = static_cast<float*>(outputs[0]) + out[0].dims.d[0] * mColumns;
    while (to < end) *to++ = 1;
    return 0;
  }
  nvinfer1::DataType getOutputDataType""",
        ),
    ]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "more.cpp").write_text(text)
    library = compiled(tmp_path / "more.cpp", tmp_path / "more.so")
    model, engine = stretch_model(tmp_path / "m.onnx"), tmp_path / "m.engine"
    camshaft("build", model, "-o", engine, "--plugin", library)
    for rows in (1, 3, 4, 5):
        x = numbers(rows, 5, seed=rows)
        want = np.concatenate(
            [np.repeat(np.float32(0.5) * (x * x), 3, axis=0), -np.ones((int(of(rows)), 5), np.float32)]
        )
        np.testing.assert_array_equal(run(engine, {"x": x}, "--plugin", library)["y"], want)


def kept_model(path, threshold=0.25, namespace="own", version="2"):
    attributes = {"plugin_version": version, "plugin_namespace": namespace, "threshold": threshold}
    nodes = [
        helper.make_node("KeptRows", ["x"], ["k", "count"], domain="my", **attributes),
        helper.make_node("Add", ["k", "k"], ["y"]),
    ]
    outputs = [("y", FLOAT, ["m", 4]), ("count", INT64, [])]
    return model_of(path, nodes, [("x", FLOAT, ["n", 4])], outputs, ["my"])


def test_a_v3_plugin_whose_sizes_only_running_tells(kept_rows, tmp_path):
    model, engine = kept_model(tmp_path / "m.onnx"), tmp_path / "m.engine"
    np.savez(tmp_path / "x.npz", x=numbers(50, 4))
    camshaft("build", model, "-o", engine, "--plugin", kept_rows, "--inputs", tmp_path / "x.npz")
    for x in (numbers(50, 4), numbers(3, 4, seed=5), -np.ones((2, 4), np.float32)):
        got = run(engine, {"x": x}, "--plugin", kept_rows)
        want = x[x[:, 0] > 0.25]
        np.testing.assert_array_equal(got["y"], 2 * want)
        assert got["count"] == len(want)


def weighted_model(path, shape=None, **attributes):
    attributes = {"weights": [2.0, -1.0, 0.5], "order": [2, 0, 1], **attributes}
    constants = [] if shape is None else [numpy_helper.from_array(np.array([shape]), "by")]
    if shape is not None:
        attributes["tensorrt_plugin_shape_input_indices"] = [1]
    names = ["x"] if shape is None else ["x", "by"]
    nodes = [helper.make_node("Weighted", names, ["y"], domain="my", **attributes)]
    return model_of(path, nodes, [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", "k"])], ["my"], constants)


@pytest.mark.parametrize("shape", [None, 2])
def test_a_v3_plugin_with_fields_tactics_and_a_shape(kept_rows, tmp_path, shape):
    model, engine = weighted_model(tmp_path / "m.onnx", shape), tmp_path / "m.engine"
    lock = tmp_path / "lock"
    camshaft("build", model, "-o", engine, "--plugin", kept_rows, "--plugin-verify", "--write-lock", lock)
    # The second one is taken, as the first one idles.
    chosen = [layer["tactic"] for layer in json.loads(lock.read_text())["layers"] if "plugin" in layer["tactic"]]
    assert chosen == ["plugin(variant=1)"]
    x = numbers(6, 3)
    want = x[:, [2, 0, 1]] * np.array([2.0, -1.0, 0.5], np.float32)
    if shape:
        want = np.concatenate([want, np.full((6, shape), -1, np.float32)], axis=1)
    np.testing.assert_array_equal(run(engine, {"x": x}, "--plugin", kept_rows)["y"], want)


def test_tactics_that_the_plugin_has_no_more(tmp_path):
    """The list is asked again where an engine runs; a plugin whose list depends on its process may have others."""
    text = (SOURCES / "kept_rows.cpp").read_text()
    old = "getNbTactics() noexcept override { return 2; }"
    assert text.count(old) == 1
    changed = text.replace(old, 'getNbTactics() noexcept override { return std::getenv("FEWER") ? 1 : 2; }')
    (tmp_path / "rows.cpp").write_text("#include <cstdlib>\n" + changed)
    library = compiled(tmp_path / "rows.cpp", tmp_path / "rows.so")
    camshaft("build", weighted_model(tmp_path / "m.onnx"), "-o", tmp_path / "e", "--plugin", library)
    x, out = numbers(4, 3), tmp_path / "y.npz"
    np.savez(tmp_path / "x.npz", x=x)
    line = [BINARY, "run", tmp_path / "e", "--inputs", tmp_path / "x.npz", "--outputs", out, "--plugin", library]
    done = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"FEWER": "1"})
    assert done.returncode == 0 and "plugin(variant=1)); others run instead" in done.stderr, done.stderr
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["y"], x[:, [2, 0, 1]] * np.array([2.0, -1.0, 0.5], np.float32))


@pytest.mark.parametrize("of_many", [[7, 8], [8]])
def test_tactics_that_depend_on_sizes(tmp_path, of_many):
    """Of more than 16 rows they are those, of fewer there is one of another number; builds verify both."""
    text = (SOURCES / "kept_rows.cpp").read_text()
    at = text.index("class Weighted")
    weighted = text[at:]
    for old, new in [
        (
            "configurePlugin(DynamicPluginTensorDesc const*, int32_t,",
            "configurePlugin(DynamicPluginTensorDesc const* in, int32_t,",
        ),
        (
            "int32_t) noexcept override {\n    return 0;",
            "int32_t) noexcept override {\n    mRows = in[0].desc.dims.d[0];\n    return 0;",
        ),
        ("override { return 2; }", f"override {{ return mRows > 16 ? {len(of_many)} : 1; }}"),
        (
            "tactics[0] = 7;\n    tactics[1] = 8;",
            "\n    ".join(f"tactics[{i}] = mRows > 16 ? {n} : 5;" for i, n in enumerate(of_many)),
        ),
        ("(mTactic != 7 && mTactic != 8)", "(in[0].dims.d[0] > 16 ? mTactic != 7 && mTactic != 8 : mTactic != 5)"),
        ("int32_t mTactic = -1;", "int32_t mTactic = -1;\n  int64_t mRows = 0;"),
    ]:
        assert old in weighted
        weighted = weighted.replace(old, new, 1)
    (tmp_path / "rows.cpp").write_text(text[:at] + weighted)
    library = compiled(tmp_path / "rows.cpp", tmp_path / "rows.so")
    shapes = [f"--{name}-shapes=x:{rows}x3" for name, rows in (("min", 1), ("opt", 64), ("max", 64))]
    camshaft("build", weighted_model(tmp_path / "m.onnx"), "-o", tmp_path / "e", "--plugin", library, *shapes)
    if not (BINARY.parent.parent / "python/camshaft/_native.abi3.so").exists():
        pytest.skip("the Python module, by which one process runs several sizes, was not built")
    program = f"""
import camshaft
import numpy as np
camshaft.load_plugin({str(library)!r})
engine = camshaft.Engine({str(tmp_path / "e")!r})
for rows in (2, 64, 17, 3):
    x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
    np.testing.assert_array_equal(engine(x), x[:, [2, 0, 1]] * np.array([2.0, -1.0, 0.5], np.float32))
"""
    environment = os.environ | {"PYTHONPATH": str(BINARY.parent.parent / "python")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_creators_that_a_library_lists(tmp_path):
    """As libraries do that TensorRT loads while it runs."""
    library = compiled(SOURCES / "kept_rows.cpp", tmp_path / "listed.so", "-DGET_CREATORS")
    model = weighted_model(tmp_path / "m.onnx")
    x = numbers(6, 3)
    got = run(model, {"x": x}, "--plugin", library)["y"]
    np.testing.assert_array_equal(got, x[:, [2, 0, 1]] * np.array([2.0, -1.0, 0.5], np.float32))


def test_trtexec_loads_them(stretch, tmp_path):
    model = stretch_model(tmp_path / "m.onnx")
    line = [f"--onnx={model}", "--shapes=x:4x5", f"--plugins={stretch}", "--cpuOnly", "--skipInference"]
    done = subprocess.run([BINARY, "trtexec", *line, f"--saveEngine={tmp_path / 'e'}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    x = numbers(4, 5)
    got = run(tmp_path / "e", {"x": x}, "--plugin", stretch)["y"]
    np.testing.assert_array_equal(got, np.repeat(np.float32(0.5) * (x * x), 3, axis=0))


def test_in_the_shim(stretch, tmp_path):
    model = stretch_model(tmp_path / "m.onnx")
    text = f"""
import camshaft.tensorrt as trt
trt.get_plugin_registry().load_library({str(stretch)!r})
logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network()
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file({str(model)!r}), [str(parser.get_error(i)) for i in range(parser.num_errors)]
config = builder.create_builder_config()
profile = builder.create_optimization_profile()
profile.set_shape("x", (1, 5), (4, 5), (9, 5))
config.add_optimization_profile(profile)
open({str(tmp_path / "e")!r}, "wb").write(builder.build_serialized_network(network, config))
"""
    environment = {"PYTHONPATH": str(BINARY.parent.parent / "python"), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    subprocess.run([ROOT / ".venv/bin/python", "-c", text], check=True, env=os.environ | environment)
    x = numbers(9, 5)
    got = run(tmp_path / "e", {"x": x}, "--plugin", stretch)["y"]
    np.testing.assert_array_equal(got, np.repeat(np.float32(0.5) * (x * x), 3, axis=0))


# ---- What is wrong ----


@pytest.mark.parametrize(
    "model, what",
    [
        (lambda path: stretch_model(path, times=0), "createPlugin() gave nothing"),
        (
            lambda path: stretch_model(path, plugin_version="9"),
            "tensorrt::Stretch.1 is loaded, which a node means by the attributes plugin_version ('1') and plugin_namespace",
        ),
        (lambda path: stretch_model(path, times=1.5), "'times' is 1.5, and the plugin takes kINT32: integers from"),
        (lambda path: stretch_model(path, times=2.0), "'times' is 2.0, and the plugin takes kINT32: integers from"),
        (lambda path: stretch_model(path, times=1e30), "'times' is 1e+30, and the plugin takes kINT32: integers from"),
        (
            lambda path: stretch_model(path, times=2**31),
            "the plugin tensorrt::Stretch.1 (stretch.so) cannot be created: the attribute 'times' is 2147483648, and the "
            "plugin takes kINT32: integers from -2147483648 to 2147483647",
        ),
        (
            lambda path: stretch_model(path, times=-(2**31) - 1),
            "the attribute 'times' is -2147483649, and the plugin takes kINT32",
        ),
        (
            lambda path: stretch_model(path, times="three"),
            "the attribute 'times' is the text 'three', and the plugin takes kINT32",
        ),
        (
            lambda path: stretch_model(path, scale="0.5"),
            "the attribute 'scale' is the text '0.5', and the plugin takes kFLOAT32: numbers",
        ),
        (lambda path: stretch_model(path, mode=3), "'mode' is of integers, and the plugin takes kCHAR: a text"),
        (
            lambda path: stretch_model(path, times=helper.make_tensor("t", INT64, [1], [3])),
            "'times' is a tensor of another type",
        ),
    ],
)
def test_nodes_that_are_refused(stretch, tmp_path, model, what):
    done = camshaft("build", model(tmp_path / "m.onnx"), "-o", tmp_path / "e", "--plugin", stretch, check=False)
    assert done.returncode > 0 and what in done.stderr, done.stderr


def test_types_that_the_plugin_does_not_take(stretch, tmp_path):
    nodes = [helper.make_node("Stretch", ["x"], ["y"], domain="my", times=2)]
    model = model_of(tmp_path / "m.onnx", nodes, [("x", INT64, ["n", 5])], [("y", INT64, ["m", 5])], ["my"])
    done = camshaft("build", model, "-o", tmp_path / "e", "--plugin", stretch, check=False)
    assert (
        done.returncode > 0
        and "does not take kINT64 in any format as input 0, but kFLOAT: cast it to that in the model" in done.stderr
    ), done.stderr


@pytest.mark.parametrize(
    "old, new, what",
    [
        (
            "return 0;\n  }\n  nvinfer1::DataType getOutputDataType",
            "return 5;\n  }\n  nvinfer1::DataType getOutputDataType",
            "enqueue() gave 5",
        ),
        (
            "getNbOutputs() const noexcept override { return 1; }",
            "getNbOutputs() const noexcept override { return 2; }",
            "the plugin has 2 outputs, the node 1",
        ),
        ("mInitialized = true;\n    return 0;", "return 6;", "initialize() gave 6"),
    ],
)
def test_plugins_that_fail(tmp_path, old, new, what):
    text = (SOURCES / "stretch.cpp").read_text()
    assert text.count(old) == 1
    (tmp_path / "bad.cpp").write_text(text.replace(old, new))
    library = compiled(tmp_path / "bad.cpp", tmp_path / "bad.so")
    done = camshaft("build", stretch_model(tmp_path / "m.onnx"), "-o", tmp_path / "e", "--plugin", library, check=False)
    assert done.returncode > 0 and what in done.stderr, done.stderr


def test_an_engine_without_its_library_is_refused(stretch, tmp_path):
    camshaft("build", stretch_model(tmp_path / "m.onnx"), "-o", tmp_path / "e", "--plugin", stretch)
    done = camshaft("run", tmp_path / "e", check=False)
    assert done.returncode != 0 and "tensorrt::Stretch.1" in done.stderr and "stretch.so" in done.stderr


# ---- Formats that are not row-major ----

FORMATS = ["LINEAR", "CHW2", "HWC8", "CHW4", "CHW16", "CHW32", "DHWC8", "CDHW32", "HWC", "", "", "HWC16", "DHWC"]


def formats_model(path, given, taken, kind, spatial):
    shape = ["n", 5, *["h", 3, 4][-spatial:]]
    formats = [FORMATS.index(given), FORMATS.index(taken)]
    back = [helper.make_node("Cast", ["s"], ["y"], to=FLOAT)]
    to = [helper.make_node("Cast", ["x"], ["a"], to=kind)]
    plugin = helper.make_node("InFormats", ["a"], ["s"], domain="my", formats=formats)
    return model_of(path, [*to, plugin, *back], [("x", FLOAT, shape)], [("y", FLOAT, shape)], ["my"])


@pytest.fixture(scope="module")
def formats_library(tmp_path_factory):
    library = tmp_path_factory.mktemp("formats") / "formats.so"
    return compiled(SOURCES / "formats.cpp", library, "-DCAMSHAFT_TENSORRT_HOST=1", "-DCAMSHAFT_TENSORRT_CUDA=1")


@pytest.mark.parametrize(
    "given, taken, kind, spatial",
    [
        ("HWC", "CHW32", FLOAT, 2),
        ("CHW4", "HWC8", TensorProto.INT8, 2),
        ("HWC16", "LINEAR", FLOAT, 2),
        ("LINEAR", "CHW2", FLOAT, 2),
        ("CHW16", "HWC", TensorProto.INT8, 2),
        ("DHWC8", "CDHW32", FLOAT, 3),
        ("DHWC", "DHWC", FLOAT, 3),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tensors_come_in_the_format_that_a_plugin_takes(formats_library, tmp_path, device, given, taken, kind, spatial):
    if device == "cuda" and not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    model = formats_model(tmp_path / "m.onnx", given, taken, kind, spatial)
    engine, out, command = tmp_path / "e", tmp_path / "y.npz", on_gpu if device == "cuda" else camshaft
    command("build", model, "-o", engine, "--device", device, "--plugin", formats_library)
    sizes = [2, 3, 4][-spatial:]
    for n, h in ((1, 2), (3, 7)):
        shape = (n, 5, *([h, 3, 4][-spatial:] if spatial == 3 else sizes))
        x = np.random.default_rng(n).integers(-20, 20, shape).astype(np.float32)
        np.savez(tmp_path / "x.npz", x=x)
        command("run", engine, "--inputs", tmp_path / "x.npz", "--outputs", out, "--plugin", formats_library)
        channels = np.arange(1, 6, dtype=np.float32).reshape(1, 5, *[1] * spatial)
        with np.load(out) as arrays:
            np.testing.assert_array_equal(arrays["y"], x * channels)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_equal_nodes_of_other_ranks_and_channels(tmp_path, device):
    """One instance is for all three: each is asked in its own formats, whose workspace differs."""
    if device == "cuda" and not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    text = (SOURCES / "formats.cpp").read_text()
    for old, new in [
        (
            "return static_cast<int32_t>(inOut[pos].format) == mFormats[pos] &&",
            "return inOut[pos].format == wanted(inOut[0].dims, pos) &&",
        ),
        (
            "if (static_cast<int32_t>(in[0].format) != mFormats[0] || static_cast<int32_t>(out[0].format) != mFormats[1])",
            "if (in[0].format != wanted(in[0].dims, 0) || out[0].format != wanted(in[0].dims, 1))",
        ),
        (
            " private:\n  int32_t on_host",
            """ private:
  static TensorFormat wanted(Dims const& dims, int32_t pos) {
    if (dims.nbDims == 3) return TensorFormat::kLINEAR;
    if (dims.d[1] % 8 == 0) return pos == 0 ? TensorFormat::kHWC8 : TensorFormat::kCHW4;
    return pos == 0 ? TensorFormat::kCHW32 : TensorFormat::kLINEAR;
  }
  int32_t on_host""",
        ),
    ]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    # Three axes are [n, channels, w] here, which only row-major tensors may be.
    text = text.replace("int32_t const axis = dims.nbDims - (deep ? 4 : 3);", "int32_t const axis = deep ? 0 : 1;")
    (tmp_path / "ranks.cpp").write_text(text)
    flags = ["-DCAMSHAFT_TENSORRT_HOST=1", "-DCAMSHAFT_TENSORRT_CUDA=1"]
    library = compiled(tmp_path / "ranks.cpp", tmp_path / "ranks.so", *flags)
    shapes = {"a": ["n", 3, "w"], "b": ["n", 5, "h", 4], "c": ["n", 16, "h", 4]}
    nodes = [helper.make_node("InFormats", [n], [f"{n}y"], domain="my", formats=[0, 0]) for n in shapes]
    inputs, outputs = ([(f"{n}{end}", FLOAT, shape) for n, shape in shapes.items()] for end in ("", "y"))
    model = model_of(tmp_path / "m.onnx", nodes, inputs, outputs, ["my"])
    engine, out, command = tmp_path / "e", tmp_path / "y.npz", on_gpu if device == "cuda" else camshaft
    command("build", model, "-o", engine, "--device", device, "--plugin", library)
    for n, w, h in ((1, 1, 1), (3, 7, 2), (2, 1, 9), (0, 3, 2)):
        bound = {"n": n, "w": w, "h": h}
        given = {name: numbers(*(bound.get(d, d) for d in shape)) for name, shape in shapes.items()}
        np.savez(tmp_path / "x.npz", **given)
        command("run", engine, "--inputs", tmp_path / "x.npz", "--outputs", out, "--plugin", library)
        with np.load(out) as arrays:
            for name, x in given.items():
                channels = np.arange(1, x.shape[1] + 1, dtype=np.float32).reshape(1, -1, *[1] * (x.ndim - 2))
                np.testing.assert_array_equal(arrays[f"{name}y"], x * channels)


def test_formats_of_other_ranks_are_refused(formats_library, tmp_path):
    node = helper.make_node("InFormats", ["x"], ["y"], domain="my", formats=[FORMATS.index("CHW32")] * 2)
    model = model_of(tmp_path / "m.onnx", [node], [("x", FLOAT, ["n", 5])], [("y", FLOAT, ["n", 5])], ["my"])
    done = camshaft("build", model, "-o", tmp_path / "e", "--plugin", formats_library, check=False)
    assert done.returncode > 0 and "does not take kFLOAT in any format as input 0" in done.stderr, done.stderr


# ---- Sources for other versions ----


def test_sources_for_tensorrt_8(tmp_path):
    """Their sizes are of 32 bits, and they have parameters of TensorRT's own plugins."""
    source = tmp_path / "for_8.cpp"
    text = (SOURCES / "formats.cpp").read_text()
    text = text.replace(
        "int64_t const channels = dims.d[axis];", "int const* sizes = dims.d; int channels = sizes[axis];"
    )
    source.write_text(
        text
        + """
static_assert(NV_TENSORRT_VERSION == 8600 && NV_TENSORRT_MAJOR == 8, "");
static_assert(nvinfer1::EnumMax<nvinfer1::plugin::CodeTypeSSD>() == 4, "");
nvinfer1::plugin::NMSParameters const parameters{true, -1, 80, 1000, 100, 0.25F, 0.5F, true};
"""
    )
    flags = ["-DNV_TENSORRT_MAJOR=8", "-DNV_TENSORRT_MINOR=6", "-Wno-unused-const-variable", "-Wno-unused-variable"]
    library = compiled(source, tmp_path / "for_8.so", *flags)
    model, x = formats_model(tmp_path / "m.onnx", "CHW4", "LINEAR", FLOAT, 2), numbers(2, 5, 3, 4)
    camshaft("build", model, "-o", tmp_path / "e", "--plugin", library)
    got = run(tmp_path / "e", {"x": x}, "--plugin", library)["y"]
    np.testing.assert_array_equal(got, x * np.arange(1, 6, dtype=np.float32).reshape(1, 5, 1, 1))


def test_a_size_that_tensorrt_8_has_no_number_for_is_refused(tmp_path):
    text = (SOURCES / "formats.cpp").read_text()
    old = "nvinfer1::IExprBuilder&) noexcept override {\n    return inputs[0];"
    assert old in text
    new = """nvinfer1::IExprBuilder& builder) noexcept override {
    auto dims = inputs[0];
    dims.d[1] = builder.constant(3000000000);
    return dims;"""
    (tmp_path / "large.cpp").write_text(
        text.replace(old, new).replace(
            "int64_t const channels = dims.d[axis];", "int const* sizes = dims.d; int channels = sizes[axis];"
        )
    )
    library = compiled(tmp_path / "large.cpp", tmp_path / "large.so", "-DNV_TENSORRT_MAJOR=8", "-DNV_TENSORRT_MINOR=6")
    model = formats_model(tmp_path / "m.onnx", "LINEAR", "LINEAR", FLOAT, 2)
    done = camshaft("build", model, "-o", tmp_path / "e", "--plugin", library, check=False)
    assert done.returncode > 0 and "a size of 3000000000 does not fit into 32 bits" in done.stderr, done.stderr


# ---- On a GPU ----


def test_enqueue_gets_the_stream(tmp_path):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    library = compiled(SOURCES / "stretch.cpp", tmp_path / "copies.so", "-DCOPIES_ON_GPU")
    model, engine, out = (
        stretch_model(tmp_path / "m.onnx", scale=1.0, mode=""),
        tmp_path / "m.engine",
        tmp_path / "y.npz",
    )
    on_gpu("build", model, "-o", engine, "--device", "cuda", "--plugin", library)
    assert "cuda_plugin" in on_gpu("inspect", engine, "--plugin", library).stdout
    for rows in (1, 7):
        x = numbers(rows, 5, seed=rows)
        np.savez(tmp_path / "x.npz", x=x)
        on_gpu("run", engine, "--inputs", tmp_path / "x.npz", "--outputs", out, "--plugin", library)
        with np.load(out) as arrays:
            np.testing.assert_array_equal(arrays["y"], -np.repeat(x * x, 3, axis=0))


def test_a_plugin_for_a_gpu_alone_is_verified_by_its_own_run(tmp_path):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    flags = ["-DCAMSHAFT_TENSORRT_HOST=0", "-DCAMSHAFT_TENSORRT_CUDA=1", "-DCOPIES_ON_GPU"]
    library = compiled(SOURCES / "stretch.cpp", tmp_path / "gpu.so", *flags)
    model = stretch_model(tmp_path / "m.onnx", scale=1.0, mode="")
    for refused in (["--device", "cpu"], ["--device", "cpu", "--no-verify"]):
        done = camshaft("build", model, "-o", tmp_path / "e", *refused, "--plugin", library, check=False)
        assert done.returncode > 0 and "for GPUs alone" in done.stderr and "Stretch" in done.stderr, done.stderr
    done = on_gpu("build", model, "-o", tmp_path / "e", "--device", "cuda", "--plugin", library)
    assert "its own kernels by themselves count as right" in done.stdout + done.stderr, done.stdout + done.stderr
    assert "cuda_plugin" in on_gpu("inspect", tmp_path / "e", "--plugin", library).stdout
