"""What Triton's own tests look at, from its documentation: batchers, priorities, timeouts, controls, caches, limits."""

import queue
import re
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
import tritonclient.utils.shared_memory as shm
from python_models import write_python
from serving import PATIENCE, has_gpu, serving, write_identity, write_model
from tritonclient.utils import InferenceServerException

from onnx import helper

pytestmark = pytest.mark.usefixtures("interpreter")

# Waits while there is a file "hold" in its folder, and tells of each call which numbers came in it.
HELD = """
class TritonPythonModel:
    def initialize(self, args):
        self.folder = args["model_repository"]

    def execute(self, requests):
        numbers = [int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().reshape(-1)[0]) for request in requests]
        with open(os.path.join(self.folder, "calls"), "a") as calls:
            calls.write(json.dumps(numbers) + "\\n")
        with open(os.path.join(self.folder, "..", "order"), "a") as order:
            order.write(os.path.basename(self.folder) + "\\n")
        while os.path.exists(os.path.join(self.folder, "hold")):
            time.sleep(0.002)
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
            )
            for request in requests
        ]
"""
HELD_CONFIG = """
backend: "python"
max_batch_size: 8
input [{ name: "IN" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [-1] }]
"""


class Held:
    """A model that is held: its first request runs, others wait until it is let go."""

    def __init__(self, folder, name, scheduling):
        write_python(folder, name, HELD, HELD_CONFIG + scheduling)
        self.name, self.folder = name, folder / name
        self.answers = queue.SimpleQueue()
        self.waits = 0

    def start(self, server):
        self.client = grpc.InferenceServerClient(server.grpc)
        self.server = server
        (self.folder / "hold").touch()
        self.ask(0)
        while not (self.folder / "calls").exists():
            time.sleep(0.002)
        return self

    def ask(self, number, batch=1, **options):
        """A request that has come to the queue, behind those before it, when this returns."""
        x = grpc.InferInput("IN", [batch, 1], "INT32")
        x.set_data_from_numpy(np.full((batch, 1), number, np.int32))

        def answered(result, error, number=number):
            self.answers.put((number, error))

        self.client.async_infer(self.name, [x], callback=answered, **options)
        if number > 0:
            self.waits += 1
            end = time.monotonic() + PATIENCE
            while self.pending() < self.waits and self.answers.empty():
                assert time.monotonic() < end, self.server.log()
                time.sleep(0.002)

    def pending(self):
        text = self.server.request("GET", "/metrics", port="metrics")[2].decode()
        return float(re.search(rf'nv_inference_pending_request_count{{model="{self.name}",.*}} (\S+)', text)[1])

    def finish(self, count):
        """{number: error} of all that were asked, and the calls behind the first one."""
        (self.folder / "hold").unlink()
        results = dict(self.answers.get(timeout=PATIENCE) for _ in range(count))
        self.client.close()
        lines = (self.folder / "calls").read_text().splitlines()
        return results, [[int(number) for number in re.findall(r"\d+", line)] for line in lines[1:]]


def held(folder, name, scheduling):
    """A server of one such model."""
    return Held(folder, name, scheduling)


def test_a_batch_is_as_large_as_what_waits(tmp_path):
    """Without preferred sizes and a delay: all that wait, up to max_batch_size."""
    model = held(tmp_path, "m", "dynamic_batching {}")
    with serving(tmp_path) as server:
        model.start(server)
        for number in range(1, 11):
            model.ask(number)
        results, calls = model.finish(11)
        assert not any(results.values())
        assert calls == [list(range(1, 9)), [9, 10]]


def test_the_largest_preferred_size_that_waits(tmp_path):
    model = held(tmp_path, "m", "dynamic_batching { preferred_batch_size: [2, 4] }")
    with serving(tmp_path) as server:
        model.start(server)
        for number in range(1, 8):
            model.ask(number)
        assert model.finish(8)[1] == [[1, 2, 3, 4], [5, 6], [7]]


