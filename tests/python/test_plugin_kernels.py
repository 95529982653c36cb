"""Plugins in Python whose kernels run on a GPU, an emulated one here."""

import os
import subprocess
import sys
import textwrap

import pytest
from camshaft_cli import BINARY, ROOT
from test_module import module

EMULATOR = BINARY.parent.parent / "tests" / "backends" / "cuda" / "emulator" / "lib"

HEAD = """
import ctypes, os, sys
import numpy as np
import camshaft
import onnx
from onnx import helper

TEXT = '''
extern "C" __global__ void softcap(const float* x, float* y, long long n, float limit) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = limit * tanhf(x[i] / limit);
}
extern "C" __global__ void twice(float* y, const int rows, const int columns) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < columns) y[r * columns + c] *= 2;
}
'''

def model(operator, **attributes):
    info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 5]) for n in "xy"]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node(operator, ["a"], ["b"], domain="py", **attributes),
        helper.make_node("Sub", ["b", "x"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("py", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)

def rows(count):
    return np.random.default_rng(count).standard_normal((count, 5), np.float32)

def compiled(text):
    nvrtc = ctypes.CDLL("libnvrtc.so.13")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    cubin = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetCUBIN(program, cubin) == 0
    return cubin.raw
"""


def on_gpu(script):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    done = subprocess.run(
        [ROOT / "scripts/emulate_gpu.sh", sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"CAMSHAFT_BUILD": str(BINARY.parent.parent), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("form", ["TEXT", "compiled(TEXT)"])
def test_a_kernel_runs_as_text_and_compiled(form):
    said = on_gpu(
        HEAD
        + f"""
calls = []

def launch(x, y, limit):
    calls.append(x.shape)
    blocks = -(-x.size // 128)
    softcap = camshaft.Launch("softcap", blocks, 128, (x, y, x.size, np.float32(limit)))
    grid = (-(-x.shape[1] // 4), -(-x.shape[0] // 8))
    twice = camshaft.Launch("twice", grid, (4, 8, 1), [y, *map(np.int32, x.shape)])
    return [softcap, twice]

@camshaft.plugin("py::Softcap", cuda={form}, launch=launch)
def softcap(x: np.float32, limit=30.0):
    return 2 * limit * np.tanh(x / limit)

engine = camshaft.build(model("Softcap", limit=1.5), device="cuda", verify=True)
assert any(layer["tactic"] == "cuda_plugin" for layer in engine.inspect()["layers"]), engine.inspect()
for count in (1, 7, 100):
    x = rows(count)
    for _ in range(3):
        np.testing.assert_allclose(engine(x), 3 * np.tanh(2 * x / 1.5) - x, rtol=1e-5, atol=1e-5)
before = len(calls)
for _ in range(5):
    engine(x)
assert len(calls) == before, "a recorded run asks again"
on_host = camshaft.build(model("Softcap", limit=1.5))
np.testing.assert_allclose(on_host(x), 3 * np.tanh(2 * x / 1.5) - x, rtol=1e-5, atol=1e-5)
print("right")
"""
    )
    assert said.endswith("right\n")


@pytest.mark.parametrize(
    "change, error, what",
    [
        ('camshaft.Launch("soft", 1, 32, ())', "InvalidArgumentError", "looking for the kernel 'soft'"),
        ('camshaft.Launch("softcap", (1, 1, 1, 1), 32, ())', "InvalidArgumentError", "blocks are one number, two"),
        (
            'camshaft.Launch("softcap", 1, 32, [x, "y"])',
            "InvalidArgumentError",
            "argument 1 of the kernel 'softcap' is str",
        ),
        ('"softcap"', "InvalidArgumentError", "a camshaft.Launch is wanted"),
        ('camshaft.Launch("softcap", 1, 32, (x, y, 0, np.float32(1)))', "VerificationError", "y"),
    ],
)
def test_a_launch_that_is_wrong_is_named(change, error, what):
    said = on_gpu(
        HEAD
        + f"""
@camshaft.plugin("py::Softcap", cuda=TEXT, launch=lambda x, y: {change})
def softcap(x: np.float32):
    return np.tanh(x)

try:
    camshaft.build(model("Softcap"), device="cuda", tuning="heuristic")
except camshaft.Error as e:
    print(type(e).__name__, e)
"""
    )
    assert said.startswith(error) and what in said, said


def test_a_module_that_is_damaged_is_named():
    said = on_gpu(
        HEAD
        + """
@camshaft.plugin("py::Softcap", cuda=b"no module", launch=lambda x, y: None)
def softcap(x: np.float32):
    return np.tanh(x)

try:
    camshaft.build(model("Softcap"), device="cuda", tuning="heuristic")
except camshaft.Error as e:
    print(e)
"""
    )
    assert "py::Softcap" in said and "its module of kernels is not for this GPU, or damaged" in said, said


def test_kernels_and_a_launch_rule_go_together():
    with pytest.raises(TypeError, match="cuda and launch go together"):
        module.plugin("py::Alone", cuda="extern")
    with pytest.raises(TypeError, match="cuda and launch go together"):
        module.plugin("py::Alone", launch=lambda x: None)
