"""Launches of kernels that Triton and Numba compile: the arguments are those of the kernel's parameters. Where these are
installed, they compile here; and the emulated GPU runs kernels with the same parameters."""

from types import SimpleNamespace

import numpy as np
import pytest
from test_module import module
from test_plugin_kernels import HEAD, on_gpu

X = module.DeviceArray(0x1000, "f32", (3, 5))
Y = module.DeviceArray(0x2000, "f32", (3, 5))
PTX_TYPES = {"*": "u64 .ptr .global .align 1", "i32": "u32", "i64": "u64", "fp32": "f32", "bf16": "b16", "i1": "u32"}


def declared(name, types):
    parameters = ",\n".join(f"\t.param .{kind} {name}_param_{i}" for i, kind in enumerate(types))
    return f".visible .entry {name}(\n{parameters}\n)\n.reqntid 128\n{{\n}}\n"


def triton_kernel(signature, scratch=2, **metadata):
    """As triton.compile() gives it."""
    types = [PTX_TYPES[kind[0] if kind[0] == "*" else kind] for kind in signature.values() if kind != "constexpr"]
    facts = {"name": "scaled", "num_warps": 4, "warp_size": 32, "num_ctas": 1, "shared": 512} | metadata
    facts = {"global_scratch_size": 0, "profile_scratch_size": 0, "launch_cooperative_grid": False} | facts
    ptx = declared("scaled", [*types, *["u64 .ptr .global .align 1"] * scratch])
    return SimpleNamespace(
        metadata=SimpleNamespace(**facts), src=SimpleNamespace(signature=signature), asm={"ptx": ptx, "cubin": b""}
    )


def packed(launch):
    from camshaft._plugin_kernels import launch_entries

    return launch_entries(launch)[0]


SIGNATURE = {
    "x": "*fp32",
    "y": "*fp32",
    "n": "i32",
    "big": "i64",
    "limit": "fp32",
    "half": "bf16",
    "BLOCK": "constexpr",
}


@pytest.mark.parametrize("scratch", [0, 1, 2])
def test_tritons_arguments(scratch):
    launch = module.triton_launch(triton_kernel(SIGNATURE, scratch), (2, 3), (X, Y, 15, 1 << 40, 0.5, 1.00390625))
    name, blocks, threads, shared, arguments = packed(launch)
    assert (name, blocks, threads, shared) == ("scaled", [2, 3, 1], [128, 1, 1], 512)
    expected = [
        (0x1000).to_bytes(8, "little"),
        (0x2000).to_bytes(8, "little"),
        np.int32(15).tobytes(),
        np.int64(1 << 40).tobytes(),
        np.float32(0.5).tobytes(),
        b"\x80\x3f",  # half way between two numbers of bf16: to the even one
    ]
    assert arguments == expected + [bytes(8)] * scratch


@pytest.mark.parametrize(
    "change, arguments, error, what",
    [
        ({}, (X, Y, 15), ValueError, "takes 6 arguments, 3 are given"),
        ({}, (X, 3, 15, 1, 0.5, 1.0), TypeError, "argument 1 of the Triton kernel 'scaled' is a pointer"),
        ({}, (X, Y, X, 1, 0.5, 1.0), TypeError, "is a number of the type i32"),
        ({}, (X, Y, 1 << 40, 1, 0.5, 1.0), OverflowError, "."),
        ({"num_ctas": 2}, (X, Y, 15, 1, 0.5, 1.0), ValueError, "in clusters"),
        ({"global_scratch_size": 64}, (X, Y, 15, 1, 0.5, 1.0), ValueError, "needs scratch memory"),
        ({"launch_cooperative_grid": True}, (X, Y, 15, 1, 0.5, 1.0), ValueError, "all blocks at once"),
        ({"scratch": 3}, (X, Y, 15, 1, 0.5, 1.0), ValueError, "9 parameters for 6 arguments"),
    ],
)
def test_what_only_tritons_launcher_can_do_is_named(change, arguments, error, what):
    with pytest.raises(error, match=what):
        module.triton_launch(triton_kernel(SIGNATURE, **change), 1, arguments)


NUMBA = declared("_ZN6scaled", ["u64"] * 9 + ["u64"] * 7 + ["f32", "u64"])


