"""Q/DQ models on the emulated GPU: products of bytes where there are kernels, verified by the build in fp32 and fp16."""

import json
import subprocess

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft
from quantized_networks import NETWORKS, quantize

import onnx

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"


def emulated(*arguments):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    command = [ROOT / "scripts/emulate_gpu.sh", BINARY, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("precision", [[], ["--fp16"]], ids=["fp32", "fp16"])
@pytest.mark.parametrize("activations", ["s8", "u8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_is_verified_on_bytes(name, activations, precision, tmp_path):
    path, engine = tmp_path / "q.onnx", tmp_path / "q.engine"
    seed = 8
    quantize(NETWORKS[name](seed), path, seed, activations, "s8", True)
    emulated("build", path, "-o", engine, "--device", "cuda", "--tuning", "heuristic", *precision)
    layers = json.loads(emulated("inspect", engine, "--json"))["layers"]
    products = [layer for layer in layers if layer["op"].startswith("integer_")]
    assert products and all(layer["tactic"].startswith("cuda_contract") for layer in products), layers
    # The stem's three channels, depthwise layers and attention's products stay floating-point; nothing runs on the host.
    assert all(layer["tactic"].startswith(("cuda_", "copy")) for layer in layers), layers


@pytest.mark.parametrize("name", NETWORKS)
def test_calibrated_layers_are_computed_on_bytes(name, tmp_path):
    model, data, ranges, engine = (tmp_path / part for part in ("m.onnx", "data.npz", "m.ranges", "m.engine"))
    proto = NETWORKS[name](8)
    onnx.save(proto, model)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    np.savez(data, x=np.random.default_rng(8).standard_normal(shape, np.float32))
    camshaft("calibrate", model, "--data", data, "-o", ranges)
    options = ["--int8", "--calibration", ranges, "--tuning", "heuristic", "--json"]
    report = json.loads(emulated("build", model, "-o", engine, "--device", "cuda", *options))
    assert all(layer["quantized"] for layer in report["quantized_layers"]), report["quantized_layers"]
    layers = json.loads(emulated("inspect", engine, "--json"))["layers"]
    assert any(layer["op"].startswith("integer_") for layer in layers), layers
