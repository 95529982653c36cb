"""/v1/embeddings, as OpenAI's own client sees it: beside what the model gives without a server."""

import asyncio
import base64
import json
import os
import random
import shutil
import struct

import numpy as np
import pytest
from language_models import serving_language_model, write_embedding_model, write_language_model

openai = pytest.importorskip("openai", reason="openai is not installed")

from camshaft.llm import LLM, PoolingParams  # noqa: E402

TEXTS = ["The engine turns", "a valve", "Öl", "x"]
QUEUED = 40


@pytest.fixture(scope="module", params=["bert", "llama"])
def repository(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    write_embedding_model(path / "tiny/1", request.param)
    return path


@pytest.fixture(scope="module")
def llm(repository):
    return LLM(repository / "tiny/1")


@pytest.fixture(scope="module")
def server(repository):
    with serving_language_model(repository, max_queued=QUEUED, max_num_seqs=8) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none", max_retries=0) as made:
        yield made


def wanted(llm, prompts, **params):
    return [output.outputs.embedding for output in llm.embed(prompts, PoolingParams(**params))]


def check_near(got, known):
    np.testing.assert_allclose(got, known, rtol=0, atol=1e-6)


def ask(server, document, path="/v1/embeddings"):
    body = document if isinstance(document, (str, bytes)) else json.dumps(document)
    status, _, answer = server.request("POST", path, body)
    return status, json.loads(answer)


def test_embeddings_are_the_models_own(client, llm):
    got = client.embeddings.create(model="tiny", input=TEXTS)  # which asks for base64
    check_near([each.embedding for each in got.data], wanted(llm, TEXTS))
    assert [(each.index, each.object) for each in got.data] == [(i, "embedding") for i in range(4)]
    ids = [llm.tokenizer.encode(text).ids for text in TEXTS]
    tokens = sum(map(len, ids))
    assert (got.object, got.model, got.usage.prompt_tokens, got.usage.total_tokens) == ("list", "tiny", tokens, tokens)
    for one in (TEXTS[0], ids[0]):
        check_near(client.embeddings.create(model="tiny", input=one).data[0].embedding, wanted(llm, TEXTS[:1])[0])
    again = client.embeddings.create(model="tiny", input=ids, encoding_format="float")
    check_near([each.embedding for each in again.data], wanted(llm, TEXTS))


def test_formats_and_dimensions(server, llm, client):
    status, plain = ask(server, {"model": "tiny", "input": "x"})
    assert status == 200
    status, coded = ask(server, {"model": "tiny", "input": "x", "encoding_format": "base64"})
    data = base64.b64decode(coded["data"][0]["embedding"])
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    check_near(numbers, plain["data"][0]["embedding"])
    assert abs(np.linalg.norm(numbers) - 1) < 1e-5
    short = client.embeddings.create(model="tiny", input="x", dimensions=8)
    check_near(short.data[0].embedding, wanted(llm, "x", dimensions=8)[0])
    raw = client.embeddings.create(model="tiny", input="x", extra_body={"normalize": False})
    check_near(raw.data[0].embedding, wanted(llm, "x", normalize=False)[0])
    bare = client.embeddings.create(model="tiny", input="x", extra_body={"add_special_tokens": False})
    check_near(bare.data[0].embedding, wanted(llm, [llm.tokenizer.encode("x", add_special_tokens=False).ids])[0])


def test_what_is_wrong_is_named(server, llm):
    width, vocabulary = llm.description["embedding_size"], llm.description["vocabulary"]
    for fields, param in (
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": ["x", 5]}, "input"),
        ({"input": ["x", [5]]}, None),
        ({"input": [[5], "x"]}, None),
        ({"input": [5, "x"]}, "input"),
        ({"input": [1.5]}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": [True]}, "input"),
        ({"input": {"a": 1}}, "input"),
        ({"input": 5}, "input"),
        ({"input": [[[1]]]}, "input"),
        ({"input": "x", "dimensions": 0}, "dimensions"),
        ({"input": "x", "dimensions": width + 1}, "dimensions"),
        ({"input": "x", "dimensions": "8"}, "dimensions"),
        ({"input": "x", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "x", "encoding_format": 1}, "encoding_format"),
        ({"input": "x", "stream": True}, "stream"),
        ({"input": "x", "messages": []}, "messages"),
        ({"input": "x", "temperature": 1}, "temperature"),
        ({"input": "x", "normalize": "yes"}, "normalize"),
        ({"input": "x", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"input": "x", "truncate_prompt_tokens": 1 << 20}, "truncate_prompt_tokens"),
        ({"input": "x", "truncate_prompt_tokens": "all"}, "truncate_prompt_tokens"),
        ({"input": [[], [5]], "truncate_prompt_tokens": 3}, "input"),
        ({"input": ["x"] * (QUEUED + 1)}, "input"),
    ):
        status, answer = ask(server, {"model": "tiny", **fields})
        if param is None:  # a list of both kinds
            assert status == 200 and len(answer["data"]) == 2
            continue
        error = answer["error"]
        assert (status, error["param"], error["type"]) == (400, param, "invalid_request_error"), (fields, error)
    for given in ([vocabulary], [[5], [vocabulary]], [(1 << 31) - 1]):
        status, answer = ask(server, {"model": "tiny", "input": given})
        assert status == 400 and f"tokens 0 to {vocabulary - 1}" in answer["error"]["message"]
        assert answer["error"]["param"] == "input"
    assert ask(server, {"model": "other", "input": "x"})[0] == 404


def test_prompts_that_are_too_long(server, llm):
    longest = llm.description["max_length"]
    for given in ([5] * (longest + 1), [[5], [5] * 1_000_000], "x " * longest, "x " * 1_000_000):
        status, answer = ask(server, {"model": "tiny", "input": given})
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded", answer
        assert answer["error"]["param"] == "input" and str(longest) in answer["error"]["message"]
    cut = {"model": "tiny", "input": ["x " * 1_000_000, [7] * 1_000_000, "y"], "truncate_prompt_tokens": -1}
    status, answer = ask(server, cut)
    assert status == 200 and answer["usage"]["prompt_tokens"] == 2 * longest + len(llm.tokenizer.encode("y").ids)
    known = wanted(llm, ["x " * 2 * longest, [7] * longest, "y"], truncate_prompt_tokens=-1)
    check_near([each["embedding"] for each in answer["data"]], known)
    status, answer = ask(server, {"model": "tiny", "input": [5] * longest})
    assert status == 200 and answer["usage"]["prompt_tokens"] == longest


def test_malformed_bodies(server):
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED", 0)) or random.randrange(1 << 32)
    print(f"CAMSHAFT_TEST_SEED={seed}")
    dice = random.Random(seed)
    call = {
        "model": "tiny",
        "input": ["a", "b c"],
        "encoding_format": "float",
        "dimensions": 4,
        "user": "x",
        "priority": 1,
    }
    odd = (None, True, -1, 1e300, 1 << 70, "", "é\u0000", [], {}, [[]], {"": {}}, [None], "x" * 1000, [["a"]], [{}])
    for _ in range(100):
        if dice.random() < 0.5:  # text that is broken
            text = json.dumps(call).encode()
            place = dice.randrange(len(text))
            body = text[:place] + dice.choice((b"", dice.randbytes(3), b"}", b'"', b"\\ud800")) + text[place + 1 :]
        else:  # a field that is something else
            body = json.dumps({**call, dice.choice(list(call)): dice.choice(odd)})
        status, _, answer = server.request("POST", "/v1/embeddings", body)
        assert status in (200, 400, 404), (status, body, answer)
        if status != 200:
            assert json.loads(answer)["error"]["message"], body
    assert ask(server, {"model": "tiny", "input": "x"})[0] == 200


def test_each_model_has_its_own_routes(server, client, repository, tmp_path):
    for attempt in (
        lambda: client.completions.create(model="tiny", prompt="x"),
        lambda: client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}]),
    ):
        with pytest.raises(
            openai.BadRequestError, match="gives embeddings, and no text: ask for them at /v1/embeddings"
        ):
            attempt()
    # By Triton's protocol, too: the same body as a tensor.
    status, answer = ask(server, {"request": json.dumps({"input": "x"})}, "/v2/models/tiny/generate")
    assert status == 200 and json.loads(answer["response"])["data"][0]["embedding"]
    write_language_model(tmp_path / "tiny/1")
    with serving_language_model(tmp_path) as other:
        status, answer = ask(other, {"model": "tiny", "input": "x"})
        assert status == 400 and "build it with --task embed" in answer["error"]["message"]
        assert answer["error"]["param"] == "model"


