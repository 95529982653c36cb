"""Adapters of a language model as models of their own, as OpenAI's client and vLLM's calls see them."""

import concurrent.futures
import json
import os
import signal
import time
from pathlib import Path

import camshaft
import lora_folders
import pytest
from language_models import VOCABULARY, serving_language_model, tokenizer_of_bytes, write_language_model
from llm_folders import write_llama

openai = pytest.importorskip("openai", reason="openai is not installed")

from camshaft.llm import LLM, LoRARequest, SamplingParams  # noqa: E402

MODULES = {"model.layers.0.self_attn.q_proj": (64, 64), "model.layers.1.mlp.down_proj": (96, 64)}
NAMES = ("tiny", "french", "legal")


def write_adapter(folder, seed):
    return lora_folders.write_adapter(folder, lora_folders.make_updates(MODULES, 4, seed, 3.0))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("lora")
    hf = write_llama(path / "hf", vocab_size=VOCABULARY, max_position_embeddings=256)
    tokenizer_of_bytes().save(str(hf / "tokenizer.json"))
    given = [f"{name}={write_adapter(path / name, seed)}" for seed, name in enumerate(NAMES[1:])]
    (path / "repository/tiny").mkdir(parents=True)
    camshaft.llm.build(hf, path / "repository/tiny/1", lora=given, cache="f32", tuning="heuristic")
    write_adapter(path / "late", 7)
    return path


@pytest.fixture(scope="module")
def llm(place):
    return LLM(place / "repository/tiny/1")


@pytest.fixture(scope="module")
def server(place):
    with serving_language_model(place / "repository", max_loras=3, allow_runtime_lora_updating="true") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none", max_retries=0) as made:
        yield made


def own_texts(llm, name, prompt, lora=None):
    params = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)
    chosen = lora or (None if name == "tiny" else LoRARequest(name))
    return llm.generate(prompt, params, lora_request=chosen)[0].outputs[0].text


def completion(client, name, prompt):
    extra = {"ignore_eos": True}
    made = client.completions.create(model=name, prompt=prompt, temperature=0, max_tokens=16, extra_body=extra)
    assert made.model == name
    return made.choices[0].text


def test_each_adapter_is_a_model(client, server, place):
    listed = {model.id: model for model in client.models.list()}
    assert list(listed) == list(NAMES)
    assert listed["tiny"].parent is None and listed["french"].parent == "tiny"
    assert listed["tiny"].root == str(place / "repository/tiny/1")
    assert listed["french"].root == str(place / "repository/tiny/1/lora/french")
    one = client.models.retrieve("legal")
    assert (one.id, one.parent, one.max_model_len) == ("legal", "tiny", 256)
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("german")
    assert caught.value.code == "model_not_found"


def test_the_model_that_a_call_names_answers(client, llm):
    """Many at once, in the same steps."""
    wanted = {name: own_texts(llm, name, "The engine") for name in NAMES}
    assert len(set(wanted.values())) == 3
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        calls = {i: threads.submit(completion, client, NAMES[i % 3], "The engine") for i in range(36)}
        for i, call in calls.items():
            assert call.result() == wanted[NAMES[i % 3]]
    stream = client.completions.create(
        model="french", prompt="The engine", temperature=0, max_tokens=16, stream=True, extra_body={"ignore_eos": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == wanted["french"]
    assert {chunk.model for chunk in chunks} == {"french"}


def test_a_model_that_is_none(client, server):
    with pytest.raises(openai.NotFoundError) as caught:
        completion(client, "german", "x")
    assert caught.value.code == "model_not_found" and caught.value.param == "model"


def update(server, action, **body):
    status, _, answer = server.request("POST", f"/v1/{action}_lora_adapter", json.dumps(body).encode())
    return status, answer.decode()


def test_adapters_are_loaded_and_unloaded(client, server, llm, place):
    path = str(place / "late")
    status, answer = update(server, "load", lora_name="late", lora_path=path)
    assert (status, answer) == (200, "Success: LoRA adapter 'late' added successfully.")
    assert [model.id for model in client.models.list()] == [*NAMES, "late"]
    wanted = own_texts(LLM(place / "repository/tiny/1"), "late", "The engine", LoRARequest("late", 1, path))
    assert completion(client, "late", "The engine") == wanted
    assert update(server, "load", lora_name="late", lora_path=path)[0] == 400
    assert update(server, "load", lora_name="tiny", lora_path=path)[0] == 400
    assert update(server, "unload", lora_name="late")[0] == 200
    assert update(server, "unload", lora_name="late")[0] == 404
    with pytest.raises(openai.NotFoundError):
        completion(client, "late", "The engine")
    for body, words in (
        ({"lora_name": "x"}, "'lora_path' is missing"),
        ({"lora_path": path}, "'lora_name' is missing"),
        ({"lora_name": 3, "lora_path": path}, "'lora_name' is 3"),
        ({"lora_name": "x", "lora_path": "/nowhere"}, "/nowhere"),
        ({"lora_name": "../x", "lora_path": path}, "cannot be named"),
        ({"lora_name": "x", "lora_path": path, "more": 1}, "more"),
    ):
        status, answer = update(server, "load", **body)
        assert status == 400 and words in json.loads(answer)["error"]["message"], answer
    assert server.request("GET", "/v1/load_lora_adapter")[0] == 405


def test_without_leave_nothing_is_loaded(place):
    with serving_language_model(place / "repository", lora_modules=f"late={place / 'late'}") as server:
        status, answer = update(server, "load", lora_name="x", lora_path=str(place / "late"))
        assert status == 403 and "--allow-runtime-lora-updating" in answer
        assert update(server, "unload", lora_name="french")[0] == 403
        status, _, listed = server.request("GET", "/v1/models")
        assert [each["id"] for each in json.loads(listed)["data"]] == [*NAMES, "late"]


def test_a_model_that_is_silent_holds_up_its_own_calls_alone(tmp_path):
    """It is asked for its adapters by calls that name no model, of which there are more than threads that start calls."""
    for name in ("silent", "tiny"):
        write_language_model(tmp_path / name / "1")
    with serving_language_model(tmp_path) as server:
        tiny = {"model": "tiny", "prompt": [1, 5], "max_tokens": 2}
        assert server.request("POST", "/v1/completions", json.dumps(tiny))[0] == 200
        process = worker_of(server, "silent")
        os.kill(process, signal.SIGSTOP)
        try:
            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                unknown = json.dumps({**tiny, "model": "french"})
                asked = [pool.submit(server.request, "POST", "/v1/completions", unknown) for _ in range(24)]
                time.sleep(0.5)
                began = time.monotonic()
                assert server.request("POST", "/v1/completions", json.dumps(tiny))[0] == 200
                assert time.monotonic() - began < 4, "it waited for those that ask"
                os.kill(process, signal.SIGCONT)
                assert {each.result()[0] for each in asked} <= {404, 503}
        finally:
            os.kill(process, signal.SIGCONT)


def worker_of(server, model):
    """The process of a model, which maps the weights."""
    for each in Path(f"/proc/{server.process.pid}/task").glob("*/children"):
        for number in each.read_text().split():
            if f"/{model}/1/" in Path(f"/proc/{number}/maps").read_text():
                return int(number)
    raise AssertionError(f"no process of {model}")
