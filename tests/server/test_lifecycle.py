"""Which models are loaded, when, and what becomes of their requests."""

import base64
import json
import re
import shutil
import signal
import subprocess
import threading
import time

import gevent
import numpy as np
import pytest
import tritonclient.http as http
from serving import BINARY, PATIENCE, Server, serving, write_model, write_sums
from tritonclient.utils import InferenceServerException

from onnx import helper, numpy_helper


def write_scale(repository, name, factor, version=1, config="", width=8):
    """y = factor · x, with a constant of its own for each version."""
    constant = numpy_helper.from_array(np.full(width, factor, dtype=np.float32), "factor")
    write_model(
        repository,
        name,
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        [("x", "FP32", ["n", width])],
        [("y", "FP32", ["n", width])],
        config,
        version,
        [constant],
    )


def factor_of(client, name, version=""):
    x = http.InferInput("x", [1, 8], "FP32")
    x.set_data_from_numpy(np.ones((1, 8), dtype=np.float32))
    return float(client.infer(name, [x], model_version=version).as_numpy("y")[0, 0])


def client_of(server, concurrency=1):
    return http.InferenceServerClient(server.http, concurrency=concurrency, network_timeout=PATIENCE)


def states_of(client):
    return {
        (entry["name"], entry.get("version", "")): entry.get("state", "")
        for entry in client.get_model_repository_index()
    }


@pytest.fixture
def explicit(tmp_path):
    write_scale(tmp_path, "scale", 2)
    with (
        serving(tmp_path, "--model-control-mode=explicit", "--load-model=scale") as server,
        client_of(server) as client,
    ):
        yield tmp_path, server, client


def test_versions_by_policy(tmp_path):
    for version in (1, 2, 10):
        write_scale(tmp_path, "latest", version, version)
        write_scale(tmp_path, "two", version, version, "version_policy { latest { num_versions: 2 } }")
        write_scale(tmp_path, "all", version, version, "version_policy { all {} }")
        write_scale(tmp_path, "some", version, version, "version_policy { specific { versions: [1, 2] } }")
    with serving(tmp_path) as server, client_of(server) as client:
        assert client.get_model_metadata("latest")["versions"] == ["10"]
        assert client.get_model_metadata("two")["versions"] == ["2", "10"]
        assert client.get_model_metadata("all")["versions"] == ["1", "2", "10"]
        assert client.get_model_metadata("some")["versions"] == ["1", "2"]
        assert factor_of(client, "all") == 10  # the newest by number, not by text
        assert factor_of(client, "all", "2") == 2
        assert factor_of(client, "some") == 2
        with pytest.raises(InferenceServerException, match="version 1 is not found"):
            factor_of(client, "latest", "1")


def test_loads_and_unloads(explicit):
    repository, server, client = explicit
    write_scale(repository, "other", 5)
    assert states_of(client) == {("other", ""): "", ("scale", "1"): "READY"}
    client.load_model("other")
    assert factor_of(client, "other") == 5
    client.unload_model("other")
    end = time.monotonic() + PATIENCE
    while states_of(client)["other", "1"] != "UNAVAILABLE" and time.monotonic() < end:
        time.sleep(0.01)
    index = [entry for entry in client.get_model_repository_index() if entry["name"] == "other"]
    assert index == [{"name": "other", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}]
    with pytest.raises(InferenceServerException, match="'other' has no available versions"):
        factor_of(client, "other")
    assert client.is_server_ready()
    client.load_model("other")
    assert factor_of(client, "other") == 5
    with pytest.raises(InferenceServerException, match="no such model"):
        client.load_model("nothing")
    for name in ("..", "../scale", "a/b", "."):
        with pytest.raises(InferenceServerException, match="no such model|not found|Not Found|404|400"):
            client.load_model(name)


def test_a_changed_model_is_loaded_anew_and_a_broken_one_not(explicit):
    repository, server, client = explicit
    assert factor_of(client, "scale") == 2
    write_scale(repository, "scale", 3)
    client.load_model("scale")
    assert factor_of(client, "scale") == 3
    path = repository / "scale/1/model.onnx"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InferenceServerException, match="load failed for model 'scale'"):
        client.load_model("scale")
    assert factor_of(client, "scale") == 3  # the one of before
    assert states_of(client)["scale", "1"] == "READY"
    path.write_bytes(b"")
    with pytest.raises(InferenceServerException):
        client.load_model("scale")
    assert factor_of(client, "scale") == 3
    write_scale(repository, "scale", 4)
    client.load_model("scale")
    assert factor_of(client, "scale") == 4