def test_requests_of_several_elements_make_up_a_preferred_size(tmp_path):
    model = held(tmp_path, "m", "dynamic_batching { preferred_batch_size: [6] }")
    with serving(tmp_path) as server:
        model.start(server)
        for number, batch in ((1, 2), (2, 4), (3, 5), (4, 4)):
            model.ask(number, batch)
        assert model.finish(5)[1] == [[1, 2], [3], [4]]


def test_levels_of_priority(tmp_path):
    """The highest first, in each level in the order in which they came; what has no priority is of the default level."""
    scheduling = "dynamic_batching { priority_levels: 3 default_priority_level: 2 }\n"
    model = held(tmp_path, "m", scheduling.replace("{ prio", "{ preferred_batch_size: [1] prio"))
    with serving(tmp_path) as server:
        model.start(server)
        for number, priority in ((1, 3), (2, 0), (3, 1), (4, 2), (5, 3), (6, 1)):
            model.ask(number, priority=priority)
        with pytest.raises(InferenceServerException, match="priority"):
            x = grpc.InferInput("IN", [1, 1], "INT32")
            x.set_data_from_numpy(np.zeros((1, 1), np.int32))
            model.client.infer("m", [x], priority=4)
        assert model.finish(7)[1] == [[3], [6], [2], [4], [1], [5]]


def test_each_level_has_its_own_queue(tmp_path):
    """A level with room for one refuses the second; another has its own time limit, and DELAY keeps what is late."""
    scheduling = """dynamic_batching {
      preferred_batch_size: [1]
      priority_levels: 3 default_priority_level: 3
      default_queue_policy { max_queue_size: 8 }
      priority_queue_policy { key: 1 value { max_queue_size: 1 } }
      priority_queue_policy { key: 2 value { timeout_action: DELAY default_timeout_microseconds: 1000 } }
    }"""
    model = held(tmp_path, "m", scheduling)
    with serving(tmp_path) as server:
        model.start(server)
        model.ask(1, priority=1)
        model.ask(2, priority=1)  # there is no room for it
        assert "Exceeds maximum queue size" in str(model.answers.get(timeout=PATIENCE)[1])
        model.waits -= 1
        model.ask(3, priority=2)
        time.sleep(0.1)  # it is late now
        model.ask(4, priority=3)
        results, calls = model.finish(4)
        assert not any(results.values())
        assert calls == [[1], [4], [3]]


def test_time_limits_of_requests(tmp_path):
    """A request may ask for a shorter time where the model lets it, and for no longer one."""
    scheduling = "dynamic_batching { default_queue_policy { %s default_timeout_microseconds: 60000000 } }"
    allowed = held(tmp_path, "allowed", scheduling % "allow_timeout_override: true")
    fixed = held(tmp_path, "fixed", scheduling % "")
    with serving(tmp_path) as server:
        for model, refused in ((allowed, True), (fixed, False)):
            model.start(server)
            model.ask(1, timeout=1000)
            if refused:
                number, error = model.answers.get(timeout=PATIENCE)
                assert number == 1 and "Request timeout expired" in str(error)
                assert error.status() == "StatusCode.UNAVAILABLE"
            else:
                time.sleep(0.1)
                assert model.pending() == 1
            model.finish(1 if refused else 2)