def test_numbas_arrays():
    flat = module.DeviceArray(0x3000, "f32", (15,))
    launch = module.numba_launch(NUMBA, 4, 64, (X, flat, np.float32(2), 7))
    name, blocks, threads, _, arguments = packed(launch)
    assert (name, blocks, threads) == ("_ZN6scaled", [4, 1, 1], [64, 1, 1])
    numbers = [int.from_bytes(a, "little") for a in arguments]
    assert numbers[:9] == [0, 0, 15, 4, 0x1000, 3, 5, 20, 4]
    assert numbers[9:16] == [0, 0, 15, 4, 0x3000, 15, 4]
    assert arguments[16:] == [np.float32(2).tobytes(), np.int64(7).tobytes()]


def test_arguments_are_held_to_the_parameters():
    with pytest.raises(ValueError, match="has parameters of .* the arguments have"):
        module.numba_launch(NUMBA, 4, 64, (X, X, np.float32(2), 7))
    with pytest.raises(ValueError, match="has parameters of"):
        module.numba_launch(NUMBA, 4, 64, (X, module.DeviceArray(0, "f32", (15,)), 2.0, 7))
    with pytest.raises(ValueError, match="has 2 kernels"):
        module.numba_launch(NUMBA + declared("other", []), 4, 64, ())
    with pytest.raises(ValueError, match="no kernel 'absent'"):
        module.numba_launch(NUMBA, 4, 64, (), kernel="absent")


def test_they_arrive_at_a_kernel():
    """One with the parameters of what Triton makes, and of what Numba makes."""
    said = on_gpu(
        HEAD
        + '''
from test_foreign_launches import declared, triton_kernel

TEXT = """
extern "C" __global__ void scaled(const float* x, float* y, int n, float limit, char* scratch, char* profile) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && !scratch && !profile) y[i] = limit * x[i];
}
extern "C" __global__ void added(char* m0, char* p0, long long n0, long long s0, float* y, long long r0, long long c0,
                                 long long r1, long long c1, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (m0 || p0 || s0 != 4 || n0 != r0 * c0 || i >= n0) return;
  float* at = (float*)((char*)y + i / c0 * r1 + i % c0 * c1);
  *at += by;
}
"""
kernel = triton_kernel({"x": "*fp32", "y": "*fp32", "n": "i32", "limit": "fp32", "BLOCK": "constexpr"})
numba = declared("added", ["u64"] * 9 + ["f32"])

def launch(x, y, limit):
    blocks = -(-x.size // 128)
    return [
        camshaft.triton_launch(kernel, blocks, (x, y, x.size, limit)),
        camshaft.numba_launch(numba, blocks, 128, (y, np.float32(1))),
    ]

@camshaft.plugin("py::Scaled", cuda=TEXT, launch=launch)
def scaled(x: np.float32, limit=30.0):
    return limit * x + 1

engine = camshaft.build(model("Scaled", limit=1.5), device="cuda", verify=True)
assert any(layer["tactic"] == "cuda_plugin" for layer in engine.inspect()["layers"]), engine.inspect()
for count in (1, 7, 100):
    x = rows(count)
    for _ in range(3):
        np.testing.assert_allclose(engine(x), 3 * x + 1 - x, rtol=1e-5, atol=1e-5)
print("right")
'''
    )
    assert said.endswith("right\n")


def test_what_triton_compiles(tmp_path, monkeypatch):
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "scaled_kernel.py").write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef scaled(x, y, n, limit, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(y + i, limit * tl.load(x + i, mask=i < n), mask=i < n)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import scaled_kernel

    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "limit": "fp32", "BLOCK": "constexpr"}
    source = ASTSource(scaled_kernel.scaled, signature, constexprs={"BLOCK": 256})
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    launch = module.triton_launch(kernel, 1, (X, Y, 15, 0.5))
    arguments = packed(launch)[4]
    assert [len(a) for a in arguments[:4]] == [8, 8, 4, 4] and all(a == bytes(8) for a in arguments[4:])
    assert launch.threads == 128 and kernel.asm["cubin"][:4] == b"\x7fELF"


def test_what_numba_compiles():
    numba = pytest.importorskip("numba")
    cuda = pytest.importorskip("numba.cuda")

    def scaled(x, y, limit, n, flag):
        i = cuda.grid(1)
        if i < n and flag:
            y[i] = limit * x[i, 0]

    arrays = numba.types.Array(numba.float32, 2, "C"), numba.types.Array(numba.float32, 1, "C")
    signature = numba.void(*arrays, numba.float32, numba.int64, numba.boolean)
    ptx, _ = cuda.compile(scaled, signature, cc=(9, 0), device=False, abi="numba", output="ptx")
    flat = module.DeviceArray(0x3000, "f32", (3,))
    launch = module.numba_launch(ptx, 1, 32, (X, flat, np.float32(2), 3, True))
    assert launch.kernel in ptx and len(launch.arguments) == 9 + 7 + 3
