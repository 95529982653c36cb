"""Q/DQ models of 8-bit floats on the emulated GPU, and --fp8: products of these where there are kernels, verified by the build
in fp32 and fp16; on devices that have none, the same numbers in floating point."""

import json
import os
import subprocess

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT, camshaft
from float8_networks import quantize_float8
from quantized_networks import NETWORKS

import onnx
from onnx import TensorProto

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"


def emulated(*arguments, capability=90, fails=False):
    """What the command prints on an emulated GPU; with `fails`, its complaint."""
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    command = [ROOT / "scripts/emulate_gpu.sh", BINARY, *map(str, arguments)]
    environment = os.environ | {"CAMSHAFT_EMULATED_CAPABILITY": str(capability)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def layers_of(engine, capability=90):
    return json.loads(emulated("inspect", engine, "--json", capability=capability))["layers"]


def float8_products(layers):
    return [layer for layer in layers if layer["op"].startswith("float8_")]


@pytest.mark.parametrize("precision", [[], ["--fp16"]], ids=["fp32", "fp16"])
@pytest.mark.parametrize("kind", ["behind Q", "stored", "halves"])
@pytest.mark.parametrize("name", NETWORKS)
def test_is_verified_on_floats_of_eight_bits(name, kind, precision, tmp_path):
    path, engine = tmp_path / "q.onnx", tmp_path / "q.engine"
    scale = np.float16 if kind == "halves" else np.float32
    quantize_float8(NETWORKS[name](8), path, 8, stored=kind == "stored", scale_type=scale)
    emulated("build", path, "-o", engine, "--device", "cuda", "--tuning", "heuristic", *precision)
    products = float8_products(layers_of(engine))
    assert products and all(layer["tactic"].startswith("cuda_contract") for layer in products)
    # Nothing runs on the host.
    assert all(layer["tactic"].startswith(("cuda_", "copy")) for layer in layers_of(engine))


def test_e5m2(tmp_path):
    path, engine = tmp_path / "q.onnx", tmp_path / "q.engine"
    quantize_float8(NETWORKS["residual"](3), path, 3, TensorProto.FLOAT8E5M2)
    emulated("build", path, "-o", engine, "--device", "cuda", "--tuning", "heuristic")
    assert float8_products(layers_of(engine))


# Ada multiplies them warp by warp; Ampere has none, and rounds to them all the same.
@pytest.mark.parametrize("capability", [89, 80, 75])
def test_other_architectures(capability, tmp_path):
    path, engine = tmp_path / "q.onnx", tmp_path / "q.engine"
    quantize_float8(NETWORKS["transformer"](5), path, 5)
    emulated("build", path, "-o", engine, "--device", "cuda", "--tuning", "heuristic", capability=capability)
    assert bool(float8_products(layers_of(engine, capability))) == (capability >= 89)


def calibrated(name, tmp_path):
    model, data, ranges = (tmp_path / part for part in ("m.onnx", "data.npz", "m.ranges"))
    proto = NETWORKS[name](8)
    onnx.save(proto, model)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    np.savez(data, x=np.random.default_rng(8).standard_normal(shape, np.float32))
    camshaft("calibrate", model, "--data", data, "--method", "minmax", "-o", ranges)
    return model, ranges


@pytest.mark.parametrize("name", NETWORKS)
def test_calibrated_layers_are_computed_on_floats_of_eight_bits(name, tmp_path):
    model, ranges = calibrated(name, tmp_path)
    engine = tmp_path / "m.engine"
    options = ["--fp8", "--calibration", ranges, "--tuning", "heuristic", "--json"]
    report = json.loads(emulated("build", model, "-o", engine, "--device", "cuda", *options))
    placed = report["quantized_layers"]
    assert placed and all(layer["quantized"] and layer["precision"] == "fp8" for layer in placed), placed
    assert float8_products(layers_of(engine))


def test_devices_without_them_refuse_the_flag(tmp_path):
    model, ranges = calibrated("transformer", tmp_path)
    arguments = ["build", model, "-o", tmp_path / "m.engine", "--fp8", "--calibration", ranges]
    for device, capability in ((["--device", "cuda"], 80), ([], 90)):
        complaint = emulated(*arguments, *device, capability=capability, fails=True)
        assert "--fp8" in complaint and "compute capability 8.9" in complaint and "int8" in complaint, complaint


def test_without_ranges_the_flag_is_refused(tmp_path):
    model, _ = calibrated("transformer", tmp_path)
    complaint = emulated("build", model, "-o", tmp_path / "m.engine", "--device", "cuda", "--fp8", fails=True)
    assert "fp8 needs the ranges of the model's tensors" in complaint
