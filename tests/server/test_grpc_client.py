"""tritonclient.grpc, synchronous and asynchronous, against the server: every call it has."""

import asyncio
import queue
import threading

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.utils.shared_memory as shared_memory
from grpc import StatusCode
from serving import TYPES, has_gpu
from tritonclient.utils import InferenceServerException


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.grpc) as made:
        yield made


def random_tensor(datatype, shape, seed=0):
    random = np.random.default_rng(seed)
    if datatype == "BYTES":
        return np.array([bytes(random.integers(0, 256, n, np.uint8)) for n in range(np.prod(shape))], object).reshape(
            shape
        )
    if datatype == "BOOL":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0, 100, shape).astype(TYPES[datatype][1])


def make_input(name, array, datatype):
    made = triton.InferInput(name, array.shape, datatype)
    made.set_data_from_numpy(array)
    return made


def identity(datatype, array):
    return f"identity_{datatype.lower()}", [make_input("INPUT0", array, datatype)]


def sums(rows=1, seed=0):
    a, b = (random_tensor("INT32", (rows, 16), seed + i) for i in range(2))
    return [make_input("INPUT0", a, "INT32"), make_input("INPUT1", b, "INT32")], a, b


def status_of(raised):
    return raised.value.status(), raised.value.message()


@pytest.mark.parametrize("datatype", TYPES)
@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (0, 5), (2, 0)])
def test_all_types(client, datatype, shape):
    array = random_tensor(datatype, shape)
    result = client.infer(*identity(datatype, array), request_id="an id")
    assert result.get_response().id == "an id"
    assert result.get_response().model_version == "1"
    got = result.as_numpy("OUTPUT0")
    assert got.shape == shape
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("rows", [7, 200000])
def test_large_tensors(client, rows):
    array = np.random.default_rng(rows).standard_normal((rows, 33)).astype(np.float32)
    np.testing.assert_array_equal(client.infer(*identity("FP32", array)).as_numpy("OUTPUT0"), array)


def test_server_and_models(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("simple")
    assert client.is_model_ready("simple", "1")
    assert not client.is_model_ready("simple", "2")
    assert not client.is_model_ready("none")
    metadata = client.get_server_metadata(as_json=True)
    assert "binary_tensor_data" in metadata["extensions"]
    model = client.get_model_metadata("simple", as_json=True)
    assert model["versions"] == ["1"]
    assert model["inputs"][0] == {"name": "INPUT0", "datatype": "INT32", "shape": ["-1", "16"]}
    config = client.get_model_config("simple", as_json=True)["config"]
    assert config["max_batch_size"] == 8
    assert config["input"][0]["dims"] == ["16"]
    with pytest.raises(InferenceServerException) as raised:
        client.get_model_metadata("none")
    assert status_of(raised)[0] == "StatusCode.NOT_FOUND"


def test_requested_outputs(client):
    inputs, a, b = sums()
    result = client.infer("simple", inputs, outputs=[triton.InferRequestedOutput("OUTPUT1")])
    assert result.as_numpy("OUTPUT0") is None
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)


def test_classification(client):
    array = np.array([[0.1, 0.9, 0.5, 0.2]], np.float32)
    outputs = [triton.InferRequestedOutput("OUTPUT0", class_count=2)]
    result = client.infer("labelled", [make_input("INPUT0", array, "FP32")], outputs=outputs)
    assert [text.decode().split(":", 1)[1] for text in result.as_numpy("OUTPUT0").reshape(-1)] == ["1:dog", "2:bird"]


