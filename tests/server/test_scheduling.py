"""Batches, queues, sequences, ensembles, the response cache, the rate limiter and warm-up, as clients see them."""

import re
import threading
import time

import numpy as np
import pytest
import tritonclient.http as http
from serving import PATIENCE, serving, write_identity, write_model, write_sums
from tritonclient.utils import InferenceServerException

from onnx import helper, numpy_helper


def client_of(server, concurrency=1):
    return http.InferenceServerClient(server.http, concurrency=concurrency, network_timeout=PATIENCE)


def write_slow(repository, name, config="", steps=40, size=384):
    """y = x W … W, some 50 ms a request, which can be batched."""
    random = np.random.default_rng(0)
    weights = numpy_helper.from_array((random.standard_normal((size, size)) / size**0.5).astype(np.float32), "w")
    names = ["x", *(f"t{i}" for i in range(1, steps)), "y"]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:], strict=False)]
    write_model(
        repository,
        name,
        nodes,
        [("x", "FP32", ["n", size, size])],
        [("y", "FP32", ["n", size, size])],
        config,
        1,
        [weights],
    )


def slow_input(size=384, batch=1):
    x = http.InferInput("x", [batch, size, size], "FP32")
    x.set_data_from_numpy(np.ones((batch, size, size), dtype=np.float32))
    return [x]


def row(value, count=4, name="INPUT0"):
    x = http.InferInput(name, [1, count], "FP32")
    x.set_data_from_numpy(np.full((1, count), value, dtype=np.float32))
    return [x]


def stats_of(client, name):
    return client.get_inference_statistics(name)["model_stats"][0]


def batches_of(client, name):
    return {entry["batch_size"]: entry["compute_infer"]["count"] for entry in stats_of(client, name)["batch_stats"]}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scheduling")
    config = "max_batch_size: 8\ndynamic_batching { %s }\n"
    write_identity(folder, "delayed", "FP32", ["n", "m"], config % "max_queue_delay_microseconds: 300000")
    write_identity(
        folder,
        "preferred",
        "FP32",
        ["n", "m"],
        config % "preferred_batch_size: [4] max_queue_delay_microseconds: 5000000",
    )
    write_slow(folder, "slow", config % "default_queue_policy { max_queue_size: 2 }")
    write_slow(
        folder,
        "impatient",
        config % "default_queue_policy { default_timeout_microseconds: 1000 allow_timeout_override: true }",
    )
    write_slow(
        folder,
        "levels",
        "max_batch_size: 1\ndynamic_batching { priority_levels: 2 default_priority_level: 2 }\n"
        'parameters { key: "threads" value { string_value: "1" } }',
    )
    write_identity(folder, "cached", "FP32", ["n", "m"], "max_batch_size: 8\nresponse_cache { enable: true }")
    write_identity(
        folder,
        "warm",
        "FP32",
        ["n", "m"],
        "max_batch_size: 8\nmodel_warmup [{ name: 'zeros' batch_size: 3 inputs { key: 'INPUT0' "
        "value { data_type: TYPE_FP32 dims: [5] zero_data: true } } }, { name: 'random' batch_size: 1 count: 2 inputs { "
        "key: 'INPUT0' value { data_type: TYPE_FP32 dims: [5] random_data: true } } }]",
    )
    write_slow(
        folder, "target", config % "" + 'parameters { key: "latency_target_ms" value { string_value: "400" } }', 4, 128
    )
    write_identity(
        folder, "several", "FP32", ["n", "m"], "max_batch_size: 8\ninstance_group [{ count: 3 kind: KIND_CPU }]"
    )
    write_identity(
        folder,
        "limited",
        "FP32",
        ["n", "m"],
        "max_batch_size: 1\ninstance_group [{ count: 2 rate_limiter { resources [{ name: 'R' count: 1 }] } }]",
    )
    return folder


@pytest.fixture(scope="module")
def server(repository):
    # On a GPU nothing would have to wait.
    flags = ["--device=cpu", "--cache-config=local,size=1048576", "--rate-limit=execution_count"]
    with serving(repository, *flags) as running:
        yield running


@pytest.fixture
def client(server):
    with client_of(server, 16) as made:
        yield made


