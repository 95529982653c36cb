"""The job that measures runtimes beside each other."""

import contextlib
import importlib
import struct
import sys
import types
import xml.etree.ElementTree

import numpy as np
import pytest
from test_build import make_network
from test_jobs import report_of
from test_module import module

import onnx
from onnx import TensorProto, helper

jobs = importlib.import_module("camshaft.jobs")
_benchmark = importlib.import_module("camshaft.jobs._benchmark")
_measure = importlib.import_module("camshaft.jobs._measure")
LISTS = {"batches": [1, 4], "dynamic_batches": [1, 2, 4], "streams": [1, 2], "measure_seconds": 0.05, "threads": 2}


@pytest.fixture
def model(tmp_path):
    return make_network(tmp_path / "m.onnx", width=16)


def test_a_study(model, tmp_path):
    module.build(model, tmp_path / "old.engine", shapes={"x": (4, 3, 16, 16)})
    report = jobs.benchmark(
        onnx_path=model,
        engines=[tmp_path / "old.engine"],
        runtimes=["camshaft", "onnxruntime", "pytorch"],
        report_path=tmp_path / "r.json",
        **LISTS,
    )
    assert report_of(tmp_path / "r.json")["performance"] == report["performance"]
    found = {(c["study"], c["batch"], c["streams"], c["runtime"]): c for c in report["performance"]["cases"]}
    places = (
        [("static", b, 1) for b in (1, 4)]
        + [("dynamic", b, 1) for b in (1, 2, 4)]
        + [("streams", 1, s) for s in (1, 2)]
    )
    assert set(found) == {(*place, name) for place in places for name in ("Camshaft", "ONNX Runtime")} | {
        (study, 4, 1, "old.engine") for study in ("static", "dynamic")
    }
    for case in found.values():
        assert 0 < case["min_ms"] <= case["p50_ms"] <= case["p90_ms"] <= case["p99_ms"]
        assert case["error"] is not None and case["error"] < 1e-4
    left_out = {item["runtime"]: item["reason"] for item in report["performance"]["not_measured"]}
    assert "torch_path" in left_out["PyTorch"] and "does not fit" in left_out["old.engine"]


def test_the_table_says_how_many_times_as_long_others_take():
    def case(study, runtime, p50, error=0.0):
        figures = dict.fromkeys(("min_ms", "p90_ms", "p99_ms"), 9.0)
        return {
            **{"study": study, "batch": 4, "streams": 1, "runtime": runtime, "error": error},
            **{**figures, "p50_ms": p50, "per_second": 1.0},
        }

    cases = [case("static", "Camshaft", 2.0), case("static", "ONNX Runtime", 5.0, 1e-6)]
    cases += [
        case("dynamic", "Camshaft", 4.0),
        case("dynamic", "ONNX Runtime", 5.0, None),
        case("streams", "OpenVINO", 3.0),
    ]
    left_out = [{"runtime": "PyTorch", "reason": "it is not installed"}]
    lines = _benchmark.table({"performance": {"cases": cases, "not_measured": left_out}}).splitlines()
    assert lines[0].split()[-2:] == ["times", "error"]
    assert [line.split("1.0", 1)[1].split() for line in lines[1:6]] == [
        [],
        ["2.50", "1.0e-06"],
        [],
        ["1.25", "differs"],
        ["0.0e+00"],
    ]
    assert lines[6] == "not measured: PyTorch: it is not installed"


def test_a_rival_that_is_not_installed_is_said(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "openvino", None)
    report = jobs.benchmark(onnx_path=model, measure_seconds=0.02, report_path=tmp_path / "r.json")
    left_out = {item["runtime"]: item["reason"] for item in report["performance"]["not_measured"]}
    assert "not installed" in left_out["ONNX Runtime"] and "not installed" in left_out["OpenVINO"]
    assert {case["runtime"] for case in report["performance"]["cases"]} == {"Camshaft"}
    with pytest.raises(module.InvalidArgumentError, match="nothing to measure: ONNX Runtime: it is not installed"):
        jobs.benchmark(onnx_path=model, runtimes=["onnxruntime"], report_path=tmp_path / "r.json")


def test_pytorch_by_a_stand_in(model, tmp_path, monkeypatch):
    """What is asked of PyTorch, where it is not installed: its answers are those of an engine."""
    engine = module.build(model)

    class Tensor:
        def __init__(self, array):
            self.array = array

        def numpy(self):
            return self.array

    torch = types.ModuleType("torch")
    torch.from_numpy, torch.set_num_threads, torch.inference_mode = Tensor, lambda count: None, contextlib.nullcontext
    network = types.SimpleNamespace(eval=lambda: lambda x: Tensor(engine(x.array)))
    torch.jit = types.SimpleNamespace(load=lambda path: network)
    monkeypatch.setitem(sys.modules, "torch", torch)
    keys = {"onnx_path": model, "runtimes": ["camshaft", "pytorch"], "measure_seconds": 0.02}
    with pytest.raises(module.FileError, match="absent.pt: the model for PyTorch is not there"):
        jobs.benchmark(torch_path="absent.pt", report_path=tmp_path / "r.json", **keys)
    (tmp_path / "m.pt").write_bytes(b"")
    report = jobs.benchmark(torch_path=tmp_path / "m.pt", report_path=tmp_path / "r.json", **keys)
    ours, theirs = report["performance"]["cases"]
    assert theirs["runtime"] == "PyTorch" and theirs["error"] < 1e-5 and theirs["runs"] > 0


