"""The Python module: engines for the CPU, errors, and, on the emulated GPU, memory of the device and streams."""

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft

import onnx
from onnx import TensorProto, helper

MODULE = BINARY.parent.parent / "python"
EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"
sys.path.insert(0, str(MODULE))
module = pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")


def make_model(path):
    """y = relu(x @ w), z = x[i], n = positions of x that are not 0."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("Relu", ["m"], ["y"]),
            helper.make_node("Gather", ["x", "i"], ["z"], axis=1),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 2]),
        ],
        [helper.make_tensor("w", TensorProto.FLOAT, [3, 4], [(i * 7 % 5) - 2 for i in range(12)])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


W = np.array([(i * 7 % 5) - 2 for i in range(12)], np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    model = make_model(folder / "model.onnx")
    camshaft("build", model, "-o", folder / "model.engine")
    return module.Engine(folder / "model.engine")


@pytest.fixture
def context(engine):
    return engine.create_context(threads=1)


def feed(batch, seed=0):
    x = np.random.default_rng(seed).standard_normal((batch, 3), np.float32)
    return {"x": x, "i": np.array([2, 0])}


def check(outputs, inputs):
    np.testing.assert_allclose(np.from_dlpack(outputs["y"]), np.maximum(inputs["x"] @ W, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.from_dlpack(outputs["z"]), inputs["x"][:, inputs["i"]])


def test_engine_describes_itself(engine):
    x, i = engine.inputs
    assert x == ("x", "f32", (-1, 3), ("batch", "3"), "f32[batch, 3]", "")
    assert (i.name, i.dtype, i.shape) == ("i", "i64", (2,))
    assert [output.name for output in engine.outputs] == ["y", "z"]
    assert engine.metadata["tuning"]


def test_runs(context):
    for batch in [1, 5, 1, 0]:
        inputs = feed(batch, batch)
        outputs = context.run(inputs)
        assert outputs["y"].shape == context.output_shape("y") == (batch, 4)
        assert repr(outputs["y"]) == f"<camshaft.Array f32[{batch}, 4] on the host>"
        check(outputs, inputs)


def test_bound_output(context):
    inputs, y = feed(3), np.full((4, 4), 9, np.float32)
    context.bind_output("y", y)
    context.run(inputs)
    np.testing.assert_allclose(y[:3], np.maximum(inputs["x"] @ W, 0), rtol=1e-5)
    assert (y[3] == 9).all()
    context.keep_output("y")
    context.run(feed(1))
    assert (y[3] == 9).all()


def test_what_is_bound_stays_alive(context):
    inputs = feed(1000)
    copies = {name: array.copy() for name, array in inputs.items()}
    for name in list(inputs):
        context.set_input(name, inputs.pop(name))
    gc.collect()
    outputs = context.run()
    check(outputs, copies)
    y = np.from_dlpack(outputs["y"])
    del context, outputs
    gc.collect()
    np.testing.assert_allclose(y, np.maximum(copies["x"] @ W, 0), rtol=1e-5)


def test_arrays_that_may_not_be_written(context):
    inputs = feed(2)
    inputs["x"].setflags(write=False)
    check(context.run(inputs), inputs)
    y = np.zeros((2, 4), np.float32)
    y.setflags(write=False)
    with pytest.raises(module.Error, match="output 'y' is bound to an array that may not be written"):
        context.bind_output("y", y)


class Subclass(np.ndarray):
    """What is not NumPy's array itself."""


def test_outputs_of_an_engine_are_the_callers(engine):
    """Of any batch, from arrays of any kind, in any order: the views that calls reuse are those of the last run."""
    kept = []
    for batch in [2, 2, 5, 1, 0, 5, 5]:
        inputs = feed(batch, len(kept))
        given = dict(inputs)
        if batch == 5:
            given["x"] = inputs["x"].view(Subclass)
        if len(kept) % 2:
            given["x"] = given["x"].copy()
            given["x"].setflags(write=False)
        kept.append((engine.run(given), inputs))
    for outputs, inputs in kept:
        check(outputs, inputs)
    kept[1][0]["y"][:] = 7  # nobody else's memory
    check(*kept[0])
    check(engine.run(kept[2][1]), kept[2][1])


