"""Quantised models are standard ones: ONNX Runtime computes the same from them, weights lie in them as i8 or E4M3, and what
stays in floating point is said."""

import json
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from camshaft_cli import BINARY, camshaft
from catalog import MODELS
from quantized_networks import NETWORKS

import onnx
from onnx import numpy_helper

STEPS = 255  # of u8, over the whole range


def samples_of(model, count=40):
    """`count` samples of the network's input, with an axis in front."""
    dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(2).standard_normal((count // dims[0] * dims[0], *dims[1:])).astype(np.float32)


def quantize(model, output, *options, fails=False):
    command = [BINARY, "quantize", model, "-o", output, "--json", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if fails:
        assert done.returncode == 2 and not output.exists(), done.stdout
        return done.stderr
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ours(model, feed, folder):
    np.savez(folder / "in.npz", **feed)
    camshaft("run", model, "--inputs", folder / "in.npz", "--outputs", folder / "out.npz")
    with np.load(folder / "out.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def has_exact_products_of_bytes():
    """Without VNNI ONNX Runtime multiplies bytes by an instruction whose sums of two products saturate at 16 bits."""
    return "vnni" in Path("/proc/cpuinfo").read_text()


def theirs(model, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not has_exact_products_of_bytes():  # then the nodes as they are written: fp32 between the steps
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    known = {given.name for given in session.get_inputs()}
    results = session.run(None, {name: array for name, array in feed.items() if name in known})
    return dict(zip([given.name for given in session.get_outputs()], results, strict=True))


def check(model, quantized, feed, folder, loss):
    """The same within a step of each output's scale as ONNX Runtime, and within `loss` of the model before."""
    expected, got, exact = theirs(quantized, feed), ours(quantized, feed, folder), theirs(model, feed)
    steps = 1 if has_exact_products_of_bytes() else 2  # sums of fp32 put numbers near a border into the other step
    for name, before in exact.items():
        scale = np.abs(before).max()
        assert np.abs(got[name] - expected[name]).max() <= steps * scale / STEPS, name
        assert 0 < np.abs(got[name] - before).max() <= loss * scale, name


@pytest.fixture(params=NETWORKS)
def network(request, tmp_path):
    model = NETWORKS[request.param](5)
    path = tmp_path / "network.onnx"
    onnx.save(model, path)
    samples = samples_of(model)
    np.save(tmp_path / "data.npy", samples)
    first = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    return path, tmp_path / "data.npy", {"x": samples[:first]}


def test_networks_compute_as_in_onnxruntime(network, tmp_path):
    path, data, feed = network
    quantized = tmp_path / "quantized.onnx"
    report = quantize(path, quantized, "--data", data, "--method", "minmax")
    assert all(layer["quantized"] for layer in report["quantized_layers"])
    assert report["verified"] and all(output["passed"] for output in report["verification"])
    check(path, quantized, feed, tmp_path, loss=0.06)


def test_weights_are_initializers_of_i8(network, tmp_path):
    path, data, _ = network
    quantized = tmp_path / "quantized.onnx"
    report = quantize(path, quantized, "--data", data)
    weights = sum(numpy_helper.to_array(i).size for i in onnx.load(path).graph.initializer if len(i.dims) > 1)
    model = onnx.load(quantized)
    onnx.checker.check_model(model, full_check=True)
    stored = [numpy_helper.to_array(i) for i in model.graph.initializer]
    assert sum(a.size for a in stored if a.dtype == np.int8) == weights
    # Scales, biases, and factors of channels.
    assert all(a.size == max(a.shape, default=1) for a in stored if a.dtype == np.float32)
    assert report["written"]["bytes"] == quantized.stat().st_size and report["model"]["bytes"] == path.stat().st_size


@pytest.mark.parametrize("name", ["ppocr_cls", "tv_mobilenet_v2"])
def test_models_compute_as_in_onnxruntime(name, tmp_path):
    model, quantized = MODELS[name].path(), tmp_path / "quantized.onnx"
    feed = MODELS[name].feed()
    np.savez(tmp_path / "data.npz", **feed)
    data = ["--data", tmp_path / "data.npz", "--method", "minmax", "--verify-seconds", 0]
    nodes = quantize(model, quantized, *data)["written"]["nodes"]
    check(model, quantized, feed, tmp_path, loss=0.03)
    # A quarter of the weights, scales, and nodes with their names.
    assert quantized.stat().st_size < 0.26 * model.stat().st_size + 500 * nodes


def test_floats_of_8_bits(network, tmp_path):
    path, data, feed = network
    quantized = tmp_path / "quantized.onnx"
    report = quantize(path, quantized, "--data", data, "--method", "minmax", "--fp8")
    layers = report["quantized_layers"]
    assert layers and all(layer["quantized"] and layer["precision"] == "fp8" for layer in layers)
    assert report["verified"] and all(output["passed"] for output in report["verification"])
    assert report["results_in_steps"] == 0 and not report["results_without_range"]
    model = onnx.load(quantized)
    onnx.checker.check_model(model, full_check=True)
    weights = sum(numpy_helper.to_array(i).size for i in onnx.load(path).graph.initializer if len(i.dims) > 1)
    e4m3 = onnx.TensorProto.FLOAT8E4M3FN
    assert sum(int(np.prod(i.dims)) for i in model.graph.initializer if i.data_type == e4m3) == weights
    # The nodes as they are written: in fp32 between the steps, as here. Sums in another order may put a number near a
    # border into the other step, of which there are 8 between a power of two and the next.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(str(quantized), options).run(None, feed)[0]
    (got,), (exact,) = ours(quantized, feed, tmp_path).values(), theirs(path, feed).values()
    scale = np.abs(exact).max()
    assert np.abs(got - expected).max() <= scale / 16
    assert np.abs(got - expected).mean() <= scale / 1000
    assert 0 < np.abs(got - exact).max() <= 0.2 * scale
    text = camshaft("quantize", path, "-o", quantized, "--data", data, "--fp8", "--layer-precisions", "*:fp8").stdout
    assert f"precision {len(layers)} of {len(layers)} convolutions and products with constant weights in fp8" in text


def test_a_file_of_ranges_gives_the_same_model(network, tmp_path):
    path, data, _ = network
    camshaft("calibrate", path, "--data", data, "--results", "-o", tmp_path / "ranges")
    quantize(path, tmp_path / "a.onnx", "--data", data)
    quantize(path, tmp_path / "b.onnx", "--calibration", tmp_path / "ranges", "--no-verify")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def operators_of(model, folder):
    """What ONNX Runtime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node]


def test_onnxruntime_computes_layers_on_integers(network, tmp_path):
    path, data, _ = network
    layers = [n for n in onnx.load(path).graph.node if n.op_type in ("Conv", "MatMul", "Gemm")]
    quantized = tmp_path / "quantized.onnx"
    report = quantize(path, quantized, "--data", data)
    operators = operators_of(quantized, tmp_path)
    integers = sum(op in ("QLinearConv", "MatMulIntegerToFloat", "QGemm") for op in operators)
    # The last one gives an output of the model; two products of the transformer have no constant operand.
    products = sum(op == "MatMul" for op in operators)
    assert integers + products >= len(layers) - 1 and integers >= len(report["quantized_layers"]) - 1, operators
    without = quantize(path, quantized, "--data", data, "--no-results")
    assert without["results_in_steps"] == 0
    if any(n.op_type == "Conv" for n in layers):
        assert operators_of(quantized, tmp_path).count("QLinearConv") < operators.count("QLinearConv")
        assert report["results_in_steps"] > 0 and len(without["results_without_range"]) == report["results_in_steps"]


def test_layers_stay_in_floating_point_where_that_is_asked(network, tmp_path):
    path, data, _ = network
    quantized = tmp_path / "quantized.onnx"
    all_of_them = [layer["layer"] for layer in quantize(path, quantized, "--data", data)["quantized_layers"]]
    report = quantize(path, quantized, "--data", data, "--layer-precisions", f"{all_of_them[1]}:fp32")
    kept = {layer["layer"]: layer["reason"] for layer in report["quantized_layers"] if not layer["quantized"]}
    assert kept == {all_of_them[1]: "fp32 was asked of it"}
    text = camshaft(
        "quantize", path, "-o", quantized, "--data", data, "--layer-precisions", f"{all_of_them[1]}:fp32"
    ).stdout
    obeyed = ["--layer-precisions", "*:int8", "--precision-constraints", "obey"]
    assert all(layer["quantized"] for layer in quantize(path, quantized, "--data", data, *obeyed)["quantized_layers"])
    count = len(all_of_them)
    assert (
        f"precision {count - 1} of {count} convolutions" in text and f"fp32 was asked of it: {all_of_them[1]}" in text
    )


def test_what_cannot_be_quantised_is_refused(network, tmp_path):
    path, data, _ = network
    quantized = tmp_path / "quantized.onnx"
    refused = lambda *options: quantize(path, quantized, *options, fails=True)  # noqa: E731
    assert "--calibration FILE" in refused()
    assert "nothing would be quantised" in refused("--data", data, "--layer-precisions", "*:fp32")
    assert "either ranges" in refused("--data", data, "--calibration", data)
    assert "no such node" in refused(
        "--data", data, "--layer-precisions", "none:int8", "--precision-constraints", "obey"
    )
    camshaft("calibrate", path, "--data", data, "-o", tmp_path / "ranges")
    text = (tmp_path / "ranges").read_text()
    (tmp_path / "ranges").write_text(text.replace('  "', '  "other '))
    assert "other " in refused("--calibration", tmp_path / "ranges")
    first = tmp_path / "first.onnx"
    quantize(path, first, "--data", data)
    again = quantize(first, quantized, "--data", data, fails=True)
    assert "nothing to calibrate" in again
