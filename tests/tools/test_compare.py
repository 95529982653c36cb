"""bench/compare: its arguments, the tables made of its figures, engines left out, and a run on one tiny model."""

import json
import math
import subprocess
from types import SimpleNamespace

import bounds
import camshaft_cli
import compare as compare_script
import fixed_model
import numpy as np
import performance_page
import pytest
import rivals
import rounding
import rounds
import tables
from camshaft_cli import ROOT
from catalog import BENCH

import onnx
from onnx import TensorProto, helper


def compare(*words):
    return subprocess.run([ROOT / "bench/compare", *map(str, words)], capture_output=True, text=True)


@pytest.mark.parametrize(
    "words, message",
    [
        (["no_such_model"], "no such model: no_such_model; there are tv_resnet18"),
        (["--rivals", "tensorrt"], "no such rival: tensorrt; there are onnxruntime, openvino"),
        (["--threads", "0"], "--threads"),
        (["--threads", "two"], "--threads"),
        (["--batch", ""], "--batch"),
        (["--rounds", "0"], "--rounds must be 1 or more"),
        (["--duration", "-1"], "--duration"),
    ],
)
def test_bad_arguments(words, message):
    done = compare(*words)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr


def figures(ours, runtime, vino=None):
    """What compare.measure() returns, for those milliseconds."""
    engines = {
        "camshaft": {"ms": ours, "memory_bytes": 5e6, "cold_ms": 2 * ours, "error": 1e-6},
        "onnxruntime": {"ms": runtime, "memory_bytes": 9e6, "cold_ms": 40.0},
        "openvino": {"ms": vino, "memory_bytes": 8e6, "cold_ms": 80.0} if vino else {"skipped": "no such operator"},
    }
    engines["camshaft"] |= {"arena_bytes": 1020, "arena_bound": 1000, "flops": 2e9, "of_peak": 0.8}
    speedup = {
        name: {"ratio": engine["ms"] / ours, "low": 0.9 * engine["ms"] / ours, "high": 1.1 * engine["ms"] / ours}
        for name, engine in engines.items()
        if name != "camshaft" and "ms" in engine
    }
    layers = bounds.bounded(LAYERS, LIMITS)
    return {"engines": engines, "speedup": speedup, "layers": layers, "date": "2026-01-02", "commit": "abc"}


LIMITS = {
    "threads": 1,
    "gflops": 100.0,
    "gexps": 2.0,
    "l1_gbs": 400.0,
    "l2_gbs": 200.0,
    "l3_gbs": 50.0,
    "dram_gbs": 10.0,
    "l2_bytes": 1e6,
    "l3_bytes": 1e7,
}


def layer(name, ms, **cost):
    return {"name": name, "op": "conv", "tactic": "conv", "sources": [name], "ms": ms} | cost


LAYERS = [
    layer("arithmetic", 3.0, flops=2e8, constant_bytes=1e6, activation_bytes=2e5),  # 2 ms, 0.1 + 0.001 ms
    layer("memory", 6.0, flops=1e6, constant_bytes=1.9e7, activation_bytes=5e6),  # 0.01 ms, 1.9 + 0.1 ms
    layer("unknown", 1.0),
]


def with_defaults(told, openvino, bf16=None):
    """figures() in which defaults were measured: OpenVINO in bf16, and Camshaft with --bf16 where the processor has it."""
    engines = told["engines"]
    engines["openvino_defaults"] = {"ms": openvino, "error": 4e-3, "precision": "bf16"}
    if bf16:
        engines["camshaft_bf16"] = {"ms": bf16, "error": 3e-3}
    ours = [name for name in ("camshaft", "camshaft_bf16") if name in engines]
    told["defaults"] = {
        name: {
            rival: {"ratio": engines[rival]["ms"] / engines[name]["ms"], "low": 0.5, "high": 8.0}
            for rival in ("onnxruntime", "openvino_defaults")
        }
        for name in ours
    }
    return told


