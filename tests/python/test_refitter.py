"""Engines whose weights are replaced: they are what a build of the new model gives, byte for byte."""

import gc
import json
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from test_module import module

import onnx
from onnx import TensorProto, helper, numpy_helper

InvalidArgumentError = module.InvalidArgumentError


def make_weights(seed, kind="normal"):
    """By name. What is added to a variance stays positive."""
    random = np.random.default_rng(seed)

    def numbers(*shape):
        if kind == "normal":
            return (0.3 * random.standard_normal(shape)).astype(np.float32)
        return np.full(shape, {"zeros": 0, "ones": 1, "nan": np.nan}[kind], np.float32)

    weights = {
        "conv.weight": numbers(16, 3, 3, 3),
        "bn.scale": numbers(16),
        "bn.bias": numbers(16),
        "bn.mean": numbers(16),
        "bn.variance": np.abs(numbers(16)) + np.float32(0.5),
        "deep.weight": numbers(16, 1, 3, 3),
        "point.weight": numbers(32, 16, 1, 1),
        "point.bias": numbers(32),
        "norm.scale": numbers(32),
        "norm.bias": numbers(32),
        "query": numbers(32, 32),
        "key": numbers(32, 32),
        "query.bias": numbers(32),
        "key.bias": numbers(32),
        "table": numbers(10, 32),
        "gamma": numbers(32),
        "head.weight": numbers(5, 32),
        "head.bias": numbers(5),
    }
    return weights


FIXED = {
    "eps": np.array(1e-5, np.float32),
    "half": np.array(0.5, np.float32),
    "root": np.array(2**0.5, np.float32),
    "one": np.array(1, np.float32),
    "two": np.array(2, np.float32),
    "rows": np.array([0, -1, 32], np.int64),
}


