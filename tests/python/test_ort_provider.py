"""The execution provider of ONNX Runtime: registration, what it takes and what it leaves, shapes, types, threads."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from ort_sessions import (
    BOOL,
    F16,
    F32,
    I64,
    MODULE,
    QUICK,
    TEXT,
    assert_same,
    model_of,
    onnxruntime,
    ort,
    plain_session,
    session,
    session_options,
    taken,
)

from onnx import TensorProto, helper

node = helper.make_node
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True, scope="module")
def registered():
    ort.register()
    yield
    ort.unregister()


def mul(sizes=("n", 3)):
    return model_of([node("Mul", ["a", "b"], ["c"])], {"a": (F32, sizes), "b": (F32, sizes)}, {"c": (F32, sizes)})


def floats(*sizes):
    return RNG.standard_normal(sizes).astype(np.float32)


def check(model, feed, operators=None, engines=None, options=None, tolerance=1e-5):
    """The same results as ONNX Runtime's own, and where the nodes run."""
    made = session(model, options)
    assert_same(made.run(None, feed), plain_session(model).run(None, feed), tolerance)
    if operators is not None:
        assert taken(made) == (sorted(operators), engines)
    return made


def test_one_node():
    feed = {"a": floats(2, 3), "b": floats(2, 3)}
    made = check(mul(), feed, ["Mul"], 1)
    assert made.get_providers()[0] == ort.PROVIDER


def test_registering_again_is_of_no_effect():
    ort.register()
    assert len(ort.devices()) == 1
    assert onnxruntime.get_available_providers().count(ort.PROVIDER) <= 1  # none in older versions


def test_there_is_one_library_in_the_process():
    import camshaft._native

    assert ort.library_path() == camshaft._native.__file__
    with open("/proc/self/maps") as maps:
        libraries = {line.split()[-1] for line in maps if "libcamshaft" in line or "_native.abi3" in line}
    assert libraries == {camshaft._native.__file__}


def test_the_name_is_unknown_again_after_unregistering():
    ort.unregister()
    try:
        assert ort.devices() == [] and ort.PROVIDER not in onnxruntime.get_available_providers()
        with pytest.raises(Exception, match="not in available provider names"):
            session(mul())
    finally:
        ort.register()


def test_a_session_may_outlive_the_registration():
    made, feed = session(mul()), {"a": floats(2, 3), "b": floats(2, 3)}
    ort.unregister()
    try:
        assert np.array_equal(made.run(None, feed)[0], feed["a"] * feed["b"])
        del made
    finally:
        ort.register()


def test_devices_and_session_options_without_the_name():
    so = session_options()
    so.add_provider_for_devices(ort.devices(), QUICK)
    made = onnxruntime.InferenceSession(mul().SerializeToString(), so)
    assert taken(made) == (["Mul"], 1)


def test_provider_options_in_a_list_of_their_own():
    made = onnxruntime.InferenceSession(
        mul().SerializeToString(),
        session_options(),
        providers=[ort.PROVIDER, "CPUExecutionProvider"],
        provider_options=[QUICK, {}],
    )
    assert taken(made) == (["Mul"], 1)
    with pytest.raises(ValueError, match="same length"):
        onnxruntime.InferenceSession(
            mul().SerializeToString(), providers=[ort.PROVIDER], provider_options=[{}, {}], enable_fallback=0
        )


def test_session_options_may_be_used_again_with_other_options():
    so = session_options()
    first = session(mul(), {**QUICK, "exclude-operators": "Mul"}, so=so)
    second = session(mul(), QUICK, so=so)
    assert taken(first) == ([], 0) and taken(second) == (["Mul"], 1)


def test_other_sessions_are_as_before():
    made = onnxruntime.InferenceSession(mul().SerializeToString(), providers=["CPUExecutionProvider"])
    assert made.get_providers() == ["CPUExecutionProvider"]


def chain(*operators):
    """x through operators in turn; those of the domain "mine" do not exist, and others run them."""
    names = ["x", *(f"t{i}" for i in range(len(operators) - 1)), "y"]
    return [node(op, [a], [b]) for op, a, b in zip(operators, names, names[1:])]


def test_what_others_run_is_between_engines():
    model = model_of(chain("Relu", "Sin", "Neg", "Exp"), {"x": (F32, ["n"])}, {"y": (F32, ["n"])})
    options = {**QUICK, "exclude_operators": "Sin"}
    check(model, {"x": floats(5)}, ["Exp", "Neg", "Relu"], 2, options)


