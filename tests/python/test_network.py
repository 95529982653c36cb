"""Models that Python makes node by node: as ONNX Runtime computes them, with every operator of the standard's cases."""

import contextlib
import gc
import re
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path

import numpy as np
import onnx.backend.test
import onnxruntime
import pytest
from camshaft_cli import BINARY, ROOT

import onnx
from onnx import numpy_helper

sys.path.insert(0, str(BINARY.parent.parent / "python"))
camshaft = pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")

CASES = Path(onnx.backend.test.__file__).parent / "data/node"
# Of bodies, that no run takes: a network checks both.
REFUSED = {"test_affine_grid_3d_align_corners_expanded", "test_affine_grid_3d_expanded"}
# The files declare inner values, of elements that no other type tells the rank of. A network's input says it itself.
REFUSED |= {"test_optional_get_element_optional_tensor"}
REFUSED |= {path.name for path in CASES.glob("test_sequence_map_*_expanded")}
# The file declares the sequence that its optional result may hold.
OTHER_TYPES = {"test_loop16_seq_none"}
ONNX_RUNTIME_READS = 21  # an operator set that it knows


def check(net, rtol=1e-4, **inputs):
    """The engine of a network, and ONNX Runtime on its file, agree."""
    model = net.to_onnx()
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    expected = onnxruntime.InferenceSession(model).run(None, inputs)
    engine = camshaft.build(net, inputs=inputs, tuning="heuristic")
    outputs = engine.run(inputs)
    assert list(outputs) == list(net.outputs)
    for actual, wanted in zip(outputs.values(), expected):
        assert actual.dtype == wanted.dtype
        np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=1e-5)
    return engine


@pytest.fixture
def random():
    return np.random.default_rng(5)


@pytest.fixture
def net():
    return camshaft.Network(opset=ONNX_RUNTIME_READS)


def test_a_small_convolutional_network(net, random):
    x = net.input("x", np.float32, ("n", 3, "h", "w"))
    w = random.standard_normal((8, 3, 3, 3), np.float32)
    y = net.Relu(net.Conv(x, w, np.ones(8, np.float32), strides=[2, 2], pads=[1, 1, 1, 1]))
    assert y.dtype == "f32" and y.shape[:2] == ("n", 8)
    z = net.Reshape(net.GlobalAveragePool(y), [0, -1])
    assert z.shape == ("n", 8)
    net.output(net.Softmax((2 * z + 1) @ random.standard_normal((8, 4), np.float32), axis=-1), "y")
    engine = check(net, x=random.standard_normal((2, 3, 16, 12), np.float32))
    assert [info.type for info in engine.inputs] == ["f32[n, 3, h, w]"]


def test_an_lstm_over_an_embedding(net, random):
    ids = net.input("ids", "i64", ("length", 2))
    table = random.standard_normal((11, 6), np.float32)
    w, r = (random.standard_normal((1, 20, size), np.float32) for size in (6, 5))
    y, last, _ = net.LSTM(net.Gather(table, ids), w, r, hidden_size=5)
    assert y.shape == ("length", 1, 2, 5)
    net.output(net.Squeeze(y, [1]), "states")
    net.output(last, "last")
    check(net, ids=random.integers(0, 11, (7, 2)))


def test_attention_by_operators_of_python(net, random):
    x = net.input("x", np.float32, ("n", 9, 16))
    q, k, v = (x @ random.standard_normal((16, 16), np.float32) * 0.1 for _ in range(3))
    scores = q @ net.Transpose(k, perm=[0, 2, 1]) / 4.0
    net.output(x + net.Softmax(scores, axis=-1) @ v, "y")
    check(net, x=random.standard_normal((2, 9, 16), np.float32))


@pytest.mark.parametrize(
    "index",
    [
        np.s_[1],
        np.s_[-1, 2],
        np.s_[:, 1:3],
        np.s_[..., ::-1],
        np.s_[0, ..., None],
        np.s_[:, None, 2, 1::2],
        np.s_[-3:, :-1, 3],
        np.s_[None, ..., 0, :],
    ],
)
def test_indices_are_as_in_numpy(net, random, index):
    x = net.input("x", np.float32, (4, 5, 6))
    array = random.standard_normal((4, 5, 6), np.float32)
    value = x[index]
    assert value.shape == array[index].shape
    net.output(value, "y")
    np.testing.assert_array_equal(camshaft.build(net, tuning="heuristic")(array), array[index])


