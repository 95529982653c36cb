"""--bf16 on the CPU: products of rounded operands where the machine multiplies them, and what is said where not."""

import json

import numpy as np
import pytest
from camshaft_cli import camshaft

import onnx
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture(scope="module")
def has_bf16():
    cpu = json.loads(camshaft("devices", "--json").stdout)[0]
    return "avx512_bf16" in cpu["features"] and cpu["isa"] == "avx512"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A convolution that gains from pairs, a product, and a softmax."""
    random = np.random.default_rng(0)

    def weights(name, *shape):
        return numpy_helper.from_array(random.standard_normal(shape, np.float32) / 16, name)

    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[0, 0, 0, 0]),
            helper.make_node("Flatten", ["c"], ["f"]),
            helper.make_node("MatMul", ["f", "m"], ["p"]),
            helper.make_node("Softmax", ["p"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 256, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 300])],
        [weights("w", 256, 256, 1, 1), weights("m", 256 * 36, 300)],
    )
    path = tmp_path_factory.mktemp("bf16") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_products_round_where_the_machine_gains(model, tmp_path, has_bf16):
    engine, lock = tmp_path / "e.engine", tmp_path / "lock"
    done = camshaft("build", model, "-o", engine, "--bf16", "--tuning", "heuristic", "--write-lock", lock)
    assert "passed" in done.stdout
    text = lock.read_text()
    explained = camshaft("inspect", engine).stdout + camshaft("inspect", engine, "--explain").stdout
    if has_bf16:
        assert "conv_bf16" in text and "gemm_bf16" in text
        assert "fp32, bf16" in explained and "gemm_bf16" in explained
        # The same again from the lock file, byte by byte.
        camshaft("build", model, "-o", tmp_path / "f.engine", "--bf16", "--lock", lock)
        assert (tmp_path / "f.engine").read_bytes() == engine.read_bytes()
        exact = tmp_path / "exact.engine"
        camshaft("build", model, "-o", exact, "--tuning", "heuristic")
        assert engine.stat().st_size < 0.6 * exact.stat().st_size
    else:
        assert "no kernels that are faster in bf16" in done.stderr
        assert "bf16" not in text and "bf16" not in explained


def test_attention_rounds_where_the_machine_gains(tmp_path, has_bf16):
    shape = [1, 4, 64, 32]
    graph = helper.make_graph(
        [
            helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "t"], ["s"]),
            helper.make_node("Softmax", ["s"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "v"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "qkv"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    path, lock = tmp_path / "m.onnx", tmp_path / "lock"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    done = camshaft("build", path, "-o", tmp_path / "e.engine", "--bf16", "--tuning", "heuristic", "--write-lock", lock)
    assert "passed" in done.stdout
    assert ("attention_bf16" in lock.read_text()) == has_bf16


def test_without_the_option_nothing_is_rounded(model, tmp_path):
    lock = tmp_path / "lock"
    camshaft("build", model, "-o", tmp_path / "e.engine", "--tuning", "heuristic", "--write-lock", lock)
    assert "bf16" not in lock.read_text()
