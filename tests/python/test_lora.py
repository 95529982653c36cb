"""Adapters of LoRA in an engine: a run with one is what ONNX Runtime makes of the model with that adapter merged."""

import asyncio
import json
import math

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from camshaft_cli import camshaft, worst_error
from safetensors.numpy import save_file
from test_module import module

import onnx
from onnx import TensorProto, helper, numpy_helper

InvalidArgumentError = module.InvalidArgumentError
InvalidModelError = module.InvalidModelError
UnsupportedError = module.UnsupportedError

TOLERANCE = 1e-5
CHANNELS = 24

# Sizes of each module's weights, from and to; how the model has them, see make_model().
MODULES = {"encoder.layer.0.query": (24, 24), "encoder.dense": (24, 40), "twice": (40, 40), "head": (40, 9)}
QUERY, DENSE, TWICE, HEAD = MODULES


def make_weights(seed=0):
    """[in, out] by module."""
    random = np.random.default_rng(seed)
    return {
        name: (random.standard_normal(sizes) / math.sqrt(sizes[0])).astype(np.float32)
        for name, sizes in MODULES.items()
    }


def make_model(path, weights, dtype=np.float32):
    """A product whose node alone names the module, one of weights that a node transposes, weights that two products
    read, and a Gemm with factors; in a tensor of three axes and of two."""
    arrays = {
        "onnx::MatMul_7": weights[QUERY],
        "encoder.dense.weight": np.ascontiguousarray(weights[DENSE].T),
        "twice.weight": weights[TWICE],
        "head.weight": np.ascontiguousarray(weights[HEAD].T),
        "head.bias": np.linspace(-1, 1, 9),
        "bias": np.linspace(-1, 1, CHANNELS),
    }
    initializers = [numpy_helper.from_array(array.astype(dtype), name) for name, array in arrays.items()]
    initializers.append(numpy_helper.from_array(np.array([-1, 40]), "rows"))
    nodes = [
        helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["q0"], "/encoder/layer.0/query/MatMul"),
        helper.make_node("Add", ["q0", "bias"], ["q"], "/encoder/layer.0/query/Add"),
        helper.make_node("Transpose", ["encoder.dense.weight"], ["turned"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["q", "turned"], ["d"], "node_12"),
        helper.make_node("Relu", ["d"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "twice.weight"], ["lora"], "node_13"),  # a name that the input takes
        helper.make_node("MatMul", ["lora", "twice.weight"], ["t"], "node_14"),
        helper.make_node("Reshape", ["t", "rows"], ["flat"], "reshape"),
        helper.make_node("Gemm", ["flat", "head.weight", "head.bias"], ["y"], "node_15", transB=1, alpha=0.5, beta=2.0),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, ["batch", "length", CHANNELS])],
        [helper.make_tensor_value_info("y", kind, None)],
        initializers,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path


def make_updates(modules, rank, seed):
    """{module: (A [rank, in], B [out, rank])}"""
    random = np.random.default_rng(seed)
    made = {}
    for module_name in modules:
        sizes = MODULES[module_name]
        a = random.standard_normal((rank, sizes[0])) / math.sqrt(sizes[0])
        b = random.standard_normal((sizes[1], rank)) / math.sqrt(rank)
        made[module_name] = a.astype(np.float32), b.astype(np.float32)
    return made


