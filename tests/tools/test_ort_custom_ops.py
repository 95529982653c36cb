"""Libraries of ONNX Runtime's custom operators: the same file runs in ONNX Runtime and here, with equal results. It is
compiled with our declaration of the interface, which therefore must be the one that ONNX Runtime was released with."""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import BINARY, ROOT, camshaft, run
from test_plugins import model_of, numbers

from onnx import TensorProto, helper, numpy_helper

SOURCES = ROOT / "tests/tools/ort_custom_ops"
FLOAT, INT32, INT64, DOUBLE = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.DOUBLE


def compiled(library, *flags):
    options = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT / 'src'}"]
    subprocess.run(["c++", *options, *flags, str(SOURCES / "library.cpp"), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("ops") / "libops.so")


def model(path, nodes, inputs, outputs, initializers=()):
    return model_of(path, nodes, inputs, outputs, ["test.ort"], initializers)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs, outputs, domain="test.ort", **attributes)


def theirs(path, library, feeds):
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def check_equal(path, library, *feeds, options=()):
    """The engine gives what ONNX Runtime gives with the same library, for each of the feeds."""
    engine = pathlib.Path(path).with_suffix(".engine")
    camshaft("build", path, "-o", engine, "--ort-custom-ops", library, *options)
    for feed in feeds:
        ours = run(engine, feed, "--ort-custom-ops", library)
        for name, expected in theirs(path, library, feed).items():
            assert ours[name].dtype == expected.dtype and ours[name].shape == expected.shape, name
            np.testing.assert_array_equal(ours[name], expected, err_msg=name)


SCALED = {"alpha": 2.0, "bias": [1, 2, 3], "mode": "twice"}


def test_attributes_types_and_overloads(library, tmp_path):
    nodes = [node("Scaled", ["x"], ["y"], **SCALED), node("Scaled", ["i"], ["z"], **{**SCALED, "mode": "once"})]
    ends = [("x", FLOAT, ["n", 3]), ("i", INT32, [4])], [("y", FLOAT, ["n", 3]), ("z", INT32, [4])]
    path = model(tmp_path / "m.onnx", nodes, *ends)
    integers = np.array([1, -2, 3, 2**29], np.int32)
    check_equal(path, library, *[{"x": numbers(n, 3), "i": integers} for n in (1, 5, 0)])


def test_the_interface_of_before(library, tmp_path):
    path = model(tmp_path / "m.onnx", [node("Negated", ["x"], ["y"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])])
    check_equal(path, library, {"x": numbers(100)})


def test_sizes_that_only_running_tells(library, tmp_path):
    nodes = [node("Positive", ["x"], ["p"]), helper.make_node("Add", ["p", "p"], ["y"])]
    path = model(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, ["m"])])
    feeds = [{"x": x} for x in (numbers(100), -np.ones(3, np.float32), np.ones(0, np.float32))]
    np.savez(tmp_path / "x.npz", x=feeds[0]["x"])
    check_equal(path, library, *feeds, options=["--inputs", tmp_path / "x.npz"])


@pytest.mark.parametrize("kind, dtype", [(FLOAT, np.float32), (INT64, np.int64), (DOUBLE, np.float64)])
def test_shape_inference(library, tmp_path, kind, dtype):
    nodes = [
        node("Transposed", ["x"], ["t"], axes=[1, 0]),
        node("Transposed", ["t"], ["u"]),
        node("Transposed", ["u"], ["y"], axes=[0, 1]),
    ]
    path = model(tmp_path / "m.onnx", nodes, [("x", kind, ["n", 3])], [("t", kind, [3, "n"]), ("y", kind, [3, "n"])])
    check_equal(path, library, *[{"x": (10 * numbers(n, 3)).astype(dtype)} for n in (1, 8)])
    text = camshaft("inspect", path.with_suffix(".engine"), "--ort-custom-ops", library).stdout
    assert "3×n" in text or "[3, n]" in text or "3xn" in text, text