def test_ten_times_the_load(server, llm):
    """Whatever is accepted is answered as it is when it is alone; the rest is refused with 503."""
    texts = [TEXTS[: 1 + i % 4] for i in range(300)]
    known = dict(zip(TEXTS, wanted(llm, TEXTS)))

    async def call(given):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["HTTP"])
        body = json.dumps({"model": "tiny", "input": given}).encode()
        head = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        try:
            writer.write(head + body)
            answer = await reader.read()
        finally:
            writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(rest)

    async def everyone():
        return await asyncio.gather(*map(call, texts))

    accepted = 0
    for given, (status, answer) in zip(texts, asyncio.run(everyone())):
        assert status in (200, 503), answer
        if status == 503:
            assert answer["error"]["code"] == "overloaded"
            continue
        accepted += 1
        check_near([each["embedding"] for each in answer["data"]], [known[text] for text in given])
    assert accepted >= QUEUED // 4


def test_metrics(repository, tmp_path):
    shutil.copytree(repository / "tiny/1", tmp_path / "tiny/1")
    with serving_language_model(tmp_path) as server:
        assert ask(server, {"model": "tiny", "input": [[5, 6, 7], [8]]})[0] == 200
        label = 'model_name="tiny"'
        _, _, body = server.request("GET", "/metrics", port="metrics")
        import time

        end = time.monotonic() + 10
        while f"vllm:prompt_tokens_total{{{label}}} 4" not in body.decode() and time.monotonic() < end:
            time.sleep(0.05)
            _, _, body = server.request("GET", "/metrics", port="metrics")
        text = body.decode()
        assert f"vllm:prompt_tokens_total{{{label}}} 4" in text
        assert f'vllm:request_success_total{{finished_reason="stop",{label}}} 2' in text
        assert f"vllm:generation_tokens_total{{{label}}} 0" in text