def test_openvino_by_a_stand_in(model, tmp_path, monkeypatch):
    """It is timed without the copies that it makes by default, as the others are."""
    engine, asked = module.build(model), []

    class Request:
        def infer(self, inputs, **how):
            asked.append(how)
            return list(engine(*inputs.values()) if len(outputs) > 1 else [engine(*inputs.values())])

    outputs = [
        types.SimpleNamespace(get_any_name=lambda name=output.name: name) for output in onnx.load(model).graph.output
    ]
    network = types.SimpleNamespace(outputs=outputs, reshape=lambda shapes: None)
    compiled = types.SimpleNamespace(create_infer_request=Request)
    core = types.SimpleNamespace(read_model=lambda path: network, compile_model=lambda *how: compiled)
    openvino = types.ModuleType("openvino")
    openvino.Core = lambda: core
    monkeypatch.setitem(sys.modules, "openvino", openvino)
    keys = {"onnx_path": model, "runtimes": ["camshaft", "openvino"], "measure_seconds": 0.02}
    report = jobs.benchmark(report_path=tmp_path / "r.json", **keys)
    ours, theirs = report["performance"]["cases"]
    assert theirs["runtime"] == "OpenVINO" and theirs["error"] < 1e-5
    assert asked and all(how == {"share_inputs": True, "share_outputs": True} for how in asked)


def test_wrong_outputs_are_seen(tmp_path):
    """An engine of another model of the same inputs and outputs."""
    right, wrong = (make_network(tmp_path / f"{name}.onnx", width=8) for name in ("right", "wrong"))
    changed = onnx.load(wrong)
    weights = onnx.numpy_helper.to_array(changed.graph.initializer[2]).copy()
    weights[0] *= -1
    changed.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(weights, "w2"))
    onnx.save(changed, wrong)
    module.build(wrong, tmp_path / "wrong.engine")
    report = jobs.benchmark(
        onnx_path=right,
        engines=[tmp_path / "wrong.engine"],
        runtimes=["camshaft"],
        measure_seconds=0.02,
        report_path=tmp_path / "r.json",
    )
    assert report["performance"]["cases"][1]["error"] > 0.05 and report["accuracy"]["worst_error"] > 0.05


@pytest.mark.parametrize(
    "got, want, error",
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([1.0, np.nan], [1.0, np.nan], 0),
        ([1, 3], [1, 2], np.inf),
        ([1.0], [1.0, 2.0], np.inf),
        ([], [], 0),
        ([0.1], [0.0], np.inf),
    ],
)
def test_errors(got, want, error):
    assert _measure.worst_error({"y": np.array(got)}, {"y": np.array(want)}) == error
    assert _measure.worst_error({}, {"y": np.array([1.0])}) == np.inf


def test_two_inputs_share_their_batch(tmp_path):
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "k"]) for n in ("a", "b")]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])], "g", infos, [helper.make_tensor_value_info("y", 1, ["n", "k"])]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    keys = {"onnx_path": tmp_path / "m.onnx", "report_path": tmp_path / "r.json", "measure_seconds": 0.02}
    with pytest.raises(
        module.InvalidArgumentError, match=r"sizes of input 'a' \(f32\[n, k\]\) are open: give opt_shape"
    ):
        jobs.benchmark(batches=[2], **keys)
    with pytest.raises(module.InvalidArgumentError, match="of one input, and the model has 2: a, b"):
        jobs.benchmark(opt_shape=[1, 5], **keys)
    report = jobs.benchmark(batches=[2, 3], opt_shape={"a": [1, 5], "b": [1, 5]}, runtimes=["camshaft"], **keys)
    assert [case["batch"] for case in report["performance"]["cases"]] == [2, 3]
    np.savez(tmp_path / "in.npz", a=np.ones((7, 5), np.float32), b=np.ones((7, 5), np.float32))
    report = jobs.benchmark(inputs=tmp_path / "in.npz", runtimes=["camshaft"], **keys)
    assert [case["batch"] for case in report["performance"]["cases"]] == [7]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture(model, tmp_path, ending):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"b.{ending}"
    report = jobs.benchmark(onnx_path=model, runtimes=["camshaft", "onnxruntime"], plot_path=path, **LISTS)
    assert report["artifacts"] == [{"kind": "plot", "path": str(path), "bytes": path.stat().st_size}]
    data = path.read_bytes()
    if ending == "png":
        width, height = struct.unpack(">II", data[16:24])
        assert width > 1500 and height > 800
    else:
        text = "".join(xml.etree.ElementTree.fromstring(data).itertext())
        for word in ("Camshaft", "ONNX Runtime", "An engine for each batch", "One engine for all batches", "streams"):
            assert word in text