def save_adapter(folder, updates, prefix="base_model.model.", middle="", config=None, dtype=np.float32):
    folder.mkdir(exist_ok=True)
    tensors = {}
    for module_name, (a, b) in updates.items():
        tensors[f"{prefix}{module_name}.lora_A{middle}.weight"] = a.astype(dtype)
        tensors[f"{prefix}{module_name}.lora_B{middle}.weight"] = b.astype(dtype)
    save_file(tensors, folder / "adapter_model.safetensors")
    if config is not None:
        (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def merged(weights, updates, scale):
    return {
        name: array + np.float32(scale(name)) * (updates[name][1] @ updates[name][0]).T if name in updates else array
        for name, array in weights.items()
    }


def expected(folder, weights, x, dtype=np.float32):
    session = onnxruntime.InferenceSession(
        str(make_model(folder / "merged.onnx", weights, dtype)), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


class Adapted:
    """A model with two adapters of different ranks and modules, and what each makes of it."""

    def __init__(self, folder):
        self.folder = folder
        self.weights = make_weights()
        self.model = make_model(folder / "m.onnx", self.weights)
        self.french = make_updates([QUERY, DENSE, HEAD], 4, 1)
        self.legal = make_updates([TWICE, HEAD], 7, 2)
        config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "alpha_pattern": {"dense": 2, "encoder.dense": 99}}
        save_adapter(folder / "french", self.french, middle=".default", config=config)
        save_adapter(folder / "legal", self.legal, config={"lora_alpha": 3, "use_rslora": True})
        self.options = [f"french={folder / 'french'}", f"legal={folder / 'legal' / 'adapter_model.safetensors'}"]

    def merged(self, adapter):
        if adapter == "french":
            return merged(self.weights, self.french, lambda name: 2 / 4 if name == DENSE else 8 / 4)
        if adapter == "legal":
            return merged(self.weights, self.legal, lambda name: 3 / math.sqrt(7))
        return self.weights

    def check(self, run, shapes=((2, 5),), adapters=("french", "none", "legal")):
        """`run` gives y of (x, the name of an adapter)."""
        results = {}
        for batch, length in shapes:
            x = np.random.default_rng(batch).standard_normal((batch, length, CHANNELS), np.float32)
            for adapter in adapters:
                results[adapter] = run(x, adapter)
                assert worst_error(results[adapter], expected(self.folder, self.merged(adapter), x)) < TOLERANCE
        scale = np.abs(results["none"]).max()
        assert all(np.abs(results[name] - results["none"]).max() > 0.05 * scale for name in adapters if name != "none")


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    return Adapted(tmp_path_factory.mktemp("lora"))


@pytest.fixture(scope="module")
def engine(adapted):
    return module.build(adapted.model, tuning="heuristic", lora=adapted.options)


def test_each_is_the_merged_model(adapted, engine):
    assert engine.adapters == ["french", "legal"] and engine.metadata["lora"] == "french, legal"
    assert engine.report["lora"] == ["french: 3 products, rank 4", "legal: 3 products, rank 7"]
    assert engine.inputs[-1].type == "i64[]" and engine.inputs[-1].name == "lora"
    adapted.check(lambda x, name: engine(x, lora=name), shapes=[(2, 5), (1, 1), (3, 70)])


def test_by_number(adapted, engine):
    adapted.check(lambda x, name: engine(x, np.array(["none", "french", "legal"].index(name))))


def test_the_verification_tries_all(engine):
    for number in (0, 1, 2):
        assert any(sample.endswith(f"lora {number}") for sample in engine.report["samples"])


def test_none_is_what_nobody_chooses(adapted, engine):
    x = np.ones((1, 2, CHANNELS), np.float32)
    plain = engine(x, lora="none")
    assert (engine(x, lora="legal") != plain).any()
    assert (engine(x) == plain).all()
    context = engine.create_context()
    assert (np.asarray(context.run({"x": x})["y"]) == plain).all()
    context.set_input("lora", "french")
    assert (np.asarray(context.run()["y"]) == engine(x, lora="french")).all()
    assert (np.asarray(context.run({"x": x}, lora="legal")["y"]) == engine(x, lora="legal")).all()
    results = asyncio.run(context.run_async(lora="french"))
    assert (np.asarray(results["y"]) == engine(x, lora="french")).all()


def test_what_there_is_not(engine):
    x = np.ones((1, 2, CHANNELS), np.float32)
    with pytest.raises(InvalidArgumentError, match="no adapter 'dutch'; there are: none, french, legal"):
        engine.create_context().run({"x": x}, lora="dutch")
    net = module.Network()
    net.output(net.Relu(net.input("x", np.float32, (2,))), "y")
    with pytest.raises(InvalidArgumentError, match="has no adapters"):
        module.build(net).create_context().run({"x": np.ones(2, np.float32)}, lora="french")
    with pytest.raises(InvalidArgumentError, match="no adapter 'dutch'; there are: none, french, legal"):
        engine(x, lora="dutch")
    context = engine.create_context()
    for wrong in (
        lambda: context.run({"x": x}, lora=1),
        lambda: engine(x, lora=1),
        lambda: engine.run({"x": x, "lora": 1}),
    ):
        with pytest.raises(
            TypeError, match="lora is the name of an adapter, not 1; there are: 'none', 'french', 'legal'"
        ):
            wrong()
    with pytest.raises(TypeError, match="input 'lora' is given twice: among the inputs, and as lora='french'"):
        context.run({"x": x, "lora": "legal"}, lora="french")
    with pytest.raises(TypeError, match="given twice"):
        asyncio.run(context.run_async({"x": x, "lora": np.array(1)}, lora="french"))
    for number in (3, -1):
        with pytest.raises(InvalidArgumentError, match=r"'lora' is -?\d; .* 0 \(none\), 1 \(french\), 2 \(legal\)"):
            engine(x, np.array(number))


def test_loaded(adapted, engine):
    loaded = module.Engine(bytes(engine))
    assert loaded.adapters == ["french", "legal"]
    adapted.check(lambda x, name: loaded(x, lora=name))


def test_on_several_threads_and_fixed_shapes(adapted):
    fixed = module.build(
        adapted.model, tuning="heuristic", lora=adapted.options, shapes={"x": (2, 5, CHANNELS)}, threads=2
    )
    adapted.check(lambda x, name: fixed(x, lora=name))


def test_paths_in_front(adapted, tmp_path):
    """The adapted model had the exported one as a part, or was a part of it."""
    outer = {f"bert.{name}": update for name, update in adapted.french.items()}
    inner = {name.removeprefix("encoder."): adapted.french[name] for name in (QUERY, DENSE)}
    for number, updates in enumerate((outer, inner)):
        save_adapter(tmp_path / str(number), updates, prefix="" if number else "base_model.model.")
        built = module.build(adapted.model, tuning="heuristic", lora=f"a={tmp_path / str(number)}")
        assert built.report["lora"] == [f"a: {len(updates)} products, rank 4"]


@pytest.mark.parametrize("rank", [1, 3, 16, 33, 64])
def test_ranks_and_sizes(tmp_path, rank):
    random = np.random.default_rng(rank)
    sizes = [int(size) for size in random.integers(1, 70, 2)]
    w = random.standard_normal(sizes, np.float32)
    a = random.standard_normal((rank, sizes[0]), np.float32)
    b = random.standard_normal((sizes[1], rank), np.float32)
    net = module.Network("n")
    x = net.input("x", np.float32, ("n", sizes[0]))
    net.output(net.MatMul(x, net.constant(w, "w")), "y")
    save_file({"w.lora_A.weight": a, "w.lora_B.weight": b}, tmp_path / "a.safetensors")
    built = module.build(net, tuning="heuristic", lora=f"a={tmp_path / 'a.safetensors'}")
    rows = random.standard_normal((17, sizes[0]), np.float32)
    plain = np.float64(rows) @ w
    both = plain + np.float64(rows) @ a.T @ b.T
    assert worst_error(built(rows, lora="a"), both.astype(np.float32)) < TOLERANCE
    assert worst_error(built(rows), plain.astype(np.float32)) < TOLERANCE


@pytest.mark.parametrize("stored", [np.float16, ml_dtypes.bfloat16])
def test_types_of_adapters(adapted, tmp_path, stored):
    updates = {name: tuple(m.astype(stored).astype(np.float32) for m in both) for name, both in adapted.french.items()}
    save_adapter(tmp_path / "a", adapted.french, dtype=stored)
    built = module.build(adapted.model, tuning="heuristic", lora=f"a={tmp_path / 'a'}")
    x = np.random.default_rng(0).standard_normal((2, 3, CHANNELS), np.float32)
    want = expected(tmp_path, merged(adapted.weights, updates, lambda _: 1), x)
    assert worst_error(built(x, lora="a"), want) < TOLERANCE


def test_a_model_in_fp16(adapted, tmp_path):
    model = make_model(tmp_path / "half.onnx", adapted.weights, np.float16)
    built = module.build(model, tuning="heuristic", lora=adapted.options, tolerance=0.02)
    x = np.random.default_rng(0).standard_normal((2, 3, CHANNELS)).astype(np.float16)
    for adapter in ("french", "legal"):
        want = expected(tmp_path, adapted.merged(adapter), x.astype(np.float32))
        assert worst_error(built(x, lora=adapter).astype(np.float32), want) < 0.01


@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32"])
def test_precisions(adapted, precision):
    built = module.build(adapted.model, tuning="heuristic", lora=adapted.options, precision=precision)
    x = np.random.default_rng(0).standard_normal((2, 3, CHANNELS), np.float32)
    for adapter in ("none", "french", "legal"):
        want = expected(adapted.folder, adapted.merged(adapter), x)
        assert worst_error(built(x, lora=adapter), want) < (0.1 if precision == "bf16" else 0.02)


def test_int8_by_a_calibration(tmp_path):
    """The model's products on integers, the updates beside them on floats."""
    random = np.random.default_rng(0)
    net = module.Network("n")
    x = net.input("x", np.float32, ("n", 64))
    weights = [(random.standard_normal((64, 64)) / 8).astype(np.float32) for _ in range(2)]
    hidden = net.Relu(net.MatMul(x, net.constant(weights[0], "first.weight")))
    net.output(net.MatMul(hidden, net.constant(weights[1], "second.weight")), "y")
    a, b = (random.standard_normal((4, 64)) / 8).astype(np.float32), random.standard_normal((64, 4), np.float32)
    save_adapter(tmp_path / "a", {"second": (a, b)})
    data = [{"x": random.standard_normal((32, 64), np.float32)} for _ in range(4)]
    ranges = module.calibrate(net, data)
    built = module.build(
        net, tuning="heuristic", lora=f"a={tmp_path / 'a'}", precision="int8", calibration=ranges, verify=False
    )
    assert all(layer["quantized"] for layer in built.report["quantized_layers"]) and built.report["quantized_layers"]
    rows = data[0]["x"]
    plain = np.maximum(rows @ weights[0], 0) @ weights[1]
    adapted = np.maximum(rows @ weights[0], 0) @ (weights[1] + (b @ a).T)
    assert 1e-4 < worst_error(built(rows), plain) < 0.05
    assert worst_error(built(rows, lora="a"), adapted) < 0.05


def test_quantised_weights(tmp_path):
    """By the name of the node: what a step makes of bytes is updated."""
    random = np.random.default_rng(0)
    codes, scale = random.integers(-127, 128, (12, 20), np.int8), np.float32(0.01)
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale"], ["w"], "d"),
        helper.make_node("MatMul", ["x", "w"], ["y"], "/layer/proj/MatMul"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scale, "scale")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    a, b = random.standard_normal((2, 12), np.float32), random.standard_normal((20, 2), np.float32)
    save_adapter(tmp_path / "a", {"layer.proj": (a, b)})
    built = module.build(model, tuning="heuristic", lora=f"a={tmp_path / 'a'}")
    x = random.standard_normal((3, 12), np.float32)
    assert worst_error(built(x, lora="a"), x @ (codes * scale + (b @ a).T)) < TOLERANCE


def test_refit(adapted, tmp_path):
    """Another adapter in a built engine, of a smaller rank and for fewer products; its file is a fresh build's where the
    ranks are the same."""
    options = {"tuning": "heuristic", "verify": False, "refit": True}
    built = module.build(adapted.model, lora=adapted.options, **options)
    names = {weight["name"] for weight in module.Refitter(built).all_weights}
    assert {f"french/{QUERY}.lora_A.weight", f"legal/{QUERY}.lora_B.weight", "head.weight"} <= names
    dutch = make_updates([QUERY, TWICE], 2, 5)
    save_adapter(tmp_path / "dutch", {f"bert.{name}": update for name, update in dutch.items()})
    save_adapter(tmp_path / "other", make_updates([QUERY, DENSE, HEAD], 4, 6))
    refitter = module.Refitter(built)
    refitter.set_lora("legal", tmp_path / "dutch")
    assert refitter.missing == []
    refitter.refit()
    x = np.random.default_rng(0).standard_normal((2, 3, CHANNELS), np.float32)
    for adapter, weights in {
        "none": adapted.weights,
        "french": adapted.merged("french"),
        "legal": merged(adapted.weights, dutch, lambda _: 1),
    }.items():
        assert worst_error(built(x, lora=adapter), expected(tmp_path, weights, x)) < TOLERANCE

    refitter = module.Refitter(built)
    refitter.set_lora("french", tmp_path / "other")
    refitter.set_lora("legal", adapted.folder / "legal")
    refitter.refit()
    fresh = module.build(adapted.model, lora=[f"french={tmp_path / 'other'}", adapted.options[1]], **options)
    assert bytes(built) == bytes(fresh)


def test_refit_refuses(adapted, tmp_path):
    built = module.build(adapted.model, tuning="heuristic", verify=False, refit=True, lora=adapted.options[0])
    refitter = module.Refitter(built)
    save_adapter(tmp_path / "more", make_updates([QUERY], 5, 0))
    save_adapter(tmp_path / "elsewhere", make_updates([TWICE], 1, 0))
    with pytest.raises(InvalidArgumentError, match="has rank 5: the engine was built with ranks up to 4"):
        refitter.set_lora("french", tmp_path / "more")
    with pytest.raises(InvalidArgumentError, match="updates 'twice', which is no product"):
        refitter.set_lora("french", tmp_path / "elsewhere")
    with pytest.raises(InvalidArgumentError, match="no adapter 'legal'; there are: french"):
        refitter.set_lora("legal", tmp_path / "more")
    assert not any(weight["is_set"] for weight in refitter.all_weights)


def test_without_weights(adapted, tmp_path):
    """A stripped engine takes the model's weights and the adapters' by a refit."""
    options = {"tuning": "heuristic", "verify": False, "lora": adapted.options}
    module.build(adapted.model, tmp_path / "stripped.engine", strip_weights=True, **options)
    stripped = module.Engine(tmp_path / "stripped.engine")
    refitter = module.Refitter(stripped)
    refitter.set_file(adapted.model)
    assert all(name.startswith(("french/", "legal/")) for name in refitter.missing) and refitter.missing
    refitter.set_lora("french", adapted.folder / "french")
    refitter.set_lora("legal", adapted.folder / "legal")
    refitter.refit()
    adapted.check(lambda x, name: stripped(x, lora=name))


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (
            {"no.such.lora_A.weight": (4, 24), "no.such.lora_B.weight": (24, 4)},
            InvalidArgumentError,
            "'no.such', which is",
        ),
        (
            {"layer.lora_A.weight": (4, 24), "layer.lora_B.weight": (24, 4)},
            InvalidArgumentError,
            "'layer'.*did you mean",
        ),
        (
            {"head.lora_A.weight": (4, 24), "head.lora_B.weight": (9, 4)},
            InvalidArgumentError,
            "from 24 to 9 .* 40 to 9",
        ),
        ({"head.lora_A.weight": (4, 40), "head.lora_B.weight": (9, 5)}, InvalidModelError, "no common rank"),
        ({"head.lora_A.weight": (0, 40), "head.lora_B.weight": (9, 0)}, InvalidModelError, "no common rank"),
        ({"head.lora_A.weight": (4, 40)}, InvalidModelError, "'head' has no tensor lora_B"),
        ({"head.lora_B.weight": (9, 4)}, InvalidModelError, "'head' has no tensor lora_A"),
        ({"head.lora_A.a.weight": (4, 40), "head.lora_A.b.weight": (4, 40)}, InvalidModelError, "two tensors lora_A"),
        (
            {"head.lora_A.weight": (4, 40, 1, 1), "head.lora_B.weight": (9, 4)},
            UnsupportedError,
            "4 axes.*no convolutions",
        ),
        ({"head.lora_embedding_A": (4, 40)}, UnsupportedError, "embedding"),
        ({"head.lora_magnitude_vector": (9,)}, UnsupportedError, "DoRA"),
        ({"head.lora_B.bias": (9,)}, UnsupportedError, "no matrix of a low-rank update"),
        ({"head.weight": (9, 40)}, UnsupportedError, "no low-rank update.*refit"),
        (
            {
                "head.lora_A.weight": (1, 40),
                "head.lora_B.weight": (9, 1),
                "node_15.lora_A.weight": (1, 40),
                "node_15.lora_B.weight": (9, 1),
            },
            InvalidArgumentError,
            "'node_15' twice: as 'head' and as 'node_15'",
        ),
    ],
)
def test_bad_adapters(adapted, tmp_path, names, error, message):
    save_file({name: np.zeros(dims, np.float32) for name, dims in names.items()}, tmp_path / "a.safetensors")
    with pytest.raises(error, match=message) as raised:
        module.build(adapted.model, lora=f"bad={tmp_path / 'a.safetensors'}")
    assert "bad" in str(raised.value) and "a.safetensors" in str(raised.value)


