"""Ranks on emulated GPUs, which meet by an NCCL that is emulated, too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from camshaft_cli import BINARY, ROOT

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libnccl.so.2"

pytestmark = pytest.mark.skipif(not EMULATOR.exists(), reason="the emulated GPU was not built")


@pytest.fixture(scope="module", params=[2, 1])
def said(request):
    """With a GPU for each rank, and with one for both, over which nothing is linked."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = {
        **os.environ,
        "CAMSHAFT_BUILD": str(BINARY.parent.parent),
        "CAMSHAFT_EMULATED_DEVICES": "2",
        "PYTHONPATH": path,
    }
    if request.param == 1:
        environment["CAMSHAFT_EMULATED_NCCL_FAILS"] = "1"
    script = Path(__file__).parent / "on_gpu_collectives.py"
    done = subprocess.run(
        [ROOT / "scripts/emulate_gpu.sh", sys.executable, script], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    # By threads nothing is said where they are linked; ranks in processes are not linked by the emulated NCCL.
    warned = [line for line in done.stderr.splitlines() if "ranks meet over the host's memory" in line]
    assert len(warned) == 1, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_collectives_are_what_numpy_has(said):
    assert max(said["errors"]["float32"]) < 1e-6
    assert max(said["errors"]["float16"]) < 2e-3


def test_ranks_that_fail_end_the_others(said):
    assert all("rank 1" in each or "out of range" in each for each in said["failures"]), said["failures"]


def test_a_killed_process_is_noticed(said):
    assert "rank 1 has died" in said["killed"]["error"]
    assert said["killed"]["seconds"] < 30
