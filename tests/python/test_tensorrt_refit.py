"""TensorRT's Refitter and OnnxParserRefitter: new weights by name, and by layer and role."""

import gc

import camshaft
import numpy as np
import pytest
from safetensors.numpy import save_file
from tensorrt_model import write_network
from test_refitter import bodies_model, namesakes_model
from test_tensorrt import Heard, expected, parsed, pictures, trt

import onnx

RANDOM = np.random.default_rng(11)


def f32(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def built(builder, network, *flags):
    config = builder.create_builder_config()
    for flag in flags:
        config.set_flag(flag)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None, builder.logger.errors()
    return trt.Runtime(builder.logger).deserialize_cuda_engine(plan)


def result(context, x, columns=10):
    x, y = np.ascontiguousarray(x), np.empty((len(x), columns), np.float32)
    context.set_input_shape("x", x.shape)
    assert context.execute_v2([x.ctypes.data, y.ctypes.data])
    return y


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """(a model, one with other weights, and these)"""
    old = write_network(tmp_path_factory.mktemp("old") / "model.onnx")
    model = onnx.load(old)
    weights = {}
    for tensor in model.graph.initializer:
        weights[tensor.name] = -2 * onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(weights[tensor.name], tensor.name))
    new = tmp_path_factory.mktemp("new") / "model.onnx"
    onnx.save(model, new)
    return old, new, weights


FLAGS = ["REFIT", "REFIT_IDENTICAL", "REFIT_INDIVIDUAL", "STRIP_PLAN"]


@pytest.mark.parametrize("flag", FLAGS)
def test_a_parsed_model(models, flag):
    old, new, weights = models
    builder, network = parsed(old)
    engine = built(builder, network, trt.BuilderFlag[flag])
    assert engine.refittable
    x = pictures(2)
    if flag != "STRIP_PLAN":
        context = engine.create_execution_context()
        np.testing.assert_allclose(result(context, x), expected(old, x), rtol=1e-4, atol=1e-5)
    else:
        assert engine.create_execution_context() is None and "no weights" in builder.logger.errors()[-1]
    refitter = trt.Refitter(engine, builder.logger)
    assert refitter.get_all_weights() == ["kernel", "matrix"]
    assert refitter.get_all() == (["conv", "matrix"], [trt.WeightsRole.KERNEL, trt.WeightsRole.CONSTANT])
    missing = ["kernel", "matrix"] if flag == "STRIP_PLAN" else []
    assert refitter.get_missing_weights() == missing
    assert refitter.get_missing()[0] == (["conv", "matrix"] if missing else [])
    prototype = refitter.get_weights_prototype("matrix")
    assert prototype.dtype == trt.float32 and prototype.size == 160
    assert refitter.set_named_weights("kernel", trt.Weights(weights["kernel"]))
    assert refitter.set_weights("matrix", trt.WeightsRole.CONSTANT, weights["matrix"].reshape(-1))
    np.testing.assert_array_equal(refitter.get_named_weights("matrix").numpy(), weights["matrix"])
    assert refitter.get_missing_weights() == []
    assert refitter.refit_cuda_engine()
    context = engine.create_execution_context() if flag == "STRIP_PLAN" else context
    np.testing.assert_allclose(result(context, x), expected(new, x), rtol=1e-4, atol=1e-5)