def save_model(path, weights):
    """A convolution with a batch norm, depthwise and 1x1 ones, a norm that is spelled out, two products that are joined,
    an embedding, and a gelu that is spelled out."""
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "bn.scale", "bn.bias", "bn.mean", "bn.variance"], ["b"]),
        helper.make_node("Relu", ["b"], ["r"]),
        helper.make_node("Conv", ["r", "deep.weight"], ["d"], pads=[1, 1, 1, 1], group=16),
        helper.make_node("Conv", ["d", "point.weight", "point.bias"], ["p"]),
        helper.make_node("GlobalAveragePool", ["p"], ["pooled"]),
        helper.make_node("Reshape", ["pooled", "rows"], ["tokens"]),
        helper.make_node("ReduceMean", ["tokens"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["tokens", "mean"], ["centred"]),
        helper.make_node("Pow", ["centred", "two"], ["squared"]),
        helper.make_node("ReduceMean", ["squared"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "eps"], ["above"]),
        helper.make_node("Sqrt", ["above"], ["deviation"]),
        helper.make_node("Div", ["centred", "deviation"], ["normal"]),
        helper.make_node("Mul", ["normal", "norm.scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "norm.bias"], ["shifted"]),
        helper.make_node("MatMul", ["shifted", "query"], ["q0"]),
        helper.make_node("Add", ["q0", "query.bias"], ["q"]),
        helper.make_node("MatMul", ["shifted", "key"], ["k0"]),
        helper.make_node("Add", ["k0", "key.bias"], ["k"]),
        helper.make_node("Mul", ["q", "k"], ["qk"]),
        helper.make_node("Gather", ["table", "ids"], ["embedded"]),
        helper.make_node("Add", ["qk", "embedded"], ["sum"]),
        helper.make_node("Mul", ["sum", "gamma"], ["layer_scaled"]),
        helper.make_node("Div", ["layer_scaled", "root"], ["g0"]),
        helper.make_node("Erf", ["g0"], ["g1"]),
        helper.make_node("Add", ["g1", "one"], ["g2"]),
        helper.make_node("Mul", ["layer_scaled", "g2"], ["g3"]),
        helper.make_node("Mul", ["g3", "half"], ["gelu"]),
        helper.make_node("Gemm", ["gelu_rows", "head.weight", "head.bias"], ["y"], transB=1),
    ]
    nodes.insert(-1, helper.make_node("Reshape", ["gelu", "flat"], ["gelu_rows"]))
    initializers = {**weights, **FIXED, "flat": np.array([-1, 32], np.int64)}
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.parent.mkdir(exist_ok=True)
    onnx.save(made, path)
    return path


def feed(seed=0, n=2):
    random = np.random.default_rng(seed)
    return {"x": random.standard_normal((n, 3, 12, 12), np.float32), "ids": random.integers(0, 10, (n, 1))}


def build(path, **options):
    return module.build(path, tuning="heuristic", verify=False, refit=True, **options)


def save_safetensors(path, arrays):
    names = {np.float32: "F32", np.int64: "I64", np.float64: "F64"}
    header, data = {}, b""
    for name, array in arrays.items():
        begin = len(data)
        data += array.tobytes()
        header[name] = {
            "dtype": names[array.dtype.type],
            "shape": list(array.shape),
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps({**header, "__metadata__": {"format": "np"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def is_same(one, other):
    """Byte for byte; of megabytes pytest would show the difference for minutes."""
    return bytes(one) == bytes(other)


@pytest.fixture
def engine(tmp_path):
    return build(save_model(tmp_path / "old" / "m.onnx", make_weights(0)))


@pytest.mark.parametrize("kind", ["normal", "zeros", "ones", "nan"])
@pytest.mark.parametrize("form", ["arrays", "onnx", "safetensors", "npz", "compressed npz", "loaded"])
def test_a_refitted_engine_is_one_that_was_built_of_the_new_model(tmp_path, engine, form, kind):
    """Whatever the new model's file is called."""
    weights = make_weights(1, kind)
    new = save_model(tmp_path / "new" / "another.onnx", weights)
    np.savez(tmp_path / "w.npz", **weights)
    np.savez_compressed(tmp_path / "c.npz", **weights)
    fresh = build(new)
    if form == "loaded":
        engine = module.Engine(bytes(engine))
    engine.refit(
        {
            "arrays": weights,
            "onnx": new,
            "safetensors": save_safetensors(tmp_path / "w.safetensors", weights),
            "npz": tmp_path / "w.npz",
            "compressed npz": tmp_path / "c.npz",
            "loaded": weights,
        }[form]
    )
    np.testing.assert_array_equal(engine.run(feed())["y"], fresh.run(feed())["y"])
    assert is_same(engine, fresh)
    again = module.Engine(bytes(engine))
    np.testing.assert_array_equal(again.run(feed())["y"], fresh.run(feed())["y"])


@pytest.mark.parametrize("form", ["arrays", "onnx", "safetensors"])
def test_what_changes_after_a_refit_does_not_reach_the_engine(tmp_path, form):
    """Winograd's transform cannot be undone: beside it the weights stay as they are."""
    random = np.random.default_rng(2)
    before, weights = [{"w": random.standard_normal((64, 64, 3, 3), np.float32)} for _ in range(2)]

    def of(weights):
        net = module.Network()
        x = net.input("x", np.float32, (1, 64, 28, 28))
        net.output(net.Conv(x, net.constant(weights["w"], "w"), pads=[1, 1, 1, 1]), "y")
        return build(net)

    engine, fresh = of(before), of(weights)
    tensor = numpy_helper.from_array(weights["w"], "w")
    graph = helper.make_graph([], "g", [], [], [tensor])
    onnx.save(helper.make_model(graph), tmp_path / "w.onnx")
    save_safetensors(tmp_path / "w.safetensors", weights)
    given = weights if form == "arrays" else tmp_path / f"w.{form}"
    expected, whole = fresh.run({"x": np.ones((1, 64, 28, 28), np.float32)})["y"].copy(), bytes(fresh)
    engine.refit(given)
    weights["w"][:] = 7
    for file in (tmp_path / "w.onnx", tmp_path / "w.safetensors"):
        with open(file, "r+b") as opened:
            opened.write(bytes(file.stat().st_size))
    np.testing.assert_array_equal(engine.run({"x": np.ones((1, 64, 28, 28), np.float32)})["y"], expected)
    assert is_same(engine, whole)


def test_from_all_equal_weights_to_any(tmp_path):
    """What could be left out for the old weights (a product with ones, a sum with zeros, equal tensors) is not."""
    new = save_model(tmp_path / "new" / "m.onnx", make_weights(1))
    fresh = build(new)
    for kind in ("zeros", "ones"):
        engine = build(save_model(tmp_path / kind / "m.onnx", make_weights(0, kind)))
        engine.refit(new)
        assert is_same(engine, fresh), kind


def test_with_a_lock_file_of_measured_kernels(tmp_path):
    old = save_model(tmp_path / "old" / "m.onnx", make_weights(0))
    new = save_model(tmp_path / "new" / "m.onnx", make_weights(1))
    lock = tmp_path / "m.lock"
    module.build(old, refit=True, write_lock=str(lock), shapes={"x": (2, 3, 12, 12), "ids": (2, 1)})
    locked = {"tuning": "locked", "lock": str(lock), "refit": True, "shapes": {"x": (2, 3, 12, 12), "ids": (2, 1)}}
    engine, fresh = module.build(old, **locked), module.build(new, **locked)
    engine.refit(new)
    assert is_same(engine, fresh)


def test_by_name_with_what_is_missing(engine):
    """A batch norm's numbers and the convolution's are one constant; others stand alone."""
    refitter = module.Refitter(engine)
    before = engine.run(feed())["y"]
    weights = make_weights(1)
    refitter.set("head.bias", weights["head.bias"])
    assert refitter.missing == []
    refitter.set("conv.weight", weights["conv.weight"])
    assert refitter.missing == ["bn.bias", "bn.mean", "bn.scale", "bn.variance"]
    with pytest.raises(InvalidArgumentError, match="bn.scale, bn.variance too"):
        refitter.refit()
    np.testing.assert_array_equal(engine.run(feed())["y"], before)
    for name in refitter.missing:
        refitter.set(name, make_weights(0)[name])
    refitter.refit()
    assert not any(weight["is_set"] for weight in refitter.all_weights)
    assert not np.array_equal(engine.run(feed())["y"], before)


def test_all_weights_by_name_and_layer(engine):
    all_weights = {weight["name"]: weight for weight in module.Refitter(engine).all_weights}
    assert set(all_weights) == set(make_weights(0)) | set(FIXED) | {"flat"}
    assert {name for name, weight in all_weights.items() if weight["fixed_by"]} == set(FIXED) | {"flat"}
    assert all_weights["conv.weight"]["dims"] == [16, 3, 3, 3] and all_weights["conv.weight"]["dtype"] == "f32"
    layers = {layer["name"] for layer in engine.layers()}
    for name in make_weights(0):
        assert set(all_weights[name]["layers"]) and set(all_weights[name]["layers"]) <= layers, name
    assert engine.report["refittable"] == len(make_weights(0))
    assert any(text.startswith("'eps':") for text in engine.report["not_refittable"])


def test_what_is_fixed_takes_its_own_numbers_only(engine):
    refitter = module.Refitter(engine)
    refitter.set("eps", FIXED["eps"])
    with pytest.raises(InvalidArgumentError, match="'eps' cannot be replaced by other numbers.*Build the new model"):
        refitter.set("eps", np.array(1e-3, np.float32))


@pytest.mark.parametrize(
    "name, array, message",
    [
        ("head.bais", np.zeros(5, np.float32), "no initializer 'head.bais'.*did you mean 'head.bias'"),
        ("head.bias", np.zeros(5, np.float64), r"'head.bias' is f32\[5\]; f64\[5\] is given"),
        ("head.bias", np.zeros((5, 1), np.float32), r"'head.bias' is f32\[5\]; f32\[5, 1\] is given"),
        ("head.bias", np.zeros(0, np.float32), r"f32\[0\] is given"),
    ],
)
def test_wrong_weights_change_nothing(engine, name, array, message):
    before = engine.run(feed())["y"]
    refitter = module.Refitter(engine)
    with pytest.raises(InvalidArgumentError, match=message):
        refitter.set(name, array)
    refitter.refit()
    np.testing.assert_array_equal(engine.run(feed())["y"], before)


def test_an_engine_that_was_not_built_for_it_says_so(tmp_path):
    engine = module.build(save_model(tmp_path / "m.onnx", make_weights(0)), tuning="heuristic", verify=False)
    with pytest.raises(InvalidArgumentError, match="--refit"):
        engine.refit({})


def test_int8_by_a_calibration_is_refused(tmp_path):
    path = save_model(tmp_path / "m.onnx", make_weights(0))
    calibration = module.calibrate(path, [feed(seed) for seed in range(2)])
    for options in ({"int8": True}, {"best": True}):
        with pytest.raises(
            InvalidArgumentError, match="int8 by a calibration.*Build without int8, or quantise the model"
        ):
            build(path, calibration=calibration, **options)


def test_precisions_that_a_cpu_does_not_store_in_are_taken(tmp_path):
    new, weights = save_model(tmp_path / "new" / "m.onnx", make_weights(1)), make_weights(1)
    for options in ({"fp16": True}, {"bf16": True}, {"best": True}):
        engine = build(save_model(tmp_path / "old" / "m.onnx", make_weights(0)), **options)
        engine.refit(weights)
        assert is_same(engine, build(new, **options))


def test_a_quantised_model(tmp_path):
    """Steps of weights are replaced; their scales are part of how sums of integers are read, and fixed."""
    random = np.random.default_rng(0)
    steps = [random.integers(-127, 128, (8, 16), np.int8) for _ in range(2)]
    paths = []
    for k, array in enumerate(steps):
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
            helper.make_node("DequantizeLinear", ["steps", "scales", "zeros"], ["w"], axis=1),
            helper.make_node("MatMul", ["d", "w"], ["y"]),
        ]
        initializers = {
            "scale": np.array(0.05, np.float32),
            "zero": np.array(0, np.int8),
            "steps": array,
            "scales": np.linspace(0.01, 0.02, 16, dtype=np.float32),
            "zeros": np.zeros(16, np.int8),
        }
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16])],
            [numpy_helper.from_array(value, name) for name, value in initializers.items()],
        )
        paths.append(tmp_path / str(k) / "m.onnx")
        paths[-1].parent.mkdir()
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), paths[-1])
    engine, fresh = (build(path, int8=True) for path in paths)
    fixed = {weight["name"] for weight in module.Refitter(engine).all_weights if weight["fixed_by"]}
    assert "steps" not in fixed and {"scale", "zero"} <= fixed
    engine.refit({"steps": steps[1]})
    assert is_same(engine, fresh)


