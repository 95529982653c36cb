"""What is said where the GPU, its driver or its memory are not as needed. On the emulated GPU."""

import ctypes
import json
import os
import re
import shutil
import struct
import subprocess

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT

import onnx
from onnx import TensorProto, helper, numpy_helper

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """y = x @ w; w takes 4 MiB."""
    weights = np.random.default_rng(0).standard_normal((1024, 1024), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Softmax", ["m"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1024])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1024])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path_factory.mktemp("gpu") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run(*arguments, **environment):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    return subprocess.run(
        [ROOT / "scripts/emulate_gpu.sh", BINARY, *map(str, arguments)],
        env=os.environ | {"CAMSHAFT_BUILD": str(BINARY.parent.parent)} | {k: str(v) for k, v in environment.items()},
        capture_output=True,
        text=True,
        timeout=300,
    )


def refusal(done):
    assert done.returncode not in (0, -6, -11), done.stdout
    assert "terminate called" not in done.stderr
    return done.stderr


def build(model, tmp_path, *options, **environment):
    return run(
        "build",
        model,
        "-o",
        tmp_path / "e.engine",
        "--device",
        "cuda",
        "--tuning",
        "heuristic",
        "--no-verify",
        *options,
        **environment,
    )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CAMSHAFT_EMULATED_DEVICES": 0}, ["there is no GPU 0", "this machine has none"]),
        ({"CAMSHAFT_EMULATED_DRIVER": 11080}, ["the NVIDIA driver is of CUDA 11.8", "12.0 or newer is needed"]),
        ({"CAMSHAFT_EMULATED_CAPABILITY": 61}, ["compute capability 6.1", "7.5 or newer is needed"]),
        (
            {"CAMSHAFT_EMULATED_MEMORY": 1 << 20},
            ["out of memory on GPU 0", "4.0 MiB for the weights of an engine", "are free", "4.0 MiB in all"],
        ),
    ],
)
def test_build(model, tmp_path, environment, expected):
    message = refusal(build(model, tmp_path, **environment))
    for part in expected:
        assert part in message
    assert not (tmp_path / "e.engine").exists()


def test_devices_by_number(model, tmp_path):
    """Each GPU by its number; what is built names none of them, so that equal ones share files and locks."""
    two = {"CAMSHAFT_EMULATED_DEVICES": 2}
    words = ["--tuning", "heuristic", "--no-verify"]
    done = run("build", model, "-o", tmp_path / "0.engine", "--device", "cuda", *words, **two)
    assert done.returncode == 0, done.stderr
    locked = ["--write-lock", tmp_path / "lock"]
    done = run("build", model, "-o", tmp_path / "1.engine", "--device", "cuda:1", *words, *locked, **two)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "0.engine").read_bytes() == (tmp_path / "1.engine").read_bytes()
    again = ["--device", "cuda:0", "--tuning", "locked", "--lock", tmp_path / "lock", "--no-verify"]
    assert run("build", model, "-o", tmp_path / "2.engine", *again, **two).returncode == 0
    assert "cuda:1" not in (tmp_path / "lock").read_text()
    for device in ("cuda", "cuda:0", "cuda:1"):
        done = run("run", tmp_path / "0.engine", "--shapes", "x:2x1024", "--device", device, **two)
        assert done.returncode == 0, done.stderr
    message = refusal(run("run", tmp_path / "0.engine", "--shapes", "x:2x1024", "--device", "cuda:2", **two))
    assert "there is no GPU 2; this machine has GPU 0, emulated GPU; GPU 1, emulated GPU" in message
    message = refusal(run("run", tmp_path / "0.engine", "--shapes", "x:2x1024", "--device", "cpu", **two))
    assert "this engine was built for cuda, and cannot run on cpu" in message
    message = refusal(run("run", model, "--device", "gpu", **two))
    assert "'gpu' is no device: give cpu, cuda (the first GPU), or a GPU by its number, as cuda:1" in message
    listed = run("devices", **two).stdout
    assert "cuda:0: emulated GPU" in listed and "cuda:1: emulated GPU" in listed


def test_no_driver(model, tmp_path):
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a driver")
    done = subprocess.run(
        [BINARY, "build", model, "-o", tmp_path / "e.engine", "--device", "cuda"], capture_output=True, text=True
    )
    message = refusal(done)
    assert "no NVIDIA driver" in message
    assert "libcuda.so.1" in message


def test_activations_that_the_device_has_no_room_for(model, tmp_path):
    assert build(model, tmp_path).returncode == 0
    message = refusal(run("run", tmp_path / "e.engine", "--shapes", "x:4096x1024", CAMSHAFT_EMULATED_MEMORY=20 << 20))
    assert "out of memory on GPU 0" in message
    assert "for the intermediate tensors of a context" in message