def test_requests_share_a_batch_within_the_delay(client):
    asked = [client.async_infer("delayed", row(i)) for i in range(5)]
    for i, request in enumerate(asked):
        assert (request.get_result().as_numpy("OUTPUT0") == i).all()
    assert batches_of(client, "delayed").get(5) == 1
    stats = stats_of(client, "delayed")
    assert stats["inference_count"] == 5 and stats["execution_count"] == 1
    assert stats["inference_stats"]["queue"]["count"] == 5
    assert stats["inference_stats"]["queue"]["ns"] > 5 * 200e6  # but the last ones waited for nearly as long


def test_a_full_batch_does_not_wait(client):
    start = time.monotonic()
    asked = [client.async_infer("preferred", row(i)) for i in range(4)]
    for request in asked:
        request.get_result()
    assert time.monotonic() - start < 5
    assert batches_of(client, "preferred") == {4: 1}


def test_other_shapes_are_another_batch(client):
    before = stats_of(client, "delayed")["execution_count"]
    asked = [client.async_infer("delayed", row(1, count)) for count in (4, 5, 4, 5)]
    for request, count in zip(asked, (4, 5, 4, 5), strict=True):
        assert request.get_result().as_numpy("OUTPUT0").shape == (1, count)
    assert stats_of(client, "delayed")["execution_count"] - before >= 2


def test_a_full_queue_refuses(client):
    asked = [client.async_infer("slow", slow_input(batch=8)) for _ in range(8)]
    refused, answered = 0, 0
    for request in asked:
        try:
            request.get_result()
            answered += 1
        except InferenceServerException as error:
            assert "Exceeds maximum queue size" in str(error)
            assert error.status() == "503"
            refused += 1
    assert answered >= 3 and refused >= 1
    assert stats_of(client, "slow")["inference_stats"]["fail"]["count"] == refused


def test_what_waits_too_long_is_refused(client):
    asked = [client.async_infer("impatient", slow_input(batch=8)) for _ in range(6)]
    messages = []
    for request in asked:
        try:
            request.get_result()
        except InferenceServerException as error:
            messages.append(str(error))
    assert messages and all("Request timeout expired" in message for message in messages)
    assert len(messages) < 6


def pending(server, model):
    text = server.request("GET", "/metrics", port="metrics")[2].decode()
    return float(re.search(rf'nv_inference_pending_request_count{{model="{model}",.*}} (\S+)', text)[1])


def test_high_priority_goes_first(server):
    order = []

    def ask(priority):
        with client_of(server) as own:
            own.infer("levels", slow_input(), priority=priority)
        order.append(priority)

    threads = [threading.Thread(target=ask, args=(2,)) for _ in range(24)]
    for thread in threads:
        thread.start()
    while pending(server, "levels") < 18 and len(order) < 4:
        time.sleep(0.005)
    ask(1)
    for thread in threads:
        thread.join()
    # In the order in which they came it would be the last one.
    assert order.index(1) < 20


def test_the_response_cache_answers(client):
    for value in (1, 2, 1, 1):
        assert (client.infer("cached", row(value)).as_numpy("OUTPUT0") == value).all()
    stats = stats_of(client, "cached")["inference_stats"]
    assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (2, 2)
    assert stats["success"]["count"] == 4 and stats["compute_infer"]["count"] == 2
    client.infer("cached", row(1, 8))  # the same bytes, twice: another shape
    assert stats_of(client, "cached")["inference_stats"]["cache_miss"]["count"] == 3


def test_models_are_warmed_up(client):
    stats = stats_of(client, "warm")
    assert stats["inference_stats"]["success"]["count"] == 0 and stats["execution_count"] == 0
    client.infer("warm", row(1))
    assert stats_of(client, "warm")["execution_count"] == 1


def test_a_warm_up_that_fails(tmp_path):
    sample = (
        "model_warmup [{ name: 'mine' batch_size: 1 inputs { key: 'NO' value { data_type: TYPE_FP32 dims: [5] } } }]"
    )
    write_identity(tmp_path, "warm", "FP32", ["n", "m"], "max_batch_size: 8 " + sample)
    with serving(tmp_path, "--model-control-mode=explicit") as server, client_of(server) as client:
        with pytest.raises(InferenceServerException, match="warm-up 'mine': unexpected inference input 'NO'"):
            client.load_model("warm")


