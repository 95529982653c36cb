"""Every call of Triton's own client over HTTP."""

import asyncio
import json

import numpy as np
import pytest
import tritonclient.http as http
import tritonclient.http.aio as aio
import tritonclient.utils.shared_memory as shared_memory
from serving import TYPES, has_gpu
from tritonclient.utils import InferenceServerException


@pytest.fixture
def client(server):
    with http.InferenceServerClient(server.http, concurrency=4) as made:
        yield made


def values_of(datatype, shape=(2, 3)):
    count = int(np.prod(shape))
    if datatype == "BYTES":
        return np.array([f"text {i} ä".encode() for i in range(count)], dtype=np.object_).reshape(shape)
    kind = TYPES[datatype][1]
    return (np.arange(count) % 2 if datatype == "BOOL" else np.arange(count)).astype(kind).reshape(shape)


def rows():
    first = np.arange(16, dtype=np.int32).reshape(1, 16)
    return first, np.full((1, 16), 3, dtype=np.int32)


def sums_request(module=http, binary=True):
    inputs = [module.InferInput(f"INPUT{i}", [1, 16], "INT32") for i in range(2)]
    for item, values in zip(inputs, rows(), strict=True):
        item.set_data_from_numpy(values, binary_data=binary)
    return inputs


def check_sums(result):
    first, second = rows()
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + second)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), first - second)


def test_health_and_metadata(client, server):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("simple") and client.is_model_ready("simple", "1")
    assert not client.is_model_ready("simple", "9") and not client.is_model_ready("nothing")
    metadata = client.get_server_metadata()
    assert metadata["name"] and metadata["version"] and "binary_tensor_data" in metadata["extensions"]
    model = client.get_model_metadata("simple")
    assert model["name"] == "simple" and model["versions"] == ["1"]
    assert {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 16]} in model["inputs"]
    config = client.get_model_config("simple")
    assert config["max_batch_size"] == 8 and config["input"][0]["name"] == "INPUT0"
    assert config["input"][0]["dims"] == [16]
    with pytest.raises(InferenceServerException, match="nothing"):
        client.get_model_metadata("nothing")


@pytest.mark.parametrize("datatype", TYPES)
@pytest.mark.parametrize("binary", (True, False))
def test_each_type(client, datatype, binary):
    values = values_of(datatype)
    item = http.InferInput("INPUT0", values.shape, datatype)
    if datatype == "FP16" and not binary:
        return  # tested below: JSON does not have it
    item.set_data_from_numpy(values, binary_data=binary)
    wanted = http.InferRequestedOutput("OUTPUT0", binary_data=binary)
    result = client.infer(f"identity_{datatype.lower()}", [item], outputs=[wanted], request_id="9")
    assert result.get_response()["id"] == "9"
    if datatype == "BYTES" and not binary:  # the client leaves JSON's texts as they are
        values = np.array([[text.decode() for text in row] for row in values], dtype=np.object_)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), values)


def test_half_precision_is_binary_only(server):
    body = {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP16", "data": [1]}]}
    status, _, answer = server.request("POST", "/v2/models/identity_fp16/infer", json.dumps(body))
    assert status == 400 and "binary data format" in json.loads(answer)["error"]


@pytest.mark.parametrize("algorithm", (None, "gzip", "deflate"))
def test_infer_with_compression(client, algorithm):
    result = client.infer(
        "simple", sums_request(), request_compression_algorithm=algorithm, response_compression_algorithm=algorithm
    )
    check_sums(result)


def test_infer_without_outputs_and_by_json(client):
    check_sums(client.infer("simple", sums_request(binary=False)))
    check_sums(client.infer("simple", sums_request(), model_version="1", priority=1, timeout=10_000_000))


def test_async_infer(client):
    calls = [client.async_infer("simple", sums_request()) for _ in range(20)]
    for call in calls:
        check_sums(call.get_result())


def test_empty_and_large_tensors(client):
    for shape in ((0, 3), (1, 1), (700, 1000)):
        values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
        item = http.InferInput("INPUT0", shape, "FP32")
        item.set_data_from_numpy(values)
        np.testing.assert_array_equal(client.infer("identity_fp32", [item]).as_numpy("OUTPUT0"), values)


def test_numbers_are_exact_in_json(client):
    random = np.random.default_rng(5)
    values = random.integers(0, 2**32, 1000, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)].reshape(1, -1)
    item = http.InferInput("INPUT0", values.shape, "FP32")
    item.set_data_from_numpy(values)
    result = client.infer("identity_fp32", [item], outputs=[http.InferRequestedOutput("OUTPUT0", binary_data=False)])
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0").view(np.uint32), values.view(np.uint32))