def test_any_number_of_operands(library, tmp_path):
    names = [f"x{i}" for i in range(20)]
    outs = [f"y{i}" for i in range(20)]
    path = model(
        tmp_path / "m.onnx",
        [node("RunningSum", names, outs)],
        [(name, FLOAT, ["n"]) for name in names],
        [(name, FLOAT, ["n"]) for name in outs],
    )
    check_equal(path, library, {name: numbers(7, seed=i) for i, name in enumerate(names)})


def test_operands_and_outputs_that_are_left_out(library, tmp_path):
    nodes = [
        node("Shifted", ["x", "by"], ["a", "count"]),
        node("Shifted", ["x"], ["b", ""]),
        node("Shifted", ["x", ""], ["c"]),
    ]
    outputs = [(name, FLOAT, ["n", 2]) for name in "abc"]
    inputs = [("x", FLOAT, ["n", 2]), ("by", FLOAT, [1])]
    path = model(tmp_path / "m.onnx", nodes, inputs, [*outputs, ("count", INT64, [1])])
    check_equal(path, library, {"x": numbers(3, 2), "by": np.array([0.5], np.float32)})


def weighted_model(path, weights, name="weighted"):
    nodes = [node("Weighted", ["x", "w"], ["y"], name=name, table=numpy_helper.from_array(np.array([3.0], np.float32)))]
    constants = [numpy_helper.from_array(np.array(weights, np.float32), "w")]
    return model(path, nodes, [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])], constants)


def test_constant_operands_and_tensors_as_attributes(library, tmp_path):
    feed = {"x": numbers(4, 3)}
    check_equal(weighted_model(tmp_path / "a.onnx", [1, 2, 3]), library, feed)
    check_equal(weighted_model(tmp_path / "b.onnx", [4, 5, 6]), library, feed)


def test_constant_operands_are_fixed_in_a_refit(library, tmp_path):
    """A kernel reads them when it is made, which a build with --refit says."""
    path = weighted_model(tmp_path / "a.onnx", [1, 2, 3])
    text = camshaft("build", path, "-o", tmp_path / "e", "--refit", "--ort-custom-ops", library).stdout
    assert "1 cannot, as what the engine does was decided by them: 'w': " in text, text
    other = weighted_model(tmp_path / "b.onnx", [4, 5, 6])
    line = ["refit", tmp_path / "e", "--weights", other, "--ort-custom-ops", library]
    assert "cannot be replaced by other numbers" in camshaft(*line, check=False).stderr


def test_what_the_host_says_of_a_node(library, tmp_path):
    nodes = [node("Described", ["x", "i"], ["y"], name="a node"), node("Described", ["x", "i"], ["z"], name="b")]
    inputs, outputs = [("x", FLOAT, ["n", 3]), ("i", INT64, [2])], [("y", INT64, ["k"]), ("z", INT64, ["l"])]
    path = model(tmp_path / "m.onnx", nodes, inputs, outputs)
    check_equal(path, library, {"x": numbers(2, 3), "i": np.array([1, 2])})


def test_operators_that_a_kernel_calls(library, tmp_path):
    nodes = [node("Calling", ["x"], ["y", "z"])]
    path = model(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n"]), ("z", FLOAT, ["k"])])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    check_equal(path, library, {"x": x}, {"x": x[:1]})


def test_a_model_without_shapes_in_it(library, tmp_path):
    """A result of which nobody says anything has as many axes as the first operand."""
    nodes = [node("Scaled", ["x"], ["s"], **SCALED), helper.make_node("Add", ["s", "x"], ["y"])]
    path = model(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])])
    check_equal(path, library, {"x": numbers(4, 3)}, {"x": numbers(1, 3)})