def test_bad_tensors(adapted, tmp_path):
    save_file({"head.lora_A.weight": np.zeros((1, 40), np.int32)}, tmp_path / "a.safetensors")
    with pytest.raises(UnsupportedError, match=r"'head.lora_A.weight' is i32"):
        module.build(adapted.model, lora=f"bad={tmp_path / 'a.safetensors'}")
    save_file({}, tmp_path / "a.safetensors")
    with pytest.raises(InvalidModelError, match="no tensors lora_A and lora_B"):
        module.build(adapted.model, lora=f"bad={tmp_path / 'a.safetensors'}")


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({"lora_alpha": 4, "use_dora": True}, UnsupportedError, "use_dora is set"),
        ({"lora_alpha": 4, "peft_type": "LOHA"}, UnsupportedError, "LOHA"),
        ({"r": 4}, InvalidModelError, "lora_alpha is no number"),
        ({"lora_alpha": 4, "alpha_pattern": {"layer.*query": 2}}, UnsupportedError, "regular expression"),
        ([], InvalidModelError, "no JSON object"),
    ],
)
def test_bad_configurations(adapted, tmp_path, config, error, message):
    save_adapter(tmp_path / "a", adapted.french, config=config)
    with pytest.raises(error, match=message) as raised:
        module.build(adapted.model, lora=f"a={tmp_path / 'a'}")
    assert "adapter_config.json" in str(raised.value)


