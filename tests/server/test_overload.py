"""More than the server has room for, over both protocols: what it takes it answers, the rest it refuses at once."""

import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from endurance import WIDTH, write_scale
from python_models import write_python
from serving import PATIENCE, serving
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.usefixtures("interpreter")

WAITS = """
class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.3)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones((1,), np.float32))]) for _ in requests]
"""
WAITS_CONFIG = """
name: "waits"
backend: "python"
instance_group [{ count: 4 kind: KIND_CPU }]
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]
"""
PROTOCOLS = {
    "http": (http, lambda server: http.InferenceServerClient(server.http, network_timeout=PATIENCE)),
    "grpc": (grpc, lambda server: grpc.InferenceServerClient(server.grpc)),
}
REFUSED = {"http": "503", "grpc": "StatusCode.RESOURCE_EXHAUSTED"}


@pytest.fixture(params=PROTOCOLS)
def protocol(request):
    return request.param


def make_input(protocol, name, values):
    x = PROTOCOLS[protocol][0].InferInput(name, values.shape, "FP32")
    x.set_data_from_numpy(values)
    return [x]


def ask_at_once(server, protocol, clients, requests, ask):
    """What `ask` was answered, and the errors of what was refused, by clients of their own."""
    answers, errors, lock = [], [], threading.Lock()

    def run():
        with PROTOCOLS[protocol][1](server) as client:
            for _ in range(requests):
                try:
                    answer, error = ask(client), None
                except InferenceServerException as caught:
                    answer, error = None, caught
                with lock:
                    answers.append(answer) if error is None else errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) + len(errors) == clients * requests  # nothing is lost
    return answers, errors


def test_requests_beyond_the_memory_for_them(tmp_path, protocol):
    """Thirty requests of a mebibyte at once, where eight mebibytes may be held; with none there all is as before."""
    write_python(tmp_path, "waits", WAITS, WAITS_CONFIG)
    values = np.ones((1 << 18) - 1000, np.float32)
    with serving(tmp_path, "--request-memory-limit=8388608") as server:

        def ask(client):
            return client.infer("waits", make_input(protocol, "IN", values)).as_numpy("OUT")[0]

        before = server.memory()
        answers, errors = ask_at_once(server, protocol, 30, 2, ask)
        assert set(answers) == {1} and len(answers) >= 8 and errors
        for error in errors:
            assert error.status() == REFUSED[protocol] and "--request-memory-limit" in error.message()
        assert server.memory() - before < 200 << 20
        with PROTOCOLS[protocol][1](server) as client:
            assert [ask(client) for _ in range(3)] == [1, 1, 1]
        with pytest.raises(InferenceServerException) as raised, PROTOCOLS[protocol][1](server) as client:
            client.infer("waits", make_input(protocol, "IN", np.ones(1 << 22, np.float32)))
        assert raised.value.status() == REFUSED[protocol]


def test_a_refused_body_says_when_to_come_again(tmp_path):
    write_python(tmp_path, "waits", WAITS, WAITS_CONFIG)
    with serving(tmp_path, "--request-memory-limit=65536") as server:
        status, headers, body = server.request("POST", "/v2/models/waits/infer", b" " * 70000)
        assert status == 503 and int(headers["Retry-After"]) > 0 and b"takes no more now" in body


def test_a_stream_goes_on_after_what_was_refused(tmp_path):
    write_python(tmp_path, "waits", WAITS, WAITS_CONFIG)
    answers, came = [], threading.Semaphore(0)

    def take(result, error):
        answers.append(error)
        came.release()

    with (
        serving(tmp_path, "--request-memory-limit=1048576") as server,
        grpc.InferenceServerClient(server.grpc) as client,
    ):
        client.start_stream(take)
        for size in (1, 1 << 20, 1):
            client.async_stream_infer("waits", make_input("grpc", "IN", np.ones(size, np.float32)))
        for _ in range(3):
            assert came.acquire(timeout=PATIENCE)
        client.stop_stream()
        assert [error is None for error in answers] == [True, False, True]
        assert "takes no more now" in answers[1].message()


def test_overloaded_models_refuse_early_and_answer_in_time(tmp_path, protocol):
    """Eight times as many as a model can take, in threads of this process: each is answered or refused."""
    write_scale(tmp_path, "slow", 2, layers=80, inner=(64,))
    config = "max_batch_size: 8\ndynamic_batching {}\nparameters "
    (tmp_path / "slow/config.pbtxt").write_text(config + '{ key: "latency_target_ms" value { string_value: "100" } }\n')
    values = np.full((1, 64, WIDTH), 3, np.float32)
    with serving(tmp_path, "--device=cpu") as server:  # a GPU would take them all

        def ask(client):
            return client.infer("slow", make_input(protocol, "x", values)).as_numpy("y")

        answers, errors = ask_at_once(server, protocol, 96, 10, ask)
        assert answers and errors
        for answer in answers:
            np.testing.assert_array_equal(answer, 2 * values)
        for error in errors:
            assert error.status() == REFUSED[protocol] and "latency_target_ms is 100; try again later" in str(error)
        text = server.request("GET", "/metrics", port="metrics")[2].decode()
        assert f'reason="REJECTED"}} {len(errors)}' in text
        with PROTOCOLS[protocol][1](server) as client:
            np.testing.assert_array_equal(ask(client), 2 * values)  # it takes requests again


def test_a_full_queue_refuses_over_grpc(tmp_path):
    """As Triton has it, by another status than what is too much for the server."""
    queues = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }\n"
    write_python(
        tmp_path, "waits", WAITS, WAITS_CONFIG.replace("count: 4", "count: 1") + "max_batch_size: 1\n" + queues
    )
    with serving(tmp_path) as server:

        def ask(client):
            return client.infer("waits", make_input("grpc", "IN", np.ones((1, 4), np.float32)))

        answers, errors = ask_at_once(server, "grpc", 8, 1, ask)
        assert answers and errors
        for error in errors:
            assert error.status() == "StatusCode.UNAVAILABLE" and "Exceeds maximum queue size" in str(error)


def test_cancelled_requests_give_their_memory_back(tmp_path):
    write_python(tmp_path, "waits", WAITS, WAITS_CONFIG)
    values = np.ones((1 << 18) - 1000, np.float32)
    with serving(tmp_path, "--request-memory-limit=4194304") as server:
        for _ in range(5):
            with grpc.InferenceServerClient(server.grpc) as client:
                calls = [
                    client.async_infer("waits", make_input("grpc", "IN", values), lambda result, error: None)
                    for _ in range(8)
                ]
                time.sleep(0.05)
                for call in calls:
                    call.cancel()
        end = time.monotonic() + PATIENCE
        with grpc.InferenceServerClient(server.grpc) as client:
            while True:
                try:
                    assert client.infer("waits", make_input("grpc", "IN", values)).as_numpy("OUT")[0] == 1
                    break
                except InferenceServerException as error:
                    assert time.monotonic() < end and "takes no more now" in str(error), error
                    time.sleep(0.1)
