"""ONNX Runtime's execution providers with engines on a GPU, an emulated one here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from camshaft_cli import BINARY, ROOT
from ort_sessions import MODULE, ort, session_options
from test_ort_provider_cache import network

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libcuda.so.1"


@pytest.mark.parametrize("program", ["on_gpu_sessions.py", "on_gpu_streams.py"])
def test_on_emulated_gpus(tmp_path, program):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    here = Path(__file__).parent
    command = [ROOT / "scripts/emulate_gpu.sh", sys.executable, here / program, tmp_path]
    path = [str(MODULE), str(ROOT / "scripts"), str(here)]
    environment = {**os.environ, "CAMSHAFT_BUILD": str(BINARY.parent.parent), "PYTHONPATH": os.pathsep.join(path)}
    environment["CAMSHAFT_EMULATED_DEVICES"] = "2"
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is well" in done.stdout


def test_without_a_gpu():
    import onnxruntime

    ort.register()
    try:
        if ort.devices(ort.GPU_PROVIDER):
            pytest.skip("this machine has a GPU")
        for options, provider in (({"device": "cuda"}, ort.PROVIDER), ({"device_id": 1}, ort.GPU_PROVIDER)):
            with pytest.raises(Exception, match=r"GPU|no NVIDIA driver"):
                onnxruntime.InferenceSession(
                    network().SerializeToString(), session_options(), providers=[(provider, options)]
                )
    finally:
        ort.unregister()