def test_several_products_of_a_name(tmp_path):
    """One node's name or another's initializer: which is meant, nobody can tell."""
    net = module.Network("n")
    x = net.input("x", np.float32, ("n", 4))
    y = net.MatMul(x, net.constant(np.eye(4, dtype=np.float32), "a.proj.weight"))
    net.output(net.MatMul(y, net.constant(np.ones((4, 4), np.float32), "b.proj.weight")), "y")
    update = np.ones((1, 4), np.float32), np.ones((4, 1), np.float32)
    save_adapter(tmp_path / "a", {"proj": update})
    with pytest.raises(InvalidArgumentError, match="'proj', which may be 'a.proj' or 'b.proj'"):
        module.build(net, lora=f"a={tmp_path / 'a'}")


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        ("french", "NAME=FILE"),
        ("=x.safetensors", "NAME=FILE"),
        ("none=x.safetensors", "cannot be named 'none'"),
        ("a,b=x.safetensors", "cannot be named 'a,b'"),
        (["{0}", "{0}"], "two adapters are named 'french'"),
    ],
)
def test_bad_options(adapted, lora, message):
    texts = [text.format(adapted.options[0]) for text in ([lora] if isinstance(lora, str) else lora)]
    with pytest.raises(InvalidArgumentError, match=message):
        module.build(adapted.model, lora=texts)


