"""Building, calibrating and rewriting models from Python."""

import json
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import BINARY, camshaft
from test_module import W, make_model, module

import onnx
from onnx import TensorProto, helper

MODULE = BINARY.parent.parent / "python"


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path / "model.onnx")


def feed(batch, seed=0):
    x = np.random.default_rng(seed).standard_normal((batch, 3), np.float32)
    return {"x": x, "i": np.array([2, 0])}


def make_network(path, width=64, layers=3):
    """A convolution network of some layers, whose ranges are even."""
    random = np.random.default_rng(1)
    nodes, weights, last = [], [], "x"
    for k in range(layers):
        channels = 3 if k == 0 else width
        w = random.standard_normal((width, channels, 3, 3), np.float32) / np.sqrt(9 * channels)
        weights.append(onnx.numpy_helper.from_array(w.astype(np.float32), f"w{k}"))
        nodes.append(helper.make_node("Conv", [last, f"w{k}"], [f"c{k}"], name=f"conv{k}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        last = f"r{k}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", width, 16, 16])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path


def batches(count=8, size=4, seed=0):
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield random.standard_normal((size, 3, 16, 16), np.float32)


@pytest.mark.parametrize("form", ["path", "text", "bytes", "proto"])
def test_forms_of_a_model(model, form):
    given = {"path": model, "text": str(model), "bytes": model.read_bytes(), "proto": onnx.load(model)}[form]
    engine = module.build(given)
    inputs = feed(5)
    y, z = engine(inputs["x"], inputs["i"])
    np.testing.assert_allclose(y, np.maximum(inputs["x"] @ W, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(z, inputs["x"][:, inputs["i"]])
    assert engine.report["verification"][0]["passed"]
    assert repr(engine) == (
        "<camshaft.Engine (x: f32[batch, 3], i: i64[2]) -> (y: f32[batch, 4], z: f32[batch, 2]) on cpu>"
    )


def test_what_call_and_run_give(model):
    engine = module.build(model)
    first, second = feed(2, 1), feed(2, 2)
    kept = engine.run(first)["y"]
    before = kept.copy()
    engine.run(second)
    np.testing.assert_array_equal(kept, before)  # the caller's, not the context's
    np.testing.assert_array_equal(engine(i=first["i"], x=first["x"])[0], before)
    with pytest.raises(TypeError, match="3 arrays for 2 inputs"):
        engine(1, 2, 3)
    with pytest.raises(TypeError, match="input 'x' is given twice"):
        engine(first["x"], x=first["x"])
    with pytest.raises(module.InvalidArgumentError, match=r"input 'i' \(i64\[2\]\) is not given"):
        engine(first["x"])


def test_runs_of_many_threads(model):
    engine = module.build(model)
    wrong = []

    def work(seed):
        for k in range(50):
            inputs = feed(3, 100 * seed + k)
            if not np.allclose(engine.run(inputs)["y"], np.maximum(inputs["x"] @ W, 0), rtol=1e-5, atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_operator_that_is_newer_than_the_models_operator_set():
    """As tools leave it that put nodes into an old model: the message says from which set on there is one."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    graph = helper.make_graph([helper.make_node("Resize", ["x", "", "scales"], ["y"], name="up")], "g", [x], [y])
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=8)
    with pytest.raises(module.UnsupportedError, match="Resize is there from operator set 10 on, .* its own is 9"):
        module.build(old)


def test_output_and_bytes(model, tmp_path):
    engine = module.build(model, tmp_path / "model.engine", tuning="heuristic")
    copies = [module.Engine(tmp_path / "model.engine"), module.Engine(bytes(engine))]
    engine.save(tmp_path / "again.engine")
    assert (tmp_path / "again.engine").read_bytes() == (tmp_path / "model.engine").read_bytes() == bytes(engine)
    copies += [module.Engine.load(tmp_path / "again.engine"), module.Engine.load(bytes(engine), "cpu")]
    inputs = feed(2)
    for copy in copies:
        assert copy.report is None
        np.testing.assert_array_equal(copy(*inputs.values())[0], engine(*inputs.values())[0])
    assert [layer["op"] for layer in engine.layers()] and engine.memory()["weight_bytes"] > 0


def test_same_engine_as_the_command(model, tmp_path):
    camshaft("build", model, "-o", tmp_path / "a.engine", "--tuning", "heuristic")
    module.build(model, tmp_path / "b.engine", tuning="heuristic")
    assert (tmp_path / "a.engine").read_bytes() == (tmp_path / "b.engine").read_bytes()


def test_profiles(model):
    engine = module.build(model, profiles={"x": ((1, 3), (4, 3), (8, 3))})
    assert engine.profiles == [{"x": {"min": [1, 3], "opt": [4, 3], "max": [8, 3]}}]
    assert module.build(model, profiles=engine.profiles).profiles == engine.profiles
    assert repr(engine.create_context()) == f"<camshaft.Context of {engine!r}>"
    assert repr(module.Profiler()) == "<camshaft.Profiler: 0 layers in 0 runs>"
    assert engine(**feed(8))[0].shape == (8, 4)
    with pytest.raises(module.InvalidArgumentError, match=r"\[9, 3\]"):
        engine(**feed(9))
    two = [{"x": ((1, 3), (1, 3), (1, 3))}, {"x": ((16, 3), (16, 3), (32, 3))}]
    assert len(module.build(model, profiles=two).profiles) == 2
    assert module.build(model, shapes={"x": (2, 3)})(**feed(2))[0].shape == (2, 4)


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        ({"fp17": True}, module.InvalidArgumentError, "fp17.*fp16"),
        ({"tuning": "slowly"}, module.InvalidArgumentError, "slowly"),
        ({"tolerance": object()}, TypeError, "tolerance is a object"),
        ({"profiles": {"x": {"min": (1, 3)}}}, module.InvalidArgumentError, "has the shapes min, opt and max, not min"),
        ({"profiles": {"x": (1, 3)}}, module.InvalidArgumentError, "the profile of input 'x' is three shapes"),
        ({"profiles": {"q": ((1,), (1,), (1,))}}, module.InvalidArgumentError, "'q'"),
        ({"shapes": {"x": ("a", 3)}}, module.InvalidArgumentError, "a shape of input 'x'"),
        ({"shapes": {}, "profiles": {}}, module.InvalidArgumentError, "not both"),
        ({"precision": "fp8x"}, module.InvalidArgumentError, "fp8x"),
        ({"inputs": {"x": np.zeros((2, 5), np.float32)}}, module.InvalidArgumentError, "x"),
        ({"inputs": {"x": 1}}, TypeError, "__dlpack__"),
        ({"inputs": {"x": [np.zeros(2)]}}, module.InvalidArgumentError, "has seq for input 'x', which is f32"),
        ({"int8": True}, module.InvalidArgumentError, "calibration"),
        ({"int8": True, "calibration": "absent.ranges"}, module.FileError, "absent.ranges"),
    ],
)
def test_wrong_arguments(model, arguments, kind, message):
    with pytest.raises(kind, match=message):
        module.build(model, **arguments)


def test_kinds_of_errors(tmp_path):
    with pytest.raises(module.FileError, match="absent.onnx") as caught:
        module.build(tmp_path / "absent.onnx")
    assert isinstance(caught.value, OSError) and caught.value.code == "input/output error"
    with pytest.raises(module.InvalidModelError):
        module.build(b"not a model")
    (tmp_path / "broken.engine").write_bytes(b"not an engine")
    with pytest.raises(module.CorruptEngineError):
        module.Engine(tmp_path / "broken.engine")
    assert {kind.code for kind in module.Error.__subclasses__()} == {
        "invalid argument",
        "invalid model",
        "unsupported",
        "input/output error",
        "corrupt engine",
        "out of memory",
        "cancelled",
        "verification failed",
        "internal error",
    }


def test_a_build_that_fails_verification_has_a_report(tmp_path):
    path = make_network(tmp_path / "m.onnx")
    with pytest.raises(module.VerificationError) as caught:
        module.build(path, bf16=True, tolerance=1e-9, shapes={"x": (1, 3, 16, 16)})
    assert not caught.value.report["verification"][0]["passed"]


def test_layers_as_a_graph_and_by_time(tmp_path):
    engine = module.build(make_network(tmp_path / "m.onnx", 16), tuning="heuristic", verify=False)
    shown = onnx.load_from_string(engine.layers_onnx())
    onnx.checker.check_model(shown)
    assert [n.op_type for n in shown.graph.node if n.op_type != "view"] == [layer["op"] for layer in engine.layers()]
    context, profiler = engine.create_context(1), module.Profiler()
    context.set_profiler(profiler)
    profiler.keep_runs(2)
    for _ in range(3):
        context.run({"x": np.ones((2, 3, 16, 16), np.float32)})
    runs = profiler.runs()
    assert len(runs) == 2 and runs[0]["start"] + runs[0]["seconds"] <= runs[1]["start"]
    for run in runs:
        assert {span["device"] for span in run["layers"]} == {"cpu"}
        assert all(run["start"] <= span["start"] for span in run["layers"])
        assert sum(span["seconds"] for span in run["layers"]) <= run["seconds"]
    with pytest.raises(module.InvalidArgumentError, match="-1 runs to keep"):
        profiler.keep_runs(-1)


def test_several_sets_of_inputs(model, tmp_path):
    engine = module.build(model, inputs=[feed(2), feed(5, seed=1)], tuning="heuristic")
    assert len(engine.report["samples"]) == 2
    engine = module.build(model, inputs=[feed(2), feed(5)], tuning="heuristic", verify_seconds=0)
    assert len(engine.report["samples"]) == 1
    assert engine.report["not_verified"] == ["further inputs 1: no time left of 0 s"]
    for i, batch in enumerate((2, 5)):
        np.savez(tmp_path / f"{i}.npz", **feed(batch))
    report = json.loads(
        camshaft(
            "build",
            model,
            "-o",
            tmp_path / "e",
            "--json",
            "--inputs",
            tmp_path / "0.npz",
            "--inputs",
            tmp_path / "1.npz",
        ).stdout
    )
    assert len(report["samples"]) == 2
    given = ("--inputs", tmp_path / "0.npz", "--inputs", tmp_path / "1.npz")
    done = camshaft("verify", model, *given, check=False)
    assert done.returncode == 2 and "one file of inputs" in done.stderr


def test_progress(model):
    stages = []
    here = threading.get_ident()

    def tell(stage, fraction):
        assert threading.get_ident() == here and 0 <= fraction <= 1
        stages.append(stage)

    module.build(model, progress=tell)
    assert "verifying" in stages

    class Stop(Exception):
        pass

    def stop(stage, fraction):
        raise Stop(stage)

    with pytest.raises(Stop):
        module.build(model, progress=stop)
    module.build(model, progress=True)


def test_other_threads_run_during_a_build(tmp_path):
    path = make_network(tmp_path / "m.onnx", 128, 6)
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    module.build(path, shapes={"x": (8, 3, 16, 16)})
    done.set()
    thread.join()
    assert counted[0] > 20


def test_interrupt_stops_a_build(tmp_path):
    path = make_network(tmp_path / "m.onnx", 256, 12)
    script = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {str(MODULE)!r})
import camshaft
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell inherits none
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    camshaft.build({str(path)!r}, {str(tmp_path / "m.engine")!r}, shapes={{"x": (64, 3, 16, 16)}})
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted\n", done.stderr
    assert not (tmp_path / "m.engine").exists()


def test_calibrate(tmp_path):
    path = make_network(tmp_path / "m.onnx", 16)
    forms = {"arrays": lambda x: x, "dicts": lambda x: {"x": x}, "tuples": lambda x: (x,)}
    made = [module.calibrate(path, map(wrap, batches()), method="minmax").ranges for wrap in forms.values()]
    calibration = module.calibrate(path, batches(), tmp_path / "m.ranges", method="minmax")
    assert all(ranges == calibration.ranges for ranges in made)
    assert calibration.method == "minmax" and calibration.report["samples"] == 32
    low, high = calibration.ranges["x"]
    values = np.concatenate(list(batches()))
    np.testing.assert_allclose([low, high], [values.min(), values.max()], rtol=1e-6)
    assert module.Calibration(tmp_path / "m.ranges").ranges.keys() == calibration.ranges.keys()

    inputs = {"x": next(batches(seed=9))}
    exact = module.build(path)(**inputs)
    for given in calibration, tmp_path / "m.ranges":
        engine = module.build(
            path,
            int8=True,
            calibration=given,
            precision_constraints="obey",
            layer_precisions=["conv1:int8", "conv2:int8"],
            shapes={"x": (4, 3, 16, 16)},
        )
        placed = {layer["layer"]: layer["quantized"] for layer in engine.report["quantized_layers"]}
        assert placed["conv1"] and placed["conv2"]
        error = np.abs(engine(**inputs) - exact).max() / np.abs(exact).max()
        assert 0 < error < 0.05


def test_quantize_and_simplify(tmp_path):
    path = make_network(tmp_path / "m.onnx")
    calibration = module.calibrate(path, batches())
    report = module.quantize(path, tmp_path / "q.onnx", calibration)
    assert sum(layer["quantized"] for layer in report["quantized_layers"]) == 3
    ops = {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= ops
    x = next(batches(seed=5))
    exact = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
    options = onnxruntime.SessionOptions()
    # Without VNNI its products of bytes saturate at 16 bits: as written the model is computed in fp32 between the steps.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    quantized = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), options).run(None, {"x": x})[0]
    assert np.abs(quantized - exact).max() < 0.05 * np.abs(exact).max()
    report = module.quantize(path, tmp_path / "f.onnx", calibration, fp8=True)
    assert {layer["precision"] for layer in report["quantized_layers"] if layer["quantized"]} == {"fp8"}
    with pytest.raises(module.InvalidArgumentError, match="give one of the two"):
        module.quantize(path, tmp_path / "f.onnx", calibration, fp8=True, int8=True)
    report = module.simplify(onnx.load(path), tmp_path / "s.onnx")
    assert report["nodes"] <= report["nodes_before"] == 6
    onnx.checker.check_model(str(tmp_path / "s.onnx"))


def test_data_of_a_calibration_that_fails(tmp_path):
    path = make_network(tmp_path / "m.onnx")

    def failing():
        yield from batches(2)
        raise LookupError("the disk is gone")

    with pytest.raises(LookupError, match="the disk is gone"):
        module.calibrate(path, failing())
    with pytest.raises(module.InvalidArgumentError, match="the source gave no sample"):
        module.calibrate(path, [])
    with pytest.raises(module.InvalidArgumentError, match="a batch has 2 arrays, the model 1 inputs: x"):
        module.calibrate(path, [(1, 2)])
    with pytest.raises(module.InvalidArgumentError, match="'y'"):
        module.calibrate(path, [{"y": np.zeros((1, 3, 16, 16), np.float32)}])
    assert list(tmp_path.iterdir()) == [path]


def test_batches_are_kept_no_longer_than_needed(tmp_path):
    path = make_network(tmp_path / "m.onnx")
    alive = []

    class Watched(np.ndarray):
        pass

    def watched():
        for x in batches(6):
            batch = x.view(Watched)
            alive.append(weakref.ref(batch))
            yield batch
            del batch, x
            assert sum(ref() is not None for ref in alive) <= 2

    module.calibrate(path, watched())


def test_options_are_listed():
    names = {option["name"] for option in module.options()}
    assert {"fp16", "tolerance", "layer-precisions"} <= names
    assert "method" in {option["name"] for option in module.options("calibration")}
    with pytest.raises(ValueError, match="there are options of build, context, calibration"):
        module.options("bild")


def test_nothing_leaks(tmp_path):
    path = make_network(tmp_path / "m.onnx", 16, 2)
    status = Path("/proc/self/status")

    def resident():
        return int(status.read_text().split("VmRSS:")[1].split()[0])

    def once():
        calibration = module.calibrate(path, batches(2))
        engine = module.build(path, int8=True, calibration=calibration, tuning="heuristic")
        engine(next(batches()))
        with pytest.raises(module.Error):
            module.build(path, fp17=True)

    for _ in range(5):
        once()
    before = resident()
    for _ in range(15):
        once()
    assert resident() - before < 8 * 1024  # kB: an engine that stays takes some hundred