DEFAULTS = {
    "first": {"1": {"1": with_defaults(figures(10.0, 40.0, 8.0), 5.0, 4.0)}},
    "second": {"1": {"1": with_defaults(figures(2.0, 4.0, 8.0), 4.0)}},
    "third": {"1": {"1": figures(2.0, 4.0, 8.0)}},
}

RESULTS = {
    "first": {"1": {"1": figures(10.0, 40.0, 5.0), "2": figures(5.0, 20.0, 5.0)}},
    "second": {"1": {"1": figures(0.5, 0.5)}, "8": {"1": figures(4.0, 8.0, 16.0)}},
}


def test_summary():
    summary = tables.summary(RESULTS, threads=1, batch=1)
    assert summary["models"] == 2
    assert summary["onnxruntime"] == pytest.approx(2)  # of 4 and 1
    assert summary["openvino"] == pytest.approx(0.5)  # of the one that it runs
    assert summary["better"] == pytest.approx(0.5)  # of the one that both run
    assert summary["counts"] == {"onnxruntime": 2, "openvino": 1, "better": 1}
    assert summary["slowest"] == [("first", 0.5), ("second", 1.0)]
    assert "first 0.50" in tables.summary_line(RESULTS, 1, 1)
    assert "0.50× the better of them where all run (1)" in tables.summary_line(RESULTS, 1, 1)
    alone = tables.summary({"second": RESULTS["second"]}, threads=1, batch=1)
    assert (alone["counts"]["better"], tables.mean_text(alone, "better")) == (0, "–")
    assert "better of them" not in tables.summary_line({"second": RESULTS["second"]}, 1, 1)


@pytest.mark.parametrize("never", [-1e9, -3.4e38, 1e30])
def test_masks_do_not_hide_errors_of_the_rest(never):
    want = np.array([never, 2, never, 3], np.float32)
    off = want + np.array([0, 0.3, 0, 0], np.float32)
    assert camshaft_cli.worst_error(off, want) == pytest.approx(0.1, rel=1e-5)
    assert camshaft_cli.worst_error(want, want) == 0
    assert camshaft_cli.worst_error(want * np.float32(1 + 2**-22), want) < 1e-6
    assert camshaft_cli.worst_error(np.array([0, 2, never, 3], np.float32), want) > 0.9
    small = np.array([1, 3e-8], np.float32)
    assert camshaft_cli.worst_error(np.array([1, 4e-8], np.float32), small) < 1e-7


def test_a_missing_output_is_an_infinite_error():
    x = np.ones(3, np.float32)
    assert compare_script.worst_of({"a": x, "b": x}, {"a": x, "b": x}) == 0
    assert compare_script.worst_of({"a": x}, {"a": x, "b": x}) == math.inf
    assert compare_script.worst_of({}, {"a": x}) == math.inf


def test_errors_outside_the_budget_stand_beside_onnx_runtimes_own():
    ours = {"error": 0.9}
    assert tables.error_of({"camshaft": ours, "onnxruntime": {"error": 0.8}}) == "**9e-01** (8e-01)"
    assert tables.error_of({"camshaft": ours, "onnxruntime": {}}) == "**9e-01**"
    assert tables.error_of({"camshaft": {"error": 1e-5}, "onnxruntime": {"error": 0.8}}) == "1e-05"
    assert tables.error_of({"camshaft": {}}) == "–"