def test_a_target_keeps_the_answers_right(client):
    asked = [client.async_infer("target", slow_input(128, 1 + i % 3)) for i in range(30)]
    for i, request in enumerate(asked):
        assert request.get_result().as_numpy("y").shape == (1 + i % 3, 128, 128)


@pytest.mark.parametrize("name", ["several", "limited"])
def test_several_instances(client, name):
    asked = [client.async_infer(name, row(i)) for i in range(60)]
    for i, request in enumerate(asked):
        assert (request.get_result().as_numpy("OUTPUT0") == i).all()


@pytest.mark.parametrize(
    "name, inputs, message",
    [
        ("delayed", [], "expected 1 inputs but got 0 inputs for model 'delayed'"),
        ("delayed", row(1, 4, "INPUT7"), "unexpected inference input 'INPUT7' for model 'delayed'"),
        ("delayed", [*row(1), *row(1)], "input 'INPUT0' already exists in request"),
        (
            "slow",
            row(1, 4, "x"),
            r"unexpected shape for input 'x' for model 'slow'. Expected \[-1,384,384\], got \[1,4\]",
        ),
        ("slow", slow_input(384, 9), "inference request batch-size must be <= 8 for 'slow'"),
    ],
)
def test_requests_that_do_not_fit(client, name, inputs, message):
    with pytest.raises(InferenceServerException, match=message):
        client.infer(name, inputs)


def test_types_and_outputs_that_do_not_fit(client):
    x = http.InferInput("INPUT0", [1, 4], "INT32")
    x.set_data_from_numpy(np.zeros((1, 4), dtype=np.int32))
    with pytest.raises(InferenceServerException, match="data-type is 'INT32', but model 'delayed' expects 'FP32'"):
        client.infer("delayed", [x])
    with pytest.raises(InferenceServerException, match="unexpected inference output 'NO' for model 'delayed'"):
        client.infer("delayed", row(1), outputs=[http.InferRequestedOutput("NO")])
    with pytest.raises(InferenceServerException, match="'nothing' is not found"):
        client.infer("nothing", row(1))


def test_what_is_wrong_in_one_request_does_not_fail_its_batch(tmp_path):
    write_model(
        tmp_path,
        "lookup",
        [helper.make_node("Gather", ["table", "i"], ["y"])],
        [("i", "INT64", ["n", 1])],
        [("y", "FP32", ["n", 1])],
        "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 200000 }",
        1,
        [numpy_helper.from_array(np.arange(4, dtype=np.float32), "table")],
    )
    with serving(tmp_path) as server, client_of(server, 4) as client:

        def index(value):
            i = http.InferInput("i", [1, 1], "INT64")
            i.set_data_from_numpy(np.array([[value]], dtype=np.int64))
            return client.async_infer("lookup", [i])

        good, bad, other = index(1), index(77), index(3)
        assert good.get_result().as_numpy("y") == 1
        assert other.get_result().as_numpy("y") == 3
        with pytest.raises(InferenceServerException):
            bad.get_result()


SEQUENCE = """max_batch_size: 4
input [{ name: "x" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "total" data_type: TYPE_FP32 dims: [1] }]
sequence_batching {
  %s
  max_sequence_idle_microseconds: 1500000
  control_input [{ name: "start" control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] }] }]
  control_input [{ name: "id" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 }] }]
  state [{ input_name: "before" output_name: "after" data_type: TYPE_FP32 dims: [1]
           initial_state: { name: "zero" data_type: TYPE_FP32 dims: [1] %s } }]
}
"""


def write_accumulator(repository, name, strategy, initial="zero_data: true"):
    """total = before + x + 0 · (start + id): the sum of a sequence, kept as its state."""
    zero = numpy_helper.from_array(np.zeros(1, dtype=np.float32), "zero")
    nodes = [
        helper.make_node("Cast", ["id"], ["id_float"], to=1),
        helper.make_node("Add", ["start", "id_float"], ["controls"]),
        helper.make_node("Mul", ["controls", "zero"], ["nothing"]),
        helper.make_node("Add", ["before", "x"], ["sum"]),
        helper.make_node("Add", ["sum", "nothing"], ["after"]),
        helper.make_node("Identity", ["after"], ["total"]),
    ]
    floats = [(n, "FP32", ["n", 1]) for n in ("x", "start", "before")]
    write_model(
        repository,
        name,
        nodes,
        [*floats, ("id", "INT64", ["n", 1])],
        [("total", "FP32", ["n", 1]), ("after", "FP32", ["n", 1])],
        SEQUENCE % (strategy, initial),
        1,
        [zero],
    )


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequences")
    write_accumulator(folder, "direct", "direct {}")
    write_accumulator(folder, "oldest", "oldest { max_candidate_sequences: 2 }")
    write_accumulator(folder, "from_file", "direct {}", 'data_file: "ten"')
    (folder / "from_file/initial_state").mkdir()
    (folder / "from_file/initial_state/ten").write_bytes(np.float32(10).tobytes())
    with serving(folder) as server, client_of(server, 8) as client:
        yield server, client


