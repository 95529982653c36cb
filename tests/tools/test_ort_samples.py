"""ONNX Runtime's own samples of custom operators, compiled with its headers. No package of Debian or PyPI has these:
CAMSHAFT_ORT_SOURCES=FOLDER names a checkout of ONNX Runtime. Without it test_ort_custom_ops.py has the like."""

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
    includes = [f"-I{path}" for path in (session, ROOT / "include/onnxruntime", ROOT / "onnxruntime", folder)]
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


@pytest.mark.parametrize(
    "name, shape",
    [
        ("custom_op_test", (3, 5)),
        ("copy_2_inputs_2_outputs", (15,)),
        ("copy_3_inputs_3_outputs", (15,)),
        ("attr_tester", (4,)),
    ],
)
def test_models_of_its_own(samples, tmp_path, name, shape):
    path = DATA / "custom_op_library" / f"{name}.onnx"
    check(path, samples, {i.name: numbers(*shape) for i in onnx.load(path).graph.input}, tmp_path)


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
    ],
)
def test_operators(samples, tmp_path, operator, version, feed, outputs):
    kinds = {np.dtype(np.float32): FLOAT, np.dtype(np.int32): INT32}
    inputs = [(name, kinds[x.dtype], [f"{name}{axis}" for axis in range(x.ndim)]) for name, x in feed.items()]
    nodes = [helper.make_node(operator, list(feed), [name for name, _, _ in outputs], domain=DOMAIN)]
    path = model_of(tmp_path / "m.onnx", nodes, inputs, outputs, [DOMAIN])
    model = onnx.load(path)
    model.opset_import[1].version = version
    onnx.save(model, path)
    check(path, samples, feed, tmp_path)


def test_a_local_function_that_calls_one(tmp_path):
    folder = DATA / "custom_op_local_function"
    library = compiled(folder, ["custom_op_local_function.cc", "dummy_gemm.cc"], tmp_path / "liblocal.so")
    path = folder / "custom_ops_type_inference_fails_0.onnx"
    feed = {
        i.name: numbers(*[d.dim_value or 4 for d in i.type.tensor_type.shape.dim]) for i in onnx.load(path).graph.input
    }
    check(path, library, feed, tmp_path)


def test_its_invalid_library(tmp_path):
    library = compiled(DATA / "custom_op_invalid_library", ["custom_op_library.cc"], tmp_path / "libinvalid.so")
    done = camshaft("build", "absent.onnx", "-o", tmp_path / "e", "--ort-custom-ops", library, check=False)
    assert done.returncode != 0 and "Failure from custom op library's RegisterCustomOps()" in done.stderr