@pytest.mark.parametrize(
    "error, own, wrong",
    [
        (None, None, False),  # nothing to compare with
        (1e-5, None, False),
        (2e-4, None, True),
        (5.5e-3, 4.5e-3, False),  # a model that amplifies rounding
        (2e-2, 4.5e-3, True),
        (math.inf, 0.0, True),
        (math.nan, 0.0, True),
    ],
)
def test_wrong_results(error, own, wrong, monkeypatch, capsys):
    engines = {"camshaft": {"error": error}, "onnxruntime": {"error": own}}
    engines = {name: {key: value for key, value in one.items() if value is not None} for name, one in engines.items()}
    assert tables.is_wrong(engines) == wrong
    told = figures(10.0, 40.0)
    told["engines"]["camshaft"].pop("error")
    for name, one in engines.items():
        told["engines"][name] |= one
    monkeypatch.setattr(compare_script, "measure", lambda *_: told)
    monkeypatch.setattr(compare_script, "machine_limits", lambda _: {1: LIMITS})
    monkeypatch.setattr(compare_script, "Case", lambda *_: SimpleNamespace(build=lambda *_: None))
    monkeypatch.setattr(compare_script, "keep", lambda *_: None)
    monkeypatch.setattr("sys.argv", "compare own_lstm --threads 1 --batch 1 --results /dev/null/none".split())
    if not wrong:
        compare_script.main()
        assert "WRONG" not in capsys.readouterr().out
        return
    with pytest.raises(SystemExit, match="own_lstm .wrong results at batch 1 with --threads 1") as stop:
        compare_script.main()
    assert stop.value.code != 0 and "WRONG" in capsys.readouterr().out


def test_what_rounding_alone_does_is_found(model, tmp_path):
    case = SimpleNamespace(model=model, inputs=tmp_path / "in.npz", folder=tmp_path)
    np.savez(case.inputs, x=np.ones((2, 4), np.float32))
    assert compare_script.rounding_spread(case, {"y": np.full((2, 3), 4, np.float32)}, 0, threads=1) == 0
    assert compare_script.rounding_spread(case, {"y": np.full((2, 3), 5, np.float32)}, 0, 1) == pytest.approx(0.2)


def test_rounding_that_a_model_amplifies(tmp_path, monkeypatch):
    """1.5 x - 1.5 cancels all of x's digits but the last ones."""
    shape = (TensorProto.FLOAT, [4])
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "c"], ["s"]), helper.make_node("Sub", ["s", "c"], ["y"])],
        "cancels",
        [helper.make_tensor_value_info("x", *shape)],
        [helper.make_tensor_value_info("y", *shape)],
        [helper.make_tensor("c", *shape, [1.5] * 4)],
    )
    case = SimpleNamespace(model=tmp_path / "cancels.onnx", inputs=tmp_path / "in.npz", folder=tmp_path)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), case.model)
    np.savez(case.inputs, x=np.full(4, 1 + 2.0**-12, np.float32))
    want = {"y": np.full(4, 1.5 * 2.0**-12, np.float32)}
    assert compare_script.rounding_spread(case, want, error=0, threads=1) == 0
    nudge = compare_script.rounding_spread(case, want, error=2e-4, threads=1)
    assert 2.0**-12 < nudge < 2.0**-10, "the last bit of x as a part of what is left"
    monkeypatch.setattr(rounding, "sensitivity", lambda *_: 0.25)
    assert compare_script.rounding_spread(case, want, error=2e-4, threads=1) == nudge, "which accounts for it"
    assert compare_script.rounding_spread(case, want, error=0.5, threads=1) == 0.25


def test_latency_table():
    lines = list(tables.latency_table(RESULTS, threads=1, batch=1))
    assert len(lines) == 4
    assert lines[2] == "| first | 10.00 | 40.00 | 5.00 | 4.00 [3.60–4.40] | 0.50 [0.45–0.55] | **0.50** | 80% | 1e-06 |"
    assert lines[3] == "| second | 0.500 | 0.500 | – | 1.00 [0.90–1.10] | – | 1.00 | 80% | 1e-06 |"
    assert list(tables.latency_table(RESULTS, threads=2, batch=8))[2:] == []


