"""The graph that `camshaft inspect --onnx` writes for viewers: that it is valid, and that it says what the layers are."""

import json

import numpy as np
import pytest
from camshaft_cli import camshaft

import onnx
from onnx import TensorProto, helper, numpy_helper

MODELS = ("ppocr_cls", "mask_rcnn", "own_loop_script", "own_lstm")


@pytest.fixture(scope="module", params=MODELS)
def both(request, engines, tmp_path_factory):
    """What --json says of an engine, and the graph as it is loaded."""
    engine = engines.get(request.param)
    path = tmp_path_factory.mktemp("layers") / "layers.onnx"
    done = camshaft("inspect", engine, "--onnx", path)
    known = json.loads(camshaft("inspect", engine, "--json").stdout)
    assert f"{len(known['layers'])} layers" in done.stdout
    return known, path


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def texts(values):
    return [value.decode() for value in values]


def layer_nodes(graph):
    """Those of layers; an output that is a view of one's result has a node behind them."""
    return [node for node in graph.node if node.op_type != "view"]


def test_it_is_valid_and_small(both):
    known, path = both
    onnx.checker.check_model(str(path), full_check=True)
    assert path.stat().st_size < 2500 * len(known["layers"]) + sum(map(len, known["metadata"].values())) + 5000
    model = onnx.load(path)
    assert not model.graph.initializer
    assert {node.domain for node in model.graph.node} == {"camshaft"}
    assert "camshaft" in {opset.domain for opset in model.opset_import}
    assert {p.key: p.value for p in model.metadata_props} == known["metadata"]


def test_each_layer_is_a_node_that_says_what_it_is(both):
    known, path = both
    nodes = layer_nodes(onnx.load(path).graph)
    assert len(nodes) == len(known["layers"])
    for node, layer in zip(nodes, known["layers"]):
        said = attributes(node)
        assert node.op_type == layer["op"] and node.name.startswith(layer["name"])
        assert said.get("tactic", b"").decode() == layer["tactic"]
        assert said.get("precision", b"").decode() == layer["precision"]
        assert said.get("computes", b"").decode() == layer["description"]
        assert texts(said.get("sources", [])) == layer["sources"]
        assert texts(said.get("apart", [])) == layer["notes"]
        assert bool(said["at_binding"]) == layer["at_binding"]
        for trial in layer["tried"]:
            if trial["tactic"] == layer["tactic"]:
                assert said["estimated_us"] == pytest.approx(trial["estimated_ns"] / 1000, rel=1e-6)
                assert ("measured_us" in said) == (trial["measured_ns"] is not None)


def test_edges_lead_from_the_layers_that_are_read(both):
    known, path = both
    writers = {}
    for index, node in enumerate(layer_nodes(onnx.load(path).graph)):
        read = {writers[name] for name in node.input if name in writers}
        assert sorted(read) == known["layers"][index]["reads"], node.name
        writers.update(dict.fromkeys(filter(None, node.output), index))


def test_values_have_names_and_types(both):
    known, path = both
    graph = onnx.load(path).graph
    for values, infos in ((graph.input, known["inputs"]), (graph.output, known["outputs"])):
        assert [value.name for value in values] == [info["name"] for info in infos]
        for value, info in zip(values, infos):
            if value.type.HasField("tensor_type"):
                sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in value.type.tensor_type.shape.dim]
                assert sizes == [size if isinstance(size, int) else -1 for size in info["shape"]]
    typed = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
    assert {name for node in graph.node for name in (*node.input, *node.output) if name} <= typed


def save(path, nodes, inputs, outputs, initializers=()):
    def values(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in shapes.items()]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def test_constants_are_named_and_what_is_fused_is_listed(tmp_path):
    weights = numpy_helper.from_array(np.eye(4, dtype=np.float32), "weights")
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    save(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"y": [4, 4]}, [weights])
    camshaft("inspect", tmp_path / "m.onnx", "--onnx", tmp_path / "layers.onnx")
    (node,) = onnx.load(tmp_path / "layers.onnx").graph.node
    said = attributes(node)
    assert list(node.input) == ["x"] and list(node.output) == ["y"]
    assert texts(said["constants"]) == ["weights: f32[4, 4]"]
    assert texts(said["fused"])[0] == "matmul" and len(said["fused"]) == 2
    assert said["flops"] == 128 and said["constant_bytes"] == 64 and said["activation_bytes"] == 128


def test_outputs_without_a_layer_of_their_own_are_there(tmp_path):
    """One that is an input, one that is a view of another's memory, and one that is a constant."""
    initializers = [
        numpy_helper.from_array(np.ones(3, np.float32), "c"),
        numpy_helper.from_array(np.array([2, 2]), "s"),
    ]
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Reshape", ["t", "s"], ["y"]),
        helper.make_node("Identity", ["x"], ["z"]),
        helper.make_node("Identity", ["c"], ["k"]),
    ]
    save(tmp_path / "m.onnx", nodes, {"x": [4]}, {"t": [4], "y": [2, 2], "z": [4], "k": [3]}, initializers)
    camshaft("inspect", tmp_path / "m.onnx", "--onnx", tmp_path / "layers.onnx")
    onnx.checker.check_model(str(tmp_path / "layers.onnx"), full_check=True)
    assert [o.name for o in onnx.load(tmp_path / "layers.onnx").graph.output] == ["t", "y", "z", "k"]


def test_the_engine_is_not_overwritten(engine):
    before = engine.read_bytes()
    done = camshaft("inspect", engine, "--onnx", engine, check=False)
    assert done.returncode == 2 and engine.read_bytes() == before


def test_json_and_onnx_at_once(engine, tmp_path):
    done = camshaft("inspect", engine, "--onnx", tmp_path / "layers.onnx", "--json")
    assert len(json.loads(done.stdout)["layers"]) == len(layer_nodes(onnx.load(tmp_path / "layers.onnx").graph))
