"""Files of some hundred bytes that ask for hours: every command refuses them with one message, within its default
budget, and what runs them all the same ends at Ctrl-C."""

import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from camshaft_cli import BINARY

from onnx import TensorProto, helper, numpy_helper

CPU_SECONDS = 120
LITTLE_MEMORY = 2 << 30


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def endless(depth):
    """A loop of 10^6 rounds of such loops of one less."""
    value = helper.make_tensor_value_info
    inner = (
        node("Sin", "v0", "w0") if depth == 0 else node("Loop", f"n t v{depth}", f"w{depth}", body=endless(depth - 1))
    )
    kept = node("Identity", f"c{depth}", f"k{depth}")
    return helper.make_graph(
        [inner, kept],
        f"body{depth}",
        [
            value(f"i{depth}", TensorProto.INT64, []),
            value(f"c{depth}", TensorProto.BOOL, []),
            value(f"v{depth}", TensorProto.FLOAT, []),
        ],
        [value(f"k{depth}", TensorProto.BOOL, []), value(f"w{depth}", TensorProto.FLOAT, [])],
    )


# name: the nodes from the scalar %r to the scalar %q, and their constants
HOSTILE = {
    "product": (
        [node("Expand", "r s", "a"), node("MatMul", "a a", "b"), node("ReduceMax", "b", "q", keepdims=0)],
        {"s": [20_000, 20_000]},
    ),
    "convolution": (
        [
            node("Expand", "r s", "a"),
            node("Expand", "r k", "w"),
            node("Conv", "a w", "b"),
            node("ReduceMax", "b", "q", keepdims=0),
        ],
        {"s": [1, 8, 3000, 3000], "k": [8, 8, 1000, 1000]},
    ),
    "windows": (
        [
            node("Expand", "r s", "a"),
            node("AveragePool", "a", "b", kernel_shape=[2001, 2001], pads=[1000] * 4),
            node("ReduceMax", "b", "q", keepdims=0),
        ],
        {"s": [1, 1, 9000, 9000]},
    ),
    "order": (
        [node("Expand", "r s", "a"), node("TopK", "a s", "b i"), node("ReduceMax", "b", "q", keepdims=0)],
        {"s": [800_000_000]},
    ),
    "picture": (
        [
            node("Expand", "r s", "a"),
            node("Resize", "a none f", "b", mode="cubic"),
            node("ReduceMax", "b", "q", keepdims=0),
        ],
        {"s": [1, 1, 16, 16], "f": np.float32([1, 1, 2500, 2500])},
    ),
    "texts": (
        [
            node("Expand", "p s", "a"),
            node("StringConcat", "a a", "b"),
            node("Equal", "b b", "e"),
            node("Cast", "e", "f", to=TensorProto.FLOAT),
            node("ReduceMax", "f", "g", keepdims=0),
            node("Add", "g r", "q"),
        ],
        {"s": [500_000_000], "p": np.array(["ab"], dtype=object)},
    ),
    "loops": ([node("Loop", "n t r", "q", body=endless(3))], {"n": np.int64(10**6), "t": np.bool_(True)}),
}

COMMANDS = {
    "build": ["build", "MODEL", "-o", "OUT.engine"],
    "simplify": ["simplify", "MODEL", "-o", "OUT.onnx"],
    "verify": ["verify", "MODEL"],
    "calibrate": ["calibrate", "MODEL", "-o", "OUT.json", "--data", "DATA"],
    "quantize": ["quantize", "MODEL", "-o", "OUT.onnx", "--data", "DATA"],
    "bench": ["bench", "MODEL"],
    "trtexec": ["trtexec", "--onnx=MODEL"],
    "run": ["run", "MODEL"],
    "report": ["report", "MODEL", "-o", "OUT.html"],
    "inspect": ["inspect", "MODEL"],
    "run without limits": ["run", "MODEL", "--max-operations", "1e18", "--max-memory", "1e12"],
}


