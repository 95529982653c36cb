"""Language models on a local Ray: OpenAI's interface by Ray Serve, as its own client sees it, beside what the model gives
without."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from camshaft_cli import BINARY

ray = pytest.importorskip("ray", reason="Ray is not installed")
openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")
HERE = str(BINARY.resolve().parent.parent / "python")
if HERE not in sys.path:
    sys.path.insert(0, HERE)
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import camshaft.llm  # noqa: E402
import camshaft.ray  # noqa: E402
from camshaft.llm import LLM, SamplingParams  # noqa: E402
from llm_folders import write_chat_llama  # noqa: E402
from whisper_folders import sound, write_wav, write_whisper  # noqa: E402

URL = "http://127.0.0.1:8000"
HELLO = [{"role": "user", "content": "the engine"}]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    path = tmp_path_factory.mktemp("llm")
    write_chat_llama(path / "hf")
    camshaft.llm.build(path / "hf", path / "text", cache="f32", tuning="heuristic")
    camshaft.llm.build(path / "hf", path / "vectors", cache="f32", task="embed", tuning="heuristic")
    camshaft.llm.build(write_whisper(path / "hf-whisper"), path / "whisper", tuning="heuristic")
    return path


@pytest.fixture(scope="module")
def served(folders, tmp_path_factory):
    variables = {"PYTHONPATH": HERE, "TMPDIR": str(tmp_path_factory.mktemp("models"))}
    ray.init(num_cpus=6, include_dashboard=False, runtime_env={"env_vars": variables}, logging_level="warning")
    from ray import serve

    def config(name, source, cpus, **more):
        loading = {"model_id": name, "model_source": str(folders / source)}
        few = {"ray_actor_options": {"num_cpus": cpus}, **more.pop("deployment_config", {})}
        return camshaft.ray.LLMConfig(model_loading_config=loading, deployment_config=few, **more)

    configs = [
        config("org/text", "text", 1, deployment_config={"num_replicas": 2}, engine_kwargs={"max_queued": 8}),
        config("vectors", "vectors", 0.5),
        # As a configuration in YAML has it.
        vars(config("whisper", "whisper", 0.5, engine_kwargs={"max_num_seqs": 2})),
    ]
    serve.run(camshaft.ray.build_openai_app({"llm_configs": configs}), name="llm", route_prefix="/")
    yield folders
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def llm(folders):
    return LLM(folders / "text")


def test_models(client):
    assert [model.id for model in client.models.list()] == ["org/text", "vectors", "whisper"]
    assert client.models.retrieve("vectors").object == "model"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("other")
    assert caught.value.code == "model_not_found" and caught.value.param == "model"


def test_texts_and_streams_are_the_models_own(client, llm):
    params = SamplingParams(temperature=0, max_tokens=16)
    texts = ["the engine", "a valve"]
    expected = [output.outputs[0].text for output in llm.generate(texts, params)]
    given = {"model": "org/text", "prompt": texts, "temperature": 0, "max_tokens": 16}
    assert [choice.text for choice in client.completions.create(**given).choices] == expected
    streamed, usage = ["", ""], None
    for chunk in client.completions.create(**given, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == expected and usage.completion_tokens > 0
    [answer] = llm.chat(HELLO, params)
    spoken = {"model": "org/text", "messages": HELLO, "temperature": 0, "max_tokens": 16}
    assert client.chat.completions.create(**spoken).choices[0].message.content == answer.outputs[0].text
    chunks = list(client.chat.completions.create(**spoken, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == answer.outputs[0].text
    assert len(chunks) > 1


def test_vectors_and_sounds(client, folders, tmp_path):
    vector = LLM(folders / "vectors").embed("the engine")[0].outputs.embedding
    got = client.embeddings.create(model="vectors", input="the engine").data[0].embedding
    assert got == pytest.approx(vector, abs=1e-5)
    talk = write_wav(tmp_path / "talk.wav", sound(2.5, 3))
    [expected] = camshaft.llm.Whisper(folders / "whisper").transcribe(talk, language="en", max_tokens=6)
    asked = {"model": "whisper", "file": talk, "language": "en", "temperature": 0.5}
    few = {"top_k": 1, "max_completion_tokens": 6}
    assert client.audio.transcriptions.create(**asked, extra_body=few).text == expected.text
    *_, done = client.audio.transcriptions.create(**asked, extra_body=few, stream=True)
    assert done.type == "transcript.text.done" and done.text == expected.text
    srt = client.audio.transcriptions.create(**asked, extra_body=few, response_format="srt")
    assert srt.startswith("1\n00:00:0")


def post(path, body, method="POST"):
    """The status and the body."""
    request = urllib.request.Request(URL + path, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_what_is_wrong_is_named(client):
    for path, fields, status, param in [
        ("/v1/completions", {"prompt": "x"}, 404, "model"),  # of several
        ("/v1/completions", {"prompt": "x", "model": "other"}, 404, "model"),
        ("/v1/completions", {"prompt": "x", "model": 3}, 400, "model"),
        ("/v1/completions", {"model": "org/text"}, 400, "prompt"),
        ("/v1/completions", {"model": "org/text", "prompt": [1 << 20]}, 400, "prompt"),
        ("/v1/completions", {"model": "org/text", "prompt": "x", "stream": True, "n": 0}, 400, "n"),
        ("/v1/completions", {"model": "vectors", "prompt": "x"}, 400, "model"),
        ("/v1/embeddings", {"model": "org/text", "input": "x"}, 400, "model"),
        ("/v1/audio/transcriptions", {"model": "whisper"}, 400, None),
        ("/v1/threads", {}, 404, None),
        ("/other", {}, 404, None),
    ]:
        got, body = post(path, json.dumps(fields).encode())
        error = json.loads(body)["error"]
        assert (got, error["param"]) == (status, param), (path, fields, error)
    for body in (b"", b"[]", b"{", b"\xff", b"[" * 1000):
        assert post("/v1/completions", body)[0] == 400
    assert post("/v1/completions", None, "GET")[0] == 405
    most = 16 << 20
    assert post("/v1/completions", b" " * most)[0] == 400
    status, body = post("/v1/completions", b" " * (most + 1))
    assert status == 413 and f"more than {most} bytes" in json.loads(body)["error"]["message"]


def test_many_calls_are_shared_by_replicas(client, llm):
    """16 have places in two replicas: all that were accepted are right, the others get 503."""
    prompts = [f"the engine {number}" for number in range(40)]
    expected = [o.outputs[0].text for o in llm.generate(prompts, SamplingParams(temperature=0, max_tokens=24))]

    def ask(number):
        try:
            got = client.completions.create(model="org/text", prompt=prompts[number], temperature=0, max_tokens=24)
        except openai.InternalServerError as error:
            assert error.status_code == 503 and error.response.headers["Retry-After"]
            return None
        return got.choices[0].text == expected[number]

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        results = list(pool.map(ask, range(40)))
    assert False not in results and results.count(True) >= 8
    assert all(map(ask, range(8))), "and none is lost"


def test_clients_that_vanish_end_their_texts(client):
    """8 sequences have places in each of two replicas: those of streams that nobody reads any more are given back."""
    endless = {"model": "org/text", "prompt": "the engine", "max_tokens": 4000, "extra_body": {"ignore_eos": True}}
    for _ in range(20):
        stream = client.completions.create(**endless, stream=True)
        next(iter(stream))
        stream.close()
        time.sleep(0.1)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(post, "/v1/completions", json.dumps(
                {"model": "org/text", "prompt": "x", "max_tokens": 1}).encode()) for _ in range(12)]  # fmt: skip
        if all(each.result()[0] == 200 for each in asked):
            return
    pytest.fail("texts that nobody waits for go on")


def replicas():
    """Processes of the deployment of org/text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::ServeReplica:llm:LLMServer:org--text"):
                found.append(int(path.parent.name))
    return found