def test_an_engine_without_weights(tmp_path):
    weights = make_weights(0)
    old = save_model(tmp_path / "m.onnx", weights)
    fresh = build(old)
    path = tmp_path / "m.engine"
    module.build(old, path, tuning="heuristic", verify=False, strip_weights=True)
    stripped = module.Engine(path)
    assert len(bytes(fresh)) - path.stat().st_size > 0.8 * sum(array.nbytes for array in weights.values())
    for name in ("query", "table", "head.weight"):
        assert weights[name].tobytes()[:256] not in path.read_bytes()
    assert [info.name for info in stripped.inputs] == ["x", "ids"]
    with pytest.raises(InvalidArgumentError, match="no weights"):
        stripped.create_context()
    with pytest.raises(InvalidArgumentError, match=r"needs the initializers ([^,]+, ){7}[^,]+ and \d+ more \(Refitter"):
        stripped.refit({"head.bias": weights["head.bias"]})
    assert set(module.Refitter(stripped).missing) <= set(weights)
    stripped.refit(weights)
    np.testing.assert_array_equal(stripped.run(feed())["y"], fresh.run(feed())["y"])
    assert is_same(stripped, fresh)


def test_contexts_take_new_weights_between_two_runs(engine):
    """A thousand refits while four threads run: every result is that of the old weights or of the new ones."""
    sets = [make_weights(seed) for seed in range(2)]
    expected = []
    for weights in sets:
        engine.refit(weights)
        expected.append(engine.run(feed())["y"])
    assert not np.array_equal(*expected)
    stop, wrong, seen = threading.Event(), [], [0, 0]

    def run():
        context = engine.create_context(threads=1)
        while not stop.is_set():
            y = np.asarray(context.run(feed())["y"])
            which = [np.array_equal(y, e) for e in expected]
            if sum(which) != 1:
                wrong.append(y.copy())
            seen[which.index(True)] += 1

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(1000):
        engine.refit(sets[i % 2], threads=1)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and min(seen) > 0


