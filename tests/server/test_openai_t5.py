"""A model with an encoder behind OpenAI's interface, beside what it gives without a server."""

import asyncio
import json
import threading

import camshaft.llm
import pytest
from language_models import serving_language_model
from t5_folders import write_t5

openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from camshaft.llm import BeamSearchParams, EncoderDecoderLLM, SamplingParams  # noqa: E402

TEXTS = ["w5 w9 w33", "w7", "w3 w4 w3 w4 w3 w4"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("t5")
    (path / "tiny").mkdir()
    camshaft.llm.build(write_t5(path.parent / "hf-t5"), path / "tiny/1", tuning="heuristic", cache="f32")
    return path


@pytest.fixture(scope="module")
def model(repository):
    return EncoderDecoderLLM(repository / "tiny/1")


@pytest.fixture(scope="module")
def server(repository):
    with serving_language_model(repository, max_num_seqs=4) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_completions_are_the_models_own(client, model):
    expected = model.generate(TEXTS, SamplingParams(temperature=0, max_tokens=12))
    got = client.completions.create(model="tiny", prompt=TEXTS, temperature=0, max_tokens=12, logprobs=1)
    assert [choice.text for choice in got.choices] == [output.outputs[0].text for output in expected]
    assert got.usage.prompt_tokens == sum(len(output.prompt_token_ids) for output in expected)
    assert got.usage.completion_tokens == sum(len(output.outputs[0].token_ids) for output in expected)
    drawn = client.completions.create(model="tiny", prompt=TEXTS[0], seed=3, n=3, max_tokens=9)
    params = SamplingParams(seed=3, n=3, max_tokens=9)
    assert [choice.text for choice in drawn.choices] == [o.text for o in model.generate(TEXTS[0], params)[0].outputs]
    searched = client.completions.create(
        model="tiny", prompt=TEXTS[0], n=2, max_tokens=8, extra_body={"use_beam_search": True}
    )
    [beams] = model.beam_search(TEXTS[0], BeamSearchParams(2, 8, temperature=1.0))
    assert len(searched.choices) == len(beams.sequences) == 2
    echoed = client.completions.create(model="tiny", prompt=TEXTS[1], temperature=0, max_tokens=4, echo=True)
    assert echoed.choices[0].text.startswith(TEXTS[1])


def test_streams_are_the_replies(client):
    given = {"model": "tiny", "prompt": TEXTS, "temperature": 0, "max_tokens": 15}
    whole = client.completions.create(**given)
    texts, usage = [""] * len(TEXTS), None
    for chunk in client.completions.create(**given, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices] and usage == whole.usage


def test_many_calls_run_together(client, model):
    expected = model.generate(TEXTS, SamplingParams(temperature=0, max_tokens=12))
    found = {}

    def call(number):
        text = TEXTS[number % len(TEXTS)]
        found[number] = client.completions.create(model="tiny", prompt=text, temperature=0, max_tokens=12)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 24
    for number, got in found.items():
        assert got.choices[0].text == expected[number % len(TEXTS)].outputs[0].text


def test_clients_that_leave_hold_nobody_up(client):
    """Each leaves a text that would take long: others have the places of their prompts."""
    for _ in range(8):
        stream = client.completions.create(
            model="tiny", prompt=TEXTS[0], max_tokens=50, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        stream.close()
    assert client.completions.create(model="tiny", prompt=TEXTS[0], max_tokens=3).choices


def test_calls_that_ended_before_they_began_ask_for_nothing(model):
    """As of a client that left while its prompt was read: nobody would end what began after that."""
    from camshaft.llm.openai._body import Body
    from camshaft.llm.openai._completions import Completions
    from camshaft.llm.openai._served import ServedEncoderDecoder

    async def leave_and_begin():
        served = ServedEncoderDecoder(model, "tiny", 10, "")
        call = Completions(served, Body({"prompt": TEXTS[0], "max_tokens": 40, "ignore_eos": True}))
        running = served.running(asyncio.get_running_loop(), call)
        running.end()
        running.start()
        served.readers.shutdown()
        return running.work()

    before = model._llm.statistics()["generated"]
    assert asyncio.run(leave_and_begin()) == [] and model._llm.statistics()["generated"] == before


@pytest.mark.parametrize("path, fields, status, param", [
    ("completions", {"prompt": [[5] * 65]}, 400, "prompt"),
    ("completions", {"prompt": [[]]}, 400, "prompt"),
    ("completions", {"prompt": [[70]]}, 400, "prompt"),
    ("completions", {"prompt": "w5", "max_tokens": 1000}, 400, "max_tokens"),
    ("completions", {"prompt": "w5", "echo": True, "logprobs": 1}, 400, "echo"),
    ("completions", {"prompt": "w5", "n": 5}, 400, "n"),
    ("chat/completions", {"messages": [{"role": "user", "content": "w5"}]}, 400, "messages"),
    ("responses", {"input": "w5"}, 400, "input"),
    ("embeddings", {"input": "w5"}, 400, "model"),
])  # fmt: skip
def test_what_is_wrong_is_named(server, path, fields, status, param):
    got, _, body = server.request("POST", f"/v1/{path}", json.dumps({"model": "tiny", **fields}))
    error = json.loads(body)["error"]
    assert (got, error["param"]) == (status, param), error


def test_options_that_it_has_not_are_named(repository):
    from camshaft.llm.openai._loading import serve_folder

    with pytest.raises(camshaft.InvalidArgumentError, match="a model with an encoder has no num_blocks"):
        serve_folder(repository / "tiny/1", "tiny", {"num_blocks": 3}, 10)