CONTROLS = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            seen = [str(tensor.as_numpy().reshape(-1)[0]) + ":" + tensor.triton_dtype()
                    for tensor in request.inputs() if tensor.name() != "IN"]
            text = np.array([[" ".join(seen).encode()]], np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SEEN", text)]))
        return responses
"""
CONTROLS_CONFIG = """
backend: "python"
max_batch_size: 2
input [{ name: "IN" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "SEEN" data_type: TYPE_STRING dims: [1] }]
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input [
    { name: "START" control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }] },
    { name: "END" control [{ kind: CONTROL_SEQUENCE_END int32_false_true: [-5, 7] }] },
    { name: "READY" control [{ kind: CONTROL_SEQUENCE_READY bool_false_true: [false, true] }] },
    { name: "CORRID" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: %s }] }
  ]
}
"""


def test_control_tensors(tmp_path):
    for name, datatype in (("numbers", "TYPE_INT64"), ("texts", "TYPE_STRING"), ("small", "TYPE_INT32")):
        write_python(tmp_path, name, CONTROLS, CONTROLS_CONFIG % datatype)
    with serving(tmp_path) as server, grpc.InferenceServerClient(server.grpc) as client:

        def see(model, sequence, start=False, end=False):
            x = grpc.InferInput("IN", [1, 1], "INT32")
            x.set_data_from_numpy(np.zeros((1, 1), np.int32))
            options = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
            return client.infer(model, [x], **options).as_numpy("SEEN")[0, 0].decode()

        assert see("numbers", 2**40, True) == f"1.0:FP32 -5:INT32 True:BOOL {2**40}:INT64"
        assert see("numbers", 2**40) == f"0.0:FP32 -5:INT32 True:BOOL {2**40}:INT64"
        assert see("numbers", 2**40, True) == f"1.0:FP32 -5:INT32 True:BOOL {2**40}:INT64"  # it starts again
        assert see("numbers", 2**40, end=True) == f"0.0:FP32 7:INT32 True:BOOL {2**40}:INT64"
        assert see("numbers", 3, True, True) == "1.0:FP32 7:INT32 True:BOOL 3:INT64"
        with pytest.raises(InferenceServerException, match="START flag"):
            see("numbers", 3)
        assert see("texts", "a-b", True, True) == "1.0:FP32 7:INT32 True:BOOL b'a-b':BYTES"
        assert see("texts", 12, True, True) == "1.0:FP32 7:INT32 True:BOOL b'12':BYTES"
        with pytest.raises(InferenceServerException, match="too large"):
            see("small", 2**40, True, True)


def test_requests_of_a_sequence_may_come_at_once(tmp_path):
    """A client that does not wait for answers: they run one after another, in their order."""
    write_python(tmp_path, "m", CONTROLS, CONTROLS_CONFIG % "TYPE_INT64")
    answers = queue.SimpleQueue()
    with serving(tmp_path) as server, grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for step in range(10):
            for sequence in (1, 2, 3):  # one more than there are slots
                x = grpc.InferInput("IN", [1, 1], "INT32")
                x.set_data_from_numpy(np.zeros((1, 1), np.int32))
                client.async_stream_infer(
                    "m", [x], sequence_id=sequence, sequence_start=step == 0, sequence_end=step == 9
                )
        seen = {1: [], 2: [], 3: []}
        for _ in range(30):
            result, error = answers.get(timeout=PATIENCE)
            assert error is None, error
            start, end, _, identity = (part.split(":")[0] for part in result.as_numpy("SEEN")[0, 0].decode().split())
            seen[int(identity)].append((start, end))
        client.stop_stream()
    expected = [("1.0", "-5"), *[("0.0", "-5")] * 8, ("0.0", "7")]
    assert seen == {1: expected, 2: expected, 3: expected}


def test_shared_memory_that_does_not_fit(server):
    values = np.arange(8, dtype=np.float32).reshape(1, 8)
    region = shm.create_shared_memory_region("own", "/camshaft_scenario", values.nbytes)
    try:
        shm.set_shared_memory_region(region, [values])
        for module, address in ((http, server.http), (grpc, server.grpc)):
            with module.InferenceServerClient(address) as client:
                client.register_system_shared_memory("own", "/camshaft_scenario", values.nbytes)
                with pytest.raises(InferenceServerException, match="already in manager"):
                    client.register_system_shared_memory("own", "/camshaft_scenario", values.nbytes)
                with pytest.raises(InferenceServerException, match="Unable to open shared memory region"):
                    client.register_system_shared_memory("none", "/camshaft_none", 32)
                with pytest.raises(InferenceServerException, match="failed to register shared memory region 'big'"):
                    client.register_system_shared_memory("big", "/camshaft_scenario", 1 << 30)

                def ask(size=values.nbytes, offset=0, name="own", output=None, client=client, module=module):
                    x = module.InferInput("INPUT0", [1, 8], "FP32")
                    x.set_shared_memory(name, size, offset=offset)
                    y = module.InferRequestedOutput("OUTPUT0")
                    if output:
                        y.set_shared_memory("own", output)
                    return client.infer("identity_fp32", [x], outputs=[y])

                assert (ask().as_numpy("OUTPUT0") == values).all()
                with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'other'"):
                    ask(name="other")
                with pytest.raises(InferenceServerException, match="Invalid offset for shared memory region: 'own'"):
                    ask(offset=64)
                with pytest.raises(InferenceServerException, match="Invalid offset . byte size for shared memory"):
                    ask(offset=8)
                with pytest.raises(InferenceServerException, match="byte size mismatch|Expected 32, got 16"):
                    ask(size=16)
                with pytest.raises(InferenceServerException, match="should be at least 32 bytes to hold the results"):
                    ask(output=16)
                client.unregister_system_shared_memory("own")
                client.unregister_system_shared_memory("own")  # as in Triton no error
                with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'own'"):
                    ask()
                with pytest.raises(InferenceServerException, match="Unable to find"):
                    client.get_system_shared_memory_status("own")
    finally:
        shm.destroy_shared_memory_region(region)


def test_priorities_of_the_rate_limiter(tmp_path):
    """Two models that wait for the same resource: the one of priority 2 runs half as often as that of priority 1."""
    group = (
        "instance_group [{ count: 1 kind: KIND_CPU rate_limiter { resources [{ name: 'R' count: 4 }] priority: %d } }]\n"
        "dynamic_batching { preferred_batch_size: [1] }\n"
    )
    gate = held(tmp_path, "gate", group % 1)
    models = [held(tmp_path, "first", group % 1), held(tmp_path, "second", group % 2)]
    with serving(tmp_path, "--rate-limit=execution_count", "--rate-limit-resource=R:4") as server:
        gate.start(server)
        for model in models:
            model.client, model.server = gate.client, server
            for number in range(1, 13):
                # Its instance has taken the first one, and waits with it.
                model.waits = number - 2
                model.ask(number)
        (gate.folder / "hold").unlink()
        for model in models:
            for _ in range(12):
                assert model.answers.get(timeout=PATIENCE)[1] is None
        order = (tmp_path / "order").read_text().split()[1:]
        gate.client.close()
    assert sorted(order[:15]) == ["first"] * 10 + ["second"] * 5, order


def test_the_rate_limiter_says_what_it_can_never_give(tmp_path):
    write_identity(
        tmp_path,
        "m",
        "FP32",
        ["n", "m"],
        "max_batch_size: 1\ninstance_group [{ rate_limiter { resources [{ name: 'R' count: 5 }] } }]",
    )
    flags = ("--rate-limit=execution_count", "--rate-limit-resource=R:4", "--model-control-mode=explicit")
    with serving(tmp_path, *flags) as server, http.InferenceServerClient(server.http) as client:
        with pytest.raises(InferenceServerException, match="resource count for 'R' is limited to 4"):
            client.load_model("m")


def test_the_rate_limiter_holds_sequences_too(tmp_path):
    """A model of sequences whose instances need a resource that one request has takes it as others do."""
    limiter = "instance_group [{ count: 1 kind: KIND_CPU rate_limiter { resources [{ name: 'R' count: 1 }] } }]\n"
    model = held(tmp_path, "held", limiter)
    write_python(tmp_path, "m", CONTROLS, CONTROLS_CONFIG % "TYPE_INT64" + limiter)
    with serving(tmp_path, "--rate-limit=execution_count") as server:
        model.start(server)
        x = grpc.InferInput("IN", [1, 1], "INT32")
        x.set_data_from_numpy(np.zeros((1, 1), np.int32))
        answered = queue.SimpleQueue()
        model.client.async_infer(
            "m", [x], lambda result, error: answered.put(result), sequence_id=1, sequence_start=True, sequence_end=True
        )
        with pytest.raises(queue.Empty):
            answered.get(timeout=0.5)
        (model.folder / "hold").unlink()
        assert answered.get(timeout=PATIENCE).as_numpy("SEEN")[0, 0].startswith(b"1.0")
        model.client.close()


def test_the_response_cache_is_counted(tmp_path):
    """Hits and misses in statistics and metrics; a hit has no computing, and other parameters are other requests."""
    write_identity(tmp_path, "m", "FP32", ["n", "m"], "max_batch_size: 8\nresponse_cache { enable: true }")
    with (
        serving(tmp_path, "--cache-config=local,size=1048576") as server,
        grpc.InferenceServerClient(server.grpc) as client,
    ):
        x = grpc.InferInput("INPUT0", [1, 4], "FP32")
        x.set_data_from_numpy(np.ones((1, 4), np.float32))
        for number in range(5):
            answer = client.infer("m", [x], request_id=str(number))
            assert answer.get_response().id == str(number) and (answer.as_numpy("OUTPUT0") == 1).all()
        stats = client.get_inference_statistics("m").model_stats[0].inference_stats
        assert (stats.cache_hit.count, stats.cache_miss.count) == (4, 1)
        assert stats.success.count == 5 and stats.queue.count == 1
        assert [stats.compute_input.count, stats.compute_infer.count, stats.compute_output.count] == [1, 1, 1]
        assert stats.cache_hit.ns > 0 and stats.cache_miss.ns > 0
        text = server.request("GET", "/metrics", port="metrics")[2].decode()
        for name, value in (("hits", 4), ("misses", 1)):
            assert re.search(rf'^nv_cache_num_{name}_per_model{{model="m",version="1"}} {value}$', text, re.M), text


OPTIONAL = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            total = sum(given.values(), np.zeros_like(next(iter(given.values()))))
            names = np.array([[",".join(sorted(given)).encode()]], np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", total), pb_utils.Tensor("NAMES", names)]))
        return responses
"""
OPTIONAL_CONFIG = """
backend: "python"
max_batch_size: 4
input [{ name: "A" data_type: TYPE_FP32 dims: [2] optional: true }, { name: "B" data_type: TYPE_FP32 dims: [2] optional: true }]
output [{ name: "SUM" data_type: TYPE_FP32 dims: [2] }, { name: "NAMES" data_type: TYPE_STRING dims: [1] }]
dynamic_batching { max_queue_delay_microseconds: 100000 }
"""
OPTIONAL_ENSEMBLE = """platform: "ensemble"
max_batch_size: 4
input [{ name: "X" data_type: TYPE_FP32 dims: [2] }, { name: "Y" data_type: TYPE_FP32 dims: [2] optional: true }]
output [{ name: "TOTAL" data_type: TYPE_FP32 dims: [2] }, { name: "GIVEN" data_type: TYPE_STRING dims: [1] }]
ensemble_scheduling { step [{ model_name: "sums" model_version: -1
  input_map { key: "A" value: "X" } input_map { key: "B" value: "Y" }
  output_map { key: "SUM" value: "TOTAL" } output_map { key: "NAMES" value: "GIVEN" } }] }
"""