def resident_bytes():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) << 10


def test_a_hundred_refits_leak_nothing(tmp_path):
    random = np.random.default_rng(0)
    net = module.Network()
    x = net.input("x", np.float32, (4, 1024))
    w = net.constant(random.standard_normal((1024, 1024), np.float32), "w")
    net.output(net.MatMul(x, w), "y")
    engine = build(net)
    context = engine.create_context(threads=1)
    inputs = {"x": random.standard_normal((4, 1024), np.float32)}

    def refit():
        engine.refit({"w": random.standard_normal((1024, 1024), np.float32)}, threads=1)
        context.run(inputs)

    for _ in range(5):
        refit()
    gc.collect()
    before = resident_bytes()
    for _ in range(100):
        refit()
    gc.collect()
    assert resident_bytes() - before < 16 << 20  # one set of weights are 4 MiB


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "it is empty"),
        (b"1234567", "too short"),
        (b"\xff" * 8, "does not fit"),
        (struct.pack("<Q", 100) + b"{}", "does not fit"),
        (safetensors("[]"), "no JSON object"),
        (safetensors("{" + "[" * 10000), "no JSON object"),
        (safetensors('{"head.bias": {"dtype": "F32", "shape": [5]}}'), "lacks"),
        (safetensors('{"head.bias": 3}'), "lacks"),
        (safetensors('{"head.bias": {"dtype": "C64", "shape": [5], "data_offsets": [0, 20]}}', b"0" * 20), "C64"),
        (safetensors('{"head.bias": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}}', b"0" * 19), "outside"),
        (safetensors('{"head.bias": {"dtype": "F32", "shape": [5], "data_offsets": [20, 0]}}', b"0" * 20), "outside"),
        (safetensors('{"head.bias": {"dtype": "F32", "shape": [-5], "data_offsets": [0, 20]}}', b"0" * 20), "a size"),
        (
            safetensors('{"head.bias": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}'),
            "larger than any memory",
        ),
        (safetensors('{"head.bias": {"dtype": "F32", "shape": [4], "data_offsets": [0, 20]}}', b"0" * 20), "20 bytes"),
        (safetensors('{"head.bias": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}}', b"0" * 24), "behind"),
        (
            safetensors(
                '{"head.bias": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]},'
                '"other": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}}',
                b"0" * 20,
            ),
            "overlap",
        ),
        (
            safetensors(
                '{"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},'
                '"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}'
            ),
            "twice",
        ),
    ],
)
def test_damaged_safetensors(tmp_path, engine, content, message):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    before = engine.run(feed())["y"]
    with pytest.raises(module.Error, match=message):
        engine.refit(path)
    np.testing.assert_array_equal(engine.run(feed())["y"], before)