def test_a_replica_that_dies_is_replaced(client, llm):
    """What it had fails with an error that says to try again, and the other answers meanwhile."""
    expected = llm.generate("the engine", SamplingParams(temperature=0, max_tokens=6))[0].outputs[0].text
    given = {"model": "org/text", "prompt": "the engine", "temperature": 0, "max_tokens": 6}
    endless = {"model": "org/text", "prompt": "the engine", "max_tokens": 4000, "extra_body": {"ignore_eos": True}}
    before = replicas()
    assert len(before) == 2
    streams = [client.completions.create(**endless, stream=True) for _ in range(6)]
    for stream in streams:
        next(iter(stream))
    os.kill(before[0], signal.SIGKILL)
    lost = 0
    for stream in streams:
        try:
            for _ in stream:
                pass
        except openai.APIError as error:
            assert "try again" in str(error)
            lost += 1
    assert 0 < lost <= 6
    end, right = time.monotonic() + 60, 0
    while time.monotonic() < end and (right < 20 or len(replicas()) < 2):
        try:
            assert client.completions.create(**given).choices[0].text == expected
            right += 1
        except openai.InternalServerError as error:
            assert error.status_code == 503 and "try again" in str(error)
        time.sleep(0.05)
    assert right >= 20 and before[0] not in replicas() and len(replicas()) == 2


def test_a_handle_without_http(served):
    """In another application: its replicas find the folder that is on the node already."""
    from ray import serve

    loading = {"model_source": str(served / "text")}
    handle = serve.run(
        camshaft.ray.build_llm_deployment(
            {"model_loading_config": loading, "deployment_config": {"ray_actor_options": {"num_cpus": 0.5}}}
        ),
        name="alone",
        route_prefix=None,
    )
    body = json.dumps({"prompt": "the engine", "max_tokens": 3, "stream": True}).encode()

    async def pieces():
        return [piece async for piece in handle.options(stream=True).call.remote("completions", body, "")]

    try:
        found = asyncio.run(pieces())
        assert found[-1][2] == "[DONE]" and all(status == 200 for status, _, _ in found) and len(found) >= 2
    finally:
        serve.delete("alone")


def test_what_cannot_be_served(folders, tmp_path):
    loading = {"model_id": "a", "model_source": folders / "text"}
    for attempt, words in [
        (lambda: camshaft.ray.LLMConfig({"model_source": 3}), "model_source is the folder"),
        (lambda: camshaft.ray.LLMConfig({"model": "x"}), "a dict of model_id and model_source"),
        (lambda: camshaft.ray.LLMConfig({**loading, "model_id": 3}), "model_id is 3"),
        (lambda: camshaft.ray.LLMConfig(loading, {"lora_modules": {"a": "b"}}), "engine_kwargs has lora_modules"),
        (lambda: camshaft.ray.build_openai_app({"llm_configs": []}), "one or more are needed"),
        (
            lambda: camshaft.ray.build_openai_app({"llm_configs": [{"model_loading_config": loading}] * 2}),
            "each its own",
        ),
        (lambda: camshaft.ray.build_openai_app({"configs": []}), "there is no configs"),
    ]:
        with pytest.raises(camshaft.InvalidArgumentError, match=words):
            attempt()
    with pytest.raises(camshaft.FileError, match="there is no llm.json"):
        camshaft.ray.build_llm_deployment({"model_loading_config": {"model_source": str(tmp_path)}})
    assert os.listdir(tmp_path) == []