def test_a_value_as_an_index_gathers(net, random):
    x, rows = net.input("x", np.float32, (4, 5)), net.input("rows", np.int64, (2, 3))
    net.output(x[:, rows], "y")
    array, at = random.standard_normal((4, 5), np.float32), random.integers(0, 5, (2, 3))
    np.testing.assert_array_equal(camshaft.build(net, tuning="heuristic")(array, at), array[:, at])


def test_a_loop_that_grows_what_it_carries(net):
    x, count = net.input("x", np.float32, (2, "n")), net.input("count", np.int64)
    grown, sums = net.Loop(
        count, True, x, body=lambda body, i, go_on, v: (go_on, body.Concat(v, x, axis=1), body.ReduceSum(v))
    )
    assert grown.shape[0] == 2 and not isinstance(grown.shape[1], int) and grown.shape[1] != "n"
    net.output(grown, "grown")
    net.output(sums, "sums")
    check(net, x=np.ones((2, 3), np.float32), count=np.array(3))


def test_branches_and_scans(net):
    x = net.input("x", np.float32, (4, 3))
    net.output(
        net.If(
            net.ReduceSum(x, keepdims=0) > 0,
            then_branch=lambda body: body.If(
                body.ReduceMax(x, keepdims=0) > 2, then_branch=lambda _: x, else_branch=lambda inner: inner.Neg(x)
            ),
            else_branch=lambda body: body.Abs(x),
        ),
        "chosen",
    )
    start = np.zeros(3, np.float32)

    def add(body, total, row):
        total = body.Add(total, row, name="running total")
        return total, body.Identity(total)

    final, totals = net.Scan(start, x, num_scan_inputs=1, body=add)
    assert totals.shape == (4, 3)
    net.output(final, "final")
    net.output(totals, "totals")
    check(net, x=np.arange(-5, 7, dtype=np.float32).reshape(4, 3))


def test_a_body_by_hand(net):
    x = net.input("x", np.float32, ("n",))
    body = net.subgraph("double")
    body.input("i", np.int64)
    go_on, v = body.input("c", bool), body.input("v", np.float32, (None,))
    body.output(go_on)  # an input of a body as its output
    body.output(v + x)
    net.output(net.Loop(3, None, x, body=body), "y")
    check(net, x=np.ones(5, np.float32))
    with pytest.raises(camshaft.InvalidArgumentError, match="is no sub-graph that was made in"):
        camshaft.Network().If(True, then_branch=body, else_branch=body)


def test_constants_are_not_copied_and_freed_at_last():
    weights = np.ones((512, 512), np.float32)
    alive = weakref.ref(weights)
    net = camshaft.Network()
    x = net.input("x", np.float32, ("n", 512))
    net.output(x @ net.constant(weights, name="weights"), "y")
    del weights
    gc.collect()
    assert alive() is not None
    alive()[:] = 2  # which a copy would not see
    assert "weights" in [t.name for t in onnx.load_from_string(net.to_onnx()).graph.initializer]
    assert camshaft.build(net, tuning="heuristic")(np.ones((1, 512), np.float32))[0, 0] == 1024
    del net, x
    gc.collect()
    assert alive() is None


def test_constants_of_all_kinds():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    net = camshaft.Network()
    numbers = np.array([1, -2, 3, 4, -5])
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"):
        array = numbers.astype(getattr(ml_dtypes, name))
        net.output(net.Cast(array, to=np.float32), name)
    net.output(net.Cast(numbers[::-2], to="f32"), "strided")
    net.output(net.StringConcat(["a", "b"], np.array("c", object)), "text")
    tensors = {t.name: t for t in onnx.load_from_string(net.to_onnx()).graph.initializer}
    assert len(tensors) == 7
    engine = camshaft.build(net, verify=False)
    outputs = engine.create_context().run()
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"):
        np.testing.assert_array_equal(np.asarray(outputs[name]), numbers)
    np.testing.assert_array_equal(np.asarray(outputs["strided"]), numbers[::-2])


