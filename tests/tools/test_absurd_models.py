"""Models that would need absurd memory or time are refused with the reason, or can be stopped, and neither takes long."""

import resource
import signal
import subprocess
import time

import numpy as np
import pytest
from camshaft_cli import BINARY

from onnx import TensorProto, helper, numpy_helper

MEMORY = 4 << 30
CPU_SECONDS = 60
TRILLION = 10**12
EDGE = 10**6


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def save(path, nodes, constants=(), inputs=(), functions=(), opset=18):
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()]
    graph = helper.make_graph(
        nodes,
        "absurd",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in dict(inputs).items()],
        [helper.make_empty_tensor_value_info("y")],
        constants,
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=9)
    path.write_bytes(model.SerializeToString())


def build(path, *options):
    command = [BINARY, "build", path, "-o", path.with_suffix(".engine"), "--threads", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limits, check=False)


def node(op, *inputs, **attributes):
    return helper.make_node(op, list(inputs), ["y"], **attributes)


ONE = np.ones(1, np.float32)
IMAGE = np.ones((1, 1, 4, 4), np.float32)
KERNEL = np.ones((1, 1, 3, 3), np.float32)

# name: node, constants, inputs
TOO_LARGE = {
    "expand": (node("Expand", "a", "s"), {"a": ONE, "s": [TRILLION]}, {}),
    "tile": (node("Tile", "a", "s"), {"a": ONE, "s": [TRILLION]}, {}),
    "tile_of_input": (node("Tile", "x", "s"), {"s": [TRILLION, TRILLION]}, {"x": [2, 3]}),
    "constant_of_shape": (node("ConstantOfShape", "s"), {"s": [EDGE, EDGE]}, {}),
    "constant_of_overflowing_shape": (node("ConstantOfShape", "s"), {"s": [2**40, 2**40]}, {}),
    "range": (node("Range", "a", "b", "c"), {"a": np.int64(0), "b": np.int64(2**62), "c": np.int64(1)}, {}),
    "range_of_floats": (
        node("Range", "a", "b", "c"),
        {"a": np.float32(0), "b": np.float32(1e30), "c": np.float32(1e-30)},
        {},
    ),
    "pad": (node("Pad", "a", "p"), {"a": ONE, "p": [0, TRILLION]}, {}),
    "pad_that_overflows": (node("Pad", "x", "p"), {"p": [2**62] * 4}, {"x": [2, 3]}),
    "resize": (node("Resize", "x", "", "s"), {"s": np.float32([1, 1, 1e9, 1e9])}, {"x": [1, 1, 4, 4]}),
    "resize_of_constant": (node("Resize", "a", "", "", "s"), {"a": IMAGE, "s": [1, 1, EDGE, EDGE]}, {}),
    "one_hot": (
        node("OneHot", "i", "d", "v"),
        {"i": [1, 2], "d": np.int64(TRILLION), "v": np.float32([0, 1])},
        {},
    ),
    "random": (node("RandomNormal", shape=[EDGE, EDGE]), {}, {}),
    "broadcast": (node("Add", "x", "z"), {}, {"x": [EDGE, 1], "z": [1, EDGE]}),
    "outer_product": (node("MatMul", "x", "z"), {}, {"x": [EDGE, 1], "z": [1, EDGE]}),
    "convolution_pads": (node("Conv", "x", "w", pads=[10**9] * 4), {"w": KERNEL}, {"x": [1, 1, 4, 4]}),
    "transposed_convolution_strides": (
        node("ConvTranspose", "x", "w", strides=[10**9, 10**9]),
        {"w": KERNEL},
        {"x": [1, 1, 4, 4]},
    ),
    "einsum": (node("Einsum", *["x"] * 6, equation="ab,cd,ef,gh,ij,kl->abcdefghijkl"), {}, {"x": [100, 100]}),
    "input": (node("Relu", "x"), {}, {"x": [EDGE, EDGE]}),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_absurd_sizes_are_refused(name, tmp_path):
    path = tmp_path / f"{name}.onnx"
    absurd, constants, inputs = TOO_LARGE[name]
    save(path, [absurd], constants, inputs)
    done = build(path)
    assert 0 < done.returncode < 126, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    reasons = (
        "out of memory",
        "could not allocate",
        "overflow",
        "impossible tensor size",
        "not possible",
        "than any memory",
        "cannot be padded by",
        "operations, and",
    )
    assert any(reason in done.stderr.lower() for reason in reasons), done.stderr
    assert "terminate called" not in done.stderr


def doubling(op, first, links):
    names = [first, *(f"t{i}" for i in range(links)), "y"]
    return [helper.make_node(op, [a, a], [b], axis=0) for a, b in zip(names, names[1:])]


def test_constants_that_double_are_not_folded_for_ever(tmp_path):
    path = tmp_path / "double.onnx"
    save(path, doubling("Concat", "a", 60), {"a": np.ones((2, 3), np.float32)})
    done = build(path)
    assert 0 < done.returncode < 126, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert "memory" in done.stderr


def test_functions_that_double_are_refused(tmp_path):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "F0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], imports)]
    for i in range(1, 40):
        calls = [
            helper.make_node(f"F{i - 1}", ["a"], ["t"], domain="local"),
            helper.make_node(f"F{i - 1}", ["t"], ["b"], domain="local"),
        ]
        functions.append(helper.make_function("local", f"F{i}", ["a"], ["b"], calls, imports))
    path = tmp_path / "functions.onnx"
    save(path, [helper.make_node("F39", ["x"], ["y"], domain="local")], inputs={"x": [2]}, functions=functions)
    done = build(path)
    assert done.returncode == 3, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert "when they are inlined" in done.stderr


def test_functions_that_double_up_to_the_limit_are_refused_soon(tmp_path):
    """They are counted before they are inlined; before that it took 45 s and more until there were so many."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "F0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], imports)]
    for i in range(1, 20):
        calls = [helper.make_node(f"F{i - 1}", [a], [b], domain="local") for a, b in (("a", "t"), ("t", "b"))]
        functions.append(helper.make_function("local", f"F{i}", ["a"], ["b"], calls, imports))
    path = tmp_path / "functions.onnx"
    save(path, [helper.make_node("F19", ["x"], ["y"], domain="local")], inputs={"x": [2]}, functions=functions)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = build(path)
    assert done.returncode == 3, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert "when they are inlined" in done.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 5


def endless_loop(trips):
    value = lambda name, dtype, shape: helper.make_tensor_value_info(name, dtype, shape)  # noqa: E731
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [
            value("i", TensorProto.INT64, []),
            value("c", TensorProto.BOOL, []),
            value("v", TensorProto.FLOAT, [2]),
        ],
        [value("d", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, [2])],
    )
    return helper.make_node("Loop", [trips, "c", "x"], ["y"], body=body)


@pytest.mark.parametrize("trips", ["", "m"], ids=["without_a_limit", "of_2_to_63"])
@pytest.mark.parametrize("constant", [False, True], ids=["of_an_input", "of_a_constant"])
def test_endless_loops_can_be_stopped(trips, constant, tmp_path):
    path = tmp_path / "loop.onnx"
    constants = {"c": np.array(True), "m": np.int64(2**63 - 1)}
    if constant:
        constants["x"] = np.ones(2, np.float32)
    save(path, [endless_loop(trips)], constants, {} if constant else {"x": [2]})
    # Its budget would end it, too.
    limit = ["--max-operations", "1e18"]
    command = [BINARY, "build", path, "-o", tmp_path / "loop.engine", "--threads", "1", *limit]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=limits) as process:
        time.sleep(2)
        assert process.poll() is None, "it should be running the loop"
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGINT), (process.returncode, message)
    assert not (tmp_path / "loop.engine").exists()


def interrupted(command, seconds):
    """Its exit code and message, when it is interrupted after so long."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=limits) as process:
        time.sleep(seconds)
        assert process.poll() is None, "it should still be running"
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    return process.returncode, message


# Some 10^12 operations each, minutes of one thread, in one layer.
SIDE = 10_000
LONG = {
    "product": (node("MatMul", "x", "z"), {}, {"x": [SIDE, SIDE], "z": [SIDE, SIDE]}),
    "convolution": (
        node("Conv", "x", "w", pads=[1] * 4),
        {"w": np.ones((1024, 1024, 3, 3), np.float32)},
        {"x": [1, 1024, 256, 512]},
    ),
    "windows": (node("AveragePool", "x", kernel_shape=[2001, 2001], pads=[1000] * 4), {}, {"x": [1, 1, 3000, 3000]}),
    "many windows": (
        node("AveragePool", "x", kernel_shape=[2001, 2001], pads=[1000] * 4),
        {},
        {"x": [1, 24, 2000, 2000]},
    ),
    "attention": (node("Attention", "x", "x", "x"), {}, {"x": [1, 1, 400_000, 64]}),
}
COMMANDS = {
    "verifying": ["build", "--tuning", "heuristic", "--max-operations", "1e18"],
    "measuring": ["build", "--no-verify", "--max-operations", "1e15"],
    "running": ["run", "--max-operations", "1e18", "--max-memory", "1e12"],
}


# Of the convolution alone there are several kernels to measure. Scores of attention are a tensor in what verifies it.
@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("verifying", "product"),
        ("verifying", "convolution"),
        ("verifying", "windows"),
        ("measuring", "convolution"),
        ("running", "product"),
        ("running", "convolution"),
        ("running", "many windows"),
        ("running", "attention"),
    ],
)
def test_large_layers_can_be_stopped(stage, name, tmp_path):
    path = tmp_path / f"{name}.onnx"
    save(path, [LONG[name][0]], *LONG[name][1:], opset=23 if name == "attention" else 18)
    code, message = interrupted([BINARY, *COMMANDS[stage], path, "--threads", "1"], 6)
    # While inputs are made up for a run there is nothing to clean up, and it ends at once.
    assert code == 130 or (stage == "running" and code == -signal.SIGINT), (code, message)
    assert "cancelled" in message or code < 0
    assert not path.with_suffix(".engine").exists()