def test_bounds():
    first, second, third = bounds.bounded(LAYERS, LIMITS)
    assert (first["bound_ms"], first["lost_ms"]) == (2.0, 1.0)
    assert (second["bound_ms"], second["lost_ms"]) == (pytest.approx(2.0), pytest.approx(4.0))
    assert third["lost_ms"] == 0
    ordered = bounds.by_lost_time([first, second, third])
    assert [one["name"] for one in ordered] == ["memory", "arithmetic", "unknown"]
    faster = bounds.fastest([LAYERS, [layer("arithmetic", 2.5), layer("memory", 7.0), layer("unknown", 0.5)]])
    assert [one["ms"] for one in faster] == [2.5, 6.0, 0.5] and faster[0]["flops"] == 2e8
    assert bounds.least_ms([first, second, third]) == pytest.approx(2.0 + 2.0 + 1.0)
    assert bounds.least_ms([first | {"ms": 0.5}]) == 0.5  # Winograd


def test_exponentials_are_part_of_the_bound():
    """At their rate and behind the products, as the same units compute both."""
    softmax = layer("softmax", 1.0, flops=0, exponentials=1e6, constant_bytes=0, activation_bytes=2e5)  # 0.5, 0.001 ms
    attention = layer("attention", 4.0, flops=2e8, exponentials=2e6, constant_bytes=0, activation_bytes=2e5)  # 2 + 1 ms
    copied = layer("copied", 9.0, flops=0, exponentials=1e6, constant_bytes=0, activation_bytes=4e7)  # 0.5, 4 ms
    found = bounds.bounded([softmax, attention, copied], LIMITS)
    assert [one["bound_ms"] for one in found] == [pytest.approx(0.5), pytest.approx(3.0), pytest.approx(4.0)]


def test_defaults_table():
    lines = list(tables.defaults_table(DEFAULTS, threads=1, batch=1))
    assert len(lines) == 4, "a model without such figures has no row"
    assert lines[0] == (
        "| model | Camshaft ms | --bf16 ms | ONNX Runtime ms | OpenVINO ms | × ONNX Runtime | × OpenVINO | --bf16 × OpenVINO "
        "| error | --bf16 error | OpenVINO error |"
    )
    assert lines[2] == (
        "| first | 10.00 | 4.00 | 40.00 | 5.00 (bf16) | 4.00 [0.50–8.00] | 0.50 [0.50–8.00] | 1.25 [0.50–8.00] "
        "| 1e-06 | 3e-03 | 4e-03 |"
    )
    assert lines[3] == (
        "| second | 2.00 | – | 4.00 | 4.00 (bf16) | 2.00 [0.50–8.00] | 2.00 [0.50–8.00] | – | 1e-06 | – | 4e-03 |"
    )


def test_geomeans_of_defaults():
    means = tables.defaults_means(DEFAULTS, 1, 1)
    assert means == {
        ("camshaft", "onnxruntime"): (pytest.approx(8**0.5), 2),
        ("camshaft", "openvino_defaults"): (pytest.approx(1.0), 2),
        ("camshaft_bf16", "openvino_defaults"): (pytest.approx(1.25), 1),
    }
    (line,) = tables.defaults_lines(DEFAULTS, 1, 1)
    assert line == (
        "1 thread, batch 1, everybody's defaults, geomean: × ONNX Runtime 2.83 (2), × OpenVINO 1.00 (2), --bf16 × OpenVINO 1.25 (1)"
    )
    assert list(tables.defaults_lines(RESULTS, 1, 1)) == []


def test_defaults_do_not_move_the_tables_in_f32():
    alone = {"first": {"1": {"1": figures(10.0, 40.0, 8.0)}}}
    both = {"first": DEFAULTS["first"]}
    assert list(tables.latency_table(both, 1, 1)) == list(tables.latency_table(alone, 1, 1))
    assert tables.summary(both, 1, 1) == tables.summary(alone, 1, 1)
    assert tables.at_most(both["first"]["1"]["1"]) == tables.at_most(alone["first"]["1"]["1"])