def test_in_python(library, tmp_path):
    path, x = weighted_model(tmp_path / "m.onnx", [7, 8, 9]), np.arange(12, dtype=np.float32).reshape(4, 3)
    in_python(
        f"""
import camshaft, numpy as np
camshaft.load_ort_custom_ops({str(library)!r})
camshaft.load_ort_custom_ops({str(library)!r})
engine = camshaft.build({str(path)!r})
x = np.arange(12, dtype=np.float32).reshape(4, 3)
np.save({str(tmp_path / "y.npy")!r}, engine.create_context().run({{"x": x}})["y"])
names = {{p["name"]: p for p in camshaft.plugins()}}
assert names["test.ort::Weighted"]["file"] == "libops.so", names
try:
    camshaft.load_ort_custom_ops("nothing.so")
except camshaft.Error as e:
    assert "nothing.so" in str(e)
else:
    raise AssertionError
"""
    )
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), theirs(path, library, {"x": x})["y"])


def test_beside_onnx_runtime_in_one_process(library, tmp_path):
    """A library has one table of functions; a copy of the file has another one."""
    copy = tmp_path / "copy.so"
    shutil.copy(library, copy)
    path = weighted_model(tmp_path / "m.onnx", [7, 8, 9])
    in_python(
        f"""
import camshaft, numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.register_custom_ops_library({str(library)!r})
session = onnxruntime.InferenceSession({str(path)!r}, options)
try:
    camshaft.load_ort_custom_ops({str(library)!r})
except camshaft.Error as e:
    assert "has loaded it already" in str(e), e
else:
    raise AssertionError
camshaft.load_ort_custom_ops({str(copy)!r})
x = np.arange(12, dtype=np.float32).reshape(4, 3)
ours = camshaft.build({str(path)!r}).create_context().run({{"x": x}})["y"]
np.testing.assert_array_equal(ours, session.run(None, {{"x": x}})[0])
"""
    )


def in_python(text):
    subprocess.run([ROOT / ".venv/bin/python", "-c", text], check=True, env=python_environment())


def python_environment():
    from camshaft_cli import BINARY

    return os.environ | {"PYTHONPATH": str(BINARY.parent.parent / "python")}


