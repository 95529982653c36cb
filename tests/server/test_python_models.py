"""Models written in Python, each instance in a process of its own."""

import os
import queue
import signal
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from python_models import write_all
from serving import serving
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.usefixtures("interpreter")
LOADED = ("sums", "echo", "texts", "halves", "repeat", "caller")


@pytest.fixture(scope="module")
def python_repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python_models")
    write_all(folder)
    return folder


@pytest.fixture(scope="module")
def python_server(python_repository, interpreter):
    flags = [f"--load-model={name}" for name in LOADED]
    with serving(
        python_repository, "--model-control-mode=explicit", "--backend-config=python,stub-timeout-seconds=2", *flags
    ) as running:
        yield running


@pytest.fixture
def client(python_server):
    with triton.InferenceServerClient(python_server.grpc) as made:
        yield made


def make_input(name, array, datatype):
    made = triton.InferInput(name, array.shape, datatype)
    made.set_data_from_numpy(array)
    return made


def echo(client, array, do="", model="echo", datatype="FP32", **options):
    parameters = {"do": do} if do else None
    return client.infer(model, [make_input("INPUT0", array, datatype)], parameters=parameters, **options)


def failure(run):
    with pytest.raises(InferenceServerException) as raised:
        run()
    return raised.value.status(), raised.value.message()


ONE = np.ones((1, 1), np.float32)


def test_batches_of_several_clients(python_server, client):
    failed = []

    def work(seed):
        random = np.random.default_rng(seed)
        with triton.InferenceServerClient(python_server.grpc) as own:
            for _ in range(30):
                a, b = random.standard_normal((2, 2, 5)).astype(np.float32)
                result = own.infer("sums", [make_input("INPUT0", a, "FP32"), make_input("INPUT1", b, "FP32")])
                same = np.array_equal(result.as_numpy("OUTPUT0"), a + b)
                if not same or not np.array_equal(result.as_numpy("OUTPUT1"), a - b):
                    failed.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert client.get_inference_statistics("sums").model_stats[0].inference_stats.success.count >= 180


def test_types_and_sizes(client):
    random = np.random.default_rng(3)
    for rows in (0, 1, 1000, 500000):
        array = random.standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(echo(client, array).as_numpy("OUTPUT0"), array)
    halves = random.standard_normal((5, 3)).astype(np.float16)
    np.testing.assert_array_equal(echo(client, halves, "", "halves", "FP16").as_numpy("OUTPUT0"), halves)
    texts = np.array([[b"", b"\xff\0", "ä".encode()]], object)
    assert echo(client, texts, "", "texts", "BYTES").as_numpy("OUTPUT0").tolist() == texts.tolist()


def test_over_http(python_server):
    with triton_http.InferenceServerClient(python_server.http) as client:
        given = triton_http.InferInput("INPUT0", [2, 3], "FP32")
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        given.set_data_from_numpy(array)
        np.testing.assert_array_equal(client.infer("echo", [given]).as_numpy("OUTPUT0"), array)


def test_completed_configuration(client):
    config = client.get_model_config("echo", as_json=True)["config"]
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert config["input"][0]["dims"] == ["-1", "-1"]
    assert config["backend"] == "python"


def test_what_goes_wrong_in_a_model(client):
    status, message = failure(lambda: echo(client, ONE, "raise"))
    assert status == "StatusCode.INTERNAL"
    assert "Failed to process the request(s) for model 'echo'" in message
    assert "ValueError: this is wrong with it" in message
    assert "model.py" in message
    assert failure(lambda: echo(client, ONE, "error")) == ("StatusCode.NOT_FOUND", "not that")
    assert "complex64" in failure(lambda: echo(client, ONE, "type"))[1]
    np.testing.assert_array_equal(echo(client, ONE).as_numpy("OUTPUT0"), ONE)


def test_parameters(client):
    response = echo(client, ONE, "parameters", request_id="an id", sequence_id=7).get_response()
    assert response.parameters["id"].string_param == "an id"
    assert response.parameters["sequence"].int64_param == 7
    assert response.parameters["number"].int64_param == 5


def test_tensors_that_a_model_keeps(client):
    """They stay as they are though other requests come and go."""
    kept = [np.full((64, 64), i, np.float32) for i in range(5)]
    for array in kept:
        echo(client, array, "keep")
        for _ in range(10):
            echo(client, -array)
    for array in kept:
        np.testing.assert_array_equal(echo(client, ONE, "kept").as_numpy("OUTPUT0"), array)


def test_memory_comes_back(python_server, client):
    big = np.zeros((1 << 20, 4), np.float32)
    for _ in range(3):
        echo(client, big)
    before = python_server.memory()
    after = []
    for _ in range(40):
        echo(client, big)
        after.append(python_server.memory())
    # Between requests it goes up and down by 40 MiB, as the answer's last pieces leave; messages that stayed would be
    # 640 MiB by the end.
    assert min(after[-10:]) < before + (64 << 20)