def test_clients_bring_configurations_and_files(explicit):
    repository, server, client = explicit
    client.load_model("scale", config=json.dumps({"name": "scale", "max_batch_size": 2}))
    assert client.get_model_config("scale")["max_batch_size"] == 2
    write_scale(repository / "aside", "brought", 7)
    model = (repository / "aside/brought/1/model.onnx").read_bytes()
    config = json.dumps({"name": "brought", "backend": "onnxruntime"})
    client.load_model("brought", config=config, files={"file:1/model.onnx": model})
    assert factor_of(client, "brought") == 7
    client.load_model("scale", config=config.replace("brought", "scale"), files={"file:3/model.onnx": model})
    assert factor_of(client, "scale") == 7
    assert client.get_model_metadata("scale")["versions"] == ["3"]
    for path in ("../x", "/tmp/x", "1/../../x"):
        with pytest.raises(InferenceServerException):
            client.load_model("brought", config=config, files={f"file:{path}": model})
    status, _, body = server.request(
        "POST",
        "/v2/repository/models/brought/load",
        json.dumps({"parameters": {"file:1/model.onnx": base64.b64encode(model).decode()}}),
    )
    assert status == 400 and b"without a 'config' parameter" in body
    client.load_model("scale")  # as it lies in the repository
    assert factor_of(client, "scale") == 2


def test_without_explicit_control_clients_do_not_load(tmp_path):
    write_scale(tmp_path, "scale", 2)
    with serving(tmp_path) as server, client_of(server) as client:
        with pytest.raises(InferenceServerException, match="not allowed"):
            client.load_model("scale")
        with pytest.raises(InferenceServerException, match="not allowed"):
            client.unload_model("scale")
        assert factor_of(client, "scale") == 2


def wait_for(what, want):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if what() == want:
                return
        except InferenceServerException:
            pass
        time.sleep(0.02)
    raise AssertionError(f"{what()} is not {want}")


@pytest.mark.parametrize("by_signal", [True, False])
def test_changes_are_seen(tmp_path, by_signal):
    write_scale(tmp_path, "scale", 2)
    write_scale(tmp_path, "goes", 2)
    seconds = 3600 if by_signal else 1
    with (
        serving(tmp_path, "--model-control-mode=poll", f"--repository-poll-secs={seconds}") as server,
        client_of(server) as client,
    ):
        write_scale(tmp_path, "scale", 9, 2)
        write_scale(tmp_path, "comes", 4)
        shutil.rmtree(tmp_path / "goes")
        if by_signal:
            server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: factor_of(client, "comes"), 4)
        wait_for(lambda: factor_of(client, "scale"), 9)
        wait_for(lambda: client.is_model_ready("goes"), False)
        with pytest.raises(InferenceServerException):
            factor_of(client, "goes")


def test_reloads_lose_no_request(explicit):
    repository, server, client = explicit
    stop = threading.Event()
    wrong, done = [], [0]

    def ask():
        with client_of(server) as own:
            while not stop.is_set():
                try:
                    factor = factor_of(own, "scale")
                    done[0] += 1
                    if factor not in (2, 3):
                        wrong.append(factor)
                except InferenceServerException as error:
                    wrong.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(20):
        write_scale(repository, "scale", 2 + i % 2)
        client.load_model("scale")
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and done[0] > 20, (wrong[:3], done)


def test_memory_after_reloads(tmp_path):
    """180 reloads, of 1 MB of weights, change by 2 % at most what is resident after 180 others."""
    for i in range(2):
        write_scale(tmp_path / f"{i}", "scale", 2 + i, width=1 << 18)
    config = json.dumps({"name": "scale", "max_batch_size": 4})
    files = [{"file:1/model.onnx": (tmp_path / f"{i}/scale/1/model.onnx").read_bytes()} for i in range(2)]
    with serving(tmp_path / "0", "--model-control-mode=explicit") as server, client_of(server) as client:

        def reload(count):
            for i in range(count):
                client.load_model("scale", config=config, files=files[i % 2])
            client.unload_model("scale")
            wait_for(lambda: states_of(client)["scale", "1"], "UNAVAILABLE")
            time.sleep(0.2)  # what the heap gives back after that
            return server.memory()

        memory = [reload(60) for _ in range(6)]  # the first ones fill the pools of the threads that take turns
        assert max(memory[3:]) <= max(memory[:3]) * 1.02 + (1 << 20), memory