def test_pairs_of_defaults():
    """Each of Camshaft's with each rival at its defaults, of what was measured; OpenVINO in f32 is none."""
    rounds_of = {
        name: [{"latency_ms": {"min": ms}}]
        for name, ms in {"camshaft": 4.0, "onnxruntime": 8.0, "openvino": 1.0, "openvino_defaults": 2.0}.items()
    }
    pairs = compare_script.against_defaults(rounds_of)
    assert {ours: {theirs: one["ratio"] for theirs, one in pair.items()} for ours, pair in pairs.items()} == {
        "camshaft": {"onnxruntime": 2.0, "openvino_defaults": 0.5}
    }
    pairs = compare_script.against_defaults(rounds_of | {"camshaft_bf16": [{"latency_ms": {"min": 1.0}}]})
    assert pairs["camshaft_bf16"]["openvino_defaults"]["ratio"] == 2.0
    assert compare_script.against_defaults({"camshaft": rounds_of["camshaft"]}) == {}


@pytest.mark.parametrize(
    "features, rivals, found",
    [
        (["avx2", "avx512_bf16"], ["onnxruntime", "openvino"], ["camshaft_bf16", "openvino_defaults"]),
        (["avx2"], ["openvino"], ["openvino_defaults"]),
        (["avx512_bf16"], ["onnxruntime"], ["camshaft_bf16"]),
    ],
)
def test_what_defaults_add(features, rivals, found, monkeypatch):
    host = json.dumps([{"features": features}, {}])
    monkeypatch.setattr(camshaft_cli, "camshaft", lambda *_: SimpleNamespace(stdout=host))
    assert compare_script.other_precisions(rivals) == found


