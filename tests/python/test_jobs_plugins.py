"""Jobs of models whose operators plugins bring."""

import importlib
import json

import numpy as np
import pytest
from test_jobs import command
from test_module import module

import onnx
from onnx import TensorProto, helper

jobs = importlib.import_module("camshaft.jobs")
SCALED = "jobs::Scaled(x, by = 3) = by * x"


@pytest.fixture
def model(tmp_path):
    """y = 2x, by an operator of the domain `jobs`."""
    graph = helper.make_graph(
        [helper.make_node("Scaled", ["x"], ["y"], domain="jobs", by=2.0)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("jobs", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_job_loads_plugins(model, tmp_path):
    (tmp_path / "job.json").write_text(
        json.dumps({"onnx_path": str(model), "opt_shape": [2, 4], "plugin": [SCALED], "measure_seconds": 0})
    )
    done = command("job", tmp_path / "job.json")
    assert done.returncode == 0, done.stderr
    done = command("convert", model, "--opt-shape", "2x4", "--plugin", SCALED, "--measure-seconds", "0")
    assert done.returncode == 0, done.stderr
    jobs.convert(onnx_path=model, opt_shape=[2, 4], plugin=SCALED, measure_seconds=0)
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(module.Engine(tmp_path / "m.engine")(x), 2 * x)


def test_without_its_plugin_a_job_says_which_operator_is_missing(model):
    done = command("convert", model, "--opt-shape", "2x4")
    assert done.returncode == 3 and "Scaled" in done.stderr


def test_runtimes_that_do_not_know_the_operator_are_left_out(model, tmp_path):
    keys = {"opt_shape": [2, 4], "plugin": SCALED, "runtimes": ["camshaft", "onnxruntime"], "measure_seconds": 0.01}
    report = jobs.benchmark(onnx_path=model, report_path=tmp_path / "r.json", **keys)
    left_out = {item["runtime"]: item["reason"] for item in report["performance"]["not_measured"]}
    assert "Scaled" in left_out["ONNX Runtime"] and "Camshaft" not in left_out


def test_what_is_no_plugin_is_named(model, tmp_path):
    for key in "plugin", "ort_custom_ops":
        with pytest.raises(module.Error, match="absent.so"):
            jobs.convert(onnx_path=model, opt_shape=[2, 4], **{key: str(tmp_path / "absent.so")})
    with pytest.raises(jobs.JobError, match="plugin.* must be a path, an operator as text, or a list"):
        jobs.convert(onnx_path=model, report_path=tmp_path / "r.json", plugin=3)