def test_classification(client):
    values = np.array([[0.1, 0.5, 0.2, 0.4], [9, 8, 7, 6]], dtype=np.float32)
    item = http.InferInput("INPUT0", values.shape, "FP32")
    item.set_data_from_numpy(values)
    result = client.infer("labelled", [item], outputs=[http.InferRequestedOutput("OUTPUT0", class_count=2)])
    assert result.as_numpy("OUTPUT0").tolist() == [
        [b"0.500000:1:dog", b"0.400000:3"],
        [b"9.000000:0:cat", b"8.000000:1:dog"],
    ]


def test_raw_binary_request(server):
    values = np.arange(4, dtype=np.float32)
    headers = {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"}
    status, headers, body = server.request("POST", "/v2/models/labelled/infer", values.tobytes(), headers)
    assert status == 200
    length = int(headers["Inference-Header-Content-Length"])
    assert json.loads(body[:length])["outputs"][0]["shape"] == [1, 4]
    np.testing.assert_array_equal(np.frombuffer(body[length:], dtype=np.float32), values)


def test_errors(client):
    with pytest.raises(InferenceServerException, match="nothing") as error:
        client.infer("nothing", sums_request())
    assert error.value.status() in ("404", "400")
    with pytest.raises(InferenceServerException, match="expected 2 inputs but got 1"):
        client.infer("simple", sums_request()[:1])
    item = http.InferInput("INPUT0", [1, 16], "FP32")
    item.set_data_from_numpy(np.zeros((1, 16), dtype=np.float32))
    with pytest.raises(InferenceServerException, match="data-type"):
        client.infer("simple", [item, sums_request()[1]])
    with pytest.raises(InferenceServerException, match="triton_"):
        client.infer("simple", sums_request(), parameters={"triton_own": 1})


def test_statistics(client):
    before = client.get_inference_statistics("simple")["model_stats"][0]
    client.infer("simple", sums_request())
    after = client.get_inference_statistics("simple", "1")["model_stats"][0]
    assert after["inference_count"] == before["inference_count"] + 1
    for name in (
        "success",
        "fail",
        "queue",
        "compute_input",
        "compute_infer",
        "compute_output",
        "cache_hit",
        "cache_miss",
    ):
        assert set(after["inference_stats"][name]) == {"count", "ns"}
    assert after["inference_stats"]["success"]["count"] == before["inference_stats"]["success"]["count"] + 1
    assert after["version"] == "1" and after["batch_stats"][0]["batch_size"] == 1
    names = {item["name"] for item in client.get_inference_statistics()["model_stats"]}
    assert {"simple", "labelled"} <= names


def test_repository(client):
    index = {item["name"]: item for item in client.get_model_repository_index()}
    assert index["simple"]["state"] == "READY" and index["simple"]["version"] == "1"
    client.unload_model("identity_int8")
    assert not client.is_model_ready("identity_int8")
    with pytest.raises(InferenceServerException):
        client.infer("identity_int8", [])
    client.load_model("identity_int8")
    assert client.is_model_ready("identity_int8")
    client.load_model("simple", config=json.dumps({"max_batch_size": 4}))
    assert client.get_model_config("simple")["max_batch_size"] == 4
    client.load_model("simple")
    assert client.get_model_config("simple")["max_batch_size"] == 8
    with pytest.raises(InferenceServerException):
        client.load_model("nothing")


def test_system_shared_memory(client):
    first, second = rows()
    size = first.nbytes
    region_in = shared_memory.create_shared_memory_region("in", "/camshaft_test_in", 2 * size)
    region_out = shared_memory.create_shared_memory_region("out", "/camshaft_test_out", 2 * size)
    try:
        shared_memory.set_shared_memory_region(region_in, [first, second])
        client.unregister_system_shared_memory()
        client.register_system_shared_memory("in", "/camshaft_test_in", 2 * size)
        client.register_system_shared_memory("out", "/camshaft_test_out", 2 * size)
        status = client.get_system_shared_memory_status()
        assert {item["name"] for item in status} == {"in", "out"}
        assert client.get_system_shared_memory_status("in") == [
            {"name": "in", "key": "/camshaft_test_in", "offset": 0, "byte_size": 2 * size}
        ]
        inputs = [http.InferInput(f"INPUT{i}", [1, 16], "INT32") for i in range(2)]
        outputs = [http.InferRequestedOutput(f"OUTPUT{i}") for i in range(2)]
        for i in range(2):
            inputs[i].set_shared_memory("in", size, offset=i * size)
            outputs[i].set_shared_memory("out", size, offset=i * size)
        result = client.infer("simple", inputs, outputs=outputs)
        assert result.get_output("OUTPUT0")["shape"] == [1, 16]
        np.testing.assert_array_equal(
            shared_memory.get_contents_as_numpy(region_out, np.int32, [1, 16]), first + second
        )
        with pytest.raises(InferenceServerException, match="already in manager"):
            client.register_system_shared_memory("in", "/camshaft_test_in", size)
        with pytest.raises(InferenceServerException, match="Unable to open"):
            client.register_system_shared_memory("other", "/camshaft_test_nothing", size)
        inputs[0].set_shared_memory("in", size, offset=2 * size - 4)
        with pytest.raises(InferenceServerException, match="Invalid offset"):
            client.infer("simple", inputs, outputs=outputs)
        client.unregister_system_shared_memory("in")
        client.unregister_system_shared_memory()
        assert client.get_system_shared_memory_status() == []
    finally:
        shared_memory.destroy_shared_memory_region(region_in)
        shared_memory.destroy_shared_memory_region(region_out)


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_cuda_shared_memory(client):
    assert client.get_cuda_shared_memory_status() == []
    client.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException, match="system shared memory"):
        client.register_cuda_shared_memory("gpu", b"x" * 64, 0, 64)