# ---- Weights in branches and loops, and integers ----


def save_graph(path, nodes, inputs, outputs, initializers, domains=()):
    values = [numpy_helper.from_array(value, name) for name, value in initializers.items()]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        values,
    )
    opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(domain, 1) for domain in domains)]
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def bodies_model(path, seed):
    """Bodies have weights as initializers and in Constant nodes, two of them of one name, and one that they return."""
    random = np.random.default_rng(seed)

    def tensor(name, *shape):
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)

    def graph(name, nodes, inputs, outputs, *initializers):
        return helper.make_graph(nodes, name, inputs, outputs, list(initializers))

    def value(name, kind=TensorProto.FLOAT, shape=None):
        return helper.make_tensor_value_info(name, kind, shape)

    inner = graph("inner", [helper.make_node("Add", ["t", "own"], ["io"])], [], [value("io")], tensor("own", 8))
    other = graph("other", [helper.make_node("Constant", [], ["ret"], value=tensor("", 2, 8))], [], [value("ret")])
    then = graph(
        "then",
        [
            helper.make_node("MatMul", ["x", "w"], ["t"]),
            helper.make_node("If", ["p"], ["to"], then_branch=inner, else_branch=other, name="deep"),
        ],
        [],
        [value("to")],
        tensor("w", 8, 8),
    )
    constant = helper.make_node("Constant", [], ["shift"], value=tensor("", 8))
    scaled = [helper.make_node("MatMul", ["x", "w"], ["e"]), helper.make_node("Add", ["e", "shift"], ["eo"])]
    chosen = graph("else", [constant, *scaled], [], [value("eo")], tensor("w", 8, 8))
    body = graph(
        "body",
        [
            helper.make_node("MatMul", ["v", "turn"], ["vm"]),
            helper.make_node("Tanh", ["vm"], ["vo"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("v")],
        [value("on", TensorProto.BOOL, []), value("vo")],
        tensor("turn", 8, 8),
    )
    nodes = [
        helper.make_node("If", ["p"], ["a"], then_branch=then, else_branch=chosen, name="pick"),
        helper.make_node("Loop", ["times", ""], ["l"], body=body, name="loop"),
    ]
    nodes[1].input.append("a")
    nodes.append(helper.make_node("Mul", ["l", "last"], ["y"]))
    inputs = [("x", TensorProto.FLOAT, [2, 8]), ("p", TensorProto.BOOL, []), ("times", TensorProto.INT64, [])]
    return save_graph(path, nodes, inputs, ["y"], {"last": random.standard_normal(8).astype(np.float32)})


@module.plugin("refit::Affine", shape=lambda x, scale, shift, which: x.shape)
def affine(x: np.float32, scale: np.float32, shift: np.float32, which: np.int64):
    return x * scale + shift[int(which[0])]


def test_operands_of_plugins(tmp_path):
    """They are weights like others, but for integers, which a shape rule may look at."""

    def save(name, seed):
        random = np.random.default_rng(seed)
        weights = {"scale": random.standard_normal(5).astype(np.float32)}
        weights["shift"] = random.standard_normal((3, 5)).astype(np.float32)
        nodes = [
            helper.make_node("Affine", ["x", "scale", "shift", "which"], ["a"], domain="refit"),
            helper.make_node("Relu", ["a"], ["y"]),
        ]
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 5]) for n in "xy"]
        tensors = [numpy_helper.from_array(a, n) for n, a in (weights | {"which": np.array([1])}).items()]
        graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("refit", 1)]
        (tmp_path / name).mkdir()
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / name / "m.onnx")
        return tmp_path / name / "m.onnx", weights

    (old, before), (new, after) = save("old", 0), save("new", 1)
    engine = module.build(old, refit=True, write_lock=str(tmp_path / "lock"))
    fixed = {weight["name"]: bool(weight["fixed_by"]) for weight in module.Refitter(engine).all_weights}
    assert fixed == {"scale": False, "shift": False, "which": True}
    x = np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
    context = engine.create_context()
    for weights in (before, after):
        want = np.maximum(x * weights["scale"] + weights["shift"][1], 0)
        np.testing.assert_allclose(np.asarray(context.run({"x": x})["y"]), want, rtol=1e-6)
        engine.refit(new)
    assert bytes(engine) == bytes(module.build(new, refit=True, tuning="locked", lock=str(tmp_path / "lock")))