def write_slow(repository, name, steps=60, size=512, config=""):
    """Many products of matrices: some 100 ms."""
    random = np.random.default_rng(0)
    weights = numpy_helper.from_array((random.standard_normal((size, size)) / size**0.5).astype(np.float32), "w")
    names = ["x", *(f"t{i}" for i in range(1, steps)), "y"]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:], strict=False)]
    write_model(
        repository, name, nodes, [("x", "FP32", [size, size])], [("y", "FP32", [size, size])], config, 1, [weights]
    )
    return np.ones((size, size), dtype=np.float32)


def ask_slowly(client, name, values, **more):
    x = http.InferInput("x", list(values.shape), "FP32")
    x.set_data_from_numpy(values)
    return client.async_infer(name, [x], **more)


def test_the_end_answers_what_was_taken(tmp_path):
    values = write_slow(tmp_path, "slow")
    with serving(tmp_path) as server:
        with client_of(server, 3) as client:
            asked = [ask_slowly(client, "slow", values) for _ in range(3)]

            def has_taken_all():  # one runs, while two wait or are done
                gevent.sleep(0)  # what sends them runs only while this thread lets it
                text = server.request("GET", "/metrics", port="metrics")[2].decode()
                names = ("nv_inference_request_success", "nv_inference_pending_request_count")
                return sum(float(re.search(rf'{name}{{model="slow",.*}} (\S+)', text)[1]) for name in names) >= 2

            wait_for(has_taken_all, True)
            server.process.send_signal(signal.SIGTERM)
            for request in asked:
                assert request.get_result().as_numpy("y").shape == values.shape
        assert server.process.wait(PATIENCE) == 0
        server.process.poll = lambda: None  # it has ended as it should
        server.stop = lambda: 0


def test_the_end_does_not_wait_for_a_build(tmp_path):
    """It is asked for while models are built, or right after: both end with 0."""
    for i in range(3):
        write_slow(tmp_path, f"slow{i}", steps=20 + i)
    command = [BINARY, f"--model-repository={tmp_path}", "--http-port=0", "--grpc-port=0", "--metrics-port=0"]
    command.append(f"--engine-cache={tmp_path}/cache")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    server = Server(process)
    wait_for(lambda: "HTTP" in server.ports, True)
    assert server.request("GET", "/v2/health/live")[0] == 200
    assert server.stop() == 0


def start(*flags):
    return subprocess.run([BINARY, *flags], capture_output=True, text=True, timeout=PATIENCE)


def test_exit_codes(tmp_path):
    write_scale(tmp_path, "scale", 2)
    (tmp_path / "scale/1/model.onnx").write_bytes(b"no model")
    failed = start(f"--model-repository={tmp_path}", "--http-port=0", "--grpc-port=0", "--metrics-port=0")
    assert failed.returncode == 1 and "scale" in failed.stderr
    assert start(f"--model-repository={tmp_path}/nothing", "--http-port=0", "--grpc-port=0").returncode == 1
    unknown = start("--model-repositry=x")
    assert unknown.returncode == 2 and "did you mean --model-repository?" in unknown.stderr
    assert start("--http-port=x", f"--model-repository={tmp_path}").returncode == 2
    usage = start("--help")
    assert usage.returncode == 0 and "--model-repository=DIR" in usage.stdout


def test_a_broken_model_does_not_keep_the_others_from_being_served(tmp_path):
    write_scale(tmp_path, "good", 2)
    write_scale(tmp_path, "broken", 2)
    (tmp_path / "broken/1/model.onnx").write_bytes(b"no model")
    with serving(tmp_path, "--exit-on-error=false") as server, client_of(server) as client:
        assert factor_of(client, "good") == 2
        assert not client.is_server_ready()
        broken = next(entry for entry in client.get_model_repository_index() if entry["name"] == "broken")
        assert broken["state"] == "UNAVAILABLE" and broken["reason"]
    with serving(tmp_path, "--exit-on-error=false", "--strict-readiness=false") as server, client_of(server) as client:
        assert client.is_server_ready()


