"""Iterative sequences: models in Python that give requests back, to run them once more."""

import json
import queue
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc
from python_models import write_python
from serving import PATIENCE, serving
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.usefixtures("interpreter")

# As many responses as the request says, one a run, which say how many follow: the example of Triton's documentation.
COUNTDOWN = """
class TritonPythonModel:
    def initialize(self, args):
        self.left, self.runs = {}, 0

    def execute(self, requests):
        self.runs += 1
        for request in requests:
            wanted = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0, 0])
            start = int(pb_utils.get_input_tensor_by_name(request, "START").as_numpy()[0, 0])
            key = request.correlation_id()
            if start:
                assert key not in self.left
                self.left[key] = wanted
            self.left[key] -= 1
            outputs = [
                pb_utils.Tensor("OUT", np.array([[self.left[key]]], np.int32)),
                pb_utils.Tensor("BATCH", np.array([[len(requests)]], np.int32)),
            ]
            sender = request.get_response_sender()
            if self.left[key] <= 0:
                del self.left[key]
                sender.send(pb_utils.InferenceResponse(outputs), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            else:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                sender.send(pb_utils.InferenceResponse(outputs))
        return None
"""
# One response, when the request has run so often as it says.
STEPS = """
class TritonPythonModel:
    def initialize(self, args):
        self.runs = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            wanted = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0, 0])
            key = request.correlation_id()
            self.runs[key] = self.runs.get(key, 0) + 1
            if wanted < 0:
                request.set_release_flags(7)
            if self.runs[key] < wanted:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                responses.append(None)
            else:
                runs = np.array([[self.runs.pop(key)]], np.int32)
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", runs)]))
        return responses
"""


def config_of(name, scheduling, decoupled=False):
    outputs = '{ name: "OUT" data_type: TYPE_INT32 dims: [1] }'
    if decoupled:
        outputs += ', { name: "BATCH" data_type: TYPE_INT32 dims: [1] }'
    return (
        f'name: "{name}"\nbackend: "python"\nmax_batch_size: 4\n'
        f'input [{{ name: "IN" data_type: TYPE_INT32 dims: [1] }}]\noutput [{outputs}]\n'
        f"model_transaction_policy {{ decoupled: {str(decoupled).lower()} }}\n{scheduling}\n"
    )


START = 'control_input [{ name: "START" control [{ kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] }] }]'


@pytest.fixture(scope="module")
def server(tmp_path_factory, interpreter):
    folder = tmp_path_factory.mktemp("iterative")
    iterative = "sequence_batching { iterative_sequence: true %s }"
    write_python(folder, "countdown", COUNTDOWN, config_of("countdown", iterative % START, True))
    write_python(
        folder,
        "oldest",
        COUNTDOWN,
        config_of("oldest", iterative % (START + "oldest { max_candidate_sequences: 4 }"), True),
    )
    write_python(folder, "steps", STEPS, config_of("steps", iterative % ""))
    write_python(
        folder,
        "warm",
        STEPS,
        config_of("warm", iterative % "")
        + "model_warmup [{ name: 'w' inputs { key: 'IN' value { data_type: TYPE_INT32 dims: [1] random_data: true } } }]",
    )
    write_python(folder, "dynamic", STEPS, config_of("dynamic", "dynamic_batching {}"))
    write_python(folder, "plain", STEPS, config_of("plain", "sequence_batching { direct {} }"))
    with serving(folder) as running:
        yield running


def number(value):
    x = grpc.InferInput("IN", [1, 1], "INT32")
    x.set_data_from_numpy(np.array([[value]], np.int32))
    return [x]


def count_down(server, model, start, **options):
    """The numbers of all responses, and the largest batch that they were in."""
    answers, numbers, batch = queue.SimpleQueue(), [], 0
    with grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(model, number(start), **options)
        while not numbers or numbers[-1] > 0:
            result, error = answers.get(timeout=PATIENCE)
            assert error is None, error
            numbers.append(int(result.as_numpy("OUT")[0, 0]))
            batch = max(batch, int(result.as_numpy("BATCH")[0, 0]))
        client.stop_stream()
    return numbers, batch


