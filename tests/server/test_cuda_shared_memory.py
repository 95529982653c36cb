"""Tensors in memory of clients on a GPU, an emulated one where there is none: server and client are two processes."""

import os
import subprocess
import sys

import pytest
from serving import BINARY, has_gpu, serving, write_identity, write_sums
from tritonclient.http import InferenceServerClient

ROOT = BINARY.parents[3]
EMULATOR = BINARY.parents[1] / "tests/backends/cuda/emulator/lib/libcuda.so.1"
ON_GPU = ROOT / "scripts/emulate_gpu.sh"

TENSORS = """input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1, 40] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1, 40] }]
"""
STEPS = f"""name: "steps" platform: "ensemble" {TENSORS} ensemble_scheduling {{ step [
  {{ model_name: "on_gpu" model_version: -1 input_map {{ key: "INPUT0" value: "INPUT0" }}
     output_map {{ key: "OUTPUT0" value: "between" }} }},
  {{ model_name: "on_host" model_version: -1 input_map {{ key: "INPUT0" value: "between" }}
     output_map {{ key: "OUTPUT0" value: "OUTPUT0" }} }}] }}
"""
PYTHON = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array)]) for array in given]
"""


def write_models(folder):
    for name, kind in (("on_gpu", "KIND_GPU"), ("on_host", "KIND_CPU")):
        config = f'name: "{name}"\n{TENSORS}instance_group [{{ kind: {kind} }}]\n'
        write_identity(folder, name, "FP32", ["n", 40], config)
    write_identity(folder, "kept", "FP32", ["n", 40], f'name: "kept"\n{TENSORS}response_cache {{ enable: true }}\n')
    write_sums(folder, "simple", 'name: "simple"\nmax_batch_size: 8\n')
    (folder / "steps/1").mkdir(parents=True)
    (folder / "steps/config.pbtxt").write_text(STEPS)
    (folder / "in_python/1").mkdir(parents=True)
    (folder / "in_python/config.pbtxt").write_text(f'name: "in_python" backend: "python"\n{TENSORS}')
    (folder / "in_python/1/model.py").write_text(PYTHON)


def on_gpu(monkeypatch):
    """What a server is started through to have a GPU."""
    through = [] if has_gpu() else [ON_GPU]
    if through and not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    monkeypatch.setenv("CAMSHAFT_BUILD", str(BINARY.parents[1]))
    return through


def test_tensors_of_clients_on_a_gpu(tmp_path, interpreter, monkeypatch):
    through = on_gpu(monkeypatch)
    write_models(tmp_path / "models")
    flags = ["--allow-client-shm=true", "--cache-config=local,size=1048576", f"--engine-cache={tmp_path / 'cache'}"]
    with serving(tmp_path / "models", *flags, through=through) as server:
        client = InferenceServerClient(server.http)
        assert "cuda_shared_memory" in client.get_server_metadata()["extensions"]
        command = [*through, sys.executable, ROOT / "tests/server/on_gpu_memory.py", server.http, server.grpc]
        folders = [str(ROOT / "tests/python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all is well" in done.stdout
        # That client has gone without a word.
        assert [region["name"] for region in client.get_cuda_shared_memory_status()] == ["left"]
        client.unregister_cuda_shared_memory()
        assert client.get_cuda_shared_memory_status() == []