def test_trace_and_log_settings(client):
    settings = client.get_trace_settings()
    assert settings["trace_level"] == ["OFF"] and settings["trace_rate"] == "1000"
    changed = client.update_trace_settings("simple", {"trace_rate": "7", "trace_level": ["TIMESTAMPS"]})
    assert changed["trace_rate"] == "7" and client.get_trace_settings()["trace_rate"] == "1000"
    assert client.update_trace_settings("simple", {"trace_rate": None, "trace_level": None})["trace_level"] == ["OFF"]
    with pytest.raises(InferenceServerException):
        client.update_trace_settings(settings={"trace_rate": "x"})
    before = client.get_log_settings()
    assert client.update_log_settings({"log_verbose_level": 1, "log_format": "ISO8601"})["log_format"] == "ISO8601"
    assert (
        client.update_log_settings({"log_verbose_level": before["log_verbose_level"], "log_format": "default"})
        == before
    )
    with pytest.raises(InferenceServerException, match="log file location"):
        client.update_log_settings({"log_file": "/tmp/x"})


def test_asyncio_client(server):
    async def run():
        async with aio.InferenceServerClient(server.http) as client:
            assert (
                await client.is_server_live()
                and await client.is_server_ready()
                and await client.is_model_ready("simple")
            )
            assert (await client.get_model_metadata("simple"))["name"] == "simple"
            assert (await client.get_model_config("simple"))["name"] == "simple"
            assert len(await client.get_model_repository_index()) >= 14
            assert (await client.get_inference_statistics("simple"))["model_stats"]
            assert (await client.get_trace_settings())["trace_mode"] == "triton"
            assert "log_info" in await client.get_log_settings()
            for result in await asyncio.gather(*(client.infer("simple", sums_request(aio)) for _ in range(50))):
                check_sums(result)
            with pytest.raises(InferenceServerException):
                await client.infer("nothing", sums_request(aio))

    asyncio.run(run())