@pytest.mark.parametrize("model", ["countdown", "oldest"])
def test_a_request_has_a_response_a_run(server, model):
    assert count_down(server, model, 5)[0] == [4, 3, 2, 1, 0]
    assert count_down(server, model, 1)[0] == [0]
    # A client's own sequence ends likewise: it may start again.
    for _ in range(2):
        assert count_down(server, model, 2, sequence_id=3, sequence_start=True)[0] == [1, 0]


def test_generate_stream(server):
    status, headers, body = server.request("POST", "/v2/models/countdown/generate_stream", json.dumps({"IN": 2}))
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]
    assert [event["OUT"] for event in events] == [1, 0]


def test_requests_on_their_way_share_batches(server):
    """Six requests of 60 runs each, in four slots: each run takes all that have one."""
    found = {}

    def ask(index):
        found[index] = count_down(server, "countdown", 60)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[index][0] for index in range(6)] == [list(range(59, -1, -1))] * 6
    assert max(batch for _, batch in found.values()) > 1
    with grpc.InferenceServerClient(server.grpc) as client:
        stats = client.get_inference_statistics("countdown").model_stats[0]
        assert stats.execution_count < stats.inference_count * 60


def test_one_response_after_several_runs(server):
    with grpc.InferenceServerClient(server.grpc) as client:
        before = client.get_inference_statistics("steps").model_stats[0]
        for runs in (1, 2, 30):
            assert client.infer("steps", number(runs)).as_numpy("OUT").tolist() == [[runs]]
        end = time.monotonic() + PATIENCE
        while True:  # a run is counted when it has ended, which is after its answer
            after = client.get_inference_statistics("steps").model_stats[0]
            if after.execution_count - before.execution_count == 33 or time.monotonic() > end:
                break
        assert after.execution_count - before.execution_count == 33
        assert after.inference_stats.success.count - before.inference_stats.success.count == 3


def test_what_is_given_back_elsewhere_fails(server):
    with grpc.InferenceServerClient(server.grpc) as client:
        with pytest.raises(InferenceServerException, match="is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE"):
            client.infer("dynamic", number(2))
        with pytest.raises(InferenceServerException, match="is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE"):
            client.infer("plain", number(2), sequence_id=1, sequence_start=True)
        with pytest.raises(InferenceServerException, match="Invalid release flags: 7"):
            client.infer("steps", number(-1))
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            client.infer("steps", number(2), sequence_id=1)
        assert client.infer("steps", number(2)).as_numpy("OUT").tolist() == [[2]]


def test_a_request_that_is_cancelled_gives_up_its_slot(server):
    """Four requests without an end have all slots: once they are cancelled others are answered."""
    with grpc.InferenceServerClient(server.grpc) as client:
        failed = queue.SimpleQueue()
        calls = [
            client.async_infer("steps", number(1 << 30), lambda result, error: failed.put(error)) for _ in range(4)
        ]

        def batches():
            stats = client.get_inference_statistics("steps").model_stats[0]
            return {entry.batch_size: entry.compute_infer.count for entry in stats.batch_stats}

        before, end = batches().get(4, 0), time.monotonic() + PATIENCE
        while batches().get(4, 0) == before:  # until they run together
            assert time.monotonic() < end
        ended = queue.SimpleQueue()
        client.async_infer("steps", number(2), lambda result, error: ended.put(result or error))
        with pytest.raises(queue.Empty):
            ended.get(timeout=0.5)
        for call in calls:
            call.cancel()
        for _ in calls:
            assert "CANCELLED" in str(failed.get(timeout=PATIENCE)).upper()
        assert ended.get(timeout=PATIENCE).as_numpy("OUT").tolist() == [[2]]
