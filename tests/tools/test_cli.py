"""What the camshaft command does when all is well."""

import json
import subprocess
import sys

import camshaft_cli
import numpy as np
import pytest
from camshaft_cli import camshaft
from catalog import MODELS

import onnx
from onnx import TensorProto, helper, numpy_helper

COMMANDS = "build calibrate run bench verify simplify quantize refit inspect report devices operators".split()
SHAPE = (2, 3, 48, 192)


@pytest.fixture
def model():
    return MODELS["ppocr_cls"].path()


@pytest.fixture
def feed():
    return MODELS["ppocr_cls"].feed("batch 5, 48x192")


def load(path):
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_help_names_every_command():
    text = camshaft("--help").stdout
    for command in COMMANDS:
        assert command in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    text = camshaft(command, "--help").stdout
    assert len(text.splitlines()) >= 3


def test_help_is_a_command_too():
    assert camshaft("help").stdout == camshaft("--help").stdout
    assert camshaft("help", "build").stdout == camshaft("build", "--help").stdout


def test_build_reports_the_worst_error_of_each_output(model, tmp_path):
    done = camshaft("build", model, "-o", tmp_path / "a.engine")
    output = onnx.load(str(model)).graph.output[0].name
    assert output in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.engine"]


def test_build_is_quiet_without_a_terminal(model, tmp_path):
    done = camshaft("build", model, "-o", tmp_path / "a.engine")
    for stream in (done.stdout, done.stderr):
        assert "\r" not in stream and "\x1b" not in stream


def test_build_overwrites_an_older_engine(model, engine, tmp_path):
    path = tmp_path / "a.engine"
    path.write_bytes(b"an older engine")
    camshaft("build", model, "-o", path, "--no-verify")
    assert path.stat().st_size > 1000


def test_run_takes_a_model_as_it_takes_an_engine(model, engine, feed):
    for ours, theirs in zip(camshaft_cli.run(model, feed).values(), camshaft_cli.run(engine, feed).values()):
        assert camshaft_cli.worst_error(ours, theirs) < 1e-5


def test_run_takes_single_arrays(engine, feed, tmp_path):
    np.save(tmp_path / "x.npy", feed["x"])
    camshaft("run", engine, "--input", f"x={tmp_path / 'x.npy'}", "--outputs", tmp_path / "out.npz")
    for name, array in camshaft_cli.run(engine, feed).items():
        assert np.array_equal(load(tmp_path / "out.npz")[name], array)