def test_other_files(adapted, tmp_path):
    with pytest.raises(UnsupportedError, match=r"\.safetensors"):
        module.build(adapted.model, lora=f"a={adapted.model}")
    with pytest.raises(module.FileError, match="adapter_model.safetensors"):
        module.build(adapted.model, lora=f"a={tmp_path}")


def test_a_model_with_such_an_input(tmp_path):
    net = module.Network("n")
    x = net.input("lora", np.float32, ("n", 4))
    net.output(net.MatMul(x, net.constant(np.eye(4, dtype=np.float32), "w")), "y")
    save_adapter(tmp_path / "a", {"w": (np.ones((1, 4), np.float32), np.ones((4, 1), np.float32))})
    with pytest.raises(InvalidArgumentError, match="has an input or output 'lora'"):
        module.build(net, lora=f"a={tmp_path / 'a'}")


def test_other_programs_refuse(adapted, tmp_path):
    with pytest.raises(InvalidArgumentError, match="when it is built"):
        module.simplify(adapted.model, tmp_path / "s.onnx", lora=adapted.options)
    with pytest.raises(InvalidArgumentError, match="ONNX Runtime does not have the adapters"):
        module.verify(adapted.model, against="onnxruntime", lora=adapted.options)


def test_a_judge_of_ones_own(adapted, tmp_path):
    def judge(inputs):
        adapter = ["none", "french", "legal"][int(inputs["lora"])]
        return {"y": expected(tmp_path, adapted.merged(adapter), inputs["x"])}

    verdict = module.verify(adapted.model, against=judge, tuning="heuristic", lora=adapted.options)
    assert verdict["passed"]


