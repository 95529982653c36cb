"""What the tests of the wheel share."""

import subprocess

import pytest
from camshaft_cli import ROOT

import onnx
from onnx import TensorProto, helper


@pytest.fixture(scope="session")
def wheel():
    done = subprocess.run([ROOT / "scripts/wheel.sh"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (made,) = (ROOT / "dist").glob("camshaft-*.whl")
    return made


@pytest.fixture
def model(tmp_path):
    """y = relu(x * [3, 1, 0.5]), in a folder of its own."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [3, 1, 0.5])],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
