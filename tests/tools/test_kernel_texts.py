"""Every kernel text that a model's engine is made of compiles for the GPUs of four generations.

NVIDIA's compiler needs no GPU; the emulated driver takes the place of a device of each compute capability. With --all, all
models of the zoo, in each precision.
"""

import itertools
import os
import subprocess

import pytest
from camshaft_cli import BINARY, ROOT
from catalog import EVERY

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"
QUICK = {
    ("tv_mobilenet_v2", "fp16", 90),
    ("tv_mobilenet_v2", "fp16", 100),
    ("own_lstm", "fp32", 80),
    ("own_superres", "bf16", 90),
}

# There is no bf16 on compute capability 7.5: a build says so, and makes what it makes for fp32.
CASES = [
    case for case in itertools.product(EVERY, ("fp32", "fp16", "bf16"), (75, 80, 90, 100)) if case[1:] != ("bf16", 75)
]


@pytest.mark.parametrize(
    ("name", "precision", "capability"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.large) for case in CASES],
)
def test_compile(name, precision, capability, tmp_path):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    options = [] if precision == "fp32" else [f"--{precision}"]
    command = [ROOT / "scripts/emulate_gpu.sh", BINARY, "build", EVERY[name].path(), "-o", tmp_path / "engine"]
    command += ["--device", "cuda", "--tuning", "heuristic", "--no-verify", *options]
    environment = os.environ | {"CAMSHAFT_EMULATED_COMPILER": "0", "CAMSHAFT_EMULATED_CAPABILITY": str(capability)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if "no CUDA compiler" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