def add(client, model, sequence, value, start=False, end=False):
    result = client.infer(model, row(value, 1, "x"), sequence_id=sequence, sequence_start=start, sequence_end=end)
    return float(result.as_numpy("total")[0, 0])


@pytest.mark.parametrize("model", ["direct", "oldest"])
def test_sequences_have_their_own_state(sequences, model):
    _, client = sequences
    sums = {}
    for step in range(4):
        for sequence in (1, 2):
            value = step + 10 * sequence
            sums[sequence] = sums.get(sequence, 0) + value
            assert add(client, model, sequence, value, step == 0, step == 3) == sums[sequence]
    assert add(client, model, 1, 5, True, True) == 5  # it starts from nothing again


def test_sequences_start_from_a_file(sequences):
    _, client = sequences
    assert add(client, "from_file", 3, 1, True) == 11
    assert add(client, "from_file", 3, 1, False, True) == 12


def test_sequences_wait_for_a_slot(sequences):
    """With two slots, six sequences at the same time are all summed right."""
    server, _ = sequences
    results = {}

    def run(sequence):
        with client_of(server) as own:
            for step in range(5):
                results[sequence] = add(own, "oldest", 100 + sequence, sequence, step == 0, step == 4)

    threads = [threading.Thread(target=run, args=(sequence,)) for sequence in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {sequence: 5 * sequence for sequence in range(6)}


def test_sequences_that_do_not_fit(sequences):
    _, client = sequences
    with pytest.raises(InferenceServerException, match="must specify a non-zero or non-empty correlation ID"):
        client.infer("direct", row(1, 1, "x"))
    with pytest.raises(
        InferenceServerException, match="must specify the START flag on the first request of the sequence"
    ):
        add(client, "direct", 77, 1)
    with pytest.raises(InferenceServerException, match="has the text 'a name'"):
        add(client, "direct", "a name", 1, True, True)
    x = http.InferInput("x", [2, 1], "FP32")
    x.set_data_from_numpy(np.ones((2, 1), dtype=np.float32))
    with pytest.raises(InferenceServerException, match="must specify batch-size 1"):
        client.infer("direct", [x], sequence_id=5, sequence_start=True)


def test_idle_sequences_end(sequences):
    _, client = sequences
    add(client, "direct", 9, 1, True)
    time.sleep(2.5)
    with pytest.raises(InferenceServerException, match="START flag"):
        add(client, "direct", 9, 1)


ENSEMBLE = """platform: "ensemble"
max_batch_size: 8
input [{ name: "A" data_type: TYPE_INT32 dims: [16] }, { name: "B" data_type: TYPE_INT32 dims: [16] }]
output [{ name: "SUM" data_type: TYPE_INT32 dims: [16] }, { name: "LAST" data_type: TYPE_INT32 dims: [16] }]
ensemble_scheduling {
  step [
    { model_name: "simple" model_version: -1
      input_map { key: "INPUT0" value: "sum" } input_map { key: "INPUT1" value: "difference" }
      output_map { key: "OUTPUT0" value: "LAST" } },
    { model_name: "simple" model_version: -1
      input_map { key: "INPUT0" value: "A" } input_map { key: "INPUT1" value: "B" }
      output_map { key: "OUTPUT0" value: "sum" } output_map { key: "OUTPUT1" value: "difference" } },
    { model_name: "simple" model_version: -1
      input_map { key: "INPUT0" value: "A" } input_map { key: "INPUT1" value: "B" }
      output_map { key: "OUTPUT0" value: "SUM" } }
  ]
}
"""


def write_ensemble(repository, name, config):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)