def test_kernels_of_another_device(model, tmp_path):
    """Files of a cache that hold another architecture's code under this one's names, or half of it, are compiled anew."""
    caches = {}
    for capability in (80, 90):
        cache = caches[capability] = tmp_path / str(capability)
        done = run_with_cache(model, tmp_path, cache, capability)
        assert done.returncode == 0, done.stderr
    foreign = next((caches[80] / "camshaft/kernels").iterdir()).read_bytes()
    for planted in (foreign, foreign[: len(foreign) // 2] + struct.pack("<Q", 1)):
        own = {file: file.read_bytes() for file in (caches[90] / "camshaft/kernels").iterdir()}
        for file in own:
            file.write_bytes(planted)
        assert run_with_cache(model, tmp_path, caches[90], 90).returncode == 0
        assert {file: file.read_bytes() for file in own} == own


def run_with_cache(model, tmp_path, cache, capability):
    """scripts/emulate_gpu.sh has a cache of its own, so what it does is done here."""
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    home = EMULATOR.parent.parent
    environment = os.environ | {
        "CUDA_HOME": str(home),
        "LD_LIBRARY_PATH": str(home / "lib"),
        "XDG_CACHE_HOME": str(cache),
        "CAMSHAFT_EMULATED_CAPABILITY": str(capability),
    }
    command = [BINARY, "build", model, "-o", tmp_path / "e.engine", "--device", "cuda", "--tuning", "heuristic"]
    return subprocess.run([*command, "--no-verify"], env=environment, capture_output=True, text=True, timeout=300)


def test_tf32_is_said_and_recorded(model, tmp_path):
    done = build(model, tmp_path, "--tf32", "--write-lock", tmp_path / "lock")
    assert done.returncode == 0, done.stderr
    inspected = run("inspect", tmp_path / "e.engine").stdout
    assert "tf32" in inspected
    assert "tf32=1" in (tmp_path / "lock").read_text()
    # Without leave the lock does not fit, and on a device without TF32 nothing is rounded.
    locked = [
        "build",
        model,
        "-o",
        tmp_path / "l.engine",
        "--device",
        "cuda",
        "--no-verify",
        "--lock",
        tmp_path / "lock",
    ]
    assert "lock" in refusal(run(*locked))
    assert run(*locked, "--tf32").returncode == 0
    done = build(model, tmp_path, "--tf32", "--write-lock", tmp_path / "lock75", CAMSHAFT_EMULATED_CAPABILITY=75)
    assert "no kernels that are faster in TF32" in done.stderr
    assert "tf32=1" not in (tmp_path / "lock75").read_text()


@pytest.fixture(scope="module")
def convolution(tmp_path_factory):
    """y = softmax(conv(x)), 64 channels; and what an engine without libraries makes of it."""
    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3), np.float32) / 24
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("MatMul", ["c", "v"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 14, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 14, 16])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.eye(16, dtype=np.float32) * 2, "v")],
    )
    path = tmp_path_factory.mktemp("conv") / "c.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def without_blas(folder):
    """The emulated driver and compiler alone."""
    for name in ("libcuda.so.1", "libnvrtc.so.13"):
        (folder / name).symlink_to((EMULATOR.parent / name).resolve())
    home = EMULATOR.parent.parent
    environment = {
        "LD_LIBRARY_PATH": folder,
        "CUDA_HOME": folder,
        "XDG_CACHE_HOME": home / "cache",
        "PATH": "/usr/bin:/bin",
    }
    return environment | {name: "" for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_PATH")} | {"HOME": folder}


def run_in(*arguments, **environment):
    environment = {name: str(value) for name, value in environment.items()}
    return subprocess.run([BINARY, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300)


def tactics(lock):
    return [layer["tactic"] for layer in json.loads(lock.read_text())["layers"]]


def test_engines_of_libraries_without_them(convolution, tmp_path):
    """An engine for cuDNN and cuBLASLt runs where cuDNN refuses everything (as one does whose parts are of another version,
    beside PyTorch's), and where neither is there: on our own kernels, to the same numbers, with one warning."""
    refusing = {"LD_LIBRARY_PATH": EMULATOR.parent.parent / "refusing"}
    lock, engine = tmp_path / "lock.json", tmp_path / "e.engine"
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).standard_normal((1, 64, 14, 16), np.float32))
    done = build(convolution, tmp_path, "--fp16", "--write-lock", lock, **refusing)
    assert done.returncode == 0, done.stderr
    text = re.sub(r'"tactic": "cuda_contract[^"]*"(,\s*"tried")', r'"tactic": "cuda_dnn(rank=0)"\1', lock.read_text())
    text = re.sub(r'"tactic": "cuda_few_rows[^"]*"(,\s*"tried")', r'"tactic": "cuda_blas(rank=0)"\1', text)
    lock.write_text(text)
    assert "cuda_dnn(rank=0)" in tactics(lock) and "cuda_blas(rank=0)" in tactics(lock)

    def result(**environment):
        files = ["--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz"]
        ran = (run_in if "CUDA_HOME" in environment else run)("run", engine, *files, "--quiet", **environment)
        assert ran.returncode == 0, ran.stderr
        return np.load(tmp_path / "y.npz")["y"], ran.stderr.splitlines()

    own, said = result()
    assert said == []
    locked = ["build", convolution, "-o", engine, "--device", "cuda", "--fp16", "--no-verify", "--lock", lock]
    done = run(*locked, **refusing)
    assert done.returncode == 0, done.stderr
    refused, said = result(**refusing)
    assert len(said) == 1 and "cuDNN 9.99.0 failed in preparing an operation: status 1008" in said[0]
    assert "refusing/libcudnn.so.9" in said[0] and "own kernels" in said[0]
    # One that the process has loaded already, as PyTorch brings its own, comes before those of any folder.
    (tmp_path / "loaded").mkdir()
    loaded = shutil.copy(refusing["LD_LIBRARY_PATH"] / "libcudnn.so.9", tmp_path / "loaded")
    beside_another, said = result(LD_PRELOAD=loaded, **refusing)
    assert len(said) == 1 and str(loaded) in said[0] and "refusing/" not in said[0]
    without_dnn, said = result()
    assert len(said) == 1 and "1 of 6 layers were built for kernels that this machine" in said[0]
    assert "cuda_dnn(rank=0)" in said[0]
    without_both, said = result(**without_blas(tmp_path))
    assert len(said) == 1 and "2 of 6 layers" in said[0]
    for got in (refused, beside_another, without_dnn, without_both):
        np.testing.assert_allclose(got, own, rtol=0, atol=2e-2)
