"""Batches on a GPU, an emulated one where there is none, have the sizes that the server has got ready for."""

import concurrent.futures
import json

import numpy as np
from serving import serving, write_identity
from test_cuda_shared_memory import on_gpu
from tritonclient.http import InferenceServerClient, InferInput

CONFIG = """name: "{name}" max_batch_size: 8 dynamic_batching {{ max_queue_delay_microseconds: {delay} }}
input [{{ name: "INPUT0" data_type: TYPE_FP32 dims: [16] }}]
output [{{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [16] }}]
instance_group [{{ kind: KIND_GPU count: 2 }}]
"""


def test_sizes_of_batches(tmp_path, monkeypatch):
    through = on_gpu(monkeypatch)
    for name, delay in (("at_once", 0), ("after_a_while", 20000)):
        write_identity(tmp_path, name, "FP32", ["n", 16], CONFIG.format(name=name, delay=delay))
    with serving(tmp_path, through=through) as server:
        for name in ("at_once", "after_a_while"):

            def ask(number, name=name):
                client = InferenceServerClient(server.http)
                array = np.full((1, 16), number, np.float32)
                given = InferInput("INPUT0", array.shape, "FP32")
                given.set_data_from_numpy(array)
                np.testing.assert_array_equal(client.infer(name, [given]).as_numpy("OUTPUT0"), array)

            with concurrent.futures.ThreadPoolExecutor(14) as pool:
                list(pool.map(ask, range(280)))
            statistics = json.loads(server.request("GET", f"/v2/models/{name}/stats")[2])["model_stats"][0]
            sizes = {entry["batch_size"] for entry in statistics["batch_stats"]}
            assert statistics["inference_stats"]["success"]["count"] == 280  # nobody counts what got ready
            assert sizes <= {1, 2, 3, 4, 6, 8} and (name == "at_once" or max(sizes) > 1), sizes


def test_without_getting_ready(tmp_path, monkeypatch):
    through = on_gpu(monkeypatch)
    config = CONFIG.format(name="m", delay=200000).replace("max_batch_size: 8", "max_batch_size: 5")
    for value in ("false", "maybe"):
        parameter = f'parameters {{ key: "get_ready" value {{ string_value: "{value}" }} }}\n'
        write_identity(tmp_path / value, "m", "FP32", ["n", 16], config + parameter)
    with (
        serving(tmp_path / "false", through=through) as server,
        InferenceServerClient(server.http, concurrency=5) as client,
    ):
        given = InferInput("INPUT0", [1, 16], "FP32")
        given.set_data_from_numpy(np.ones((1, 16), np.float32))
        for asked in [client.async_infer("m", [given]) for _ in range(5)]:
            assert (asked.get_result().as_numpy("OUTPUT0") == 1).all()
        statistics = json.loads(server.request("GET", "/v2/models/m/stats")[2])["model_stats"][0]
        assert 5 in {entry["batch_size"] for entry in statistics["batch_stats"]}
    with serving(tmp_path / "maybe", "--exit-on-error=false", through=through) as server:
        assert "get_ready must be true or false, it is 'maybe'" in server.log()
