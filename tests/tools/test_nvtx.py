"""The ranges that a profiler sees, told to one that writes them down (tests/nvtx/listener.cpp)."""

import os
import subprocess

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT

import onnx
from onnx import TensorProto, helper, numpy_helper

BUILD = BINARY.parent.parent
LISTENER = BUILD / "tests/libnvtx_listener.so"
EMULATOR = BUILD / "tests/backends/cuda/emulator/lib/libcuda.so.1"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    weights = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
            helper.make_node("Softmax", ["m"], ["s"], name="probabilities"),
            helper.make_node("ReduceSum", ["s"], ["y"], name="total", keepdims=1),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path_factory.mktemp("nvtx") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def ranges(model, tmp_path, device, listener=LISTENER, **environment):
    """Of five runs of an engine."""
    if not LISTENER.exists() or not EMULATOR.exists():
        pytest.skip("the listener or the emulated GPU was not built")
    engine, written = tmp_path / f"{device}.engine", tmp_path / "ranges"
    tool = [BINARY] if device == "cpu" else [ROOT / "scripts/emulate_gpu.sh", BINARY]
    variables = os.environ | {"CAMSHAFT_BUILD": str(BUILD)}
    build = [*tool, "build", model, "-o", engine, "--device", device, "--tuning", "heuristic", "--no-verify"]
    subprocess.run(build, env=variables, check=True, capture_output=True, timeout=300)
    variables |= {"NVTX_INJECTION64_PATH": str(listener), "NVTX_LISTENER_OUTPUT": str(written)} | environment
    bench = [*tool, "bench", engine, "--warmup", "0", "--iterations", "5", "--threads", "1"]
    done = subprocess.run(bench, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return written.read_text().splitlines() if written.exists() else None


def test_layers_of_the_host(model, tmp_path):
    lines = ranges(model, tmp_path, "cpu")
    assert lines.count("camshaft: run") >= 5
    layers = lines[1 : lines.index("camshaft: run", 1)]
    assert len(layers) >= 3
    assert all(line.startswith("  camshaft: ") for line in layers)
    assert [line.split(":")[1].split()[0] for line in layers[:3]] == ["product", "probabilities", "total"]
    assert all("[" in line for line in layers)


def test_layers_of_a_gpu(model, tmp_path):
    lines = ranges(model, tmp_path, "cuda")
    assert lines.count("camshaft: run") >= 5
    first = lines[1 : lines.index("camshaft: run", 1)]
    assert any("product [cuda_" in line for line in first)
    assert any("probabilities [cuda_softmax" in line for line in first)
    assert sum("  camshaft: recording" == line for line in lines) == 1  # what it records is inside
    assert any(line.startswith("    camshaft: product") for line in lines)
    last = lines[len(lines) - lines[::-1].index("camshaft: run") :]
    assert len(last) == 1  # small tensors come and go with it
    assert last[0].startswith("  camshaft: product")
    assert last[0].endswith(", recorded")


def test_layers_one_by_one(model, tmp_path):
    lines = ranges(model, tmp_path, "cuda", CAMSHAFT_TRACE="layers")
    runs = lines.count("camshaft: run")
    assert runs >= 5
    assert not any("record" in line for line in lines)
    assert sum("product [cuda_" in line for line in lines) == runs


@pytest.mark.parametrize("listener", ["/nowhere/libprofiler.so", "./.", EMULATOR])
def test_nothing_to_tell(model, tmp_path, listener):
    """No such file, what says that there is none, and a library that is no profiler."""
    assert ranges(model, tmp_path, "cpu", listener=listener) is None