def test_killed_process(python_server, client):
    """Its requests fail and say why, it is started again, and other models notice nothing."""
    process = int(echo(client, ONE, "pid").as_numpy("OUTPUT0")[0, 0])
    answers = queue.Queue()
    client.async_infer(
        "echo",
        [make_input("INPUT0", ONE, "FP32")],
        parameters={"do": "hang"},
        callback=lambda result, error: answers.put(error),
    )
    time.sleep(0.5)
    assert answers.empty()
    os.kill(process, signal.SIGKILL)
    error = answers.get(timeout=60)
    assert error.status() == "StatusCode.UNAVAILABLE"
    assert "killed by signal 9" in error.message()
    assert "'echo'" in error.message()
    np.testing.assert_array_equal(echo(client, ONE).as_numpy("OUTPUT0"), ONE)
    assert int(echo(client, ONE, "pid").as_numpy("OUTPUT0")[0, 0]) != process
    assert "exited with status 7" in failure(lambda: echo(client, ONE, "exit"))[1]
    np.testing.assert_array_equal(echo(client, ONE).as_numpy("OUTPUT0"), ONE)


def process_of(client):
    """A request may still be given to a process that was just killed."""
    for _ in range(100):
        try:
            return int(echo(client, ONE, "pid").as_numpy("OUTPUT0")[0, 0])
        except InferenceServerException as error:
            assert "killed by signal 9" in error.message()
    raise AssertionError("it is not started again")


def test_killed_while_others_work(python_server, client):
    stop, failed, done = threading.Event(), [], [0]

    def work():
        with triton.InferenceServerClient(python_server.grpc) as own:
            while not stop.is_set():
                try:
                    own.infer("sums", [make_input(name, ONE, "FP32") for name in ("INPUT0", "INPUT1")])
                    done[0] += 1
                except InferenceServerException as error:
                    failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(5):
        os.kill(process_of(client), signal.SIGKILL)
    stop.set()
    thread.join()
    assert not failed
    assert done[0] > 0


def stream(client, model, inputs, count, **options):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer(model, inputs, **options)
    got = [answers.get(timeout=60) for _ in range(count)]
    client.stop_stream()
    assert answers.empty()
    return got


def test_decoupled_model(client):
    given = [make_input("IN", np.array([5], np.int32), "INT32")]
    answers = stream(client, "repeat", given, 5, request_id="r")
    assert [int(result.as_numpy("OUT")[0]) for result, _ in answers] == [0, 1, 2, 3, 4]
    answers = stream(client, "repeat", given, 6, enable_empty_final_response=True)
    finals = [result.get_response().parameters["triton_final_response"].bool_param for result, _ in answers]
    assert finals == [False] * 5 + [True]
    assert len(answers[-1][0].get_response().outputs) == 0
    none = [make_input("IN", np.array([0], np.int32), "INT32")]
    assert len(stream(client, "repeat", none, 1, enable_empty_final_response=True)) == 1
    never = [make_input("IN", np.array([-1], np.int32), "INT32")]
    [(_, error)] = stream(client, "repeat", never, 1)
    assert "without its final response" in error.message()
    assert failure(lambda: client.infer("repeat", given))[0] == "StatusCode.UNIMPLEMENTED"


def test_a_model_that_calls_others(client):
    array = np.arange(6, dtype=np.float32).reshape(1, 6)
    result = client.infer("caller", [make_input("INPUT0", array, "FP32")])
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), 6 * array)
    assert result.as_numpy("COUNT")[0, 0] == 4


def test_cancelled_request(python_server, client):
    process_of(client)
    future = client.async_infer(
        "echo", [make_input("INPUT0", ONE, "FP32")], parameters={"do": "wait"}, callback=lambda result, error: None
    )
    time.sleep(0.3)
    future.cancel()
    echo(client, ONE)  # which the instance only takes when it has noticed
    assert "it was cancelled" in python_server.log()


def test_request_with_a_deadline(client):
    # It is given up when its time is over, by the server too: the instance takes the next one.
    status, _ = failure(
        lambda: client.infer("echo", [make_input("INPUT0", ONE, "FP32")], parameters={"do": "wait"}, client_timeout=0.2)
    )
    assert status == "StatusCode.DEADLINE_EXCEEDED"
    echo(client, ONE)


def test_model_that_does_not_start(client):
    status, message = failure(lambda: client.load_model("fails"))
    assert status == "StatusCode.INVALID_ARGUMENT"
    assert "RuntimeError: there are no weights" in message
    assert "model.py" in message


def test_hanging_model_is_unloaded(python_server, client):
    answers = queue.Queue()
    client.async_infer(
        "texts",
        [make_input("INPUT0", np.array([[b"x"]], object), "BYTES")],
        parameters={"do": "hang"},
        callback=lambda result, error: answers.put(error),
    )
    time.sleep(0.3)
    start = time.monotonic()
    client.unload_model("texts")
    error = answers.get(timeout=60)
    assert 1 < time.monotonic() - start < 30
    assert "did not end within 2 s" in error.message()
    client.load_model("texts")
    texts = np.array([[b"y"]], object)
    assert echo(client, texts, "", "texts", "BYTES").as_numpy("OUTPUT0").tolist() == texts.tolist()


def test_no_process_is_left(python_repository, interpreter):
    flags = [f"--load-model={name}" for name in ("echo", "sums")]
    with serving(python_repository, "--model-control-mode=explicit", *flags) as running:
        with triton.InferenceServerClient(running.grpc) as client:
            process = int(echo(client, ONE, "pid").as_numpy("OUTPUT0")[0, 0])
        os.kill(process, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