def test_optional_inputs(tmp_path):
    """A model and an ensemble that may be asked without some of their inputs."""
    write_python(tmp_path, "sums", OPTIONAL, OPTIONAL_CONFIG)
    (tmp_path / "whole/1").mkdir(parents=True)
    (tmp_path / "whole/config.pbtxt").write_text(OPTIONAL_ENSEMBLE)
    with serving(tmp_path) as server, http.InferenceServerClient(server.http, concurrency=8) as client:

        def inputs(**arrays):
            made = []
            for name, value in arrays.items():
                made.append(http.InferInput(name, [1, 2], "FP32"))
                made[-1].set_data_from_numpy(np.full((1, 2), value, np.float32))
            return made

        both, only = client.infer("whole", inputs(X=1, Y=2)), client.infer("whole", inputs(X=3))
        assert (both.as_numpy("TOTAL") == 3).all() and both.as_numpy("GIVEN")[0, 0] == b"A,B"
        assert (only.as_numpy("TOTAL") == 3).all() and only.as_numpy("GIVEN")[0, 0] == b"A"
        with pytest.raises(InferenceServerException, match=r"missing required input\(s\) \['X'\]"):
            client.infer("whole", inputs(Y=3))
        asked = [client.async_infer("sums", inputs(**given)) for given in ({"A": 1}, {"B": 2}, {"A": 3, "B": 4}) * 2]
        found = [(float(a.as_numpy("SUM")[0, 0]), a.as_numpy("NAMES")[0, 0]) for a in (r.get_result() for r in asked)]
        assert found == [(1.0, b"A"), (2.0, b"B"), (7.0, b"A,B")] * 2


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("{ kind: KIND_CPU gpus: [0] }", "has kind KIND_CPU but specifies one or more GPUs"),
        ("{ kind: KIND_GPU }", "has kind KIND_GPU, .* which cannot be used"),
        ("{ kind: KIND_CPU count: -1 }", "has count -1"),
        ("{ kind: KIND_CPU passive: true }", "all its instance groups are passive"),
    ],
)
def test_instances_that_cannot_be(tmp_path, group, message):
    if "KIND_GPU" in group and has_gpu():
        pytest.skip("there is a GPU")
    write_identity(tmp_path, "m", "FP32", ["n", "m"], f"max_batch_size: 1\ninstance_group [{group}]")
    with (
        serving(tmp_path, "--model-control-mode=explicit") as server,
        http.InferenceServerClient(server.http) as client,
    ):
        with pytest.raises(InferenceServerException, match=message):
            client.load_model("m")