def test_parallel_branches_are_one_engine():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Neg", ["x"], ["b"]),
        node("Sin", ["a"], ["c"]),
        node("Add", ["b", "a"], ["d"]),
        node("Mul", ["c", "d"], ["e"]),
        node("Tanh", ["e"], ["y"]),
    ]
    model = model_of(nodes, {"x": (F32, ["n", 4])}, {"y": (F32, ["n", 4]), "d": (F32, ["n", 4])})
    options = {**QUICK, "exclude-operators": "Sin"}
    check(model, {"x": floats(3, 4)}, ["Add", "Mul", "Neg", "Relu", "Tanh"], 2, options)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_with_random_nodes_left_out(seed):
    rng = np.random.default_rng(seed)
    print("seed", seed)
    values, nodes = ["x", "w"], []
    for i in range(30):
        op = rng.choice(["Add", "Mul", "Sub", "Max", "Sin", "Cos", "Tanh", "Sigmoid"])
        count = 2 if op in ("Add", "Mul", "Sub", "Max") else 1
        nodes.append(node(op, [str(rng.choice(values)) for _ in range(count)], [f"v{i}"]))
        values.append(f"v{i}")
    outputs = {f"v{i}": (F32, ["n", 5]) for i in (29, 20, 11)}
    model = model_of(nodes, {"x": (F32, ["n", 5])}, outputs, {"w": rng.standard_normal(5).astype(np.float32)})
    left = ",".join(rng.choice(["Add", "Mul", "Sub", "Max", "Sin", "Cos", "Tanh", "Sigmoid"], 3, replace=False))
    made = check(
        model, {"x": rng.standard_normal((4, 5)).astype(np.float32)}, options={**QUICK, "exclude-operators": left}
    )
    assert not {op for op in taken(made)[0] if op in left.split(",")}


def test_an_operator_that_camshaft_lacks_is_left_to_others():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("NGramRepeatBlock", ["ids", "a"], ["b"], domain="com.microsoft", ngram_size=2),
        node("Neg", ["b"], ["y"]),
    ]
    model = model_of(
        nodes,
        {"x": (F32, [1, 6]), "ids": (I64, [1, 4])},
        {"y": (F32, [1, 6])},
        domains=["com.microsoft"],
    )
    made = check(model, {"x": floats(1, 6), "ids": np.array([[1, 2, 1, 3]])})
    operators, _ = taken(made)
    assert "Relu" in operators and "Neg" in operators


@pytest.mark.parametrize("by_devices", [False, True])
def test_the_log_says_why_a_node_is_left(capfd, by_devices):
    model = model_of(chain("Relu", "Sin"), {"x": (F32, ["n"])}, {"y": (F32, ["n"])})
    options = {**QUICK, "exclude-operators": "Sin"}
    if by_devices:
        so = session_options(log_severity_level=1)
        so.add_provider_for_devices(ort.devices(), options)
        onnxruntime.InferenceSession(model.SerializeToString(), so)
    else:
        onnxruntime.set_default_logger_severity(1)
        session(model, options, so=session_options(log_severity_level=1))
        onnxruntime.set_default_logger_severity(2)
    said = capfd.readouterr().err
    assert "(Sin) is left to other providers: the option exclude-operators names it" in said
    assert "1 of 2 nodes are in 1 engines" in said


def test_a_group_of_too_few_nodes_is_left():
    model = model_of(chain("Relu", "Sin", "Neg", "Exp"), {"x": (F32, ["n"])}, {"y": (F32, ["n"])})
    options = {**QUICK, "exclude-operators": "Sin", "min-subgraph-size": "2"}
    check(model, {"x": floats(5)}, ["Exp", "Neg"], 1, options)


def test_sizes_change_from_run_to_run():
    weights = floats(6, 7)
    model = model_of(
        [node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["y"], axis=-1)],
        {"x": (F32, ["batch", "length", 6])},
        {"y": (F32, ["batch", "length", 7])},
        {"w": weights},
    )
    made, plain = session(model), plain_session(model)
    for sizes in ((1, 1), (3, 5), (2, 9), (1, 1), (0, 4), (3, 5)):
        feed = {"x": floats(*sizes, 6)}
        assert_same(made.run(None, feed), plain.run(None, feed))


