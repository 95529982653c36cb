"""Parsed ONNX models in TensorRT's interface: how they are read without the package onnx, and built when something in them
was changed."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from tensorrt_model import write_network
from test_module import MODULE
from test_tensorrt import Heard, expected, parsed, pictures, trt

import onnx
from onnx import TensorProto, helper, numpy_helper

if trt:
    from camshaft.tensorrt._onnx_file import Model

TYPES = {
    TensorProto.FLOAT: np.float32, TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8,
    TensorProto.UINT16: np.uint16, TensorProto.INT16: np.int16, TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64, TensorProto.BOOL: np.bool_, TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64, TensorProto.UINT32: np.uint32, TensorProto.UINT64: np.uint64,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16, TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
}  # fmt: skip


def value(name, dtype=TensorProto.FLOAT, shape=(2, 3)):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=17, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset), *more.pop("imports", [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, **more)


def network_of(model, folder=None):
    """(builder, network) of a model; of a path where it has external data."""
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    parser = trt.OnnxParser(network, logger)
    if folder is None:
        assert parser.parse(model.SerializeToString()), logger.errors()
    else:
        onnx.save(model, folder / "model.onnx")
        assert parser.parse_from_file(str(folder / "model.onnx")), logger.errors()
    return builder, network


def run(builder, network, inputs):
    """{output: array} of the engine of a network."""
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    assert engine is not None, builder.logger.errors()
    context = engine.create_execution_context()
    held = {}
    for name in engine:
        if name in inputs:
            context.set_input_shape(name, inputs[name].shape)
            held[name] = np.ascontiguousarray(inputs[name])
    for name in engine:
        if name not in inputs:
            held[name] = np.empty(tuple(context.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
        context.set_tensor_address(name, held[name].ctypes.data)
    assert context.execute_async_v3(0), builder.logger.errors()
    return {name: array for name, array in held.items() if name not in inputs}


def agrees(model, inputs, more, folder=None):
    """Whether an engine in which the tensors `more` are outputs, too, gives what ONNX Runtime does."""
    builder, network = network_of(model, folder)
    wanted = {output.name for output in model.graph.output}
    for layer in network:
        for tensor in (layer.get_output(k) for k in range(layer.num_outputs)):
            if tensor.name in more:
                network.mark_output(tensor)
                wanted.add(tensor.name)
    assert len(wanted) == len(model.graph.output) + len(more)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name in more:
        copy.graph.output.add().name = name
    source = copy.SerializeToString()
    if folder is not None:
        onnx.save(copy, folder / "marked.onnx")
        source = str(folder / "marked.onnx")
    session = onnxruntime.InferenceSession(source)
    got = run(builder, network, inputs)
    assert set(got) == wanted
    for name, want in zip((output.name for output in session.get_outputs()), session.run(None, inputs)):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("shape", [(3, 5), (), (0,)])
@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_tensors_of_every_type_are_read(dtype, shape, raw):
    seed = dtype * 100 + len(shape)
    array = np.asarray(np.random.default_rng(seed).integers(0, 2 if dtype == TensorProto.BOOL else 100, shape))
    array = array.astype(TYPES[dtype])
    tensor = numpy_helper.from_array(array, "t")
    if not raw:
        tensor = helper.make_tensor("t", dtype, array.shape, array.reshape(-1))
    model = model_of([helper.make_node("Identity", ["t"], ["y"])], [], [value("y")], [tensor])
    read = Model(memoryview(bytearray(model.SerializeToString()))).graph.initializer[0]
    data, name, dims = read.constant(None)
    assert dims == array.shape and read.name == "t"
    assert data.tobytes() == array.tobytes(), seed
    assert name in ("bf16", "f8e4m3") if "ml_dtypes" in str(TYPES[dtype]) else name == ""


def test_strings_and_halves_of_bytes_are_read():
    words = helper.make_tensor("w", TensorProto.STRING, [2], [b"a", "ü".encode()])
    quarters = helper.make_tensor("q", TensorProto.INT4, [3], [1, -2, 7])
    model = model_of([helper.make_node("Identity", ["w"], ["y"])], [], [value("y")], [words, quarters])
    first, second = Model(memoryview(bytearray(model.SerializeToString()))).graph.initializer
    assert first.constant(None) == ([b"a", "ü".encode()], "string", (2,))
    data, name, dims = second.constant(None)
    assert (name, dims, data.tolist()) == ("i4", (3,), [0xE1, 0x07])


def test_damaged_bytes_are_refused_and_never_raise(tmp_path):
    data = write_network(tmp_path / "m.onnx").read_bytes()
    random = np.random.default_rng(11)
    pieces = [data[:size] for size in random.integers(0, 300, 60)]
    for _ in range(200):
        damaged = bytearray(data)
        for at in random.integers(0, 500, 3):
            damaged[at] = random.integers(256)
        pieces.append(bytes(damaged))
    refused = 0
    for piece in pieces:
        logger = Heard()
        builder = trt.Builder(logger)
        network = builder.create_network()
        parser = trt.OnnxParser(network, logger)
        if parser.parse(piece):
            [
                (tensor.shape, tensor.dtype)
                for layer in network
                for tensor in [layer.get_output(0)]
                if tensor is not None
            ]
        else:
            refused += 1
            assert parser.num_errors and logger.errors()
    assert refused > 60


def test_outputs_inside_of_a_model_with_branches_loops_and_scans():
    step = helper.make_graph(
        [helper.make_node("Add", ["carried", "a"], ["next"]), helper.make_node("Identity", ["go"], ["go_on"])],
        "step",
        [value("i", TensorProto.INT64, ()), value("go", TensorProto.BOOL, ()), value("carried")],
        [value("go_on", TensorProto.BOOL, ()), value("next")],
    )
    then = helper.make_graph([helper.make_node("Mul", ["looped", "a"], ["r"])], "then", [], [value("r")])
    other = helper.make_graph([helper.make_node("Neg", ["a"], ["r"])], "other", [], [value("r")])
    scan = helper.make_graph(
        [helper.make_node("Add", ["s", "row"], ["s1"]), helper.make_node("Mul", ["s1", "two"], ["out"])],
        "scan",
        [value("s", shape=(3,)), value("row", shape=(3,))],
        [value("s1", shape=(3,)), value("out", shape=(3,))],
        [numpy_helper.from_array(np.float32(2), "two")],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Loop", ["n", "", "a"], ["looped"], body=step),
        helper.make_node("If", ["p"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Scan", ["zero", "chosen"], ["sum", "y"], body=scan, num_scan_inputs=1),
    ]
    constants = [numpy_helper.from_array(np.int64(3), "n"), numpy_helper.from_array(np.zeros(3, np.float32), "zero")]
    model = model_of(nodes, [value("x"), value("p", TensorProto.BOOL, ())], [value("y")], constants)
    x = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)
    for p in (True, False):
        agrees(model, {"x": x, "p": np.array(p)}, ["a", "looped", "chosen", "sum"])


def test_outputs_inside_of_a_model_with_functions():
    scaled = helper.make_function(
        "own",
        "Scaled",
        ["v", "bias"],
        ["w"],
        [
            helper.make_node("Selu", ["v"], ["s"]),
            helper.make_node("Add", ["s", "bias"], ["w"]),
        ],
        [helper.make_opsetid("", 17)],
        attributes=["alpha"],
    )
    scaled.node[0].attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    nodes = [
        helper.make_node("Scaled", ["x", "b"], ["a"], domain="own", alpha=0.5),
        helper.make_node("Scaled", ["a", "b"], ["y"], domain="own", alpha=1.5),
    ]
    bias = numpy_helper.from_array(np.float32([1, -1, 0]), "b")
    model = model_of(
        nodes, [value("x")], [value("y")], [bias], functions=[scaled], imports=[helper.make_opsetid("own", 1)]
    )
    x = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
    agrees(model, {"x": x}, ["a"])


def test_outputs_inside_of_a_model_with_external_data(tmp_path):
    weights = np.random.default_rng(4).standard_normal((3, 400)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    model = model_of(nodes, [value("x")], [value("y", shape=(2, 400))], [numpy_helper.from_array(weights, "w")])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    x = np.random.default_rng(5).standard_normal((2, 3)).astype(np.float32)
    agrees(model, {"x": x}, [], tmp_path)
    agrees(model, {"x": x}, ["a"], tmp_path)
    layer = network_of(model, tmp_path)[1].get_layer(0)
    layer.get_output(0).name = "renamed"
    for location, words in (("../m.data", "outside the model's folder"), ("none.data", "cannot read")):
        next(entry for entry in model.graph.initializer[0].external_data if entry.key == "location").value = location
        builder, network = network_of(model, tmp_path)
        network.mark_output(network.get_layer(0).get_output(0))
        assert builder.build_serialized_network(network, builder.create_builder_config()) is None
        assert any(words in text for text in builder.logger.errors()), builder.logger.errors()


def test_constants_that_are_outputs_and_nodes_without_names():
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"]),
        helper.make_node("Split", ["a"], ["", "right"], axis=0),
        helper.make_node("Dropout", ["right"], ["y", ""]),
    ]
    constant = numpy_helper.from_array(np.ones((2, 3), np.float32), "c")
    model = model_of(nodes, [value("x")], [value("y", shape=(1, 3)), value("c")], [constant])
    x = np.random.default_rng(6).standard_normal((2, 3)).astype(np.float32)
    builder, network = network_of(model)
    assert [layer.name for layer in network][:3] == ["Add_0", "Split_1", "Dropout_2"]
    assert network.get_layer(1).num_outputs == 1 and network.get_layer(1).get_output(0).name == "right"
    for more in ([], [network.get_layer(0).get_output(0)]):  # ONNX Runtime crashes on this model
        for tensor in more:
            network.mark_output(tensor)
        got = run(builder, network, {"x": x})
        assert set(got) == {"y", "c", *(tensor.name for tensor in more)}
        np.testing.assert_array_equal(got["y"], x[1:] + 1)
        np.testing.assert_array_equal(got["c"], np.ones((2, 3)))
        np.testing.assert_array_equal(got.get("a", x + 1), x + 1)


def test_precisions_of_nodes_without_names():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "v"], ["y"])]
    random = np.random.default_rng(7)
    weights = [numpy_helper.from_array(random.standard_normal((64, 64)).astype(np.float32), name) for name in "wv"]
    model = model_of(nodes, [value("x", shape=(8, 64))], [value("y", shape=(8, 64))], weights)
    builder, network = network_of(model)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.FP16)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    network.get_layer(1).precision = trt.float32
    network.get_layer(1).set_output_type(0, trt.float32)
    assert builder.build_serialized_network(network, config), builder.logger.errors()


def every_layer_in_fp32(builder, network):
    """A configuration of fp16 in which a program asks that of each layer."""
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.FP16)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    for layer in network:
        layer.precision = trt.float32
        layer.set_output_type(0, trt.float32)
    return config


@pytest.mark.parametrize("changed", [False, True])
def test_precisions_of_nodes_that_nothing_needs(changed):
    """Programs ask them of every layer, also of what led to an output that they took away."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Sigmoid", ["r"], ["s"], name="unused"),
        helper.make_node("ReduceMean", ["s"], ["z"], name="unused_mean"),
        helper.make_node("Neg", ["r"], ["y"], name="neg"),
    ]
    outputs = [value("y", shape=(8, 64))] + ([value("z", shape=(1, 1))] if changed else [])
    builder, network = network_of(model_of(nodes, [value("x", shape=(8, 64))], outputs))
    if changed:
        network.unmark_output(network.get_output(1))
    config = every_layer_in_fp32(builder, network)
    assert builder.build_serialized_network(network, config), builder.logger.errors()