def test_a_loop_without_end_is_refused(tmp_path):
    path = tmp_path / "loop.onnx"
    save(path, [endless_loop("")], {"c": np.array(True)}, {"x": [2]})
    done = build(path, "--max-operations", "1e11")
    assert done.returncode == 3, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert "operations" in done.stderr
    assert "--max-operations" in done.stderr


def test_work_beyond_the_budget_is_refused_before_it_is_begun(tmp_path):
    path = tmp_path / "product.onnx"
    save(path, [node("MatMul", "x", "z", name="the_large_one")], {}, {"x": [SIDE, SIDE], "z": [SIDE, SIDE]})
    done = build(path, "--max-operations", "1e12")
    assert done.returncode == 3, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    for part in ("2e+12 operations", "1e+12 are allowed", "'the_large_one'", "--max-operations"):
        assert part in done.stderr


def test_memory_beyond_the_budget_is_refused(tmp_path):
    path = tmp_path / "sum.onnx"
    nodes = [
        helper.make_node("Add", ["x", "z"], ["s"], name="the_large_one"),
        helper.make_node("ReduceSum", ["s"], ["y"], keepdims=0),
    ]
    save(path, nodes, {}, {"x": [20_000, 1], "z": [1, 20_000]})
    done = build(path, "--max-memory", "1e9")
    # Smaller inputs could be given: that is the way out, and what the exit code says.
    assert done.returncode == 2, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    for part in ("f32[20000, 20000]", "1.5 GiB", "953.7 MiB are allowed", "'the_large_one'", "--max-memory"):
        assert part in done.stderr


@pytest.mark.parametrize("option", ["--max-operations", "--max-memory"])
def test_budgets_are_numbers_above_zero(option, tmp_path):
    path = tmp_path / "m.onnx"
    save(path, [node("Relu", "x")], {}, {"x": [2]})
    for value in ("0", "-1", "nan", "inf", "much"):
        done = build(path, option, value)
        assert done.returncode == 2, (value, done.stdout, done.stderr)
        assert option[2:] in done.stderr


def test_small_results_of_large_windows_are_quick(tmp_path):
    """Windows and strides far beyond the image cost no more than the image."""
    pool = helper.make_node("AveragePool", ["x"], ["p"], kernel_shape=[10**9, 10**9], pads=[10**9 // 2] * 4)
    transposed = helper.make_node("ConvTranspose", ["p", "w"], ["y"], strides=[10**9, 10**9], output_shape=[3, 3])
    path = tmp_path / "windows.onnx"
    save(path, [pool, transposed], {"w": KERNEL}, {"x": [1, 1, 2, 2]})
    done = build(path)
    assert done.returncode < 126, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