@pytest.fixture
def hostile(tmp_path):
    """(name, command): the command on that model, as words."""

    def made(name, command):
        nodes, constants = HOSTILE[name]
        for one in nodes:
            one.input[:] = ["" if word == "none" else word for word in one.input]
        # What is calibrated and quantised is the product with weights.
        head = [node("MatMul", "x weights", "product"), node("ReduceMax", "product", "r", keepdims=0)]
        constants = {"weights": np.float32(np.arange(16).reshape(4, 4) / 16), **constants}
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            [*head, *nodes, node("Add", "product q", "y")],
            "hostile",
            [info("x", TensorProto.FLOAT, [4, 4])],
            [info("y", TensorProto.FLOAT, [4, 4])],
            [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        path = tmp_path / "hostile.onnx"
        path.write_bytes(model.SerializeToString())
        assert path.stat().st_size < 1500
        np.savez(tmp_path / "data.npz", x=np.ones((4, 4), np.float32))
        places = {"MODEL": str(path), "DATA": str(tmp_path / "data.npz")}
        words = [word.replace("OUT", str(tmp_path / "out")) for word in COMMANDS[command]]
        for key, value in places.items():
            words = [word.replace(key, value) for word in words]
        return [str(BINARY), *words]

    return made


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# A calibration runs loops.
REFUSING = [
    (command, name)
    for command in ("build", "simplify", "verify", "trtexec", "run", "bench", "report")
    for name in HOSTILE
    # Kernels take seconds for it, and just less memory than is allowed.
    if name != "picture" or command not in ("run", "bench", "report")
]
REFUSING += [
    (command, name) for command in ("calibrate", "quantize") for name in ("product", "convolution", "windows", "texts")
]


@pytest.mark.parametrize(("command", "name"), REFUSING)
def test_what_takes_hours_is_refused_with_one_message(command, name, hostile, tmp_path):
    done = subprocess.run(
        hostile(name, command), capture_output=True, text=True, preexec_fn=limits, check=False, stdin=subprocess.DEVNULL
    )
    assert 0 < done.returncode < 126, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert not list(tmp_path.glob("out*"))
    errors = [line for line in (done.stdout + done.stderr).splitlines() if "error:" in line or "[E]" in line]
    assert len(errors) == 1, done.stdout + done.stderr
    assert "are allowed" in errors[0]
    assert "--max-" in errors[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_only_looked_at_is_not_computed(name, hostile):
    def little():
        limits()
        resource.setrlimit(resource.RLIMIT_AS, (LITTLE_MEMORY, LITTLE_MEMORY))

    done = subprocess.run(hostile(name, "inspect"), capture_output=True, text=True, preexec_fn=little, check=False)
    # Texts are folded: that is not begun.
    assert done.returncode == 0 or (name == "texts" and "are allowed" in done.stderr), done.stdout + done.stderr


RUNNING = [("run without limits", name) for name in ("product", "convolution", "windows", "loops")]
RUNNING += [("calibrate", "loops"), ("quantize", "loops")]


@pytest.mark.parametrize(("command", "name"), RUNNING)
def test_what_is_run_anyway_ends_at_the_first_signal(command, name, hostile, tmp_path):
    with subprocess.Popen(
        hostile(name, command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limits
    ) as process:
        time.sleep(1)
        assert process.poll() is None, "it should still be running"
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    # While inputs are made up there is nothing to clean up, and it ends at once.
    assert process.returncode in (130, -signal.SIGINT), message
    assert not list(tmp_path.glob("out*"))


def test_texts_keep_within_the_memory_allowed(tmp_path):
    """One that is joined with itself again and again, of which every length stays as a constant."""
    nodes = [node("StringConcat", f"t{i} t{i}", f"t{i + 1}") for i in range(40)]
    graph = helper.make_graph(
        nodes,
        "texts",
        [],
        [helper.make_tensor_value_info("t40", TensorProto.STRING, [1])],
        [numpy_helper.from_array(np.array(["abcdefgh"], dtype=object), "t0")],
    )
    path = tmp_path / "texts.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    allowed = 200 << 20
    words = [str(BINARY), "build", path, "-o", tmp_path / "out.engine", "--max-memory", str(allowed)]
    # What a process takes at most counts, in Linux, also the memory of the one that started it, which is gigabytes
    # after some thousand tests: a process of a few megabytes is between them.
    run = (
        "import resource, subprocess, sys\n"
        "status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
        "print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)"
    )
    ended = subprocess.run([sys.executable, "-S", "-c", run, *words], capture_output=True, text=True, check=True)
    status, used = map(int, ended.stdout.split())
    assert status == 6 and "--max-memory" in ended.stderr, ended.stderr
    assert "folding the constant 't" in ended.stderr, ended.stderr
    # The largest that fits is 64 MB of 127 in all, beside the program itself.
    assert used < allowed + (150 << 20)