def test_precisions_of_nodes_that_are_folded():
    """An Identity of a weight, and a cast that changes nothing: what PyTorch's exporters leave."""
    nodes = [
        helper.make_node("Identity", ["w"], ["v"], name="same"),
        helper.make_node("Cast", ["x"], ["c"], name="cast", to=onnx.TensorProto.FLOAT),
        helper.make_node("MatMul", ["c", "v"], ["a"], name="product"),
        helper.make_node("Relu", ["a"], ["y"], name="relu"),
    ]
    weight = numpy_helper.from_array(np.random.default_rng(7).standard_normal((64, 64)).astype(np.float32), "w")
    builder, network = network_of(model_of(nodes, [value("x", shape=(8, 64))], [value("y", shape=(8, 64))], [weight]))
    config = every_layer_in_fp32(builder, network)
    assert builder.build_serialized_network(network, config), builder.logger.errors()
    network.get_layer(2).precision = trt.int8  # which is still refused, as nothing says how
    assert builder.build_serialized_network(network, config) is None
    assert "'product'" in builder.logger.errors()[-1]


def test_inputs_and_outputs_get_other_names_and_operands(tmp_path):
    path = write_network(tmp_path / "m.onnx")
    builder, network = parsed(path)
    network.get_input(0).name = "pictures"
    network.get_output(0).name = "scores_of_all"
    relu = network.get_layer(1)
    negative = network.add_unary(network.get_layer(0).get_output(0), trt.UnaryOperation.ABS)
    relu.set_input(0, negative.get_output(0))
    x = pictures(2)
    got = run(builder, network, {"pictures": x})
    model = onnx.load(path)
    model.graph.node[1].op_type = "Abs"
    onnx.save(model, tmp_path / "abs.onnx")
    np.testing.assert_allclose(got["scores_of_all"], expected(tmp_path / "abs.onnx", x), rtol=1e-4, atol=1e-5)