def test_errors(client):
    inputs, _, _ = sums()
    for model, given, code, text in [
        ("none", inputs, "NOT_FOUND", "none"),
        ("simple", inputs[:1], "INVALID_ARGUMENT", "INPUT1"),
        ("simple", [inputs[0], make_input("OTHER", np.zeros((1, 16), np.int32), "INT32")], "INVALID_ARGUMENT", "OTHER"),
        (
            "simple",
            [inputs[0], make_input("INPUT1", np.zeros((1, 16), np.float32), "FP32")],
            "INVALID_ARGUMENT",
            "FP32",
        ),
        (
            "simple",
            [inputs[0], make_input("INPUT1", np.zeros((1, 15), np.int32), "INT32")],
            "INVALID_ARGUMENT",
            "INPUT1",
        ),
        ("simple", sums(9)[0], "INVALID_ARGUMENT", "8"),
    ]:
        with pytest.raises(InferenceServerException) as raised:
            client.infer(model, given)
        status, message = status_of(raised)
        assert status == f"StatusCode.{code}"
        assert text in message
    with pytest.raises(InferenceServerException) as raised:
        client.infer("simple", inputs, outputs=[triton.InferRequestedOutput("NONE")])
    assert "NONE" in status_of(raised)[1]


def test_statistics(client):
    inputs, _, _ = sums(3)
    before = client.get_inference_statistics("simple").model_stats[0]
    for _ in range(5):
        client.infer("simple", inputs)
    after = client.get_inference_statistics("simple").model_stats[0]
    assert after.inference_count - before.inference_count == 15
    assert after.inference_stats.success.count - before.inference_stats.success.count == 5
    assert after.inference_stats.success.ns > before.inference_stats.success.ns
    assert 3 in [batch.batch_size for batch in after.batch_stats]
    assert len(client.get_inference_statistics().model_stats) > 5


def test_repository(client):
    index = {model.name: model.state for model in client.get_model_repository_index().models}
    assert index["simple"] == "READY"
    client.unload_model("labelled")
    assert not client.is_model_ready("labelled")
    client.load_model("labelled")
    assert client.is_model_ready("labelled")
    with pytest.raises(InferenceServerException) as raised:
        client.load_model("none")
    assert "none" in status_of(raised)[1]


def test_settings(client):
    log = client.get_log_settings(as_json=True)["settings"]
    assert log["log_info"] == {"bool_param": True}
    client.update_log_settings({"log_verbose_level": 1})
    assert client.get_log_settings(as_json=True)["settings"]["log_verbose_level"] == {"uint32_param": 1}
    client.update_log_settings({"log_verbose_level": 0})
    with pytest.raises(InferenceServerException):
        client.update_log_settings({"log_colour": True})
    trace = client.get_trace_settings(as_json=True)["settings"]
    assert trace["trace_rate"] == {"value": ["1000"]}
    client.update_trace_settings(settings={"trace_rate": "7"})
    assert client.get_trace_settings(as_json=True)["settings"]["trace_rate"] == {"value": ["7"]}
    client.update_trace_settings(settings={"trace_rate": "1000"})


def test_shared_memory(client):
    array = random_tensor("FP32", (4, 8))
    region = shared_memory.create_shared_memory_region("both", "/camshaft_test_grpc", 2 * array.nbytes)
    try:
        shared_memory.set_shared_memory_region(region, [array])
        client.register_system_shared_memory("both", "/camshaft_test_grpc", 2 * array.nbytes)
        assert client.get_system_shared_memory_status().regions["both"].byte_size == 2 * array.nbytes
        given = triton.InferInput("INPUT0", array.shape, "FP32")
        given.set_shared_memory("both", array.nbytes)
        wanted = triton.InferRequestedOutput("OUTPUT0")
        wanted.set_shared_memory("both", array.nbytes, offset=array.nbytes)
        response = client.infer("identity_fp32", [given], outputs=[wanted]).get_response()
        assert list(response.raw_output_contents) == [b""]
        assert list(response.outputs[0].shape) == [4, 8]
        got = shared_memory.get_contents_as_numpy(region, np.float32, (4, 8), offset=array.nbytes)
        np.testing.assert_array_equal(got, array)
        wanted.set_shared_memory("both", array.nbytes, offset=array.nbytes + 1)
        with pytest.raises(InferenceServerException):
            client.infer("identity_fp32", [given], outputs=[wanted])
    finally:
        client.unregister_system_shared_memory()
        shared_memory.destroy_shared_memory_region(region)
    assert not client.get_system_shared_memory_status().regions
    with pytest.raises(InferenceServerException):
        client.infer("identity_fp32", [given])


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_cuda_shared_memory_is_refused(client):
    assert not client.get_cuda_shared_memory_status().regions
    client.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException) as raised:
        client.register_cuda_shared_memory("r", b"x" * 64, 0, 16)
    assert status_of(raised)[0] == "StatusCode.UNIMPLEMENTED"


