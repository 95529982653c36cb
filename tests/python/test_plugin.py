"""Operators that Python functions compute."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT
from test_module import module

from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def model_of(operator, *, inputs=1, outputs=1, kind=FLOAT, sizes=("n", 4), out=None, **attributes):
    """One node of the domain "py" after an addition: inputs x0, x1, …, outputs y0, y1, …."""
    names = [f"x{i}" for i in range(inputs)]
    nodes = [
        helper.make_node("Add", ["x0", "x0"], ["twice"]),
        helper.make_node(operator, ["twice", *names[1:]], [f"y{o}" for o in range(outputs)], domain="py", **attributes),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, list(sizes)) for name in names],
        [helper.make_tensor_value_info(f"y{o}", kind, list(out or sizes)) for o in range(outputs)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("py", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@module.plugin("py::Softcap", shape=lambda x, limit: x.shape)
def softcap(x: np.float32, limit=30.0):
    return limit * np.tanh(x / limit)


def test_builds_verifies_and_runs():
    engine = module.build(model_of("Softcap", limit=2.0))
    x = numbers(7, 4)
    np.testing.assert_allclose(engine(x), 2 * np.tanh(x), rtol=1e-6)
    assert any("py::Softcap" in line for line in engine.report["not_verified"])
    assert {"name": "py::Softcap", "kind": "plugin", "version": "1"}.items() <= next(
        p for p in module.plugins() if p["name"] == "py::Softcap"
    ).items()


def test_attributes_have_defaults_and_unknown_ones_are_refused():
    x = numbers(3, 4)
    np.testing.assert_allclose(module.build(model_of("Softcap"))(x), 30 * np.tanh(2 * x / 30), rtol=1e-6)
    with pytest.raises(module.InvalidModelError, match="there is no attribute limits"):
        module.build(model_of("Softcap", limits=2.0))


def test_an_engine_is_saved_and_loaded(tmp_path):
    module.build(model_of("Softcap", limit=2.0), tmp_path / "a.engine")
    x = numbers(5, 4)
    np.testing.assert_allclose(module.Engine(tmp_path / "a.engine")(x), 2 * np.tanh(x), rtol=1e-6)
    # A process that does not have the function.
    program = f"import sys; sys.path.insert(0, {str(BINARY.parent.parent / 'python')!r})\n"
    program += f"import camshaft; camshaft.Engine({str(tmp_path / 'a.engine')!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0 and "py::Softcap (version 1, of test_plugin.softcap" in done.stderr, done.stderr
    assert "imports the Python module of test_plugin.softcap first" in done.stderr and "--plugin" not in done.stderr


@module.plugin("py::Join", shape=lambda a, b: (a.shape[0] + b.shape[0], *a.shape[1:]))
def join(a, b):
    return np.concatenate([a, b])


def test_shape_rules_are_expressions():
    engine = module.build(model_of("Join", inputs=2, out=("m", 4)))
    assert engine.outputs[0].dim_names == ("2*n", "4")
    a, b = numbers(3, 4), numbers(3, 4, seed=1)
    np.testing.assert_array_equal(engine(a, b), np.concatenate([2 * a, b]))


@module.plugin("py::Halves", shape=lambda x: [(x.shape[0] // 2, 4), ("i64", (x.shape[0] - x.shape[0] // 2,))])
def halves(x):
    half = x.shape[0] // 2
    return x[:half], np.argmax(x[half:], axis=1)


def test_several_results_of_several_types():
    model = model_of("Halves", outputs=2)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    del model.graph.output[1].type.tensor_type.shape.dim[1]
    engine = module.build(model)
    x = numbers(5, 4)
    y, best = engine(x)
    np.testing.assert_array_equal(y, 2 * x[:2])
    np.testing.assert_array_equal(best, np.argmax(x[2:], axis=1))


@module.plugin("py::Positive", shape=lambda x: (None,))
def positive(x):
    return x[x > 0]


def test_sizes_that_only_running_tells():
    engine = module.build(model_of("Positive", out=("m",)))
    for rows in [1, 6, 3]:
        x = numbers(rows, 4, seed=rows)
        np.testing.assert_array_equal(engine(x), 2 * x[x > 0])


@module.plugin("py::Places", shape=lambda x: ("int32", (None,)))
def places(x):
    return np.flatnonzero(x > 0)  # i64, which is twice as many bytes


def test_results_of_sizes_that_only_running_tells_are_cast_as_others_are():
    model = model_of("Places", out=("m",))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    engine = module.build(model, verify=False)
    x = numbers(600, 4)
    got = engine(x)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, np.flatnonzero(x > 0))


def test_narrow_floats_come_as_f32_where_the_annotation_says_so():
    engine = module.build(model_of("Softcap", kind=TensorProto.FLOAT16, limit=2.0))
    x = numbers(3, 4).astype(np.float16)
    got = engine(x)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(np.float32), 2 * np.tanh(x.astype(np.float32)), rtol=4e-3, atol=1e-3)


def test_calibration_runs_them():
    net = module.Network("calibrated")
    capped = net.domain("py").Softcap(net.input("x", "f32", ["n", 64]), limit=2.0)
    net.output(net.MatMul(capped, numbers(64, 64, seed=9)), "y")
    calibration = module.calibrate(net, [{"x": 10 * numbers(16, 64, seed=s)} for s in range(4)])
    engine = module.build(net, int8=True, calibration=calibration)
    x = 10 * numbers(5, 64, seed=9)
    want = 2 * np.tanh(x / 2) @ numbers(64, 64, seed=9)
    assert np.abs(engine(x) - want).max() < 0.03 * np.abs(want).max()


def test_many_threads_run_them_at_once():
    engine = module.build(model_of("Softcap", limit=2.0))
    wrong = []

    def work(seed):
        context = engine.create_context(threads=2)
        for i in range(50):
            x = numbers(1 + (seed + i) % 9, 4, seed=seed)
            if not np.allclose(np.from_dlpack(context.run({"x0": x})["y0"]), 2 * np.tanh(x), rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@module.plugin("py::Raises")
def raises(x):
    raise KeyError("what is not there")


@module.plugin("py::WrongShape", shape=lambda x: (x.shape[0], 5))
def wrong_shape(x):
    return x


@module.plugin("py::WrongType", shape=lambda x: ("i32", x.shape))
def wrong_type(x):
    return x


@module.plugin("py::WrongCount")
def wrong_count(x):
    return x, x


@module.plugin("py::BadRule", shape=lambda x: (x.shape[0] + "]",))
def bad_rule(x):
    return x


@module.plugin("py::NoShape", shape=lambda x: 7)
def no_shape(x):
    return x


@module.plugin("py::Brain", shape=lambda x: ("bf16", x.shape))
def brain(x):
    return x


@module.plugin("py::LateBrain", shape=lambda x: ("bf16", (None,)))
def late_brain(x):
    return x.ravel()


@module.plugin("py::Scribbles")
def scribbles(x):
    x[...] = 1
    return x


@pytest.mark.parametrize(
    "name, what",
    [
        ("Raises", "KeyError: 'what is not there'"),
        ("WrongShape", "result 0 has the shape .*, its shape rule says"),
        ("WrongType", "Cannot cast"),
        ("WrongCount", "the function gives 2 results, the node has 1"),
        ("BadRule", "not a dimension expression"),
        ("NoShape", "the shape rule gives a shape, .*, and not 7"),
        ("Brain", "NumPy has no bf16: .* give f32"),
        ("LateBrain", "NumPy has no bf16: .* give f32"),
        ("Scribbles", "wrote to its input 0"),
    ],
)
def test_what_goes_wrong_is_named(name, what):
    model = model_of(name, out=("n", 5) if name == "WrongShape" else None)
    with pytest.raises(module.Error, match=what) as caught:
        module.build(model)
    assert f"py::{name}" in str(caught.value)


def test_a_name_has_one_meaning():
    with pytest.raises(module.InvalidArgumentError, match="one process can have one of them"):

        @module.plugin("py::Softcap", shape=lambda x, limit: x.shape)
        def another(x, limit=1.0):
            return x

    with pytest.raises(module.InvalidArgumentError, match="which Camshaft has itself"):

        @module.plugin("Relu")
        def relu(x):
            return x


@module.plugin(
    "py::ScaleChannels",
    shape=lambda x, factors: x.shape,
    input_layouts=["channels_last", "channels_first"],
    output_layouts=["channels_last"],
)
def scale_channels(x: np.float32, factors: np.float32):
    assert x.flags.c_contiguous
    assert x.shape[-1] == factors.size
    return x * factors.reshape(-1)


@pytest.mark.parametrize("sizes", [("n", 3), ("n", 3, 7), ("n", 3, "h", 4), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("kind, tolerance", [(FLOAT, 1e-6), (TensorProto.FLOAT16, 4e-3)])
def test_operands_and_results_come_in_the_order_of_axes_that_is_asked_for(sizes, kind, tolerance):
    model = model_of("ScaleChannels", inputs=2, kind=kind, sizes=sizes)
    for size in model.graph.input[1].type.tensor_type.shape.dim:  # factors are [1, 3, 1, 1], as they are in the model
        size.dim_value = 1
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 3
    x = numbers(*[5 if isinstance(size, str) else size for size in sizes])
    factors = np.array([1, -2, 0.5], np.float32).reshape(1, 3, *[1] * (len(sizes) - 2))
    dtype = np.float32 if kind == FLOAT else np.float16
    got = module.build(model)(x.astype(dtype), factors.astype(dtype))
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float32), 2 * x * factors, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layouts", ["channels_last", ["nhwc"], [1]])
def test_unknown_layouts_are_named(layouts):
    with pytest.raises(ValueError, match=r"layouts of the plugin py::Other .* channels_first and channels_last"):
        module.plugin("py::Other", input_layouts=layouts)


def test_another_layout_is_another_operator():
    def moved(x):
        return x

    module.plugin("py::Moved", input_layouts=["channels_last"])(moved)
    with pytest.raises(module.InvalidArgumentError, match="one process can have one of them"):
        module.plugin("py::Moved")(moved)


def test_text_is_an_operator():
    module.load_plugin("py::Swish(x,beta=1)=x/(1+exp(-beta*x))")
    x = numbers(9, 4)
    a = 2 * x.astype(np.float64)
    np.testing.assert_allclose(module.build(model_of("Swish", beta=0.5))(x), a / (1 + np.exp(-a / 2)), rtol=1e-5)


def test_networks_have_them():
    module.load_plugin("py::Cubed(x, factor = 1) = factor * x * x * x")
    net = module.Network("plugins")
    x = net.input("x", "f32", ["n", 4])
    y = net.domain("py").Softcap(x, limit=2.0)
    net.output(net.domain("py").Cubed(y, factor=3.0), "y")
    value = numbers(3, 4)
    np.testing.assert_allclose(module.build(net)(value), 3 * (2 * np.tanh(value / 2)) ** 3, rtol=1e-5)
    with pytest.raises(module.InvalidArgumentError, match="no attribute 'limit'"):
        net.domain("py").Cubed(y, limit=3.0)
    with pytest.raises(AttributeError, match="no operator 'Nothing'"):
        net.domain("py").Nothing(y)


def test_instances_do_not_pile_up():
    def alive():
        gc.collect()
        return sum(type(o).__name__ == "_Instance" for o in gc.get_objects())

    for i in range(300):
        module.build(model_of("Softcap", limit=float(i + 1)), verify=False, tuning="heuristic")
    assert alive() <= 300


def test_a_plugin_may_run_another_engine():
    """In a build, too, whose threads are not Python's: what they keep (contexts of that engine) ends with each call."""
    info = [helper.make_tensor_value_info(name, FLOAT, ["n", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    relu = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inner = module.build(relu, verify=False, tuning="heuristic")

    @module.plugin("py::Inner")
    def run_inner(x: np.float32):
        return np.asarray(inner(x)) + 1

    engine = module.build(model_of("Inner"), verify=True, tuning="heuristic")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_array_equal(engine(x), np.maximum(2 * x, 0) + 1)


def test_numbers_of_expressions_on_integers_are_whole():
    module.load_plugin("py::Halved(x, by = 2) = x * 0.5 * by")
    module.load_plugin("py::Tripled(x, by = 3) = x * by - 1")
    for operator, attributes, number in (
        ("Halved", {}, "0.5"),
        ("Tripled", {"by": 1.5}, "1.5"),
        ("Tripled", {"by": 3e9}, "3"),
    ):
        with pytest.raises(module.Error, match=f"operands are i32, which has no {number}.*cast them to f32"):
            module.build(model_of(operator, kind=TensorProto.INT32, **attributes))
    tripled = module.build(model_of("Tripled", kind=TensorProto.INT32))
    x = np.array([[1, -2, 3, 4]], np.int32)
    np.testing.assert_array_equal(tripled(x), 6 * x - 1)


def test_annotations_may_be_of_torch():
    class Float32:
        __str__ = lambda self: "torch.float32"  # noqa: E731

    from camshaft._plugin import _types_of

    assert _types_of(Float32()) == _types_of(np.float32)
    with pytest.raises(TypeError, match="operands cannot be nothing like it: .* are possible"):
        _types_of("nothing like it")


@pytest.mark.parametrize("example, operator", [("softcap.py", "Softcap"), ("expression.py", "Swish")])
def test_the_examples_are_short_and_run(tmp_path, example, operator):
    folder = ROOT / "examples" / "plugins"
    assert len((folder / example).read_text().splitlines()) <= 15
    for command in (["make_model.py", operator, tmp_path / "m.onnx"], [example, tmp_path / "m.onnx"]):
        program = [sys.executable, folder / command[0], *command[1:]]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("["), done.stdout


@pytest.mark.parametrize("body", ["sleeps", "spins", "no plugin"])
def test_python_ends_while_a_thread_runs_an_engine(body):
    """Python ends such a thread where it asks for the lock: in a plugin's function that never returns, or behind a run."""
    program = """
import sys, threading, time
import numpy as np
import camshaft

started, never = threading.Event(), False

@camshaft.plugin("py::Never")
def function(x: np.float32):
    if never:
        started.set()
    while never:
        if sys.argv[1] == "sleeps":
            time.sleep(0.001)
    return x

net = camshaft.Network("n")
x = net.input("x", np.float32, (256, 256))
y = net.MatMul(x, x) if sys.argv[1] == "no plugin" else net.domain("py").Never(x)
net.output(y, "y")
engine = camshaft.build(net, tuning="heuristic")
never = True
x = np.zeros((256, 256), np.float32)

def runs():
    while True:
        engine(x)
        started.set()

for _ in range(2):
    threading.Thread(target=runs, daemon=True).start()
started.wait()
print("ends", flush=True)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(3):
        command = [sys.executable, "-c", program, body]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout == "ends\n", (done.returncode, done.stderr)


def test_verification_of_plugins_does_not_wait_for_pythons_lock():
    """Bodies run on threads of the library's own while the build's caller waits."""
    program = """
import sys, threading
import numpy as np
import camshaft
sys.path.insert(0, sys.argv[1])
from test_plugin import model_of, numbers

@camshaft.plugin("py::Verified")
def verified(x: np.float32, limit=30.0):
    seen.add(threading.get_ident())
    return limit * np.tanh(x / limit)

seen, caller = set(), threading.get_ident()
camshaft.set_plugin_checks(guards=True, verify=True)
engines = {}
def build(name):
    engines[name] = camshaft.build(model_of("Verified"), progress=lambda stage, part: None)
others = [threading.Thread(target=build, args=(i,)) for i in range(3)]
for other in others:
    other.start()
build("here")
for other in others:
    other.join()
assert len(engines) == 4 and any(ident != caller for ident in seen)
for engine in engines.values():
    np.testing.assert_allclose(engine(numbers(3, 4)), 30 * np.tanh(2 * numbers(3, 4) / 30), rtol=1e-6)
try:
    import camshaft.tensorrt as trt
except ImportError:
    sys.exit()
builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
network = builder.create_network()
parser = trt.OnnxParser(network, builder.logger)
assert parser.parse(model_of("Verified").SerializeToString())
assert builder.build_serialized_network(network, builder.create_builder_config())
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    command = [sys.executable, "-c", program, os.path.dirname(__file__)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