def test_of_another_model(models, tmp_path):
    old, new, _ = models
    builder, network = parsed(old)
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    context = engine.create_execution_context()
    refitter = trt.Refitter(engine, builder.logger)
    x = pictures(3)
    of_model = trt.OnnxParserRefitter(refitter, builder.logger)
    assert of_model.refit_from_file(str(new)) and of_model.num_errors == 0
    assert refitter.refit_cuda_engine_async(0)
    np.testing.assert_allclose(result(context, x), expected(new, x), rtol=1e-4, atol=1e-5)
    assert of_model.refit_from_bytes(old.read_bytes()) and refitter.refit_cuda_engine()
    np.testing.assert_allclose(result(context, x), expected(old, x), rtol=1e-4, atol=1e-5)
    # Of files that have weights alone, too.
    save_file({name: np.zeros_like(array) for name, array in models[2].items()}, tmp_path / "w.safetensors")
    np.savez(tmp_path / "w.npz", **models[2])
    assert of_model.refit_from_file(str(tmp_path / "w.safetensors")) and refitter.refit_cuda_engine()
    np.testing.assert_array_equal(result(context, x), np.zeros((3, 10), np.float32))
    assert of_model.refit_from_file(tmp_path / "w.npz") and refitter.refit_cuda_engine()
    np.testing.assert_allclose(result(context, x), expected(new, x), rtol=1e-4, atol=1e-5)
    assert not of_model.refit_from_file(tmp_path / "missing.npz") and "missing.npz" in of_model.get_error(0).desc()
    of_model.clear_errors()
    assert of_model.refit_from_bytes(old.read_bytes()) and refitter.refit_cuda_engine()
    assert not of_model.refit_from_bytes(b"no model") and of_model.num_errors == 1
    assert of_model.get_error(0).code() == trt.ErrorCode.REFIT_FAILED
    assert not of_model.refit_from_file("missing.onnx") and "missing.onnx" in of_model.get_error(1).desc()
    of_model.clear_errors()
    assert of_model.num_errors == 0
    np.testing.assert_allclose(result(context, x), expected(old, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [bodies_model, namesakes_model])
def test_of_a_model_with_branches_and_loops(tmp_path, make):
    """Its weights have the names that `camshaft refit` gives them, and none is missing."""
    old, new = (make(tmp_path / name / "m.onnx", seed) for seed, name in enumerate(("old", "new")))
    builder, network = parsed(old)
    engine = built(builder, network, trt.BuilderFlag.STRIP_PLAN)
    refitter = trt.Refitter(engine, builder.logger)
    there = refitter.get_all_weights()
    assert "pick/then_branch/deep/else_branch/ret" in there or "If(c)/then_branch/w" in there, there
    assert trt.OnnxParserRefitter(refitter, builder.logger).refit_from_file(str(new)), builder.logger.errors()
    assert refitter.get_missing_weights() == [] and refitter.refit_cuda_engine()
    wanted = camshaft.build(new, tuning="heuristic")
    for p in (True, False):
        given = {"x": np.ones((2, 8), np.float32), "p": np.array(p), "times": np.array(3)}
        given = {name: given[name] for name in (info.name for info in engine._engine.inputs)}
        y = engine._engine.run(given)["y"]
        np.testing.assert_allclose(y, wanted.run(given)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [bodies_model, namesakes_model])
def test_of_a_model_whose_network_was_changed(tmp_path, make):
    """Bodies are written anew then, and their weights have names that the model does not have."""
    old, new = (make(tmp_path / name / "m.onnx", seed) for seed, name in enumerate(("old", "new")))
    builder, network = parsed(old)
    output = network.get_output(0)
    network.unmark_output(output)
    network.mark_output(network.add_identity(output).get_output(0))
    network.get_output(0).name = "again"
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, builder.logger)
    of_model = trt.OnnxParserRefitter(refitter, builder.logger)
    assert of_model.refit_from_file(str(new)) and refitter.refit_cuda_engine()
    assert not any("the engine keeps" in text for _, text in builder.logger.messages)
    wanted = camshaft.build(new, tuning="heuristic")
    for p in (True, False):
        given = {"x": np.ones((2, 8), np.float32), "p": np.array(p), "times": np.array(3)}
        given = {name: given[name] for name in (info.name for info in wanted.inputs)}
        np.testing.assert_allclose(engine._engine.run(given)["again"], wanted.run(given)["y"], rtol=1e-5, atol=1e-6)
    # Of another model there are no such weights.
    data = onnx.load(new)
    del data.graph.node[1:]
    del data.graph.output[:]
    data.graph.output.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, None))
    assert not of_model.refit_from_bytes(data.SerializeToString())
    assert "the engine keeps" in of_model.get_error(0).desc()