def namesakes_model(path, seed):
    """Two nodes of one name, and one without any; a scalar and a weight of one name in their branches."""
    random = np.random.default_rng(seed)

    def weights(name):
        return numpy_helper.from_array(random.standard_normal((8, 8)).astype(np.float32), name)

    def branch(name, scalar):
        scale = numpy_helper.from_array(np.float32(0.5), "")  # which is a part of what the model computes
        constant = [] if scalar is None else [helper.make_node("Constant", [], [scalar], value=scale)]
        operator = ("Mul", scalar) if scalar else ("MatMul", "w")
        nodes = [*constant, helper.make_node(operator[0], ["x", operator[1]], [f"{name}.y"])]
        info = helper.make_tensor_value_info(f"{name}.y", TensorProto.FLOAT, None)
        return helper.make_graph(nodes, name, [], [info], [] if scalar else [weights("w")])

    nodes = [
        helper.make_node("If", ["p"], ["a"], "pick", then_branch=branch("a1", "w"), else_branch=branch("a2", None)),
        helper.make_node("If", ["p"], ["b"], "pick", then_branch=branch("b1", None), else_branch=branch("b2", "s")),
        helper.make_node("If", ["p"], ["c"], then_branch=branch("c1", None), else_branch=branch("c2", None)),
        helper.make_node("Sum", ["a", "b", "c"], ["y"]),
    ]
    return save_graph(path, nodes, [("x", TensorProto.FLOAT, [2, 8]), ("p", TensorProto.BOOL, [])], ["y"], {})