def test_compressed_messages(client):
    array = random_tensor("INT64", (500, 3))
    for algorithm in ("gzip", "deflate"):
        result = client.infer(*identity("INT64", array), compression_algorithm=algorithm)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)


def test_stream_keeps_the_order(client):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    arrays = [random_tensor("FP32", (1 + i % 5, 3), i) for i in range(200)]
    for i, array in enumerate(arrays):
        client.async_stream_infer(*identity("FP32", array), request_id=str(i))
    for i, array in enumerate(arrays):
        result, error = answers.get(timeout=60)
        assert error is None
        assert result.get_response().id == str(i)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)
    # An error has its place among the others, and the stream goes on.
    client.async_stream_infer("none", identity("FP32", arrays[0])[1])
    client.async_stream_infer(*identity("FP32", arrays[0]))
    assert "none" in answers.get(timeout=60)[1].message()
    assert answers.get(timeout=60)[1] is None
    client.stop_stream()


def test_stream_that_ends_with_the_first_error(server):
    with triton.InferenceServerClient(server.grpc) as client:
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put(error), headers={"triton_grpc_error": "true"})
        client.async_stream_infer("none", identity("FP32", np.zeros((1, 1), np.float32))[1])
        assert answers.get(timeout=60).status() == "StatusCode.NOT_FOUND"


def test_many_threads(server):
    failed = []

    def work(seed):
        with triton.InferenceServerClient(server.grpc) as client:
            for i in range(50):
                inputs, a, b = sums(1 + i % 4, 100 * seed + i)
                result = client.infer("simple", inputs)
                if not np.array_equal(result.as_numpy("OUTPUT0"), a + b):
                    failed.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_asynchronous_client(server):
    async def work():
        async with triton_aio.InferenceServerClient(server.grpc) as client:
            assert await client.is_server_ready()
            arrays = [random_tensor("INT32", (2, 16), i) for i in range(40)]
            results = await asyncio.gather(*(client.infer(*identity("INT32", array)) for array in arrays))
            for result, array in zip(results, arrays):
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)

            async def requests():
                for i, array in enumerate(arrays):
                    model, inputs = identity("INT32", array)
                    yield {"model_name": model, "inputs": inputs, "request_id": str(i)}

            seen = 0
            async for result, error in client.stream_infer(requests()):
                assert error is None
                assert result.get_response().id == str(seen)
                seen += 1
            assert seen == len(arrays)

    asyncio.run(work())


def test_requests_of_callbacks(client):
    answers = queue.Queue()
    array = random_tensor("FP64", (3, 3))
    for _ in range(10):
        client.async_infer(*identity("FP64", array), callback=lambda result, error: answers.put((result, error)))
    for _ in range(10):
        result, error = answers.get(timeout=60)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)


def test_status_codes_are_grpc(client):
    stub = client._client_stub
    from tritonclient.grpc import service_pb2

    with pytest.raises(Exception) as raised:
        stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(repository_name="other"))
    assert raised.value.code() == StatusCode.UNIMPLEMENTED


def test_health_service(server):
    import grpc

    with grpc.insecure_channel(server.grpc) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"
        assert check(b"\x0a\x1einference.GRPCInferenceService") == b"\x08\x01"
        with pytest.raises(grpc.RpcError) as raised:
            check(b"\x0a\x04none")
        assert raised.value.code() == StatusCode.NOT_FOUND
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")(b"")
        assert raised.value.code() == StatusCode.UNIMPLEMENTED