def test_of_a_model_whose_numbers_the_program_has(models, tmp_path):
    """load_initializer() stands for a file that is not there; what the model does not have is told."""
    old, new, weights = models
    model = onnx.load(new)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").unlink()
    builder, network = parsed(old)
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, builder.logger)
    of_model = trt.OnnxParserRefitter(refitter, builder.logger)
    assert of_model.load_model_proto((tmp_path / "m.onnx").read_bytes(), str(tmp_path / "m.onnx"))
    assert not of_model.refit_model_proto() and "m.data" in of_model.get_error(0).desc()
    assert of_model.load_initializer("kernel", weights["kernel"].tobytes()[4:], weights["kernel"].nbytes - 4)
    for name, array in weights.items():
        if name != "kernel":
            assert of_model.load_initializer(name, array.ctypes.data, array.nbytes)
    assert not of_model.refit_model_proto()
    assert f"given as {weights['kernel'].nbytes - 4} bytes: f32[16, 3, 3, 3] has" in of_model.get_error(1).desc()
    assert of_model.load_initializer("kernel", weights["kernel"], weights["kernel"].nbytes)
    assert of_model.refit_model_proto() and refitter.refit_cuda_engine()
    x = pictures(2)
    np.testing.assert_allclose(result(engine.create_execution_context(), x), expected(new, x), rtol=1e-4, atol=1e-5)
    model = onnx.load(new)
    model.graph.initializer[0].name = "another"
    of_another = trt.OnnxParserRefitter(refitter, builder.logger)
    assert not of_another.refit_from_bytes(model.SerializeToString())
    assert "the model has no weights kernel: the engine keeps those it has" in of_another.get_error(0).desc()


def test_what_is_set_can_be_unset(models):
    old, _, weights = models
    builder, network = parsed(old)
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, builder.logger)
    assert refitter.set_named_weights("kernel", weights["kernel"])
    assert refitter.set_named_weights("matrix", weights["matrix"])
    assert refitter.unset_named_weights("kernel") and not refitter.unset_named_weights("kernel")
    assert refitter.refit_cuda_engine()
    x = pictures(1)
    # Both are -2 times what they were: a ReLU is between them.
    once = result(engine.create_execution_context(), x)
    np.testing.assert_allclose(once, -2 * expected(old, x), rtol=1e-4, atol=1e-5)


def add_layers(network, weights):
    x = network.add_input("x", trt.float32, (-1, 3, 4, 4))
    layer = network.add_convolution_nd(x, 8, (4, 4), weights["kernel"], weights["bias"])
    layer.name = "conv"
    scale = network.add_scale(layer.get_output(0), trt.ScaleMode.CHANNEL, weights["shift"], weights["scale"], None)
    scale.name = "scale"
    flat = network.add_shuffle(scale.get_output(0))
    flat.reshape_dims = (-1, 8)
    matrix = network.add_constant((8, 5), weights["matrix"])
    matrix.name = "matrix"
    network.set_weights_name(weights["matrix"], "mine")
    none = trt.MatrixOperation.NONE
    product = network.add_matrix_multiply(flat.get_output(0), none, matrix.get_output(0), none)
    network.mark_output(product.get_output(0))


def make_weights():
    return {"kernel": f32(8, 3, 4, 4), "bias": f32(8), "scale": f32(8), "shift": f32(8), "matrix": f32(8, 5)}


def by_hand(x, w):
    y = np.einsum("nchw,ochw->no", x, w["kernel"]) + w["bias"]
    return (y * w["scale"] + w["shift"]) @ w["matrix"]


