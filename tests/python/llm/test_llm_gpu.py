"""Language models on the emulated GPU: caches stay on the device, and texts and embeddings are the CPU's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from camshaft_cli import BINARY, ROOT

EMULATOR = BINARY.parent.parent / "tests/backends/cuda/emulator/lib/libnvrtc.so.13"


pytestmark = pytest.mark.skipif(not EMULATOR.exists(), reason="the emulated GPU was not built")


def last_line(script, *arguments, gpus=1):
    """What a script prints of both devices."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parent), *filter(None, sys.path)])
    command = [ROOT / "scripts/emulate_gpu.sh", sys.executable, here / script, *arguments]
    environment = {**os.environ, "CAMSHAFT_BUILD": str(BINARY.parent.parent), "PYTHONPATH": path}
    environment["CAMSHAFT_EMULATED_DEVICES"] = str(gpus)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("weights, cache", [("f16", "f16"), ("int4", "f16"), ("f16", "int8"), ("f32", "fp8")])
def test_text_is_that_of_the_cpu(tmp_path, weights, cache):
    texts = json.loads(last_line("on_gpu_llm.py", tmp_path, weights, cache))
    assert texts["cuda"] == texts["cpu"]


@pytest.mark.parametrize("weights, lora_dtype", [("f32", "f32"), ("f16", "f16"), ("int4", "bf16")])
def test_text_with_adapters_is_that_of_the_cpu(tmp_path, weights, lora_dtype):
    texts = json.loads(last_line("on_gpu_lora.py", tmp_path, weights, lora_dtype))
    assert texts["cuda"] == texts["cpu"]


@pytest.mark.parametrize("weights, cache", [("f32", "f32"), ("f16", "f16"), ("f32", "int8")])
def test_text_of_sounds_is_that_of_the_cpu(tmp_path, weights, cache):
    texts = json.loads(last_line("on_gpu_speech.py", tmp_path, weights, cache))
    assert texts["cuda"] == texts["cpu"]


@pytest.mark.parametrize("weights, cache", [("f32", "f32"), ("f16", "f16")])
@pytest.mark.parametrize("kind", ["llava", "qwen2_5_vl"])
def test_text_of_pictures_is_that_of_the_cpu(tmp_path, kind, weights, cache):
    texts = json.loads(last_line("on_gpu_vision.py", tmp_path, kind, weights, cache))
    assert texts["cuda"] == texts["cpu"]


@pytest.mark.parametrize("weights, most", [("f32", 1e-4), ("f16", 0.02), ("bf16", 0.1), ("int8", 0.1)])
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_embeddings_are_those_of_the_cpu(tmp_path, kind, weights, most):
    assert float(last_line("on_gpu_embed.py", tmp_path, kind, weights)) < most


@pytest.mark.parametrize("gpus", [1, 2])
def test_text_of_ranks_is_that_of_the_cpu(tmp_path, gpus):
    """Ranks in threads and in processes, each on a GPU of its own where there are two."""
    said = json.loads(last_line("on_gpu_ranks.py", tmp_path, gpus=gpus))
    assert said["devices"] == ["cuda:0", f"cuda:{gpus - 1}"]
    assert said["texts"]["cuda None"] == said["texts"]["cuda mp"] == said["texts"]["cpu None"]
