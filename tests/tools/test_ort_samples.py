"""ONNX Runtime's own samples of custom operators, compiled with its headers, of which no package of Debian 12 or PyPI has
all: CAMSHAFT_ORT_SOURCES=FOLDER names a checkout of ONNX Runtime, or Debian 13's source package of it. Their models, which
that leaves out, are made here, of the same nodes. Without the sources test_ort_custom_ops.py has the like."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
from camshaft_cli import camshaft
from test_ort_custom_ops import FLOAT, INT32, check_equal
from test_plugins import model_of

import onnx
from onnx import helper

CHECKOUT = os.environ.get("CAMSHAFT_ORT_SOURCES")
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="CAMSHAFT_ORT_SOURCES names no checkout of ONNX Runtime")
ROOT = pathlib.Path(CHECKOUT or ".")
DATA = ROOT / "onnxruntime/test/testdata"
DOMAIN = "test.customop"


def compiled(folder, names, library):
    session = ROOT / "include/onnxruntime/core/session"
    core = ROOT / "include/onnxruntime"
    includes = [f"-I{path}" for path in (session, core, core / "core/common", ROOT / "onnxruntime", folder)]
    sources = [folder / name for name in names]
    subprocess.run(["c++", "-std=c++20", "-O1", "-shared", "-fPIC", *includes, *sources, "-o", library], check=True)
    return library


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    names = ["custom_op_library.cc", "cpu/cpu_ops.cc", "cuda/cuda_ops.cc"]
    return compiled(DATA / "custom_op_library", names, tmp_path_factory.mktemp("samples") / "libsamples.so")


def numbers(*shape):
    return (4 * np.random.default_rng(1).standard_normal(shape)).astype(np.float32)


def check(path, library, feed, tmp_path):
    local = tmp_path / "model.onnx"
    local.write_bytes(pathlib.Path(path).read_bytes())
    np.savez(tmp_path / "in.npz", **feed)
    check_equal(local, library, feed, options=["--inputs", tmp_path / "in.npz"])


@pytest.mark.parametrize("operator, count", [("CopyTensorArrayAllVariadic", 2), ("CopyTensorArrayCombined", 3)])
def test_copies_of_sizes_that_are_written_as_minus_one(samples, tmp_path, operator, count):
    """As its models copy_2_inputs_2_outputs and copy_3_inputs_3_outputs have them: -1 is a number there, and no name."""
    names = [[f"{side}_{i}" for i in range(count)] for side in ("input", "output")]
    info = [[helper.make_tensor_value_info(name, FLOAT, [-1]) for name in of] for of in names]
    node = helper.make_node(operator, *names, name="copy_tensor_array", domain=DOMAIN)
    graph = helper.make_graph([node], "graph", *info)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "copies.onnx")
    check(tmp_path / "copies.onnx", samples, {name: numbers(15) for name in names[0]}, tmp_path)


def check_nodes(nodes, version, feed, outputs, library, tmp_path):
    kinds = {np.dtype(np.float32): FLOAT, np.dtype(np.int32): INT32}
    inputs = [(name, kinds[x.dtype], [f"{name}{axis}" for axis in range(x.ndim)]) for name, x in feed.items()]
    path = model_of(tmp_path / "m.onnx", nodes, inputs, outputs, [nodes[0].domain])
    model = onnx.load(path)
    model.opset_import[1].version = version
    onnx.save(model, path)
    check(path, library, feed, tmp_path)


@pytest.mark.parametrize(
    "operator, version, feed, outputs",
    [
        ("MulTop", 1, {"x": numbers(2)}, [("y", FLOAT, [1])]),
        ("MulTop", 1, {"x": np.array([3, 5], np.int32)}, [("y", INT32, [1])]),
        ("Fuse", 11, {"a": numbers(4), "b": numbers(3), "k": np.array([3], np.int32)}, [("y", FLOAT, ["m"])]),
        ("Select", 1, {"x": np.array([1, 2, 4, 5, 7, 8], np.int32)}, [("y", INT32, ["m"])]),
        ("Filter", 16, {"x": numbers(50)}, [("y", FLOAT, ["m"])]),
        ("Box", 1, {"a": numbers(4), "b": numbers(5), "c": numbers(6)}, [("y", FLOAT, ["m"]), ("z", FLOAT, ["k"])]),
        ("Box", 1, {"a": numbers(4), "b": numbers(5)}, [("y", FLOAT, ["m"])]),
        ("CustomOpTwo", 1, {"x": numbers(100, 50)}, [("y", INT32, ["n", 50])]),
        ("CopyTensorArrayAllVariadic", 1, {"a": numbers(4)}, [("y", FLOAT, ["a0"])]),
        (
            "CopyTensorArrayAllVariadic",
            1,
            {"a": numbers(4), "b": numbers(2, 3), "c": numbers(5)},
            [("y", FLOAT, ["a0"]), ("z", FLOAT, ["b0", "b1"]), ("w", FLOAT, ["c0"])],
        ),
        (
            "CopyTensorArrayCombined",
            1,
            {"a": numbers(15), "b": numbers(2, 3)},
            [("y", FLOAT, ["a0"]), ("z", FLOAT, ["b0", "b1"])],
        ),
    ],
)
def test_operators(samples, tmp_path, operator, version, feed, outputs):
    nodes = [helper.make_node(operator, list(feed), [name for name, _, _ in outputs], domain=DOMAIN)]
    check_nodes(nodes, version, feed, outputs, samples, tmp_path)


def test_two_in_a_row(samples, tmp_path):
    nodes = [
        helper.make_node("CustomOpOne", ["a", "b"], ["c"], domain=DOMAIN),
        helper.make_node("CustomOpTwo", ["c"], ["y"], domain=DOMAIN),
    ]
    check_nodes(nodes, 1, {"a": numbers(3, 5), "b": numbers(3, 5)}, [("y", INT32, ["m", "k"])], samples, tmp_path)


def test_attributes_that_shape_rules_read(samples, tmp_path):
    attributes = {"a_int": 1, "a_float": 2.0, "ints": [3, 4, 5], "floats": [6.0, 7.0, 8.0]}
    texts = {"a_string": "iamastring", "strings": ["more", "strings"]}
    nodes = [
        helper.make_node("AttrTesterIntFloat", ["x"], ["t"], domain=DOMAIN, **attributes),
        helper.make_node("AttrTesterString", ["t"], ["y"], domain=DOMAIN, **texts),
    ]
    path = model_of(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["d"])], [("y", FLOAT, ["d"])], [DOMAIN])
    check(path, samples, {"x": numbers(4)}, tmp_path)


@pytest.fixture(scope="module")
def gemm(tmp_path_factory):
    names = ["custom_op_local_function.cc", "dummy_gemm.cc"]
    return compiled(DATA / "custom_op_local_function", names, tmp_path_factory.mktemp("gemm") / "liblocal.so")


GEMM = {"transB": 0, "alpha": 1.0, "beta": 0.0, "rowMajor": 0, "fastAccumulationMode": 1}
GEMM |= {"computeType": "CUBLAS_COMPUTE_32F", "dtype": 1, "activation": "DEFAULT"}
GEMM_DOMAIN = "onnx_extented.ortops.tutorial.cpu"


@pytest.mark.parametrize("transposed", [0, 1])
def test_the_operator_of_that_function(gemm, tmp_path, transposed):
    node = helper.make_node("CustomGemmFloat", ["a", "b"], ["y"], domain=GEMM_DOMAIN, transA=transposed, **GEMM)
    check_nodes([node], 1, {"a": numbers(4, 4), "b": numbers(4, 4)}, [("y", FLOAT, ["m", "k"])], gemm, tmp_path)


def test_a_function_of_a_model_calls_it(gemm, tmp_path):
    """As its model custom_ops_type_inference_fails_0 does: nothing infers types through the call."""
    body = [
        helper.make_node("Transpose", ["a"], ["t"], perm=[1, 0]),
        helper.make_node("CustomGemmFloat", ["t", "b"], ["p"], domain=GEMM_DOMAIN, transA=0, **GEMM),
        helper.make_node("Add", ["p", "p"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(GEMM_DOMAIN, 1), helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "Product", ["a", "b"], ["y"], body, opsets[:2])
    info = [helper.make_tensor_value_info(name, FLOAT, [4, 4]) for name in "aby"]
    call = helper.make_node("Product", ["a", "b"], ["y"], domain="local")
    graph = helper.make_graph([call], "g", info[:2], info[2:])
    path = tmp_path / "function.onnx"
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8), path)
    check(path, gemm, {"a": numbers(4, 4), "b": numbers(4, 4)}, tmp_path)


@pytest.mark.parametrize("last, says", [(4, "it computed no output 0"), (5, "wrong value")])
def test_its_library_that_reads_constants(tmp_path, last, says):
    """The kernel looks at its constant when it is made, and computes nothing."""
    folder = DATA / "custom_op_get_const_input_test_library"
    library = compiled(folder, ["custom_op.cc", "custom_op_lib.cc"], tmp_path / "libconstant.so")
    path, operator = tmp_path / "m.onnx", "custom op"
    node = helper.make_node(operator, ["x", "w"], ["y"], domain=DOMAIN)
    info = [helper.make_tensor_value_info(name, FLOAT, [4]) for name in "xy"]
    constant = onnx.numpy_helper.from_array(np.array([1, 2, 3, last], np.float32), "w")
    graph = helper.make_graph([node], "g", info[:1], info[1:], [constant])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    done = camshaft("build", path, "-o", tmp_path / "e", "--ort-custom-ops", library, check=False)
    assert done.returncode != 0 and says in done.stderr and operator in done.stderr, done.stderr


def test_its_invalid_library(tmp_path):
    library = compiled(DATA / "custom_op_invalid_library", ["custom_op_library.cc"], tmp_path / "libinvalid.so")
    done = camshaft("build", "absent.onnx", "-o", tmp_path / "e", "--ort-custom-ops", library, check=False)
    assert done.returncode != 0 and "Failure from custom op library's RegisterCustomOps()" in done.stderr
