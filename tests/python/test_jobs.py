"""Jobs: what their files may say, what they make, and what their reports hold."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import jsonschema
import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT
from test_build import batches, make_network
from test_module import module

jobs = importlib.import_module("camshaft.jobs")
SHAPES = {"min_shape": [1, 3, 16, 16], "opt_shape": [2, 3, 16, 16], "max_shape": [4, 3, 16, 16]}


@pytest.fixture
def model(tmp_path):
    return make_network(tmp_path / "m.onnx", width=16)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for index, batch in enumerate(batches(4)):
        np.save(folder / f"{index}.npy", batch)
    return folder


def report_of(path):
    """A report, which is as its schema says."""
    report = json.loads(path.read_text())
    jsonschema.Draft202012Validator(jobs.schema("report")).validate(report)
    return report


def command(*arguments, **options):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable, **options.pop("env", {})}
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env=environment, **options)


def write_job(path, text, **values):
    path.write_text(text.format(**values))
    return path


def left(folder):
    """What half-written files would be."""
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_the_schemas_are_valid_and_published():
    for of, name in [("job", "job.schema.json"), ("report", "report.schema.json")]:
        jsonschema.Draft202012Validator.check_schema(jobs.schema(of))
        assert json.loads((ROOT / "docs" / name).read_text()) == jobs.schema(of)
    with pytest.raises(ValueError, match="job"):
        jobs.schema("jobs")


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_keys_of_tensorrt(model, tmp_path, ending):
    keys = {
        "onnx_path": str(model),
        "engine_path": str(tmp_path / "m.engine"),
        "fp16": True,
        "int8": False,
        "max_workspace_gb": 2,
        **SHAPES,
        "calibration_cache": str(tmp_path / "calibration.cache"),
    }
    text = json.dumps(keys) if ending == "json" else "".join(f"{key}: {json.dumps(keys[key])}\n" for key in keys)
    (tmp_path / f"job.{ending}").write_text(text)
    report = jobs.run(tmp_path / f"job.{ending}")
    written = report_of(tmp_path / "m.engine.report.json")
    assert {key: report[key] for key in written} == written
    assert report["status"] == "success" and report["operation"] == "convert"
    assert report["configuration"]["workspace_mb"] == 2048 and report["configuration"]["dynamic_shapes"]
    engine = module.Engine(tmp_path / "m.engine")
    assert engine.profiles == report["configuration"]["profiles"]
    assert engine.profiles == [{"x": {"min": [1, 3, 16, 16], "opt": [2, 3, 16, 16], "max": [4, 3, 16, 16]}}]
    assert report["accuracy"]["passed"] and report["accuracy"]["worst_error"] < 1e-4
    assert report["performance"]["measured"]["shapes"] == {"x": [2, 3, 16, 16]}
    assert report["performance"]["engine_size_mb"] == (tmp_path / "m.engine").stat().st_size / 2**20
    assert not left(tmp_path)


def test_what_was_optimised_is_counted(model, tmp_path):
    report = jobs.convert(onnx_path=model, engine_path=tmp_path / "m.engine", opt_shape=[1, 3, 16, 16])
    facts, layers = report["optimization"], module.Engine(tmp_path / "m.engine").layers()
    assert facts["nodes_before"] == 6 and facts["layer_fusions"] == 3  # a Relu in each convolution
    assert facts["layers"] == len(layers) == len(facts["tactics_selected"])
    in_kernels = sum("transpose" in layer["description"] for layer in layers)
    assert facts["reformats_eliminated"] + facts["reformats_left"] == in_kernels == 2  # to channels last, and back
    for tactic in facts["tactics_selected"]:
        assert tactic["measured_us"] is None or tactic["measured_us"] > 0
    times = [tactic["measured_us"] or tactic["estimated_us"] or 0 for tactic in facts["tactics_selected"]]
    assert report["performance"]["estimated_latency_ms"] == pytest.approx(sum(times) / 1e3)


def test_shapes_as_text_and_maps(model, tmp_path):
    for shape in ("1x3x16x16", {"x": [1, 3, 16, 16]}, {"x": "1x3x16x16"}, (1, 3, 16, 16)):
        report = jobs.convert(onnx_path=model, engine_path=tmp_path / "m.engine", opt_shape=shape, measure_seconds=0)
        assert report["configuration"]["profiles"] == [{"x": {k: [1, 3, 16, 16] for k in ("min", "opt", "max")}}]
        assert report["performance"]["measured"] is None and not report["configuration"]["dynamic_shapes"]
    with pytest.raises(module.InvalidArgumentError, match="no input 'X'; did you mean|no input 'X'; it has x"):
        jobs.convert(onnx_path=model, opt_shape={"X": [1, 3, 16, 16]}, min_shape=[1], max_shape=[1])
    with pytest.raises(module.InvalidArgumentError, match="must grow from min over opt to max"):
        jobs.convert(onnx_path=model, **{**SHAPES, "max_shape": [1, 3, 16, 16]})


@pytest.mark.parametrize(
    "text, complaints",
    [
        ("onnx_path: m\nfp_16: true\n", [":2: unknown key 'fp_16'; did you mean 'fp16'?"]),
        ("onnx_path: m\nOnnx-Path: true\n", [":2: unknown key 'Onnx-Path'; did you mean 'onnx_path'?"]),
        (
            "onnx_path: m\nfp16: 1\nint8: maybe\n",
            [":2: 'fp16' must be true or false, not 1", ":3: 'int8' must be true"],
        ),
        ("onnx_path: m\n\nmax_workspace_gb: four", [":3: 'max_workspace_gb' must be a number of GiB above 0"]),
        ("onnx_path: m\nopt_shape:\n  x: [1, a]\n", [":3: 'opt_shape.x' must be a list of sizes"]),
        ("onnx_path: m\nfp16: true\nfp16: false\n", [":3: the key 'fp16' is given twice"]),
        ("onnx_path: [m\nfp16: true", ["not YAML"]),
        ("- onnx_path: m", ["a job is a map of keys and values"]),
        ("", ["a job is a map of keys and values"]),
        ("fp16: true", ["convert needs the key 'onnx_path'"]),
        ("onnx_path: m\nmin_shape: [1]", ["min_shape alone: give min_shape, opt_shape and max_shape"]),
        ("onnx_path: m\noperation: conver", [":2: 'operation' must be convert, optimize, calibrate or benchmark"]),
        (
            "onnx_path: m\noperation: calibrate",
            ["needs the key 'calibration_data'", "needs the key 'calibration_cache'"],
        ),
        ("onnx_path: m\ntolerance: 1e-3x", [":2: 'tolerance' must be a number above 0"]),
        (
            "operation: conver\nonnx_path: m\nthread: 1\nfp16: 2\nbatches: 8",
            [":1: 'operation'", ":3: unknown key 'thread'", ":4: 'fp16'", ":5: 'batches'"],
        ),
    ],
)
def test_what_is_no_job(tmp_path, monkeypatch, text, complaints):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(jobs.JobError) as caught:
        jobs.run("job.yaml")
    said = str(caught.value)
    places = [said.find(complaint) for complaint in complaints]
    assert -1 not in places and places == sorted(places), said
    report = report_of(tmp_path / "job.report.json")
    assert report["status"] == "failed" and report["errors"][0]["message"] == str(caught.value)
    assert caught.value.job_report == report


def test_numbers_of_yaml(tmp_path, model):
    (tmp_path / "job.yaml").write_text(
        f"onnx_path: {model}\ntolerance: 1e-3\nverify: yes\nengine_path:\nopt_shape: 1x3x16x16\nmeasure_seconds: 0\n"
    )
    assert jobs.run(tmp_path / "job.yaml")["output_engine"] == str(model.with_suffix(".engine"))


@pytest.mark.parametrize(
    "keys, kind, message, code",
    [
        ({"onnx_path": "absent.onnx"}, module.FileError, "absent.onnx: the model is not there", "input/output error"),
        (
            {"build_options": {"tuning_secs": 1}},
            module.InvalidArgumentError,
            "did you mean 'tuning-seconds'",
            "invalid argument",
        ),
        ({"int8": True}, module.InvalidArgumentError, "int8 needs the ranges", "invalid argument"),
        (
            {"int8": True},
            module.InvalidArgumentError,
            "in a job calibration_cache or calibration_data",
            "invalid argument",
        ),
        (
            {"int8": True, "calibration_cache": "absent"},
            module.InvalidArgumentError,
            "calibration_cache 'absent' is not there",
            "invalid argument",
        ),
        ({"fp8": True}, module.InvalidArgumentError, "fp8 .* needs a GPU", "invalid argument"),
        ({"bf16": True, "tolerance": 1e-9}, module.VerificationError, "results differ", "verification failed"),
        ({"engine_path": "no/such/m.engine"}, module.FileError, "no folder", "input/output error"),
    ],
)
def test_failed_jobs_write_reports_and_nothing_else(model, tmp_path, monkeypatch, keys, kind, message, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.engine").write_bytes(b"what was there")
    job = {"onnx_path": "m.onnx", "opt_shape": [1, 3, 16, 16], "report_path": "r.json", **keys}
    with pytest.raises(kind, match=message):
        jobs.convert(**job)
    report = report_of(tmp_path / "r.json")
    assert report["status"] == "failed" and report["output_engine"] is None and report["artifacts"] == []
    assert report["errors"][0]["code"] == code and re.search(message, report["errors"][0]["message"])
    assert (tmp_path / "m.engine").read_bytes() == b"what was there" and not left(tmp_path)
    if kind is module.VerificationError:
        assert report["accuracy"]["passed"] is False


def test_a_missing_model_beside_the_job_is_named(model, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write_job(tmp_path / "job.yaml", "onnx_path: m.onnx\n")
    with pytest.raises(module.FileError, match=re.escape(f"there is {model}, beside the job")):
        jobs.run("../job.yaml")


def test_calibrate_and_int8(model, data, tmp_path):
    cache = tmp_path / "ranges"
    report = jobs.calibrate(
        onnx_path=model, calibration_data=data, calibration_cache=cache, calibration_method="minmax"
    )
    assert report["artifacts"] == [{"kind": "calibration", "path": str(cache), "bytes": cache.stat().st_size}]
    assert module.Calibration(cache).method == "minmax"
    report_of(tmp_path / "ranges.report.json")
    shape = {"opt_shape": [4, 3, 16, 16], "measure_seconds": 0.05}
    always = {"build_options": {"layer_precisions": ["*:int8"]}}  # whatever the clock says of this machine
    report = jobs.convert(
        onnx_path=model, engine_path=tmp_path / "a.engine", int8=True, calibration_cache=cache, **shape, **always
    )
    assert report["configuration"]["precision"] == ["fp32", "int8"]
    made = tmp_path / "made"  # of the data, as it is not there
    jobs.convert(
        onnx_path=model,
        engine_path=tmp_path / "b.engine",
        int8=True,
        calibration_cache=made,
        calibration_data=[str(data / "*.npy")],
        **shape,
    )
    assert module.Calibration(made).ranges
    (data / "broken.npy").write_bytes(b"no array")
    with pytest.raises(module.InvalidArgumentError, match=r"broken.npy: not a file of arrays"):
        jobs.calibrate(onnx_path=model, calibration_data=data, calibration_cache=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def quantised(path, model, data):
    """The model with QuantizeLinear and DequantizeLinear."""
    calibration = module.calibrate(model, [np.load(file) for file in sorted(data.iterdir())])
    module.quantize(model, path, calibration)
    return path


def test_quantised_models_need_no_ranges(model, data, tmp_path):
    path = quantised(tmp_path / "q.onnx", model, data)
    keys = {"engine_path": tmp_path / "q.engine", "opt_shape": [4, 3, 16, 16], "measure_seconds": 0.02}
    report = jobs.convert(onnx_path=path, int8=True, **keys)
    assert report["status"] == "success" and report["accuracy"]["passed"]
    report = jobs.optimize(onnx_path=path, int8=True, bf16=False, **keys)
    built = [candidate["precision"] for candidate in report["optimization"]["candidates"]]
    assert built == [["fp32"], ["fp32", "int8"]]


def test_fp8_is_tried_where_it_is_asked_for(model, data, tmp_path):
    """A CPU has none: the candidate is there, with the reason."""
    keys = {
        "onnx_path": model,
        "engine_path": tmp_path / "m.engine",
        "opt_shape": [4, 3, 16, 16],
        "calibration_data": data,
    }
    report = jobs.optimize(fp8=True, int8=False, bf16=False, measure_seconds=0.02, **keys)
    report_of(tmp_path / "m.engine.report.json")
    by_precision = {tuple(c["precision"]): c for c in report["optimization"]["candidates"]}
    assert set(by_precision) == {("fp32",), ("fp32", "fp8")}
    assert "compute capability 8.9" in by_precision["fp32", "fp8"]["refused"]


def test_fp8_on_an_emulated_gpu(data, tmp_path):
    """By the command, whose Python sees the emulated driver, too."""
    build = BINARY.parent.parent
    if not (build / "tests/backends/cuda/emulator/lib/libcuda.so.1").exists():
        pytest.skip("the emulated GPU was not built")
    net = module.Network()
    x, weights = net.input("x", "f32", ("n", 64)), np.random.default_rng(0).standard_normal((2, 64, 64), np.float32) / 8
    net.output(net.MatMul(net.Relu(net.MatMul(x, weights[0])), weights[1]), "y")
    net.save(tmp_path / "m.onnx")
    np.save(tmp_path / "data.npy", np.random.default_rng(1).standard_normal((16, 64), np.float32))
    options = "-o m.engine --fp8 --calibration-data data.npy --device cuda --tuning heuristic --opt-shape x:16x64"
    environment = {"CAMSHAFT_BUILD": str(build), "CAMSHAFT_PYTHON": sys.executable, "PYTHONPATH": str(build / "python")}
    done = subprocess.run(
        [ROOT / "scripts/emulate_gpu.sh", BINARY, "convert", "m.onnx", *options.split(), "--measure-seconds", "0"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "m.engine.report.json")
    assert report["configuration"]["precision"] == ["fp32", "fp8"] and report["configuration"]["device"] == "cuda:0"
    assert report["accuracy"]["passed"]
    assert [layer["op"] for layer in report["optimization"]["tactics_selected"]].count("float8_matmul") == 2


@pytest.mark.parametrize("operation", ["convert", "optimize", "calibrate", "benchmark", "failed"])
def test_every_report_has_every_field(model, data, tmp_path, operation):
    keys = {
        "onnx_path": model,
        "opt_shape": [4, 3, 16, 16],
        "measure_seconds": 0.02,
        "report_path": tmp_path / "r.json",
    }
    if operation == "calibrate":
        keys.update(calibration_data=data, calibration_cache=tmp_path / "ranges")
    elif operation == "failed":
        keys["onnx_path"] = tmp_path / "absent.onnx"
        with pytest.raises(module.FileError):
            jobs.convert(**keys)
    elif operation == "benchmark":
        keys.update(runtimes=["camshaft", "onnxruntime"], engine_path=tmp_path / "b.engine")
    else:
        keys["engine_path"] = tmp_path / "m.engine"
    if operation != "failed":
        getattr(jobs, operation)(**keys)
    report = report_of(tmp_path / "r.json")
    named = "operation status input_model output_engine accuracy artifacts recommendations errors"
    assert set(named.split()) <= set(report)
    assert {"precision", "workspace_mb", "dynamic_shapes"} <= set(report["configuration"])
    assert {"layer_fusions", "reformats_eliminated", "tactics_selected"} <= set(report["optimization"])
    figures = report["performance"]
    assert {"build_time_s", "engine_size_mb", "estimated_latency_ms", "measured"} <= set(figures)
    assert set(report["accuracy"]) >= {"passed", "worst_error", "against", "outputs"}
    if operation in ("calibrate", "failed"):
        assert report["optimization"]["layer_fusions"] is None and figures["engine_size_mb"] is None
        return
    engine = tmp_path / ("b.engine" if operation == "benchmark" else "m.engine")
    assert report["output_engine"] == str(engine) and report["artifacts"][0]["kind"] == "engine"
    assert figures["engine_size_mb"] == engine.stat().st_size / 2**20 and figures["build_time_s"] > 0
    assert report["optimization"]["layer_fusions"] == 3 and report["optimization"]["tactics_selected"]
    assert figures["measured"]["min_ms"] > 0 and figures["estimated_latency_ms"] > 0


def test_optimize_keeps_the_fastest_that_is_accurate(model, data, tmp_path):
    keys = {"onnx_path": model, "opt_shape": [4, 3, 16, 16], "calibration_data": data, "measure_seconds": 0.1}
    report = jobs.optimize(engine_path=tmp_path / "m.engine", **keys)
    report_of(tmp_path / "m.engine.report.json")
    measured = [candidate for candidate in report["optimization"]["candidates"] if "refused" not in candidate]
    assert [c["precision"] for c in measured][0] == ["fp32"] and ["fp32", "int8"] in [c["precision"] for c in measured]
    (chosen,) = [candidate for candidate in measured if candidate["chosen"]]
    within = [candidate for candidate in measured if candidate["error"] <= 0.02]
    assert chosen["min_ms"] == min(candidate["min_ms"] for candidate in within)
    report = jobs.optimize(engine_path=tmp_path / "n.engine", max_error=1e-9, bf16=False, **keys)
    assert report["configuration"]["precision"] == ["fp32"]  # int8 is not that accurate
    assert ["fp32", "bf16"] not in [candidate["precision"] for candidate in report["optimization"]["candidates"]]


def test_recommendations_come_from_figures(model, tmp_path):
    keys = {"onnx_path": model, "engine_path": tmp_path / "m.engine", "measure_seconds": 0.05}
    report = jobs.convert(tuning="heuristic", max_workspace_gb=1e-6, **keys, **SHAPES)
    by_setting = {advice["setting"]: advice for advice in report["recommendations"]}
    assert by_setting["tuning"]["evidence"] == {"kernels_measured": 0}
    workspace = by_setting["max_workspace_gb"]["evidence"]
    assert workspace["run_memory_mb"] == report["performance"]["run_memory_mb"] > workspace["workspace_mb"]
    assert "opt_shape" not in by_setting
    report = jobs.convert(max_workspace_gb=4, **keys)
    by_setting = {advice["setting"]: advice for advice in report["recommendations"]}
    assert by_setting["opt_shape"]["evidence"]["inputs"] == ["f32[n, 3, 16, 16]"]
    assert "tuning" not in by_setting and "max_workspace_gb" not in by_setting
    for advice in report["recommendations"]:
        assert all(str(value) for value in advice["evidence"].values())


def test_the_page_is_true(tmp_path, monkeypatch):
    page = (ROOT / "docs/jobs.md").read_text()
    monkeypatch.chdir(tmp_path)
    make_network("model.onnx", width=8)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["yaml", "python", "yaml"]
    for kind, text in blocks:
        if kind == "python":
            exec(text, {})
        else:
            (tmp_path / "page.yaml").write_text(text)
            job, lines = jobs._file.read_job("page.yaml")
            jobs._file.check_job(job, "page.yaml", lines)
    report_of(tmp_path / "model.engine.report.json")


def test_the_command(model, tmp_path):
    assert re.search(r"^  job .*\n  convert .*\n  optimize .*\n  benchmark ", command("--help").stdout, re.MULTILINE)
    done = command(
        "convert", model, "-o", tmp_path / "c.engine", "--opt-shape", "x:1x3x16x16", "--measure-seconds", 0.05
    )
    assert done.returncode == 0, done.stderr
    assert "3 fused" in done.stdout and module.Engine(tmp_path / "c.engine").profiles
    job = write_job(tmp_path / "job.yaml", "onnx_path: {model}\nmeasure_seconds: 0\n", model=model)
    done = command("job", job, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["status"] == "success"


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["job", "absent.yaml"], 5, "absent.yaml: the job cannot be read"),
        (["convert", "absent.onnx"], 5, "absent.onnx: the model is not there"),
        (["convert", "broken.onnx"], 3, "broken.onnx"),
        (
            ["convert", "m.onnx", "--bf16", "--tolerance", "1e-9", "--opt-shape", "1x3x16x16"],
            4,
            "the report is m.engine.report.json",
        ),
        (["convert", "m.onnx", "--fp17"], 2, "--fp17"),
        (["convert", "m.onnx", "--opt-shape", "1xax16"], 2, "must be a list of sizes"),
    ],
)
def test_exit_codes(model, tmp_path, arguments, code, message):
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == code and message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "m.engine").exists()


def test_without_python_or_the_package(tmp_path):
    done = command("job", "x.yaml", env={"CAMSHAFT_PYTHON": str(tmp_path / "python")})
    assert done.returncode == 2 and "needs Python" in done.stderr
    bare = tmp_path / "python"  # a Python without packages
    bare.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    done = command("job", "x.yaml", env={"CAMSHAFT_PYTHON": str(bare)})
    assert done.returncode == 2 and "needs the Python package camshaft" in done.stderr


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(model, data, tmp_path, number, code):
    ranges = tmp_path / "ranges"  # which are there once the job is under way
    options = ["--int8", "--calibration-data", data, "--calibration-cache", ranges, "--measure-seconds", "3600"]
    process = subprocess.Popen(
        [BINARY, "convert", "m.onnx", "--opt-shape", "4x3x16x16", *options],
        cwd=tmp_path,
        env={**os.environ, "CAMSHAFT_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a shell's background jobs ignore SIGINT
    )
    while not ranges.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    try:
        _, complaint = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == code and "Traceback" not in complaint
    report = report_of(tmp_path / "m.engine.report.json")
    assert report["errors"][0]["code"] == "cancelled" and report["output_engine"] is None
    assert not (tmp_path / "m.engine").exists() and not left(tmp_path)


@pytest.mark.parametrize("key", ["engine_path", "report_path", "timing_cache"])
@pytest.mark.parametrize("wrong", [{}, {"fp61": True}])
def test_what_a_job_reads_is_not_overwritten(model, tmp_path, monkeypatch, key, wrong):
    monkeypatch.chdir(tmp_path)
    before = model.read_bytes()
    job = {"onnx_path": str(model), "engine_path": "m.engine", "measure_seconds": 0, key: f"../{tmp_path.name}/m.onnx"}
    with pytest.raises(
        jobs.JobError if wrong else module.InvalidArgumentError, match=None if wrong else f"{key} would"
    ):
        jobs.run({**job, **wrong})
    assert model.read_bytes() == before
    assert not (tmp_path / "m.engine").exists()


def test_a_job_does_not_write_one_file_twice(model, tmp_path):
    same = str(tmp_path / "same")
    with pytest.raises(module.InvalidArgumentError, match="engine_path and timing_cache are the same file"):
        jobs.convert(onnx_path=str(model), engine_path=same, timing_cache=same)


def test_a_report_does_not_take_the_place_of_its_job(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = f"onnx_path: {model}\nengine_path: m.engine\nreport_path: job.yaml\n"
    path = write_job(tmp_path / "job.yaml", text)
    with pytest.raises(module.InvalidArgumentError, match="report_path would overwrite 'job.yaml'"):
        jobs.run(path)
    assert path.read_text() == text


def test_jobs_without_end_and_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_job(tmp_path / "job.yaml", "onnx_path: &a [*a]\n")
    with pytest.raises(jobs.JobError, match="an anchor holds itself"):
        jobs.run(path)
    with pytest.raises(module.FileError, match=r"\.: the job cannot be read: Is a directory"):
        jobs.run(".")