def test_kserves_start_line(tmp_path):
    write_scale(tmp_path, "scale", 2)
    command = [BINARY, f"--model-store={tmp_path}", "--grpc-port=0", "--http-port=0", "--metrics-port=0"]
    command += ["--allow-grpc=true", "--allow-http=true", "--allow-sagemaker", "false"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    server = Server(process).wait_until_ready()
    assert "--allow-sagemaker has no effect here" in server.log()
    with client_of(server) as client:
        assert factor_of(client, "scale") == 2
    assert server.stop() == 0


def test_systemd_is_told(tmp_path):
    import os
    import socket

    write_scale(tmp_path, "scale", 2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(PATIENCE)
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        try:
            with serving(tmp_path):
                assert notify.recv(1000).startswith(b"READY=1")
            assert notify.recv(1000) == b"STOPPING=1"
        finally:
            del os.environ["NOTIFY_SOCKET"]


def test_engines_serve_as_they_are(tmp_path):
    """An engine file is model.plan, or has the name that the configuration says."""
    command = BINARY.parents[1] / "tools/camshaft"
    if not command.exists():
        pytest.skip("the command is not built")
    write_scale(tmp_path / "onnx", "scale", 6)
    for name, file in (("plan", "model.plan"), ("named", "mine.engine")):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        target = tmp_path / "models" / name / "1" / file
        subprocess.run(
            [command, "build", tmp_path / "onnx/scale/1/model.onnx", "-o", target], check=True, capture_output=True
        )
    (tmp_path / "models/named/config.pbtxt").write_text('default_model_filename: "mine.engine"')
    with serving(tmp_path / "models") as server, client_of(server) as client:
        assert factor_of(client, "plan") == 6
        assert factor_of(client, "named") == 6
        assert client.get_model_metadata("plan")["platform"] == "camshaft_plan"


def test_what_is_built_is_kept(tmp_path):
    write_sums(tmp_path / "models", "simple")
    cache = tmp_path / "cache"
    with serving(tmp_path / "models", f"--engine-cache={cache}"):
        kept = list(cache.iterdir())
        assert len(kept) == 1
        built = kept[0].stat().st_mtime_ns
    with serving(tmp_path / "models", f"--engine-cache={cache}"):
        assert [file.stat().st_mtime_ns for file in cache.iterdir()] == [built]
    kept[0].write_bytes(kept[0].read_bytes()[:100])  # a damaged one is built again
    with serving(tmp_path / "models", f"--engine-cache={cache}") as server, client_of(server) as client:
        assert client.is_model_ready("simple")
        assert "is built again" in server.log()


def test_what_is_kept_has_a_limit(tmp_path):
    """Of kept engines those go that were used the longest ago; a model whose engine has gone serves on."""
    cache = tmp_path / "cache"
    for factor in (2, 3, 4):
        write_scale(tmp_path / "models", f"scale{factor}", factor)
    flags = (f"--engine-cache={cache}", "--model-control-mode=explicit")
    with serving(tmp_path / "models", *flags, "--load-model=scale2"):
        (first,) = cache.iterdir()
        size = first.stat().st_size
    flags = (*flags, f"--engine-cache-size={2 * size + size // 2}")
    with serving(tmp_path / "models", *flags) as server, client_of(server) as client:
        client.load_model("scale3")
        assert len(list(cache.iterdir())) == 2
        client.load_model("scale2")  # used now: the other one is older
        (second,) = set(cache.iterdir()) - {first}
        client.load_model("scale4")
        assert first in cache.iterdir() and second not in cache.iterdir() and len(list(cache.iterdir())) == 2
        assert [factor_of(client, f"scale{factor}") for factor in (2, 3, 4)] == [2, 3, 4]


def test_configurations_are_completed(tmp_path):
    write_scale(tmp_path, "batched", 2)
    write_scale(tmp_path, "said", 2, config='max_batch_size: 16\ninput [{ name: "x" data_type: TYPE_FP32 dims: [8] }]')
    write_scale(tmp_path, "whole", 2, config='input [{ name: "x" data_type: TYPE_FP32 dims: [-1, 8] }]')
    with serving(tmp_path, "--backend-config=default-max-batch-size=6") as server, client_of(server) as client:
        config = client.get_model_config("batched")
        assert config["max_batch_size"] == 6 and "dynamic_batching" in config
        assert config["input"][0]["name"] == "x" and config["input"][0]["dims"] == [8]
        assert config["output"][0]["data_type"] == "TYPE_FP32"
        assert client.get_model_metadata("batched")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
        assert client.get_model_config("said")["max_batch_size"] == 16
        assert client.get_model_config("whole")["max_batch_size"] == 0
        assert client.get_model_config("whole")["output"][0]["dims"] == [-1, 8]


WARM_UP = 'model_warmup [{ name: "w" inputs { key: "x" value { data_type: TYPE_FP32 dims: %s zero_data: true } } }]'


@pytest.mark.parametrize(
    "config, message",
    [
        ('input [{ name: "z" data_type: TYPE_FP32 dims: [8] }]', "unexpected inference input 'z'"),
        (
            'max_batch_size: 4 input [{ name: "x" data_type: TYPE_FP32 dims: [9] }]',
            r"\[-1,8\], the configuration \[9\]",
        ),
        (
            'max_batch_size: 4 input [{ name: "x" data_type: TYPE_INT32 dims: [8] }]',
            "TYPE_FP32, the configuration TYPE_INT32",
        ),
        ("max_batch_size: -1", "max_batch_size must be 0 or more"),
        ('platform: "pytorch_libtorch"', "there is no backend 'pytorch_libtorch'"),
        ('name: "another"', "directory name must equal model name"),
        ("max_batch_size: x", "config.pbtxt:1:17"),
        ("no_such_field: 1", "no_such_field"),
        ('default_model_filename: "../../x"', "there is no file"),
        ('parameters { key: "threads" value { string_value: "many" } }', "parameter threads: 'many' is no number"),
        (
            'parameters { key: "threads" value { string_value: "1000000" } }',
            "parameter threads: 1000000 threads were asked for; give 1 to",
        ),
        ("instance_group [{ count: 100000 }]", "count 100000"),
        ('input [{ name: "x" data_type: TYPE_FP32 dims: [8] allow_ragged_batch: true }]', "allow_ragged_batch"),
        ('parameters { key: "x" value { string_value: "\\377" } }', "config.pbtxt has texts that are not UTF-8"),
        (WARM_UP % "[-1]", "warm-up 'w', input 'x' has the size -1"),
        (WARM_UP % "[4294967296, 4294967296]", "more elements than a request may have"),
        (WARM_UP.replace("data_type: TYPE_FP32 ", "") % "[8]", "input 'x' must specify 'data_type'"),
        ("sequence_batching { direct { minimum_slot_utilization: nan } }", "minimum_slot_utilization"),
    ],
)
def test_configurations_that_do_not_fit(tmp_path, config, message):
    import re

    write_scale(tmp_path, "scale", 2, config=config)
    failed = start(f"--model-repository={tmp_path}", "--http-port=0", "--grpc-port=0", "--metrics-port=0")
    assert failed.returncode == 1
    assert re.search(message, failed.stderr), failed.stderr


def test_what_the_library_says_is_in_the_servers_log(tmp_path):
    fp16 = 'parameters { key: "fp16" value { string_value: "true" } }'
    write_scale(tmp_path / "models", "narrow", 2, config=fp16)
    flags = ("--model-control-mode=explicit", "--device=cpu", f"--engine-cache={tmp_path / 'cache'}")
    with serving(tmp_path / "models", *flags) as server, http.InferenceServerClient(server.http) as client:
        client.update_log_settings({"log_format": "json"})
        before = len(server.lines)
        client.load_model("narrow")  # of a kind that a CPU has no kernels for, which the build warns of
        end = time.monotonic() + PATIENCE
        while not any("narrow" in line for line in server.lines[before:]) and time.monotonic() < end:
            time.sleep(0.01)
        messages = [json.loads(line) for line in server.lines[before:]]
        assert any(entry["level"] == "warning" and "fp16" in entry["message"] for entry in messages)
        client.update_log_settings({"log_format": "default"})
