"""Models on the emulated GPU within a part of their weights: the same results, bit by bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from camshaft_cli import BINARY, ROOT
from test_module import MODULE

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"
PARTS = ("0.25", "0.5", "0.75")  # or the least budget, where a layer has that much

CASES = [
    ("own_tcn", "fp32"),
    ("own_lstm", "fp32"),
    ("hf_llama", "fp32"),
    ("hf_t5_encoder", "fp16"),
    pytest.param("hf_llama", "fp16", marks=pytest.mark.large),
    pytest.param("tv_mobilenet_v2", "fp16", marks=pytest.mark.large),
    pytest.param("timm_xcit_nano_12_p8_224", "fp32", marks=pytest.mark.large),
]


@pytest.mark.parametrize("name, precision", CASES)
def test_results_are_those_with_all_weights(name, precision):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    here = Path(__file__).parent
    path = [str(MODULE), str(here), str(ROOT / "scripts")]
    environment = {
        **os.environ,
        "CAMSHAFT_BUILD": str(BINARY.parent.parent),
        "PYTHONPATH": os.pathsep.join(path),
        "CAMSHAFT_EMULATED_GRANULARITY": "4096",  # the models are small
    }
    command = [ROOT / "scripts/emulate_gpu.sh", sys.executable, here / "on_gpu_streaming.py", name, precision, *PARTS]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for figures in json.loads(done.stdout.splitlines()[-1]):
        assert figures["staying_bytes"] + figures["window_bytes"] <= figures["budget"] < figures["weight_bytes"]
        assert figures["loads_bytes"] >= figures["weight_bytes"] - figures["staying_bytes"]
        # What depends on the shapes alone is computed once, and may read some for itself.
        more = figures["brought_bytes"] - figures["staying_bytes"] - 4 * figures["loads_bytes"]
        assert 0 <= more <= figures["loads_bytes"]