def test_sizes_that_only_running_tells():
    nodes = [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["i"]), node("Cast", ["i"], ["f"], to=F32)]
    model = model_of(nodes, {"x": (F32, ["n", "m"])}, {"f": (F32, [2, None]), "r": (F32, ["n", "m"])})
    made = check(model, {"x": floats(4, 5)}, ["Cast", "NonZero", "Relu"], 1)
    plain = plain_session(model)
    for feed in ({"x": -np.ones((3, 2), np.float32)}, {"x": floats(2, 8)}):
        assert_same(made.run(None, feed), plain.run(None, feed))


def test_scalars_and_texts():
    nodes = [
        node("StringConcat", ["a", "b"], ["ab"]),
        node("Identity", ["s"], ["t"]),
    ]
    model = model_of(
        nodes, {"a": (TEXT, ["n"]), "b": (TEXT, ["n"]), "s": (F32, [])}, {"ab": (TEXT, ["n"]), "t": (F32, [])}
    )
    made = session(model)
    a, b = np.array(["x", "", "ü\n"], object), np.array(["1", "", "and more than fits in place"], object)
    ab, t = made.run(None, {"a": a, "b": b, "s": np.array(2.5, np.float32)})
    assert ab.tolist() == ["x1", "", "ü\nand more than fits in place"] and t == np.float32(2.5)
    assert "StringConcat" in taken(made)[0]