def test_what_it_says_of_itself(net):
    assert "Conv" in dir(net) and "Gelu" in dir(net.microsoft)
    assert "strides: integers" in net.Conv.__doc__ and "required" in net.Concat.__doc__
    assert repr(net.Clip) == "<camshaft operator Clip(input: T, min?: T, max?: T) -> (output: T)>"
    x = net.input("x", np.float32, ("n", 3))
    assert repr(x) == "<camshaft.Value x: f32[n, 3]>"
    assert repr(net) == "<camshaft.Network network (x: f32[n, 3]) -> ()>"
    assert not hasattr(net, "Cnv")


def misuse(message, kind=camshaft.InvalidArgumentError):
    return pytest.raises(kind, match=message)


def test_misuse_is_named(net, random):
    x = net.input("x", np.float32, ("n", 3, 8, 8))
    w = random.standard_normal((8, 3, 3, 3), np.float32)
    with misuse("no operator 'Cnv' in operator set 21; did you mean 'Conv'"):
        net.Cnv(x)
    with misuse("operator Conv needs its input W: it takes X, W, B \\(optional\\)"):
        net.Conv(x)
    with misuse("operator Conv has no attribute 'stride'; did you mean 'strides'\\?"):
        net.Conv(x, w, stride=[1, 1])
    with misuse("attribute 'strides' of operator Conv is integers, not 'a'"):
        net.Conv(x, w, strides="a")
    with misuse("conv takes numbers of one dtype, got f32 and f64.*given X: f32\\[n, 3, 8, 8\\], W: f64"):
        net.Conv(x, w.astype(np.float64))
    with misuse("the input has 3 channels, the weights take 4"):
        net.Conv(x, random.standard_normal((8, 4, 3, 3), np.float32))
    with misuse("operator Add takes the inputs A, B; 3 are given"):
        net.Add(x, x, x)
    with misuse("operator Cast needs its attribute 'to', an integer"):
        net.Cast(x)
    with misuse("operator Relu has the outputs Y; 2 are given"):
        net.Relu(x, outputs=2)
    with misuse("has a value 'x' already"):
        net.input("x", "f32")
    with misuse("has a value 'x' already"):
        net.Relu(x, outputs=["x"])
    with misuse("sizes are 1 or more, names, or None"):
        net.input("z", "f32", (0,))
    with misuse("'f99' is no type of elements"):
        net.input("z", "f99")
    with misuse("there is no operator set 99"):
        camshaft.Network(opset=99)
    with misuse("has no outputs: mark some"):
        net.to_onnx()
    with misuse("has no outputs: mark some"):
        camshaft.build(net)
    with misuse("has no value 'theirs'"):
        net.Relu(camshaft.Network().input("theirs", "f32"))
    with misuse("attribute 'then_branch' of operator If is a function or a subgraph"):
        net.If(True, then_branch=3, else_branch=3)
    with misuse("say how many, as outputs=2", TypeError):
        net.Split(x, net.input("sizes", "i64", ("k",)), axis=1)
    with misuse("operator Clip is given its input min twice", TypeError):
        net.Clip(x, 0, min=1)
    with misuse("only running tells", TypeError):
        bool(x)
    # All of that has left nothing behind.
    net.output(net.Conv(x, w, name="one"), "y")
    nodes = onnx.load_from_string(net.to_onnx()).graph.node
    assert [node.op_type for node in nodes] == ["Conv", "Identity"]


def test_the_elements_of_a_sequence_have_sizes(net):
    items = net.input("items", "seq(tensor(float)[2,?,n])")
    item = net.SequenceAt(items, 0)
    assert item.dtype == "f32" and item.shape[0] == 2 and item.ndim == 3
    with misuse("how many axes this one has is not known", camshaft.UnsupportedError):
        net.SequenceAt(net.input("others", "seq(tensor(float))"), 0)