def test_instances_of_each_kind(tmp_path):
    """KIND_AUTO and KIND_MODEL run where the machine can; groups are told in the configuration, with their counts."""
    groups = "instance_group [{ count: 2 }, { kind: KIND_MODEL count: 1 }, { kind: KIND_CPU name: 'mine' }]"
    write_identity(tmp_path, "m", "FP32", ["n", "m"], f"max_batch_size: 4\n{groups}")
    with serving(tmp_path, "--device=cpu") as server, http.InferenceServerClient(server.http) as client:
        told = client.get_model_config("m")["instance_group"]
        assert [(group["kind"], group["count"]) for group in told] == [
            ("KIND_CPU", 2),
            ("KIND_MODEL", 1),
            ("KIND_CPU", 1),
        ]
        assert [group["name"] for group in told] == ["m_0", "m_1", "mine"]


def test_load_and_unload_of_what_is_not_there(tmp_path):
    write_identity(tmp_path, "m", "FP32", ["n", "m"])
    with serving(tmp_path, "--model-control-mode=explicit") as server:
        for module, address in ((http, server.http), (grpc, server.grpc)):
            with module.InferenceServerClient(address) as client:
                with pytest.raises(InferenceServerException, match="failed to load 'none'|no model 'none'|'none'"):
                    client.load_model("none")
                client.unload_model("none")  # as in Triton no error
                client.load_model("m")
                client.load_model("m")  # again: nothing has changed
                assert client.is_model_ready("m") and not client.is_model_ready("m", "7")
                with pytest.raises(InferenceServerException, match="version 7 is not found"):
                    client.infer("m", [], model_version="7")
                client.unload_model("m")
                assert not client.is_model_ready("m")
                with pytest.raises(InferenceServerException, match="'m' has no available versions"):
                    client.infer("m", [])


def test_outputs_that_were_not_asked_for(tmp_path):
    """Requested outputs alone come back, in the order in which they were asked for."""
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    write_model(tmp_path, "m", nodes, [("x", "FP32", [2])], [("a", "FP32", [2]), ("b", "FP32", [2])])
    with serving(tmp_path) as server:
        for module, address in ((http, server.http), (grpc, server.grpc)):
            with module.InferenceServerClient(address) as client:
                x = module.InferInput("x", [2], "FP32")
                x.set_data_from_numpy(np.ones(2, np.float32))
                answer = client.infer("m", [x], outputs=[module.InferRequestedOutput(name) for name in ("b", "a")])
                response = answer.get_response()
                outputs = response["outputs"] if module is http else response.outputs
                assert [o["name"] if module is http else o.name for o in outputs] == ["b", "a"]
                only = client.infer("m", [x], outputs=[module.InferRequestedOutput("b")])
                assert only.as_numpy("a") is None and (only.as_numpy("b") == -1).all()