def two_rows(a, b):
    inputs = []
    for name, value in (("A", a), ("B", b)):
        inputs.append(http.InferInput(name, [1, 16], "INT32"))
        inputs[-1].set_data_from_numpy(np.full((1, 16), value, dtype=np.int32))
    return inputs


def test_ensembles(tmp_path):
    write_sums(tmp_path, "simple", "max_batch_size: 8")
    write_ensemble(tmp_path, "whole", ENSEMBLE)
    with (
        serving(tmp_path, "--model-control-mode=explicit", "--load-model=whole") as server,
        client_of(server, 8) as client,
    ):
        assert client.is_model_ready("simple")  # loaded for it
        asked = [client.async_infer("whole", two_rows(i, 1)) for i in range(20)]
        for i, request in enumerate(asked):
            result = request.get_result()
            assert (result.as_numpy("SUM") == i + 1).all()
            assert (result.as_numpy("LAST") == 2 * i).all()
        assert stats_of(client, "whole")["inference_count"] == 20
        assert stats_of(client, "simple")["inference_count"] == 60
        only = client.infer("whole", two_rows(5, 2), outputs=[http.InferRequestedOutput("LAST")])
        assert only.as_numpy("SUM") is None and (only.as_numpy("LAST") == 10).all()
        client.unload_model("simple")
        with pytest.raises(InferenceServerException, match="'simple' has no available versions"):
            client.infer("whole", two_rows(1, 1))
        client.load_model("simple")
        client.infer("whole", two_rows(1, 1))
        client.unload_model("whole", unload_dependents=True)
        assert not client.is_model_ready("simple")


@pytest.mark.parametrize(
    "was, becomes, message",
    [
        (
            'value: "sum" } input',
            'value: "nowhere" } input',
            "mapped to 'nowhere', which no input and no step before makes",
        ),
        ('key: "OUTPUT0" value: "sum"', 'key: "OUTPUT7" value: "sum"', "has no output 'OUTPUT7'"),
        ('key: "INPUT0" value: "A"', 'key: "INPUT7" value: "A"', "nothing is mapped to input 'INPUT0'"),
        ('value: "difference" } }', 'value: "sum" } }', "make the tensor 'sum'"),
        ('name: "A" data_type: TYPE_INT32', 'name: "A" data_type: TYPE_FP32', "inconsistent data type"),
        (
            'name: "A" data_type: TYPE_INT32 dims: [16]',
            'name: "A" data_type: TYPE_INT32 dims: [17]',
            "inconsistent shape",
        ),
        ('{ name: "LAST"', '{ name: "NONE"', "no step makes its output 'NONE'"),
        ("max_batch_size: 8", "max_batch_size: 9", "max_batch_size 9 is more than that of its step"),
        ('model_name: "simple"', 'model_name: "whole"', "circular dependency"),
    ],
)
def test_ensembles_that_do_not_fit(tmp_path, was, becomes, message):
    assert was in ENSEMBLE
    write_sums(tmp_path, "simple", "max_batch_size: 8")
    write_ensemble(tmp_path, "whole", ENSEMBLE.replace(was, becomes))
    with serving(tmp_path, "--model-control-mode=explicit") as server, client_of(server) as client:
        with pytest.raises(InferenceServerException, match=message):
            client.load_model("whole")


def test_two_ensembles_that_are_each_others_steps(tmp_path):
    write_sums(tmp_path, "simple", "max_batch_size: 8")
    write_ensemble(tmp_path, "one", ENSEMBLE.replace('model_name: "simple"', 'model_name: "two"', 1))
    write_ensemble(tmp_path, "two", ENSEMBLE.replace('model_name: "simple"', 'model_name: "one"', 1))
    with serving(tmp_path, "--exit-on-error=false") as server, client_of(server) as client:
        assert not client.is_model_ready("one") and not client.is_model_ready("two")
        assert "circular dependency" in server.log()


def test_the_cache_keeps_nothing_of_sequences(tmp_path):
    write_accumulator(tmp_path, "direct", "direct {}")
    config = tmp_path / "direct/config.pbtxt"
    config.write_text(config.read_text() + "response_cache { enable: true }\n")
    with serving(tmp_path, "--cache-config=local,size=1048576") as server, client_of(server) as client:
        assert [add(client, "direct", 1, 1, step == 0, step == 2) for step in range(3)] == [1, 2, 3]