def test_shapes_of_inputs_are_fixed_and_freed(tmp_path):
    builder, network = parsed(write_network(tmp_path / "m.onnx"))
    assert network.get_input(0).get_dimension_name(0) == "n" and network.get_output(0).shape == (-1, 10)
    network.get_input(0).shape = (5, 3, 32, 32)
    assert network.get_output(0).shape == (5, 10) and network.get_layer(0).get_output(0).shape == (5, 16, 16, 32)
    network.get_input(0).shape = (1, 3, -1, -1)
    assert network.get_layer(0).get_output(0).shape == (1, 16, -1, -1)
    assert run(builder, network, {"x": pictures(1)[:, :, :20, :24].copy()})["y"].shape == (1, 10)


def test_names_of_sizes_that_are_none():
    """As PaddlePaddle's exporter writes them: two sizes of that name need not be the same."""
    for name in ("?", "-1", "None"):
        nodes = [helper.make_node("Add", ["x", "one"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
        one = numpy_helper.from_array(np.float32(1), "one")
        model = model_of(nodes, [value("x", shape=[name, 3, name])], [value("y", shape=[name, 3, name])], [one])
        x = np.random.default_rng(9).standard_normal((2, 3, 5)).astype(np.float32)
        builder, network = network_of(model)
        assert network.get_layer(0).get_output(0).shape == (-1, 3, -1)
        network.mark_output(network.get_layer(0).get_output(0))
        np.testing.assert_allclose(run(builder, network, {"x": x})["a"], x + 1, rtol=1e-6)


def test_initializers_that_the_program_gives():
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    weights = np.random.default_rng(8).standard_normal((2, 3)).astype(np.float32)
    tensor = numpy_helper.from_array(weights, "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="elsewhere")
    model = model_of(nodes, [value("x")], [value("y")], [tensor])
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    parser = trt.OnnxParser(network, logger)
    assert parser.load_model_proto(model.SerializeToString())
    assert parser.load_initializer("w", weights.tobytes(), weights.nbytes)
    assert parser.parse_model_proto(), logger.errors()
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(builder, network, {"x": x})["y"], x + weights)


WITHOUT_ONNX = """
import sys

sys.modules["onnx"] = None  # as if it were not installed
import numpy as np
import camshaft.tensorrt as trt

logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network()
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file("model.onnx")
network.mark_output(network.get_layer(0).get_output(0))
top = network.add_topk(network.get_output(0), trt.TopKOperation.MAX, 2, 1 << 1)
network.mark_output(top.get_output(0))
engine = builder.build_engine_with_config(network, builder.create_builder_config())
print(list(engine), engine.name)
"""


def test_the_package_onnx_is_not_needed(tmp_path):
    write_network(tmp_path / "model.onnx")
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "CAMSHAFT_TENSORRT_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ONNX], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['x', 'y', 'c',") and done.stdout.strip().endswith("pictures")