def test_by_layer_and_role():
    old, new = make_weights(), make_weights()
    builder = trt.Builder(Heard())
    network = builder.create_network()
    add_layers(network, old)
    assert network.mark_weights_refittable("mine") and network.are_weights_marked_refittable("mine")
    assert network.unmark_weights_refittable("mine") and not network.are_weights_marked_refittable("mine")
    assert not network.set_weights_name(old["bias"], "mine")
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    context = engine.create_execution_context()
    x = f32(2, 3, 4, 4)
    np.testing.assert_allclose(result(context, x, 5), by_hand(x, old), rtol=1e-3, atol=1e-3)
    refitter = trt.Refitter(engine, builder.logger)
    role = trt.WeightsRole
    layers, roles = refitter.get_all()
    assert set(zip(layers, roles)) == {
        *(("conv", role.KERNEL), ("conv", role.BIAS), ("scale", role.SCALE), ("scale", role.SHIFT)),
        ("matrix", role.CONSTANT),
    }
    assert refitter.set_weights("conv", role.KERNEL, new["kernel"])
    missing = set(zip(*refitter.get_missing()))
    assert missing == {
        ("conv", role.BIAS),
        ("scale", role.SCALE),
        ("scale", role.SHIFT),
    }  # are one bias with the kernel
    assert not refitter.refit_cuda_engine() and "needs the initializers" in builder.logger.errors()[-1]
    assert refitter.set_weights("conv", role.BIAS, new["bias"])
    assert refitter.set_weights("scale", role.SCALE, new["scale"])
    assert refitter.set_weights("scale", role.SHIFT, new["shift"])
    assert refitter.set_named_weights("mine", new["matrix"])
    assert refitter.refit_cuda_engine()
    np.testing.assert_allclose(result(context, x, 5), by_hand(x, new), rtol=1e-3, atol=1e-3)


def test_a_constant_layer_that_was_given_a_name():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    old, new = f32(5, 4), f32(5, 4)
    x = network.add_input("x", trt.float32, (2, 4))
    constant = network.add_constant((5, 4), old)
    constant.name = "matrix"
    transpose = trt.MatrixOperation.TRANSPOSE
    y = network.add_matrix_multiply(x, trt.MatrixOperation.NONE, constant.get_output(0), transpose).get_output(0)
    y.name = "y"
    network.mark_output(y)
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, builder.logger)
    assert refitter.get_all() == (["matrix"], [trt.WeightsRole.CONSTANT])
    assert refitter.set_weights("matrix", trt.WeightsRole.CONSTANT, new) and refitter.refit_cuda_engine()
    x = f32(2, 4)
    np.testing.assert_allclose(result(engine.create_execution_context(), x, 5), x @ new.T, rtol=1e-4, atol=1e-5)