def test_half_precision():
    model = model_of(
        [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
        {"x": (F16, ["n", 8])},
        {"y": (F16, ["n", 4])},
        {"w": floats(8, 4).astype(np.float16)},
    )
    check(model, {"x": floats(3, 8).astype(np.float16)}, ["MatMul", "Relu"], 1, tolerance=2e-3)


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_is_taken_with_its_bodies(condition):
    def body(name, op):
        out = helper.make_tensor_value_info("r", F32, ["n"])
        return helper.make_graph([node(op, ["h"], ["r"])], name, [], [out])

    nodes = [
        node("Relu", ["x"], ["h"]),
        node("If", ["c"], ["y"], then_branch=body("then", "Neg"), else_branch=body("else", "Exp")),
    ]
    model = model_of(nodes, {"x": (F32, ["n"]), "c": (BOOL, [])}, {"y": (F32, ["n"])})
    check(model, {"x": floats(4), "c": np.array(condition)}, ["If", "Relu"], 1)


def test_a_loop_is_taken_with_its_body():
    body = helper.make_graph(
        [
            node("Add", ["s", "w"], ["s2"]),
            node("Identity", ["c"], ["c2"]),
            node("Mul", ["s2", "s2"], ["scan"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", I64, []),
            helper.make_tensor_value_info("c", BOOL, []),
            helper.make_tensor_value_info("s", F32, [2]),
        ],
        [
            helper.make_tensor_value_info("c2", BOOL, []),
            helper.make_tensor_value_info("s2", F32, [2]),
            helper.make_tensor_value_info("scan", F32, [2]),
        ],
    )
    model = model_of(
        [node("Loop", ["n", "", "x"], ["last", "all"], body=body)],
        {"n": (I64, []), "x": (F32, [2])},
        {"last": (F32, [2]), "all": (F32, [None, 2])},
        {"w": floats(2)},
    )
    check(model, {"n": np.array(5), "x": floats(2)}, ["Loop"], 1)


def test_a_body_that_reads_what_cannot_be_handed_over_stays_with_others():
    body = helper.make_graph([node("Neg", ["h"], ["r"])], "then", [], [helper.make_tensor_value_info("r", F32, ["n"])])
    other = helper.make_graph([node("Exp", ["h"], ["r"])], "else", [], [helper.make_tensor_value_info("r", F32, ["n"])])
    nodes = [node("Sin", ["x"], ["h"]), node("If", ["c"], ["y"], then_branch=body, else_branch=other)]
    model = model_of(nodes, {"x": (F32, ["n"]), "c": (BOOL, [])}, {"y": (F32, ["n"])})
    check(model, {"x": floats(4), "c": np.array(True)}, [], 0, {**QUICK, "exclude-operators": "Sin"})


def test_sequences_stay_within_an_engine_or_with_others():
    nodes = [
        node("SequenceConstruct", ["x", "z"], ["s"]),
        node("SequenceInsert", ["s", "x"], ["s2"]),
        node("ConcatFromSequence", ["s2"], ["y"], axis=0),
    ]
    model = model_of(nodes, {"x": (F32, ["n"]), "z": (F32, ["m"])}, {"y": (F32, [None])})
    feed = {"x": floats(3), "z": floats(2)}
    check(model, feed, [n.op_type for n in nodes], 1)
    # Cut open in the middle, the sequence would have to be handed over.
    check(model, feed, [], 0, {**QUICK, "exclude-operators": "SequenceInsert"})


def test_initializers_that_may_be_replaced_are_inputs():
    model = mul([2])
    initializer = helper.make_tensor("b", F32, [2], [3, 4])
    model.graph.initializer.append(initializer)
    made, plain = session(model), plain_session(model)
    assert taken(made) == (["Mul"], 1)
    a = floats(2)
    for feed in ({"a": a}, {"a": a, "b": floats(2)}):
        assert_same(made.run(None, feed), plain.run(None, feed))


def test_weights_in_a_file_beside_the_model(tmp_path):
    import onnx

    model = model_of(
        [node("MatMul", ["x", "w"], ["y"])], {"x": (F32, ["n", 64])}, {"y": (F32, ["n", 64])}, {"w": floats(64, 64)}
    )
    path = str(tmp_path / "model.onnx")
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    check(path, {"x": floats(3, 64)}, ["MatMul"], 1)


def test_runs_of_one_session_overlap():
    model = model_of(
        [node("MatMul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["y"])],
        {"x": (F32, ["n", 32])},
        {"y": (F32, ["n", 32])},
        {"w": floats(32, 32)},
    )
    made, plain = session(model), plain_session(model)
    feeds = [{"x": floats(1 + i % 5, 32)} for i in range(8)]
    wants = [plain.run(None, feed) for feed in feeds]
    wrong = []

    def work(i):
        for _ in range(20):
            got = made.run(None, feeds[i])
            if not np.allclose(got[0], wants[i][0], atol=1e-5):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_failing_run_leaves_the_session_usable():
    model = model_of(
        [node("Gather", ["x", "i"], ["y"])], {"x": (F32, [4, 2]), "i": (I64, ["n"])}, {"y": (F32, ["n", 2])}
    )
    made = session(model)
    assert taken(made) == (["Gather"], 1)
    x = floats(4, 2)
    with pytest.raises(Exception, match="7"):
        made.run(None, {"x": x, "i": np.array([7])})
    assert np.array_equal(made.run(None, {"x": x, "i": np.array([3])})[0], x[3:])


def test_bindings_of_inputs_and_outputs():
    made = session(mul())
    a, b = floats(2, 3), floats(2, 3)
    c = np.zeros((2, 3), np.float32)
    binding = made.io_binding()
    binding.bind_cpu_input("a", a)
    binding.bind_cpu_input("b", b)
    binding.bind_output("c", "cpu", 0, np.float32, c.shape, c.ctypes.data)
    made.run_with_iobinding(binding)
    assert np.array_equal(c, a * b)


def test_threads_follow_the_sessions():
    code = f"""
import sys; sys.path.insert(0, {str(MODULE)!r})
import onnxruntime, camshaft.ort, numpy as np, threading, os
from onnx import helper, TensorProto as T, numpy_helper
camshaft.ort.register()
w = numpy_helper.from_array(np.ones((512, 512), np.float32), "w")
g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
    [helper.make_tensor_value_info("x", T.FLOAT, [512, 512])], [helper.make_tensor_value_info("y", T.FLOAT, [512, 512])], [w])
m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
so = onnxruntime.SessionOptions(); so.intra_op_num_threads = int(sys.argv[1])
before = len(os.listdir("/proc/self/task"))
s = onnxruntime.InferenceSession(m, so, providers=[("CamshaftExecutionProvider", {{"tuning": "heuristic", "verify": False}})])
s.run(None, {{"x": np.ones((512, 512), np.float32)}})
print(len(os.listdir("/proc/self/task")) - before)
"""

    def threads(count):
        done = subprocess.run([sys.executable, "-c", code, str(count)], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert threads(1) == 0
    assert threads(3) >= 2


def test_more_element_types():
    for dtype in (TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT8):
        model = model_of([node("Add", ["a", "b"], ["c"])], {"a": (dtype, [5]), "b": (dtype, [5])}, {"c": (dtype, [5])})
        numpy_type = helper.tensor_dtype_to_np_dtype(dtype)
        feed = {"a": np.arange(5).astype(numpy_type), "b": np.arange(5, 10).astype(numpy_type)}
        made = session(model)
        assert taken(made) == (["Add"], 1)
        assert np.array_equal(made.run(None, feed)[0], feed["a"] + feed["b"])