def test_an_engine_takes_arrays_in_any_order(engine):
    inputs = feed(6)
    turned = {name: np.asfortranarray(array) for name, array in inputs.items()}
    assert any(not array.flags.c_contiguous for array in turned.values())
    check(engine.run(turned), inputs)
    check(asyncio.run(engine.run_async(turned)), inputs)
    halved = {**inputs, "x": inputs["x"][::2]}
    check(engine.run(halved), halved)
    with pytest.raises(module.Error, match="not row-major"):
        engine.create_context().run(turned)


@pytest.mark.parametrize("inputs", [feed(2)["x"], [feed(2)["x"]], 3], ids=["array", "list", "number"])
def test_inputs_without_names(engine, inputs):
    for run in (engine.run, engine.create_context().run, lambda given: asyncio.run(engine.run_async(given))):
        with pytest.raises(TypeError, match=r"a dict, \{name: array\}"):
            run(inputs)


def test_a_type_that_numpy_lacks_is_said_by_each_call():
    net = module.Network()
    net.output(net.Cast(net.input("x", "f32", (2,)), to="bf16"), "y")
    net.output(net.input("z", "f32", (2,)) + 1, "w")
    engine = module.build(net, verify=False)
    inputs = {"x": np.ones(2, np.float32), "z": np.ones(2, np.float32)}
    for _ in range(3):
        with pytest.raises((BufferError, RuntimeError)):
            engine.run(inputs)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda c: c.set_input("x", np.zeros((2, 3))), "a value of f64 is given"),
        (lambda c: c.set_input("x", np.zeros((3, 2), np.float32).T), "not row-major"),
        (lambda c: c.set_input("x", np.zeros((2, 4), np.float32)), r"\[2, 4\] does not fit"),
        (lambda c: c.set_input("x", np.zeros((2, 3), np.complex64)), "elements of DLPack's type 5 with 64 bits"),
        (lambda c: c.set_input("q", np.zeros((2, 3), np.float32)), "no input is named 'q'"),
        (lambda c: c.bind_output("q", np.zeros((2, 3), np.float32)), "no output is named 'q'"),
        (lambda c: c.bind_output("y", np.zeros((2, 4))), "output 'y' is f32, it is bound to an array of f64"),
        (lambda c: c.output("y"), "output 'y' has no data yet"),
        (lambda c: c.run(), "is not set yet"),
        (lambda c: c.enqueue(0), "this one runs on the CPU"),
        (lambda c: c.run(feed(2), stream=0), "runs on the CPU"),
        (lambda c: c.run({**feed(2), "i": np.array([7, 0])}), "index 7"),
    ],
)
def test_errors(context, call, message):
    with pytest.raises(module.Error, match=message) as caught:
        call(context)
    assert caught.value.code == "invalid argument"
    inputs = feed(2)
    check(context.run(inputs), inputs)


def test_other_errors(context, tmp_path):
    with pytest.raises(module.Error, match="absent.engine") as caught:
        module.Engine(tmp_path / "absent.engine")
    assert caught.value.code == "input/output error"
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        context.set_input("x", [1, 2, 3])


def test_on_the_emulated_gpu(tmp_path):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    command = [ROOT / "scripts/emulate_gpu.sh", sys.executable, Path(__file__).parent / "on_gpu.py", tmp_path]
    path = [str(MODULE), str(ROOT / "scripts"), str(Path(__file__).parent)]
    environment = {**os.environ, "CAMSHAFT_BUILD": str(BINARY.parent.parent), "PYTHONPATH": os.pathsep.join(path)}
    environment["CAMSHAFT_EMULATED_DEVICES"] = "2"
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is well" in done.stdout
