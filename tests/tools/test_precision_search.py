"""`quantize --metric`: the layers that cost the score stay in floating point, and no others."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import BINARY

import onnx
from onnx import TensorProto, helper, numpy_helper

# Scores an engine by how much of the outputs' power it keeps, in per cent, and notes each call.
METRIC = f"""
import subprocess, sys
import numpy as np
folder, engine = sys.argv[0].rsplit("/", 1)[0], sys.argv[1]
subprocess.run([{str(BINARY)!r}, "run", engine, "--inputs", folder + "/in.npz", "--outputs", folder + "/out.npz"],
               check=True, stdout=subprocess.DEVNULL)
exact, got = np.load(folder + "/exact.npz"), np.load(folder + "/out.npz")
left = [1 - np.linalg.norm(got[name] - exact[name]) / np.linalg.norm(exact[name]) for name in exact.files]
open(folder + "/calls", "a").write("x")
print("a warning that says nothing", file=sys.stderr)
print("the score is")
print(100 * float(np.mean(left)))
print()
"""


@pytest.fixture
def network(tmp_path):
    """Six products side by side. Columns of two of them have a weight that is 300 times the others, which reads zeros,
    so that 8 bits leave little of these."""
    rng = np.random.default_rng(3)
    weights, nodes = [], []
    for layer in range(6):
        w = rng.standard_normal((16, 8)).astype(np.float32)
        if layer in (1, 4):
            w[0] = 300
        weights.append(numpy_helper.from_array(w, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", ["x", f"w{layer}"], [f"y{layer}"], name=f"product{layer}"))
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "side by side",
        [helper.make_tensor_value_info("x", floats, [4, 16])],
        [helper.make_tensor_value_info(f"y{layer}", floats, [4, 8]) for layer in range(6)],
        weights,
    )
    path = tmp_path / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    data = rng.standard_normal((80, 16)).astype(np.float32)
    data[:, 0] = 0
    np.save(tmp_path / "data.npy", data)
    np.savez(tmp_path / "in.npz", x=data[:4])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    np.savez(tmp_path / "exact.npz", **dict(zip(names, session.run(None, {"x": data[:4]}), strict=True)))
    (tmp_path / "metric.py").write_text(METRIC)
    return path


def quantize(network, *options, metric=None):
    folder = network.parent
    command = [BINARY, "quantize", network, "--data", folder / "data.npy", "-o", folder / "out.onnx", "--json"]
    command += ["--metric", metric or folder / "metric.py", *options]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env={**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    )


def searched(network, *options, **more):
    done = quantize(network, *options, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_layers_that_cost_the_score_stay_in_floating_point(network):
    report = searched(network, "--max-drop", "1%")
    found = report["metric"]
    assert found["float_layers"] == 2
    assert {layer["layer"] for layer in found["sensitivity"][:2]} == {"product1", "product4"}
    errors = [layer["error"] for layer in found["sensitivity"]]
    assert errors == sorted(errors, reverse=True) and errors[1] > 10 * errors[2] > 0
    assert {layer["layer"] for layer in report["quantized_layers"] if not layer["quantized"]} == {
        "product1",
        "product4",
    }
    scores = {point["float_layers"]: point["score"] for point in found["points"]}
    assert scores[6] == pytest.approx(100, abs=1e-3)
    assert scores[2] >= 99 * scores[6] / 100 > scores[1] > scores[0]
    assert len((network.parent / "calls").read_text()) == len(scores), "each engine is judged once"
    assert all(point["seconds"] > 0 for point in found["points"])


def test_where_all_may_be_integers_nothing_is_looked_for(network):
    report = searched(network, "--max-drop", "100")
    assert report["metric"]["float_layers"] == 0
    assert [point["float_layers"] for point in report["metric"]["points"]] == [0, 6]
    assert all(layer["quantized"] for layer in report["quantized_layers"])


def test_a_score_that_may_not_drop_leaves_nothing_to_write(network):
    done = quantize(network, "--max-drop", "0")
    assert done.returncode == 2 and not (network.parent / "out.onnx").exists()
    assert "with any layer in int8 the score falls by more than 0: it is 100 in" in done.stderr, done.stderr


def test_a_command_is_run_by_the_shell(network):
    command = f"env NOTHING=1 '{sys.executable}' '{network.parent}/metric.py'"
    assert searched(network, "--max-drop", "1%", metric=command)["metric"]["float_layers"] == 2


def test_what_the_caller_keeps_is_no_candidate(network):
    report = searched(network, "--max-drop", "100", "--layer-precisions", "product3:fp32")
    assert report["metric"]["points"][-1]["float_layers"] == 5


@pytest.mark.parametrize("suffix", ["svg", "json"])
def test_the_curve_is_written(network, suffix):
    curve = network.parent / f"curve.{suffix}"
    found = searched(network, "--max-drop", "1%", "--curve", curve)["metric"]
    if suffix == "json":
        assert json.loads(curve.read_text()) == found
        return
    picture = xml.etree.ElementTree.parse(curve).getroot()
    points = picture.findall("{http://www.w3.org/2000/svg}circle")
    assert len(points) == len(found["points"])
    width, height = float(picture.get("width")), float(picture.get("height"))
    assert all(0 < float(point.get("cx")) < width and 0 < float(point.get("cy")) < height for point in points)
    assert sum(point.get("fill") != "white" for point in points) == 1


@pytest.mark.parametrize(
    ("options", "metric", "said"),
    [
        ((), "echo 3; exit 7; #", "failed with status 7"),
        ((), "echo too bad >&2; false #", "failed with status 1: too bad"),
        (
            (),
            "echo nan #",
            "must end by printing a finite number, which is larger for a better engine; its last line is",
        ),
        ((), "true #", "its last line is ''"),
        ((), "nowhere.py", "failed with status 2"),
        (("--max-drop", "-1%"), "true", "--max-drop cannot be '-1%'"),
        (("--max-drop", "a little"), "true", "--max-drop cannot be 'a little'"),
        (("--curve", "curve.png"), "true", "--curve writes .svg or .json, and 'curve.png' is neither"),
        (("--curve", "/nowhere/curve.svg"), "true", "could not be created in /nowhere"),
    ],
)
def test_what_is_wrong_is_said(network, options, metric, said):
    done = quantize(network, *options, metric=metric)
    assert done.returncode in (2, 5) and said in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and not (network.parent / "out.onnx").exists()


def test_options_of_the_search_need_it(network):
    folder = Path(network).parent
    base = [BINARY, "quantize", network, "-o", folder / "out.onnx"]
    for more, said in (
        (["--data", folder / "data.npy", "--max-drop", "1%"], "--max-drop is for a search that --metric judges"),
        (["--data", folder / "data.npy", "--curve", "x.svg"], "--curve is for a search that --metric judges"),
        (["--calibration", "x", "--metric", "true"], "--metric needs --data"),
    ):
        done = subprocess.run(list(map(str, base + more)), capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr, done.stderr