@pytest.mark.parametrize("make", [bodies_model, namesakes_model])
def test_weights_of_a_model(tmp_path, make):
    """By the names of an engine, from a file and from memory; a refit by them is the one by the file."""
    old, new = (make(tmp_path / name / "m.onnx", seed) for seed, name in enumerate(("old", "new")))
    engines = [module.build(old, refit=True, tuning="heuristic", verify=False) for _ in range(2)]
    before = bytes(engines[0])
    weights = module.model_weights(new)
    names = [weight["name"] for weight in module.Refitter(engines[0]).all_weights if not weight["fixed_by"]]
    assert names and set(names) <= weights.keys()
    data = Path(new).read_bytes()
    again = module.model_weights(data)
    assert again.keys() == weights.keys()
    for name, weight in weights.items():
        np.testing.assert_array_equal(np.from_dlpack(again[name]), np.from_dlpack(weight))
    assert module.model_weights(data, names=[names[0], "of nobody"]).keys() == {names[0]}
    engines[0].refit({name: weights[name] for name in names})
    engines[1].refit(new)
    assert bytes(engines[0]) == bytes(engines[1]) != before
    with pytest.raises(module.InvalidModelError, match="the model"):
        module.model_weights(b"no model")


def test_models_that_have_none_of_the_weights_are_refused(tmp_path):
    engine = module.build(bodies_model(tmp_path / "m" / "m.onnx", 1), refit=True, tuning="heuristic", verify=False)
    before = bytes(engine)
    other = save_graph(tmp_path / "other.onnx", [helper.make_node("Mul", ["x", "of_another"], ["y"])],
                       [("x", TensorProto.FLOAT, [2, 8])], ["y"], {"of_another": np.ones(8, np.float32)})  # fmt: skip
    with pytest.raises(
        InvalidArgumentError, match="other.onnx': it has none of the engine's .* it is of another model"
    ):
        engine.refit(other)
    assert bytes(engine) == before


def test_weights_of_a_model_outlive_what_read_them(tmp_path):
    data = Path(bodies_model(tmp_path / "m" / "m.onnx", 1)).read_bytes()
    arrays = {name: np.from_dlpack(weight) for name, weight in module.model_weights(data).items()}
    gc.collect()
    others = [np.full(1 << 20, 7, np.uint8) for _ in range(8)]  # what was freed is used again
    again = module.model_weights(data)
    assert others and arrays.keys() == again.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, np.from_dlpack(again[name]))


def test_weights_of_a_model_that_numpy_has_no_type_for(tmp_path):
    def model(seed):
        codes = np.random.default_rng(seed).integers(-8, 8, 64).tolist()
        scales = numpy_helper.from_array(np.ones((1, 8), np.float32) / 8, "scales")
        packed = helper.make_tensor("codes", TensorProto.INT4, [8, 8], codes)
        shift = helper.make_tensor("shift", TensorProto.BFLOAT16, [8], np.arange(seed, seed + 8).astype(float).tolist())
        nodes = [
            helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], axis=0, block_size=8),
            helper.make_node("MatMul", ["x", "w"], ["xw"]),
            helper.make_node("Cast", ["shift"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["xw", "wide"], ["y"]),
        ]
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in "xy"]
        graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [packed, scales, shift])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    engine, wanted = (module.build(model(seed), refit=True, tuning="heuristic", verify=False) for seed in (0, 1))
    weights = module.model_weights(model(1).SerializeToString())
    assert (weights["codes"].dtype, weights["codes"].shape, weights["shift"].dtype) == ("i4", (8, 8), "bf16")
    before = engine(x)
    engine.refit(weights)
    np.testing.assert_array_equal(engine(x), wanted(x))
    assert not np.array_equal(engine(x), before)