def test_command(adapted, tmp_path):
    out = tmp_path / "m.engine"
    arguments = ["build", adapted.model, "-o", out, "--tuning", "heuristic", "--refit"]
    text = camshaft(*arguments, *(f"--lora={option}" for option in adapted.options)).stdout
    assert "lora      french: 3 products, rank 4" in text
    assert "french, legal" in camshaft("inspect", out).stdout
    save_adapter(tmp_path / "new", make_updates([HEAD], 3, 8))
    camshaft("refit", out, f"--lora=legal={tmp_path / 'new'}", "-o", tmp_path / "refitted.engine")

    def run(x, adapter, engine=out):
        np.savez(tmp_path / "in.npz", x=x)
        chosen = [] if adapter == "none" else ["--lora", adapter]
        camshaft("run", engine, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", *chosen)
        with np.load(tmp_path / "out.npz") as outputs:
            return outputs["y"]

    adapted.check(run)
    x = np.ones((1, 2, CHANNELS), np.float32)
    assert (run(x, "french") == run(x, "french", tmp_path / "refitted.engine")).all()
    assert (run(x, "legal") != run(x, "legal", tmp_path / "refitted.engine")).any()
    assert "lora: i64[]" in camshaft("bench", out, "--lora", "legal", "--iterations", "1", "--warmup", "0").stdout
    for wrong in (["run", out, "--lora", "dutch"], ["run", adapted.model, "--lora", "french"]):
        done = camshaft(*wrong, check=False)
        assert done.returncode == 2 and "adapter" in done.stderr
