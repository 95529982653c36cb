"""What options of ONNX Runtime's sessions and runs do where the execution provider computes."""

import json
import threading

import numpy as np
import pytest
from ort_sessions import (
    F32,
    QUICK,
    assert_same,
    model_of,
    onnxruntime,
    ort,
    plain_session,
    session,
    session_options,
    taken,
)

from onnx import helper

node = helper.make_node
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True, scope="module")
def registered():
    ort.register()
    yield
    ort.unregister()


def parted():
    """Two engines, with a node of the CPU's provider between them."""
    nodes = [node("Relu", ["x"], ["a"]), node("Sin", ["a"], ["b"], name="between"), node("Exp", ["b"], ["y"])]
    return model_of(nodes, {"x": (F32, ["n", 3])}, {"y": (F32, ["n", 3])})


LEFT = {**QUICK, "exclude-operators": "Sin"}


def test_profiling(tmp_path):
    so = session_options(enable_profiling=True, profile_file_prefix=str(tmp_path / "profile"))
    made = session(parted(), LEFT, so=so)
    made.run(None, {"x": X})
    events = [event for event in json.load(open(made.end_profiling())) if event.get("cat") == "Node"]
    by_provider = [event["args"]["provider"] for event in events if event["name"].endswith("_kernel_time")]
    assert by_provider == [ort.PROVIDER, "CPUExecutionProvider", ort.PROVIDER]


def test_tags_and_levels_of_runs(capfd):
    so = session_options(logid="the session", log_severity_level=0)
    made = session(parted(), LEFT, so=so)
    assert "the session" in capfd.readouterr().err
    run = onnxruntime.RunOptions()
    run.logid, run.log_severity_level = "the seventh run", 0
    assert_same(made.run(None, {"x": X}, run), plain_session(parted()).run(None, {"x": X}))
    assert "the seventh run" in capfd.readouterr().err


def test_a_terminated_run():
    made = session(parted(), LEFT)
    run = onnxruntime.RunOptions()
    run.terminate = True
    with pytest.raises(Exception, match="terminate"):
        made.run(None, {"x": X}, run)
    run.terminate = False
    assert_same(made.run(None, {"x": X}, run), plain_session(parted()).run(None, {"x": X}))


def test_a_run_that_is_terminated_from_another_thread():
    """Between engines: a chain of many ends early."""
    count, size = 40, 64
    nodes, rng = [], np.random.default_rng(0)
    for i in range(count):
        nodes += [node("MatMul", [f"v{i}", "w"], [f"m{i}"]), node("Sin", [f"m{i}"], [f"v{i + 1}"])]
    weights = {"w": rng.standard_normal((size, size)).astype(np.float32) / size}
    model = model_of(nodes, {"v0": (F32, ["n", size])}, {f"v{count}": (F32, ["n", size])}, weights)
    made = session(model, LEFT)
    x = {"v0": rng.standard_normal((20000, size)).astype(np.float32)}
    run = onnxruntime.RunOptions()
    for delay in (0.001, 0.01, 0.03):
        run.terminate = False
        timer = threading.Timer(delay, lambda: setattr(run, "terminate", True))
        timer.start()
        with pytest.raises(Exception, match="terminate"):
            for _ in range(100):
                made.run(None, x, run)
        timer.join()


@pytest.mark.parametrize("parallel", [False, True])
def test_execution_modes(parallel):
    modes = onnxruntime.ExecutionMode
    so = session_options(
        execution_mode=modes.ORT_PARALLEL if parallel else modes.ORT_SEQUENTIAL, inter_op_num_threads=2
    )
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Sin", ["a"], ["b"]),
        node("Neg", ["b"], ["y"]),
        node("Sin", ["x"], ["c"]),
        node("Exp", ["c"], ["z"]),
    ]
    model = model_of(nodes, {"x": (F32, ["n", 3])}, {"y": (F32, ["n", 3]), "z": (F32, ["n", 3])})
    made = session(model, LEFT, so=so)
    for _ in range(5):
        assert_same(made.run(None, {"x": X}), plain_session(model).run(None, {"x": X}))


@pytest.mark.parametrize("level", ["DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL"])
def test_levels_of_optimisation(level):
    """Those that come after the provider has taken its nodes change nothing of them."""
    so = session_options(graph_optimization_level=getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}"))
    model = model_of(
        [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["i"]), node("Relu", ["i"], ["y"])],
        {"x": (F32, ["n", 3])},
        {"y": (F32, ["n", 4])},
        {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.ones(4, np.float32)},
    )
    made = session(model, so=so)
    assert taken(made)[1] == 1 and set(taken(made)[0]) <= {"MatMul", "Gemm", "Add", "Relu"}
    assert_same(made.run(None, {"x": X}), plain_session(model).run(None, {"x": X}))


def test_free_dimensions_may_be_fixed():
    so = session_options()
    so.add_free_dimension_override_by_name("n", 2)
    made = session(parted(), LEFT, so=so)
    assert made.get_inputs()[0].shape == [2, 3]
    assert_same(made.run(None, {"x": X}), plain_session(parted()).run(None, {"x": X}))
    with pytest.raises(Exception, match="Got: 3 Expected: 2"):
        made.run(None, {"x": np.ones((3, 3), np.float32)})


def test_nothing_may_be_left_to_the_cpu():
    def alone(options):
        so = session_options()
        so.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        return onnxruntime.InferenceSession(parted().SerializeToString(), so, providers=[(ort.PROVIDER, options)])

    assert taken(alone(QUICK)) == (["Exp", "Relu", "Sin"], 1)
    with pytest.raises(Exception, match="fallback to CPU EP has been explicitly disabled"):
        alone(LEFT)


def test_arenas_and_memory_patterns():
    for pattern in (False, True):
        for arena in (False, True):
            made = session(parted(), LEFT, so=session_options(enable_mem_pattern=pattern, enable_cpu_mem_arena=arena))
            for rows in (2, 5, 2):
                x = np.ones((rows, 3), np.float32)
                assert_same(made.run(None, {"x": x}), plain_session(parted()).run(None, {"x": x}))


def test_some_outputs_of_a_model():
    """With only_execute_path_to_fetches nodes that others need are left out."""
    nodes = [node("Relu", ["x"], ["a"]), node("Sin", ["x"], ["b"])]
    model = model_of(nodes, {"x": (F32, ["n", 3])}, {"a": (F32, ["n", 3]), "b": (F32, ["n", 3])})
    made = session(model, LEFT)
    run = onnxruntime.RunOptions()
    run.only_execute_path_to_fetches = True
    for name in ("a", "b"):
        assert_same(made.run([name], {"x": X}, run), plain_session(model).run([name], {"x": X}))