def test_the_documentation(capsys):
    page = (ROOT / "docs/network.md").read_text()
    for example in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(example, {"camshaft": camshaft, "np": np})  # noqa: S102
        *_, printed = re.findall(r"^print.*  # (.*)$", example, re.MULTILINE)
        assert capsys.readouterr().out.strip() == printed
    (example,) = re.findall(r"^```cpp\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    program = (ROOT / "tests/api/network_test.cpp").read_text()
    assert textwrap.indent(example, "  ") in program


def test_the_table_of_operators_is_up_to_date(tmp_path):
    table = tmp_path / "schemas.inc"
    subprocess.run([sys.executable, ROOT / "scripts/operator_schemas.py", table], check=True)
    assert table.read_text() == (ROOT / "src/onnx/operator_schemas.inc").read_text()


def test_what_a_function_raises_goes_through(net):
    def broken(body):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        net.If(True, then_branch=broken, else_branch=broken)


def test_calls_that_take_models_take_networks(net, tmp_path):
    x = net.input("x", np.float32, (2, 2))
    net.output(net.Relu(net.Identity(x)), "y")
    report = camshaft.simplify(net, tmp_path / "simple.onnx")
    assert report["nodes"] == 1
    net.save(tmp_path / "net.onnx", external_data=True)
    assert camshaft.build(str(tmp_path / "net.onnx")).report["model_nodes"] == 3


def type_text(proto):
    kind = proto.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({type_text(proto.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({type_text(proto.optional_type.elem_type)})"
    if kind == "map_type":
        key = onnx.TensorProto.DataType.Name(proto.map_type.key_type).lower()
        return f"map({key},{type_text(proto.map_type.value_type)})"
    return f"tensor({onnx.TensorProto.DataType.Name(proto.tensor_type.elem_type).lower()})"


class Replay:
    """Adds a model's nodes one after the other, as a program would."""

    def __init__(self, model):
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        self.net = camshaft.Network(model.graph.name or "graph", opset=self.opsets.get("", 0) or None)
        self.add(self.net, model.graph, {})

    def add(self, net, graph, names, hints=()):
        """`hints`: (dtype, shape) of the inputs of bodies, which need not declare them."""
        for tensor in graph.initializer:
            names[tensor.name] = net.constant(numpy_helper.to_array(tensor))
        for i, value in enumerate(graph.input):
            if value.name in names and names[value.name].network is net:
                continue
            tensor = value.type.tensor_type
            shape = [d.dim_value or d.dim_param or None for d in tensor.shape.dim]
            shape = [None if isinstance(d, str) and d.startswith(("@", "?")) else d for d in shape]
            kind = type_text(value.type)
            if kind == "tensor(undefined)":
                kind, shape = hints[i]
            name = value.name if net is self.net else f"{net.name}.{value.name}.{len(names)}"
            names[value.name] = net.input(name, kind, () if kind.startswith(("seq", "opt", "map")) else shape)
        for node in graph.node:
            results = self.node(net, node, names)
            results = results if isinstance(results, tuple) else (results,)
            for name, value in zip(node.output, results):
                if name:
                    names[name] = value
        for value in graph.output:
            net.output(names[value.name], value.name if net is self.net else None)

    @staticmethod
    def hints(node, values, attributes):
        if node.op_type == "Scan":
            states = len(values) - attributes["num_scan_inputs"]
            return [(v.dtype, v.shape[i >= states :]) for i, v in enumerate(values)]
        carried = values[len(values) - len(node.input[2:]) :]
        return [("i64", ()), ("bool", ()), *((v.dtype, [None] * v.ndim) for v in carried)]

    def node(self, net, node, names):
        attributes = {}
        for attribute in sorted(node.attribute, key=lambda a: a.type == a.GRAPH):
            value = onnx.helper.get_attribute_value(attribute)
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = net.subgraph(f"{attribute.name}.{len(names)}")
                self.add(body, value, dict(names), self.hints(node, [names[n] for n in node.input if n], attributes))
                value = body
            elif attribute.type == onnx.AttributeProto.TENSOR:
                value = numpy_helper.to_array(value)
            elif attribute.type == onnx.AttributeProto.TYPE_PROTO:
                value = type_text(value)
            attributes[attribute.name] = value
        domains = {"": net, "ai.onnx": net, "ai.onnx.ml": net.ml, "ai.onnx.preview": net.preview}
        inputs = [names[name] if name else None for name in node.input]
        return getattr(domains[node.domain], node.op_type)(
            *inputs, outputs=[None if name else "" for name in node.output], **attributes
        )


def same_kind(node):
    """What a replayed node keeps: all but names."""
    plain = sorted((a for a in node.attribute if a.type != onnx.AttributeProto.GRAPH), key=lambda a: a.name)
    values = [(a.name, repr(_attribute_value(a))) for a in plain]
    return node.op_type, node.domain.replace("ai.onnx", "") or "", [bool(name) for name in _trimmed(node.input)], values


def _attribute_value(attribute):
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.TENSOR:
        return numpy_helper.to_array(value).tolist(), value.data_type
    return type_text(value) if attribute.type == onnx.AttributeProto.TYPE_PROTO else value


def _trimmed(names):
    names = list(names)
    while names and not names[-1]:
        names.pop()
    return names


def replayable():
    """The standard's cases, but for training, functions of a model's own, complex numbers and sparse constants."""
    for case in sorted(CASES.iterdir()):
        model = onnx.load(case / "model.onnx")
        text = str(model)
        left_out = "preview.training" in text or "COMPLEX" in text or "sparse" in text or model.functions
        if not left_out and not any(word in case.name for word in ("complex",)):
            yield case, model


@pytest.fixture(scope="module")
def replayed():
    """([(case, model, network)], [what failed])"""
    done, failures = [], []
    for case, model in replayable():
        try:
            done.append((case, model, Replay(model).net))
        except camshaft.UnsupportedError:
            with contextlib.suppress(camshaft.UnsupportedError):  # no more than the file
                camshaft.build(case / "model.onnx", verify=False, tuning="heuristic")
                failures.append((case.name, "the file can be built"))
        except (camshaft.Error, TypeError, KeyError) as error:
            failures.append((case.name, repr(error)[:300]))
    return done, failures


def test_the_standards_cases_can_be_made(replayed):
    done, failures = replayed
    assert not [f"{name}: {why}" for name, why in failures if name not in REFUSED], len(failures)
    assert len(done) > 1600


def test_they_have_the_nodes_of_the_files(replayed):
    """Of the outputs the types that the files declare, too."""
    differ = []
    for case, model, net in replayed[0]:
        made = onnx.load_from_string(net.to_onnx()).graph
        nodes, wanted = ([same_kind(node) for node in graph.node] for graph in (made, model.graph))
        kinds, declared = ([(v.name, type_text(v.type)) for v in graph.output] for graph in (made, model.graph))
        # What is an output under another name has an Identity behind it.
        if (
            nodes[: len(wanted)] != wanted
            or {n[0] for n in nodes[len(wanted) :]} - {"Identity"}
            or (kinds != declared and case.name not in OTHER_TYPES)
        ):
            differ.append(case.name)
    assert not differ


def test_each_operator_computes_what_it_should(replayed):
    """By one case of each: the others have the same nodes as files, which the conformance tests run."""
    seen, differ = set(), []
    for case, model, net in replayed[0]:
        operators = {node.op_type for node in model.graph.node}
        if operators <= seen or any(info.dtype in UNREADABLE for info in net.inputs):
            continue
        tensors = [onnx.load_tensor(file) for file in sorted((case / "test_data_set_0").glob("input_*.pb"))]
        inputs = {i.name: numpy_helper.to_array(tensor) for i, tensor in zip(net.inputs, tensors)}
        if any(array.dtype.kind not in "fiub" or array.dtype.itemsize < 1 for array in inputs.values()):
            continue
        engine = camshaft.build(net, verify=False, tuning="heuristic")
        if any(info.dtype in UNREADABLE for info in engine.outputs):
            continue
        wanted = [
            numpy_helper.to_array(onnx.load_tensor(case / f"test_data_set_0/output_{i}.pb"))
            for i in range(len(engine.outputs))
        ]
        actual = engine.run(inputs)
        seen |= operators
        for array, expected in zip(actual.values(), wanted):
            if operators & RANDOM:
                same = array.shape == expected.shape
            else:
                same = np.allclose(array, expected, rtol=1e-3, atol=1e-5, equal_nan=True)
            if not same or array.dtype != expected.dtype:
                differ.append(case.name)
    assert not differ
    assert len(seen) > 150, sorted(seen)


# What NumPy's arrays do not have.
UNREADABLE = {"seq", "opt", "map", "string", "bf16", "f8e4m3", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1"}
UNREADABLE |= {"i4", "u4", "i2", "u2"}
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomUniformLike"}