def test_onnx_runtime_judges_with_the_library(library, tmp_path):
    path = weighted_model(tmp_path / "m.onnx", [7, 8, 9])
    environment = python_environment() | {"CAMSHAFT_PYTHON": str(ROOT / ".venv/bin/python")}
    line = [BINARY, "verify", path, "--against", "onnxruntime", "--ort-custom-ops", library]
    done = subprocess.run([*map(str, line)], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0 and "against ONNX Runtime" in done.stdout, done.stderr
    in_python(
        f"""
import os
import camshaft
os.chdir({str(library.parent)!r})
camshaft.load_ort_custom_ops("libops.so")
os.chdir("/")
for _ in range(2):  # our own kernels call our functions still
    verdict = camshaft.verify({str(path)!r}, against="onnxruntime")
    assert verdict["passed"] and verdict["against"] == "onnxruntime", verdict
"""
    )


def test_an_engine_without_its_library_is_refused(library, tmp_path):
    path = model(tmp_path / "m.onnx", [node("Negated", ["x"], ["y"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])])
    camshaft("build", path, "-o", tmp_path / "e", "--ort-custom-ops", library)
    done = camshaft("run", tmp_path / "e", check=False)
    assert done.returncode != 0 and "test.ort::Negated" in done.stderr and "--ort-custom-ops" in done.stderr


def test_written_back_as_onnx(library, tmp_path):
    path = weighted_model(tmp_path / "m.onnx", [1, 2, 3])
    camshaft("simplify", path, "-o", tmp_path / "s.onnx", "--ort-custom-ops", library)
    feed = {"x": numbers(4, 3)}
    np.testing.assert_array_equal(theirs(tmp_path / "s.onnx", library, feed)["y"], theirs(path, library, feed)["y"])


# ---- What is wrong ----


@pytest.mark.parametrize(
    "flags, what",
    [
        (["-DRegisterCustomOps=Other"], "exports no function RegisterCustomOps"),
        (["-DNEWER"], "asks for version 99"),
        (["-DTHROWS"], "threw an exception: nothing can be registered"),
        (["-DFAILS"], "a status of the registration"),
        (["-DEMPTY"], "registers no operators"),
        (["-DNEWER_OPERATOR"], "has version 99"),
    ],
)
def test_libraries_that_are_refused(tmp_path, flags, what):
    bad = compiled(tmp_path / "bad.so", *flags)
    done = camshaft("build", "absent.onnx", "-o", tmp_path / "e", "--ort-custom-ops", bad, check=False)
    assert done.returncode != 0 and what in done.stderr and "bad.so" in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_files_that_are_no_libraries(tmp_path):
    (tmp_path / "x.so").write_text("no library")
    for path, what in [(tmp_path / "x.so", "x.so"), (tmp_path / "y.so", "y.so")]:
        done = camshaft("build", "absent.onnx", "-o", tmp_path / "e", "--ort-custom-ops", path, check=False)
        assert done.returncode != 0 and what in done.stderr


def test_as_a_plugin_it_says_which_option_loads_it(library, tmp_path):
    done = camshaft("build", "absent.onnx", "-o", tmp_path / "e", "--plugin", library, check=False)
    assert done.returncode != 0 and "--ort-custom-ops" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "how, what",
    [
        ("create", "cannot be created: no kernel today"),
        ("status", "failed: the status of a run"),
        ("missing", "OrtApi::GetAvailableProviders (function 125 of the table)"),
        ("shape", "and [n, 7] was expected"),
        ("rank", "and [n, 7] was expected"),
        ("nothing", "it computed no output 0"),
    ],
)
def test_operators_that_fail(library, tmp_path, how, what):
    nodes = [node("Failing", ["x"], ["y"], how=how)]
    path = model(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["n", 7])], [("y", FLOAT, ["n", 7])])
    done = camshaft("build", path, "-o", tmp_path / "e", "--ort-custom-ops", library, check=False)
    assert done.returncode != 0 and what in done.stderr and "test.ort::Failing (libops.so)" in done.stderr, done.stderr


def test_an_operator_that_throws(library, tmp_path):
    """Through C, as those of before version 17 do, and another C++ library's exception."""
    path = model(tmp_path / "m.onnx", [node("Negated", ["x"], ["y"])], [("x", FLOAT, [])], [("y", FLOAT, [])])
    done = camshaft("build", path, "-o", tmp_path / "e", "--ort-custom-ops", library, check=False)
    assert done.returncode > 0 and "failed: no scalars, please" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "nodes, inputs, what",
    [
        ([node("Scaled", ["x"], ["y"], **SCALED)], [("x", DOUBLE, ["n"])], "does not take f64"),
        ([node("Shifted", [""], ["y"])], [("x", FLOAT, ["n"])], "needs operand 0"),
        ([node("Shifted", ["x", "x", "x"], ["y"])], [("x", FLOAT, ["n"])], "takes 2 operands, not 3"),
        ([node("Transposed", ["x"], ["y"])], [("x", FLOAT, ["n"])], "it transposes one matrix"),
    ],
)
def test_nodes_that_are_refused(library, tmp_path, nodes, inputs, what):
    path = model(tmp_path / "m.onnx", nodes, inputs, [("y", FLOAT, ["n"])])
    done = camshaft("build", path, "-o", tmp_path / "e", "--ort-custom-ops", library, check=False)
    assert done.returncode != 0 and what in done.stderr, done.stderr


def test_operators_for_another_device(tmp_path):
    library = compiled(tmp_path / "cuda.so", "-DELSEWHERE")
    path = model(tmp_path / "m.onnx", [node("OnlyCuda", ["x"], ["y"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])])
    done = camshaft("build", path, "-o", tmp_path / "e", "--ort-custom-ops", library, check=False)
    assert done.returncode != 0 and "is for CUDAExecutionProvider alone" in done.stderr, done.stderr