def test_run_takes_compressed_inputs(engine, feed, tmp_path):
    np.savez_compressed(tmp_path / "in.npz", **feed)
    camshaft("run", engine, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert load(tmp_path / "out.npz").keys() == camshaft_cli.run(engine, feed).keys()


def test_run_without_inputs_is_seeded(engine, tmp_path):
    shape = f"x:{'x'.join(map(str, SHAPE))}"
    for name in ("a.npz", "b.npz"):
        camshaft("run", engine, "--shapes", shape, "--outputs", tmp_path / name)
    first, second = load(tmp_path / "a.npz"), load(tmp_path / "b.npz")
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.shape[0] == SHAPE[0] and np.isfinite(array).all()
        assert np.array_equal(array, second[name])


def test_same_answer_with_any_number_of_threads(engine, feed):
    (one,), (two,) = (camshaft_cli.run(engine, feed, "--threads", threads).values() for threads in (1, 2))
    assert camshaft_cli.worst_error(two, one) < 1e-5


def test_bench_json(engine, tmp_path, feed):
    np.savez(tmp_path / "in.npz", **feed)
    options = ("--inputs", tmp_path / "in.npz", "--threads", 1, "--duration", 0.2, "--warmup", 0.05)
    figures = json.loads(camshaft("bench", engine, *options, "--json").stdout)
    latency = figures["latency_ms"]
    ordered = [latency[key] for key in ("min", "median", "p90", "p95", "p99", "max")]
    assert ordered == sorted(ordered) and ordered[0] > 0
    assert latency["min"] <= latency["mean"] <= latency["max"]
    assert figures["throughput_per_s"] > 0 and figures["load_ms"] > 0 and figures["first_run_ms"] > 0
    assert 0 < figures["resident_bytes_before"] < figures["resident_bytes"]


def test_bench_on_request_answers_each_line(engine):
    options = ("--shapes", "x:1x3x48x192", "--threads", 1, "--iterations", 2, "--warmup", 0, "--on-request")
    done = subprocess.run(
        [camshaft_cli.BINARY, "bench", engine, *map(str, options)], input="\n\n", capture_output=True, text=True
    )
    first, *rounds = map(json.loads, done.stdout.splitlines())
    assert first["load_ms"] > 0 and first["first_run_ms"] > 0 and "latency_ms" not in first
    assert [figures["runs"] for figures in rounds] == [2, 2]


def test_bench_without_transfers_is_for_gpus(engine):
    done = camshaft("bench", engine, "--shapes", "x:1x3x48x192", "--no-data-transfers", check=False)
    assert done.returncode == 2
    assert "--no-data-transfers needs an engine built with --device cuda" in done.stderr


def test_devices_measures_this_machine():
    devices = json.loads(camshaft("devices", "--measure", "--threads", 1, "--json").stdout)
    (limits,) = [device["limits"] for device in devices if device["kind"] == "cpu"]
    assert limits["threads"] == 1
    rates = ("gflops", "gexps", "l1_gbs", "l2_gbs", "l3_gbs", "dram_gbs", "l2_bytes", "l3_bytes")
    assert all(limits[key] > 0 for key in rates)
    assert limits["gexps"] < limits["gflops"] / 4
    text = camshaft("devices", "--measure", "--threads", 2).stdout
    assert "GFLOP/s" in text and "exponentials a second" in text


def test_bench_makes_its_own_inputs(engine):
    done = camshaft("bench", engine, "--shapes", "x:1x3x48x192", "--threads", 1, "--duration", 0.1, "--warmup", 0)
    assert "median" in done.stdout


def test_bench_profile_lists_the_layers(engine):
    options = ("--shapes", "x:1x3x48x192", "--threads", 1, "--iterations", 3, "--warmup", 0, "--profile")
    figures = json.loads(camshaft("bench", engine, *options, "--json").stdout)
    assert figures["runs"] == 3
    assert sum(layer["percent"] for layer in figures["layers"]) == pytest.approx(100)
    assert any(layer["sources"] for layer in figures["layers"])
    assert sum(layer["flops"] for layer in figures["layers"]) == figures["flops"] > 1e6
    assert all(layer["activation_bytes"] > 0 for layer in figures["layers"] if layer["flops"] > 0)
    # The classifier ends in a softmax of two classes, and its gates are clamps.
    assert sum(layer["exponentials"] for layer in figures["layers"]) == 2
    assert "nodes of the model" in camshaft("bench", engine, *options).stdout


def test_reports_as_json(model, tmp_path):
    built = json.loads(camshaft("build", model, "-o", tmp_path / "a.engine", "--json").stdout)
    assert all(output["passed"] for output in built["verification"]) and built["layers"] > 0
    assert json.loads(camshaft("verify", model, "--json").stdout)["passed"]
    assert json.loads(camshaft("devices", "--json").stdout)[0]["kind"] == "cpu"


def test_several_profiles(model, tmp_path):
    path = tmp_path / "a.engine"
    ranges = (("--min-shapes", 1, 4), ("--opt-shapes", 1, 6), ("--max-shapes", 2, 8))
    shapes = [word for option, *sizes in ranges for size in sizes for word in (option, f"x:{size}x3x48x192")]
    camshaft("build", model, "-o", path, "--no-verify", *shapes)
    assert len(json.loads(camshaft("inspect", path, "--json").stdout)["profiles"]) == 2
    codes = [camshaft("run", path, "--shapes", f"x:{size}x3x48x192", check=False).returncode for size in (2, 3, 7, 9)]
    assert codes == [0, 2, 0, 2]


def test_verify_against_the_reference(model):
    assert camshaft("verify", model, "--against", "reference").returncode == 0


def test_verify_against_onnxruntime(model, monkeypatch):
    monkeypatch.setenv("CAMSHAFT_PYTHON", sys.executable)
    assert camshaft("verify", model, "--against", "onnxruntime").returncode == 0


def test_verify_against_onnxruntime_draws_numbers_that_say_something(tmp_path, monkeypatch):
    """Of 4 normal numbers all are negative for one seed of 16, and their logarithms NaN."""
    monkeypatch.setenv("CAMSHAFT_PYTHON", sys.executable)
    path, inputs = tmp_path / "log.onnx", tmp_path / "negative.npz"
    graph = helper.make_graph(
        [helper.make_node("Log", ["x"], ["y"])],
        "log",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    words = ("verify", path, "--against", "onnxruntime")
    silent = 0
    for seed in range(12):
        samples = json.loads(camshaft("verify", path, "--seed", seed, "--json").stdout)["outputs"]
        judged = json.loads(camshaft(*words, "--seed", seed, "--json").stdout)["outputs"]
        assert samples[0]["scale"] > 0 and judged[0]["scale"] > 0, seed
        drawn = camshaft("run", path, "--seed", seed).stdout
        silent += "4 of 4 are NaN" in drawn
    assert silent > 0, "no seed of these is the test's"
    np.savez(inputs, x=np.full(4, -1, np.float32))
    given = camshaft(*words, "--inputs", inputs, check=False)
    assert "nothing to compare" in given.stdout, given.stdout + given.stderr


def test_verify_judges_the_engine_that_build_makes(tmp_path, monkeypatch):
    """With the same options: approximate tactics too, which only a verified build may use."""
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setenv("CAMSHAFT_PYTHON", sys.executable)
    rng = np.random.default_rng(0)
    shape = (1, 64, 56, 56)
    weight = onnx.numpy_helper.from_array(rng.standard_normal((64, 64, 3, 3)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight],
    )
    path, inputs = tmp_path / "conv.onnx", tmp_path / "in.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    feed = {"x": rng.standard_normal(shape).astype(np.float32)}
    np.savez(inputs, **feed)
    options = ("--tuning", "heuristic", "--threads", 1, "--inputs", inputs)
    camshaft("build", path, "-o", tmp_path / "conv.engine", *options)
    tactics = [
        layer["tactic"]
        for layer in json.loads(camshaft("inspect", tmp_path / "conv.engine", "--json").stdout)["layers"]
    ]
    if not any("winograd" in tactic and "tile=4" in tactic for tactic in tactics):
        pytest.skip(f"the cost model of this machine takes {tactics}")
    want = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["y"], feed)[0]
    error = camshaft_cli.worst_error(camshaft_cli.run(tmp_path / "conv.engine", feed)["y"], want)
    judged = json.loads(camshaft("verify", path, *options, "--against", "onnxruntime", "--json").stdout)["outputs"][0]
    assert judged["relative_error"] == pytest.approx(error, rel=0.2)


def test_verify_fails_outside_the_tolerance(model, monkeypatch):
    monkeypatch.setenv("CAMSHAFT_PYTHON", sys.executable)
    done = camshaft("verify", model, "--against", "onnxruntime", "--tolerance", "1e-30", check=False)
    assert done.returncode == 4 and "FAILED" in done.stdout and done.stderr


def test_a_lower_tolerance_is_stricter(tmp_path):
    """What rounding does is excused in proportion to it: sums in another order are no longer equal."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((512, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    codes = []
    for tolerance in ("1e-3", "1e-4", "1e-5", "1e-9", "1e-12"):
        done = camshaft("build", path, "-o", tmp_path / "m.engine", "--tolerance", tolerance, check=False)
        codes.append(done.returncode)
    assert codes == [0, 0, 0, 4, 4]
    assert "allowed 1e-12 of it" in done.stderr


def test_verify_without_onnxruntime_says_what_to_do(model, monkeypatch):
    for python in ("/nonexistent/python", "false"):
        monkeypatch.setenv("CAMSHAFT_PYTHON", python)
        done = camshaft("verify", model, "--against", "onnxruntime", check=False)
        assert done.returncode in (2, 3) and "onnx" in done.stderr.lower()


@pytest.mark.parametrize("which", ["model", "engine"])
def test_inspect_json(which, model, engine):
    facts = json.loads(camshaft("inspect", model if which == "model" else engine, "--json").stdout)
    assert facts["layers"] and facts["inputs"] and facts["outputs"]
    assert "x" in json.dumps(facts["inputs"])


def test_inspect_names_the_model_nodes(engine, model):
    text = json.dumps(json.loads(camshaft("inspect", engine, "--json").stdout)["layers"])
    named = [node.name for node in onnx.load(str(model)).graph.node if node.op_type == "Conv" and node.name]
    assert named and all(name in text for name in named)


def test_inspect_text(engine):
    assert len(camshaft("inspect", engine).stdout.splitlines()) > 5


def test_devices_says_what_there_is_of_gpus(model, tmp_path):
    gpus = [device for device in json.loads(camshaft("devices", "--json").stdout) if device["kind"] == "cuda"]
    text = camshaft("devices").stdout
    assert "cuda:" in text
    done = camshaft("build", model, "--device", "cuda", "-o", tmp_path / "a.engine", check=False)
    if gpus and not gpus[0]["warning"]:
        assert done.returncode == 0
        return
    # One reason in both places.
    reason = done.stderr.removeprefix("camshaft: error: ").strip()
    assert done.returncode == 3 and reason in text
    assert not (tmp_path / "a.engine").exists()


def test_devices_names_the_processor():
    text = camshaft("devices").stdout
    assert "cpu" in text.lower()


def test_profile_bounds_and_runs(model, tmp_path):
    path = tmp_path / "a.engine"
    camshaft(
        "build",
        model,
        "-o",
        path,
        "--no-verify",
        "--min-shapes",
        "x:1x3x48x96",
        "--opt-shapes",
        "x:1x3x48x192",
        "--max-shapes",
        "x:4x3x48x320",
    )
    for shape in ("1x3x48x96", "4x3x48x320", "2x3x48x200"):
        camshaft("run", path, "--shapes", f"x:{shape}", "--outputs", tmp_path / "out.npz")
        assert next(iter(load(tmp_path / "out.npz").values())).shape[0] == int(shape[0])


def test_one_name_of_sizes_that_differ(tmp_path):
    shapes = {"a": ["n", 3], "b": ["n", 3]}
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["a", "b"], ["y"])],
            "g",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path, built = tmp_path / "m.onnx", tmp_path / "m.engine"
    onnx.save(proto, path)
    feed = {"a": np.ones((2, 3), np.float32), "b": np.full((1, 3), 2, np.float32)}
    assert (camshaft_cli.run(path, feed)["y"] == 3).all()
    np.savez(tmp_path / "in.npz", **feed)
    camshaft("build", path, "-o", built)
    refused = camshaft("run", built, "--inputs", tmp_path / "in.npz", check=False)
    assert refused.returncode == 2
    assert "'n' is already 2 (where one name stands for sizes that differ, build with such --shapes)" in refused.stderr
    camshaft("build", path, "-o", built, "--shapes", "a:2x3", "--shapes", "b:1x3")
    assert camshaft_cli.run(built, feed)["y"].shape == (2, 3)


def test_external_data(tmp_path):
    weight = np.random.default_rng(1).standard_normal((64, 64), dtype=np.float32)
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["a", "w"], ["y"], name="product")],
            "g",
            [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 64])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
            [onnx.numpy_helper.from_array(weight, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    camshaft("build", tmp_path / "m.onnx", "-o", tmp_path / "m.engine")
    (tmp_path / "weights.bin").unlink()  # the engine holds what it needs
    a = np.ones((3, 64), np.float32)
    assert camshaft_cli.worst_error(camshaft_cli.run(tmp_path / "m.engine", {"a": a})["y"], a @ weight) < 1e-5


def test_reduce_writes_the_smallest_model_that_differs(model, tmp_path, monkeypatch):
    monkeypatch.setenv("CAMSHAFT_PYTHON", sys.executable)
    small, strict = tmp_path / "small.onnx", ("--against", "onnxruntime", "--tolerance", "1e-12")
    camshaft("verify", model, *strict, "--reduce", small)
    assert len(onnx.load(str(small)).graph.node) < len(onnx.load(str(model)).graph.node) / 10
    onnx.checker.check_model(str(small))
    inputs = ("--inputs", small.with_suffix(".npz"))
    assert camshaft("verify", small, *strict, *inputs, check=False).returncode == 4
    assert camshaft("verify", small, *inputs).returncode == 0


def test_nothing_to_reduce_or_bisect(model, tmp_path):
    assert "nothing to bisect" in camshaft("verify", model, "--bisect").stdout
    done = camshaft("verify", model, "--reduce", tmp_path / "small.onnx", check=False)
    assert done.returncode == 2 and "nothing to reduce" in done.stderr and not list(tmp_path.iterdir())


def test_bisect_names_what_is_to_blame(model, monkeypatch):
    monkeypatch.setenv("CAMSHAFT_PYTHON", sys.executable)
    done = camshaft("verify", model, "--against", "onnxruntime", "--tolerance", "1e-12", "--bisect")
    assert "without any optimiser pass" in done.stdout


def test_inputs_that_no_seed_gives(tmp_path):
    """A model whose input is a list of axes cannot be verified on made-up ones, but on given ones."""
    float_, int_ = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    node = onnx.helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)
    graph = onnx.helper.make_graph(
        [node],
        "axes",
        [
            onnx.helper.make_tensor_value_info("x", float_, [2, 3, 4]),
            onnx.helper.make_tensor_value_info("axes", int_, [2]),
        ],
        [onnx.helper.make_tensor_value_info("y", float_, None)],
    )
    path = tmp_path / "axes.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), str(path))
    refused = camshaft("build", path, check=False)
    assert refused.returncode == 2 and "--no-verify" in refused.stderr and not path.with_suffix(".engine").exists()
    assert not json.loads(camshaft("build", path, "--no-verify", "--json").stdout)["verified"]
    assert camshaft("verify", path, check=False).returncode == 2
    np.savez(tmp_path / "in.npz", axes=np.array([0, 2]))
    assert "passed" in camshaft("verify", path, "--inputs", tmp_path / "in.npz").stdout
    assert json.loads(camshaft("build", path, "--inputs", tmp_path / "in.npz", "--json").stdout)["verified"]
    np.savez(tmp_path / "bad.npz", axes=np.array([0, 7]))
    done = camshaft("build", path, "--inputs", tmp_path / "bad.npz", check=False)
    assert done.returncode == 2 and "given inputs" in done.stderr


def test_run_writes_the_elements_of_sequences_of_maps(tmp_path, monkeypatch):
    value = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    graph = helper.make_graph(
        [helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"])],
        "maps",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_value_info("y", helper.make_sequence_type_proto(value))],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    path = tmp_path / "maps.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    x = np.arange(40, dtype=np.float32).reshape(20, 2)
    got = camshaft_cli.run(path, {"x": x})
    assert sorted(got) == sorted(f"y/{i}/{part}" for i in range(20) for part in ("keys", "values"))
    for i, row in enumerate(x):
        assert got[f"y/{i}/keys"].tolist() == ["no", "yes"]
        np.testing.assert_array_equal(got[f"y/{i}/values"], row)
    # A line for each of the first arrays only.
    lines = camshaft("run", path, "--shapes", "x:20x2").stdout.splitlines()
    assert lines[0].startswith("y/0/keys: string[2]")
    assert lines[-1] == "y: seq[20]<map<string, f32>>  24 more arrays"
    monkeypatch.setenv("CAMSHAFT_PYTHON", sys.executable)
    judged = camshaft("verify", path, "--against", "onnxruntime", "--shapes", "x:20x2")
    assert "output 'y': equal: passed" in judged.stdout


def test_operators_are_listed_once():
    listed = json.loads(camshaft("operators", "--json").stdout)
    names = [(entry["domain"], entry["operator"]) for entry in listed]
    assert len(set(names)) == len(names) > 200
    assert ("ai.onnx", "Gelu") in names and ("com.microsoft", "FastGelu") in names
    assert len(camshaft("operators").stdout.splitlines()) == len(names)


def test_the_same_lock_file_gives_the_same_engine(model, tmp_path):
    lock = tmp_path / "m.lock"
    camshaft("build", model, "-o", tmp_path / "a.engine", "--write-lock", lock)
    camshaft("build", model, "-o", tmp_path / "b.engine", "--lock", lock, "--threads", 1)
    camshaft("build", model, "-o", tmp_path / "c.engine", "--tuning", "locked", "--lock", lock, "--no-verify")
    engines = [(tmp_path / f"{name}.engine").read_bytes() for name in "abc"]
    assert engines[0] == engines[1] == engines[2]


def test_timing_cache(model, tmp_path):
    cache = tmp_path / "cache"
    build = ["build", model, "-o", tmp_path / "a.engine", "--timing-cache", cache, "--no-verify", "--json"]
    cold, warm = (json.loads(camshaft(*build).stdout)["tuning"] for _ in range(2))
    assert cold["cached"] == 0 and warm["measured"] == 0 and warm["cached"] == cold["measured"]
    assert json.loads(cache.read_text())["camshaft_timing_cache"] == 1
    heuristic = json.loads(camshaft(*build, "--tuning", "heuristic").stdout)["tuning"]
    assert heuristic["mode"] == "heuristic" and heuristic["measured"] == heuristic["cached"] == 0


def test_explain_tells_what_was_tried(model, tmp_path):
    camshaft("build", model, "-o", tmp_path / "a.engine", "--no-verify")
    layers = json.loads(camshaft("inspect", tmp_path / "a.engine", "--json").stdout)["layers"]
    text = camshaft("inspect", tmp_path / "a.engine", "--explain").stdout
    for index, layer in enumerate(layers):
        assert f"layer {index}: {layer['name']} ({layer['op']})" in text
        if layer["tried"]:
            assert layer["tactic"] in [trial["tactic"] for trial in layer["tried"]]
    for label in ("computes", "nodes", "tactic", "apart"):
        assert f"  {label} " in text


def test_explain_does_not_call_an_edited_choice_the_best(model, tmp_path):
    lock = tmp_path / "a.lock"
    camshaft("build", model, "-o", tmp_path / "a.engine", "--no-verify", "--tuning", "heuristic", "--write-lock", lock)
    assert "lock file's choice" not in camshaft("inspect", tmp_path / "a.engine", "--explain").stdout
    choices = json.loads(lock.read_text())
    # The parts of a chain that runs by steps are layers of their own, which the file would not have.
    alike = [x for x in choices["layers"] if "steps" not in [trial["tactic"] for trial in x["tried"]]]
    layer = next(x for x in alike if len({trial["estimated_ns"] for trial in x["tried"]}) > 1)
    layer["tactic"] = max(layer["tried"], key=lambda trial: trial["estimated_ns"])["tactic"]
    lock.write_text(json.dumps(choices))
    camshaft("build", model, "-o", tmp_path / "b.engine", "--no-verify", "--lock", lock)
    assert "lock file's choice" in camshaft("inspect", tmp_path / "b.engine", "--explain").stdout
