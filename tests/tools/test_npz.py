"""Arrays as NumPy writes them reach a model, and its outputs reach NumPy, in every dtype."""

import camshaft_cli
import ml_dtypes
import numpy as np
import pytest
from camshaft_cli import camshaft

import onnx
from onnx import TensorProto, helper

NUMPY = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]


def identity(path, element):
    """A model that copies `a` of any length."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["y"], name="copy")],
        "g",
        [helper.make_tensor_value_info("a", element, ["n"])],
        [helper.make_tensor_value_info("y", element, ["n"])],
    )
    opset = 23 if element in (TensorProto.INT4, TensorProto.UINT4) else 17
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def element_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@pytest.mark.parametrize("dtype", [*NUMPY, "bool"])
def test_every_dtype_of_numpy(dtype, tmp_path):
    a = np.array([0, 1, 1, 3, 100], dtype)
    y = camshaft_cli.run(identity(tmp_path / "m.onnx", element_type(dtype)), {"a": a})["y"]
    assert y.dtype == a.dtype and np.array_equal(y, a)


def test_strings(tmp_path):
    words = ["", "plain", "Füße", "猫", "\N{CAT}"]
    model = identity(tmp_path / "m.onnx", TensorProto.STRING)
    assert camshaft_cli.run(model, {"a": np.array(words)})["y"].tolist() == words


def test_bfloat16_is_exchanged_as_float32(tmp_path):
    model = identity(tmp_path / "m.onnx", TensorProto.BFLOAT16)
    a = np.array([1, -2.5, 3e38, np.inf], ml_dtypes.bfloat16)
    for form in (a, a.astype(np.float32)):
        y = camshaft_cli.run(model, {"a": form})["y"]
        assert y.dtype == np.float32 and np.array_equal(y, a.astype(np.float32))


def test_orders_of_elements(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", "m", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m", 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for form in (a, np.asfortranarray(a), a[::-1, :, :]):
        assert np.array_equal(camshaft_cli.run(tmp_path / "m.onnx", {"a": form})["y"], form)


@pytest.mark.parametrize("bad", [np.zeros(3, ">f4"), np.zeros(3, "c8"), np.zeros(3, [("x", "f4")])], ids=str)
def test_arrays_that_no_tensor_holds(bad, tmp_path):
    model = identity(tmp_path / "m.onnx", TensorProto.FLOAT)
    np.savez(tmp_path / "in.npz", a=bad)
    done = camshaft("run", model, "--inputs", tmp_path / "in.npz", check=False)
    assert done.returncode == 5 and "in.npz" in done.stderr and "'a'" in done.stderr


def test_names_in_any_script(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Neg", ["größe"], ["出力"])],
        "g",
        [helper.make_tensor_value_info("größe", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("出力", TensorProto.FLOAT, ["n"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    outputs = camshaft_cli.run(tmp_path / "m.onnx", {"größe": np.arange(3, dtype=np.float32)})
    assert list(outputs) == ["出力"] and outputs["出力"].tolist() == [0, -1, -2]


def test_a_model_without_inputs(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Neg", ["w"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    camshaft("build", tmp_path / "m.onnx", "-o", tmp_path / "m.engine")
    assert camshaft_cli.run(tmp_path / "m.engine", {})["y"].tolist() == [-1, -2]


def test_an_empty_batch_is_a_batch(engine):
    (y,) = camshaft_cli.run(engine, {"x": np.zeros((0, 3, 48, 192), np.float32)}).values()
    assert y.shape == (0, 2)