def test_an_engine_in_bf16_that_cannot_be_built_is_left_out(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("camshaft build\nexit code 1\nerror: too inexact")

    monkeypatch.setattr(camshaft_cli, "camshaft", fails)
    case = compare_script.Case(BENCH["own_lstm"], 1, tmp_path)
    with pytest.raises(rounds.Refused, match="^error: too inexact$"):
        case.build_bf16(1, [])
    with pytest.raises(RuntimeError):
        case.build(1, [])


def test_a_model_with_open_shapes_is_built_on_its_inputs(tmp_path):
    """silero_vad, which the inputs that a build makes up do not fit."""
    case = compare_script.Case(BENCH["silero_vad"], 2, tmp_path)
    case.build(1, ["--tuning", "heuristic"])
    assert case.engine.exists() and case.shapes["input"] == [2, 576]
    assert set(case.answer("camshaft")) == set(case.output_names) == {"output", "stateN"}


def test_at_most():
    assert tables.at_most(figures(10.0, 40.0, 5.0)) == {"onnxruntime": pytest.approx(8), "openvino": pytest.approx(1)}
    assert tables.at_most(figures(4.0, 8.0)) == {"onnxruntime": 2.0}  # faster than its layers' bounds
    assert tables.at_most(figures(4.0, 8.0) | {"layers": []}) == {}


def test_page_says_what_was_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(performance_page.plots, "speedups", lambda *_: False)  # matplotlib is not part of every set-up
    page = list(performance_page.lines(RESULTS, {"1": LIMITS}, ["- Machine: a test"], tmp_path))
    assert "- OpenVINO does not run second: no such operator" in page
    assert [line for line in page if line.startswith("## ")][:4] == [
        "## Summary",
        "## 1 thread, batch 1",
        "## 2 threads, batch 1",
        "## 1 thread, batch 8",
    ]
    assert any("100 GFLOP/s" in line for line in page)
    assert any(
        line.startswith("| first | 2.00 | 80% | 10.00 | 5.00 | 1.00 | conv conv 6.000 ms, bound 2.00") for line in page
    )
    assert any("the geomeans would be 2.83× ONNX Runtime and 1.00× OpenVINO" in line for line in page)  # of 8 and 1
    assert any(line.startswith("| first | 20.00 | 40.00 | 80.00 | 2.0 | 5 | 9 | 8 |") for line in page)
    assert any("100 GFLOP/s of f32 fused multiply-adds, 2.0e9 exponentials a second" in line for line in page)
    assert not any("defaults" in line for line in page if line.startswith("#"))
    (line,) = performance_page.limit_lines({"1": {key: value for key, value in LIMITS.items() if key != "gexps"}})
    assert "multiply-adds; reading L1 400" in line


def test_page_with_defaults(tmp_path, monkeypatch):
    monkeypatch.setattr(performance_page.plots, "speedups", lambda *_: False)
    told = json.loads(json.dumps(DEFAULTS))
    told["third"]["1"]["1"]["engines"]["camshaft_bf16"] = {"skipped": "error: too inexact"}
    page = list(performance_page.lines(told, {"1": LIMITS}, ["- Machine: a test"], tmp_path))
    headings = [line for line in page if line.startswith("#")]
    assert headings[2:5] == ["## 1 thread, batch 1", "## Everybody's defaults", "### 1 thread, batch 1"]
    section = page[page.index("## Everybody's defaults") :]
    assert "| 1 thread, batch 1 | 2.83 (2) | 1.00 (2) | 1.25 (1) |" in section
    assert list(tables.defaults_table(DEFAULTS, 1, 1))[2] in section
    assert "- Camshaft --bf16 does not run third: error: too inexact" in page


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    import plots

    assert plots.speedups(RESULTS, 1, [1, 2], tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert "first" in text and "second" in text
    assert not plots.speedups(RESULTS, 3, [1, 2], tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


def test_speedup_is_of_the_minima():
    ours, theirs = (
        [{"latency_ms": {"min": value}} for value in values] for values in ([2.0, 4.0, 2.0], [6.0, 8.0, 4.0])
    )
    assert rounds.speedup(ours, theirs) == {"ratio": 2.0, "low": 2.0, "high": pytest.approx(2.8)}


def test_an_engine_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr(rounds, "find_spec", lambda _: None)
    with pytest.raises(rounds.Refused, match="not installed"):
        rounds.start("openvino", "a.onnx", "in.npz", 1)


@pytest.fixture
def model(tmp_path):
    """y = relu(x·w), its first dimension named, and a name for it in a value that has another size."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Relu", ["xw"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")],
    )
    path = tmp_path / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_shapes_are_fixed(model):
    fixed = fixed_model.fix_shapes(onnx.load(model), {"x": np.zeros((2, 4), np.float32)})
    assert [dim.dim_value for dim in fixed.graph.input[0].type.tensor_type.shape.dim] == [2, 4]
    assert [dim.WhichOneof("value") for dim in fixed.graph.output[0].type.tensor_type.shape.dim] == [None, "dim_value"]
    onnx.checker.check_model(fixed, full_check=True)
    with pytest.raises(ValueError, match="no array for the input x"):
        fixed_model.fix_shapes(onnx.load(model), {})


def test_names_of_outputs(model):
    assert fixed_model.output_names(model) == ["y"]


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "openvino_defaults"])
def test_a_rival_leaves_its_outputs_in_order(name, tmp_path):
    """Of several types and ranks, from inputs that it reads anew in each process."""
    if name != "onnxruntime":
        pytest.importorskip("openvino", reason="OpenVINO is not installed")
    x, flag = ("x", TensorProto.FLOAT, [2, 3]), ("flag", TensorProto.BOOL, [])
    graph = helper.make_graph(
        [
            helper.make_node("Exp", ["x"], ["b"]),
            helper.make_node("Cast", ["x"], ["a"], to=TensorProto.INT64),
            helper.make_node("Not", ["flag"], ["c"]),
        ],
        "several",
        [helper.make_tensor_value_info(*x), helper.make_tensor_value_info(*flag)],
        [
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("a", TensorProto.INT64, [2, 3]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
    )
    path = tmp_path / "several.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=values, flag=np.array(True))
    worker = rounds.start(name, path, tmp_path / "in.npz", 1, 0.01, 0, tmp_path / "out.npz")
    measured = worker.measure()
    worker.close()
    assert measured["runs"] >= 1 and 0 < measured["latency_ms"]["min"] <= measured["latency_ms"]["median"]
    assert worker.start["precision"] in (["f32", "bf16", "f16"] if name == "openvino_defaults" else ["f32"])
    case = SimpleNamespace(outputs=lambda _: tmp_path / "out.npz", output_names=fixed_model.output_names(path))
    found = compare_script.Case.answer(case, name)
    assert list(found) == ["b", "a", "c"]
    np.testing.assert_allclose(found["b"], np.exp(values), rtol=1e-2 if name == "openvino_defaults" else 1e-5)
    np.testing.assert_array_equal(found["a"], values.astype(np.int64))
    assert found["a"].dtype == np.int64 and found["c"].dtype == bool and found["c"].shape == () and not found["c"]


def test_openvino_is_told_of_wrong_inputs(model, tmp_path):
    openvino_c = pytest.importorskip("openvino", reason="OpenVINO is not installed") and rivals.openvino_c
    fixed_model.write_fixed(model, {"x": np.zeros((2, 4), np.float32)}, tmp_path / "fixed.onnx")
    request = openvino_c.Request(openvino_c.library(), tmp_path / "fixed.onnx", {"INFERENCE_NUM_THREADS": 1})
    with pytest.raises(RuntimeError, match="input x has 32 bytes, 4 are given"):
        request.write("x", np.zeros(1, np.float32))
    with pytest.raises(RuntimeError, match="nowhere"):
        request.write("nowhere", np.zeros(1, np.float32))
    with pytest.raises(RuntimeError, match="NONSENSE"):
        openvino_c.Request(openvino_c.library(), tmp_path / "fixed.onnx", {"NONSENSE": 1})
    request.write("x", np.ones((2, 4), np.float32))
    request.run()
    np.testing.assert_array_equal(request.outputs()[0], np.full((2, 3), 4, np.float32))


def test_a_model_that_an_engine_cannot_run_is_refused(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    np.savez(tmp_path / "in.npz", x=np.zeros(1, np.float32))
    for name in ("camshaft", "camshaft_bf16", "onnxruntime"):
        with pytest.raises(rounds.Refused) as refused:
            rounds.start(name, tmp_path / "bad.onnx", tmp_path / "in.npz", 1)
        assert len(str(refused.value)) > 20


def test_a_run(tmp_path):
    """The smallest of the models, with what is installed; ONNX Runtime always is."""
    kept = tmp_path / "compare.json"
    words = ("--threads", 1, "--batch", "1,8", "--rounds", 2, "--duration", 0.01, "--cold-rounds", 1, "--defaults")
    done = compare("own_lstm", *words, "--results", kept)
    assert done.returncode == 0, done.stderr
    results = json.loads(kept.read_text())["own_lstm"]
    assert set(results) == {"1", "8"}
    entry = results["8"]["1"]
    assert entry["shapes"] == {"tokens": [8, 24]}
    for name, engine in entry["engines"].items():
        if name.startswith("openvino") and "skipped" in engine:
            continue
        assert engine["ms"] > 0 and engine["memory_bytes"] > 0, name
        assert ("cold_ms" in engine) == (name in rounds.LABELS), name
        assert name == "onnxruntime" or engine["error"] < (1e-4 if name in rounds.LABELS else 0.1), name
    assert entry["engines"]["openvino_defaults"] and "openvino_defaults" not in entry["speedup"]
    assert set(entry["defaults"]) <= {"camshaft", "camshaft_bf16"}
    assert entry["engines"]["camshaft"]["error"] < 1e-4
    assert entry["engines"]["camshaft"]["flops"] > 0 and len(entry["layers"]) > 1
    # Two LSTMs of 5 for each of a cell's states, and a softmax.
    assert sum(layer["exponentials"] for layer in entry["layers"]) > 0
    assert all(one["bound_ms"] >= one["exponentials"] / 1e12 for one in entry["layers"])
    assert entry["speedup"]["onnxruntime"]["low"] <= entry["speedup"]["onnxruntime"]["high"]
    assert "own_lstm" in done.stdout and "geomean" in done.stdout
