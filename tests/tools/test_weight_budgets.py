"""The option --weight-budget of commands, and what trtexec makes of its flag."""

import json
import os
import subprocess

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft

import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH = 24, 256
EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    random = np.random.default_rng(2)
    nodes, weights, value = [], [], "x"
    for i in range(LAYERS):
        array = (random.standard_normal((WIDTH, WIDTH)) / 16).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{i}"))
        nodes += [
            helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], name=f"product_{i}"),
            helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]),
        ]
        value = f"t{i}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["n", WIDTH])],
        weights,
    )
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    camshaft("build", path, "--no-verify", "--tuning", "heuristic")
    return path


def outputs(tmp_path, *arguments):
    camshaft("run", *arguments, "--outputs", tmp_path / "out.npz", "--quiet")
    return dict(np.load(tmp_path / "out.npz"))


@pytest.mark.parametrize("kind", [".onnx", ".engine"])
def test_run(model, tmp_path, kind):
    path = model.with_suffix(kind)
    expected = outputs(tmp_path, path)
    for budget in ("30%", "3MB", "auto", "none"):
        got = outputs(tmp_path, path, "--weight-budget", budget)
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array)


def test_bench_says_what_came_in(model):
    engine = model.with_suffix(".engine")
    arguments = ["bench", engine, "--iterations", "5", "--weight-budget", "50%"]
    streaming = json.loads(camshaft(*arguments, "--json").stdout)["weight_streaming"]
    assert 0 < streaming["loads_bytes"] < streaming["weight_bytes"]
    assert streaming["brought_bytes"] >= 5 * streaming["loads_bytes"]
    text = camshaft(*arguments).stdout
    assert "streaming   budget" in text and "waited" in text
    assert "streaming" not in camshaft("bench", engine, "--iterations", "5").stdout


def test_inspect_shows_when_weights_are_needed(model):
    engine = model.with_suffix(".engine")
    text = camshaft("inspect", engine, "--weights", "--weight-budget", "40%").stdout
    lines = [line for line in text.splitlines() if " w" in line and "[" in line]
    assert len(lines) == LAYERS
    assert [line.split("[")[0].split()[-1] for line in lines] == [f"w{i}" for i in range(LAYERS)]
    record = json.loads(camshaft("inspect", engine, "--json").stdout)
    assert record["weight_streaming"]["budget"] == -1
    read = [weight["name"] for layer in record["layers"] for weight in layer["weights"]]
    assert read == [f"w{i}" for i in range(LAYERS)]


def on_gpu(*arguments, check=True):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    command = [str(word) for word in (ROOT / "scripts/emulate_gpu.sh", BINARY, *arguments)]
    environment = {**os.environ, "CAMSHAFT_BUILD": str(BINARY.parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert not check or done.returncode == 0, done.stderr
    return done


def test_on_an_emulated_gpu(model, tmp_path):
    engine, out = tmp_path / "gpu.engine", tmp_path / "out.npz"
    on_gpu("build", model, "-o", engine, "--device", "cuda", "--no-verify", "--tuning", "heuristic")
    arrays = []
    for budget in ("none", "40%", "auto"):
        on_gpu("run", engine, "--weight-budget", budget, "--outputs", out, "--quiet")
        arrays.append(dict(np.load(out)))
    for name, array in arrays[0].items():
        for other in arrays[1:]:
            np.testing.assert_array_equal(other[name], array)
    streamed = ["bench", engine, "--iterations", "5", "--weight-budget", "50%"]
    record = json.loads(on_gpu(*streamed, "--json").stdout)
    streaming = record["weight_streaming"]
    assert 0 < streaming["loads_bytes"] < streaming["weight_bytes"] and "waited_ms_per_run" not in record
    assert streaming["brought_bytes"] >= 5 * streaming["loads_bytes"]
    text = on_gpu(*streamed).stdout
    assert "streaming   budget" in text and "waited" not in text
    small = on_gpu("run", engine, "--weight-budget", "1000", check=False)
    assert small.returncode == 2 and "too small" in small.stderr and "or more" in small.stderr
    short = ["--iterations=2", "--duration=0", "--warmUp=0"]
    for budget in ("50%", "-1"):
        text = on_gpu("trtexec", f"--loadEngine={engine}", f"--weightStreamingBudget={budget}", *short).stdout
        assert "PASSED" in text


def test_budgets_that_cannot_be(model):
    engine = model.with_suffix(".engine")
    wrong = camshaft("run", engine, "--weight-budget", "much", check=False)
    assert wrong.returncode != 0 and "the weight budget cannot be 'much'" in wrong.stderr
    small = camshaft("run", engine, "--weight-budget", "1000", check=False)
    assert small.returncode == 2 and "too small" in small.stderr and "or more" in small.stderr


def test_trtexec(model):
    engine = model.with_suffix(".engine")
    short = ["--iterations=2", "--duration=0", "--warmUp=0"]
    for budget in ("50%", "4M", "-1", "-2"):
        text = camshaft("trtexec", f"--loadEngine={engine}", f"--weightStreamingBudget={budget}", *short).stdout
        assert "PASSED" in text
    text = camshaft(
        "trtexec", f"--onnx={model}", "--cpuOnly", "--allowWeightStreaming", "--weightStreamingBudget=50%", *short
    ).stdout
    assert "PASSED" in text
    failed = camshaft("trtexec", f"--loadEngine={engine}", "--weightStreamingBudget=-3", *short, check=False)
    assert failed.returncode == 1 and "-1 or -2 are possible" in failed.stderr