def test_sums_and_products_read_constants(tmp_path):
    """They are ElementWise layers, whose constants are layers of their own: of a model, too, which something was changed
    in, so that it is written anew."""
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    arrays = {"w": f32(4, 4), "factor": f32(4), "bias": f32(4)}
    nodes = [
        make("MatMul", ["x", "w"], ["a"], name="product"),
        make("Mul", ["a", "factor"], ["b"], name="times"),
        make("Add", ["b", "bias"], ["y"], name="plus"),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [tensor("x", onnx.TensorProto.FLOAT, [2, 4])],
        [tensor("y", onnx.TensorProto.FLOAT, [2, 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    constant = trt.WeightsRole.CONSTANT
    for is_changed in (False, True):
        builder, network = parsed(tmp_path / "m.onnx")
        if is_changed:
            network.get_layer(0).name = "another"
        refitter = trt.Refitter(built(builder, network, trt.BuilderFlag.REFIT), builder.logger)
        assert set(zip(*refitter.get_all())) == {(name, constant) for name in arrays}, is_changed

    builder = trt.Builder(Heard())
    network = builder.create_network()
    value = network.add_input("x", trt.float32, (2, 4))
    layers = [network.add_constant((1, 4), arrays[name]) for name in ("factor", "bias")]
    layers[1].name = "bias"
    for layer, operation in zip(layers, (trt.ElementWiseOperation.PROD, trt.ElementWiseOperation.SUM)):
        value = network.add_elementwise(value, layer.get_output(0), operation).get_output(0)
    value.name = "y"
    network.mark_output(value)
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, builder.logger)
    assert set(zip(*refitter.get_all())) == {(layer.name, constant) for layer in layers}
    for layer, new in zip(layers, (np.full(4, 2, "f"), np.full(4, 3, "f"))):
        assert refitter.set_weights(layer.name, constant, new)
    refitter.max_threads = 100000  # that many at most
    assert refitter.refit_cuda_engine()
    x = f32(2, 4)
    np.testing.assert_allclose(result(engine.create_execution_context(), x, 4), 2 * x + 3, rtol=1e-5)


def test_layers_that_share_weights(tmp_path):
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("Conv", ["x", "w"], ["a"], name="first"), make("Conv", ["a", "w"], ["y"], name="second")]
    image = [2, 4, 1, 1]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [tensor("x", onnx.TensorProto.FLOAT, image)],
        [tensor("y", onnx.TensorProto.FLOAT, image)],
        [onnx.numpy_helper.from_array(f32(4, 4, 1, 1), "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    builder, network = parsed(tmp_path / "m.onnx")
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter, kernel = trt.Refitter(engine, builder.logger), trt.WeightsRole.KERNEL
    new = f32(4, 4, 1, 1)
    assert refitter.set_weights("first", kernel, new) and refitter.set_weights("second", kernel, new)
    assert not refitter.set_weights("second", kernel, 2 * new)
    assert "those of 'first', too" in builder.logger.errors()[-1]
    assert refitter.set_weights("first", kernel, new) and refitter.refit_cuda_engine()
    x, matrix = f32(*image), new[:, :, 0, 0].T
    want = (x[:, :, 0, 0] @ matrix @ matrix).reshape(image)
    y = np.empty(image, np.float32)
    assert engine.create_execution_context().execute_v2([x.ctypes.data, y.ctypes.data])
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_a_network_whose_weights_have_names_of_their_own():
    """They are found by layer and role, too."""
    old, new = make_weights(), make_weights()
    builder = trt.Builder(Heard())
    network = builder.create_network()
    add_layers(network, old)
    for name, weights in old.items():
        assert network.set_weights_name(weights, f"my_{name}")
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, builder.logger)
    assert sorted(refitter.get_all_weights()) == sorted(f"my_{name}" for name in old)
    role = trt.WeightsRole
    places = {
        "kernel": ("conv", role.KERNEL),
        "bias": ("conv", role.BIAS),
        "scale": ("scale", role.SCALE),
        "shift": ("scale", role.SHIFT),
        "matrix": ("matrix", role.CONSTANT),
    }
    assert set(zip(*refitter.get_all())) == set(places.values())
    for name, (layer, of) in places.items():
        assert refitter.set_weights(layer, of, new[name]), builder.logger.errors()
    assert refitter.get_missing() == ([], []) and refitter.refit_cuda_engine()
    x = f32(2, 3, 4, 4)
    np.testing.assert_allclose(result(engine.create_execution_context(), x, 5), by_hand(x, new), rtol=1e-3, atol=1e-3)


def normalized_model(path, weights, name="bn"):
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Conv", ["x", "conv.weight", "conv.bias"], ["c"], name="/conv/Conv"),
        make("BatchNormalization", ["c", "bn.scale", "bn.shift", "bn.mean", "bn.var"], ["b"], name=name, epsilon=1e-3),
        make("Flatten", ["b"], ["f"], name="flatten"),
        make("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], name="/fc/Gemm", transB=1),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [tensor("x", onnx.TensorProto.FLOAT, ["n", 3, 4, 4])],
        [tensor("y", onnx.TensorProto.FLOAT, ["n", 5])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("name", ["bn", ""])
def test_a_parsed_model_by_layer_and_role(tmp_path, name):
    """A batch normalisation is a scale layer, of one factor and one summand, as TensorRT's parser makes it."""
    sizes = {"conv.weight": (8, 3, 4, 4), "conv.bias": (8,), "fc.weight": (5, 8), "fc.bias": (5,)}
    old = {key: f32(*shape) for key, shape in sizes.items()}
    old |= {"bn.scale": f32(8), "bn.shift": f32(8), "bn.mean": f32(8), "bn.var": np.abs(f32(8)) + 1}
    builder, network = parsed(normalized_model(tmp_path / "m.onnx", old, name))
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    refitter, role = trt.Refitter(engine, builder.logger), trt.WeightsRole
    layer = name or "BatchNormalization_1"
    assert layer in [network.get_layer(i).name for i in range(network.num_layers)]
    assert set(zip(*refitter.get_all())) == {
        *(("/conv/Conv", role.KERNEL), ("/conv/Conv", role.BIAS), (layer, role.SCALE), (layer, role.SHIFT)),
        *(("fc.weight", role.CONSTANT), ("fc.bias", role.CONSTANT)),
    }
    new = {key: f32(*shape) for key, shape in sizes.items()}
    scale, shift = f32(8), f32(8)
    assert refitter.set_weights("/conv/Conv", role.KERNEL, new["conv.weight"])
    assert refitter.set_weights("/conv/Conv", role.BIAS, new["conv.bias"])
    assert refitter.set_weights("/fc/Gemm", role.KERNEL, new["fc.weight"])
    assert refitter.set_weights("fc.bias", role.CONSTANT, new["fc.bias"])
    assert refitter.set_weights(layer, role.SCALE, scale)
    assert (layer, role.SHIFT) in zip(*refitter.get_missing())
    assert (layer, role.SCALE) not in zip(*refitter.get_missing())
    assert not refitter.refit_cuda_engine() and f"'{layer}' SHIFT" in builder.logger.errors()[-1]
    assert not refitter.set_weights(layer, role.SHIFT, f32(7)) and "7 numbers" in builder.logger.errors()[-1]
    assert refitter.set_weights(layer, role.SHIFT, shift)
    assert refitter.get_missing() == ([], []) and refitter.refit_cuda_engine()
    x = f32(2, 3, 4, 4)
    y = np.einsum("nchw,ochw->no", x, new["conv.weight"]) + new["conv.bias"]
    want = (y * scale + shift) @ new["fc.weight"].T + new["fc.bias"]
    np.testing.assert_allclose(result(engine.create_execution_context(), x, 5), want, rtol=1e-3, atol=1e-3)
    assert not refitter.set_weights("/conv/Conv", role.SCALE, scale)
    assert "there are '/conv/Conv' BIAS, '/conv/Conv' KERNEL" in builder.logger.errors()[-1]


def test_errors_are_told(models):
    old, _, weights = models
    logger = Heard()
    builder, network = parsed(old, logger)
    refitter = trt.Refitter(built(builder, network, trt.BuilderFlag.REFIT), logger)
    assert not refitter.set_named_weights("kernal", weights["kernel"]) and "'kernal'" in logger.errors()[-1]
    assert not refitter.set_named_weights("kernel", weights["matrix"]) and "f32[16, 3, 3, 3]" in logger.errors()[-1]
    assert not refitter.set_weights("conv", trt.WeightsRole.BIAS, weights["matrix"])
    assert "no weights BIAS of a layer 'conv'" in logger.errors()[-1]
    assert not refitter.set_dynamic_range("x", (-1, 1)) and refitter.get_tensors_with_dynamic_range() == []
    builder, network = parsed(old, logger)
    engine = built(builder, network)
    assert not engine.refittable
    with pytest.raises(RuntimeError, match="--refit"):
        trt.Refitter(engine, logger)


def test_a_refitter_keeps_its_engine(models):
    old, _, weights = models
    builder, network = parsed(old)
    refitter = trt.Refitter(built(builder, network, trt.BuilderFlag.REFIT), builder.logger)
    gc.collect()
    assert refitter.set_named_weights("matrix", weights["matrix"]) and refitter.refit_cuda_engine()


def test_engines_are_serialised_with_weights_or_without(models):
    old, new, weights = models
    builder, network = parsed(old)
    engine = built(builder, network, trt.BuilderFlag.REFIT)
    config = engine.create_serialization_config()
    whole = engine.serialize_with_config(config)
    config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    stripped = engine.serialize_with_config(config)
    assert len(stripped) < len(whole) == len(engine.serialize())
    runtime = trt.Runtime(builder.logger)
    bare = runtime.deserialize_cuda_engine(stripped)
    config.clear_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    assert bare.serialize_with_config(config) is None and "has no weights" in builder.logger.errors()[-1]
    refitter = trt.Refitter(bare, builder.logger)
    assert trt.OnnxParserRefitter(refitter, builder.logger).refit_from_file(str(new)) and refitter.refit_cuda_engine()
    x = pictures(2)
    again = runtime.deserialize_cuda_engine(bare.serialize_with_config(config))
    assert len(bare.serialize()) > len(stripped)  # as it has them now
    np.testing.assert_array_equal(
        result(again.create_execution_context(), x), result(bare.create_execution_context(), x)
    )
    fixed = built(builder, network)
    config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    assert fixed.serialize_with_config(config) is None and "not built to be refitted" in builder.logger.errors()[-1]