@pytest.mark.parametrize("stripped", [False, True])
def test_weights_in_branches_and_loops(tmp_path, stripped):
    old, new = (bodies_model(tmp_path / name / "m.onnx", seed) for seed, name in enumerate(("old", "new")))
    lock = tmp_path / "lock"
    engine = module.build(old, refit=True, write_lock=str(lock))
    names = {weight["name"] for weight in module.Refitter(engine).all_weights}
    assert {"last", "turn", "shift", "own", "pick/then_branch/w", "pick/else_branch/w"} <= names
    assert "pick/then_branch/deep/else_branch/ret" in names
    fresh = module.build(new, refit=True, tuning="locked", lock=str(lock))
    if stripped:
        engine = module.Engine(engine.to_bytes(weights=False))
    engine.refit(new)
    assert is_same(engine, fresh)
    for p in (True, False):
        given = {"x": np.ones((2, 8), np.float32), "p": np.array(p), "times": np.array(3)}
        np.testing.assert_array_equal(engine.run(given)["y"], fresh.run(given)["y"])
        expected = module.build(new, tuning="heuristic").run(given)["y"]
        np.testing.assert_allclose(engine.run(given)["y"], expected, rtol=1e-5, atol=1e-6)


def nbits_model(path, seed):
    random = np.random.default_rng(seed)
    initializers = {
        "codes": random.integers(0, 256, (16, 2, 16), np.uint8),
        "scales": (random.random(32) * 0.1 + 0.01).astype(np.float32),
        "zeros": random.integers(0, 256, 16, np.uint8),
    }
    sizes = {"K": 64, "N": 16, "bits": 4, "block_size": 32}
    nodes = [helper.make_node("MatMulNBits", ["x", *initializers], ["y"], domain="com.microsoft", **sizes)]
    return save_graph(path, nodes, [("x", TensorProto.FLOAT, ["n", 64])], ["y"], initializers, ["com.microsoft"])


def convolution_of_integers(path, seed):
    random = np.random.default_rng(seed)
    fixed = {
        "xs": np.array(0.05, np.float32),
        "xz": np.array(128, np.uint8),
        "ws": np.linspace(0.01, 0.03, 6, dtype=np.float32),
        "wz": np.zeros(6, np.int8),
        "ys": np.array(0.3, np.float32),
        "yz": np.array(120, np.uint8),
    }
    weights = {
        "w": random.integers(-127, 128, (6, 4, 3, 3), np.int8),
        "b": random.integers(-900, 900, 6).astype(np.int32),
    }
    operands = ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("QLinearConv", operands, ["o"]),
        helper.make_node("DequantizeLinear", ["o", "ys", "yz"], ["y"]),
    ]
    return save_graph(path, nodes, [("x", TensorProto.FLOAT, ["n", 4, 8, 8])], ["y"], {**fixed, **weights})


@pytest.mark.parametrize(
    "make, shape, weights",
    [
        (nbits_model, (3, 64), {"codes", "scales", "zeros"}),
        (convolution_of_integers, (2, 4, 8, 8), {"w", "b"}),
    ],
)
def test_weights_of_integers(tmp_path, make, shape, weights):
    """Codes of few bits with their zero points, and biases of sums, as few of them as sizes would be."""
    old, new = (make(tmp_path / name / "m.onnx", seed) for seed, name in enumerate(("old", "new")))
    engine, fresh = build(old), build(new)
    fixed = {weight["name"] for weight in module.Refitter(engine).all_weights if weight["fixed_by"]}
    assert not fixed & weights
    engine.refit(new)
    assert is_same(engine, fresh)
    x = np.random.default_rng(5).standard_normal(shape, np.float32)
    expected = module.build(new, tuning="heuristic").run({"x": x})["y"]
    np.testing.assert_allclose(engine.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


def test_a_file_without_weights_has_none_of_branches_and_loops(tmp_path):
    engine = module.build(bodies_model(tmp_path / "m.onnx", 0), refit=True, tuning="heuristic")
    model = onnx.load(tmp_path / "m.onnx")
    body = next(a.g for a in model.graph.node[1].attribute if a.name == "body")
    numbers = numpy_helper.to_array(body.initializer[0]).tobytes()
    assert numbers in bytes(engine) and numbers not in engine.to_bytes(weights=False)
    stripped = module.Engine(engine.to_bytes(weights=False))
    assert {"turn", "shift", "own"} <= set(module.Refitter(stripped).missing)
    with pytest.raises(InvalidArgumentError, match="has no weights"):
        stripped.create_context()
