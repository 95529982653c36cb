"""Every kernel text that a model's engine is made of compiles for the GPUs of four generations.

NVIDIA's compiler needs no GPU; the emulated driver takes the place of a device of each compute capability. With --all, all
models of the zoo, in both precisions.
"""

import itertools
import os
import subprocess

import pytest
from camshaft_cli import BINARY, ROOT
from catalog import EVERY

EMULATOR = BINARY.parent.parent / "tests/cuda/emulator/lib/libcuda.so.1"
QUICK = {("tv_mobilenet_v2", "fp16", 90), ("tv_mobilenet_v2", "fp16", 100), ("own_lstm", "fp32", 80)}


CASES = itertools.product(EVERY, ("fp32", "fp16"), (75, 80, 90, 100))


@pytest.mark.parametrize(
    ("name", "precision", "capability"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.large) for case in CASES],
)
def test_compile(name, precision, capability, tmp_path):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    options = ["--fp16"] if precision == "fp16" else []
    command = [ROOT / "scripts/emulate_gpu.sh", BINARY, "build", EVERY[name].path(), "-o", tmp_path / "engine"]
    command += ["--device", "cuda", "--tuning", "heuristic", "--no-verify", *options]
    environment = os.environ | {"CAMSHAFT_EMULATED_COMPILER": "0", "CAMSHAFT_EMULATED_CAPABILITY": str(capability)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if "no CUDA compiler" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
