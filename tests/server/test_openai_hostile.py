"""OpenAI's interface under those who mean ill, vanish, or ask for more than there is: nothing that was accepted is lost, the
server stays, and keeps no memory."""

import asyncio
import json
import os
import random
import re
import time
from pathlib import Path

import pytest
from language_models import LONGEST, serving_language_model, write_language_model

QUEUED = 64  # texts that the server takes at once
PROMPT = {"prompt": "The engine", "temperature": 0, "max_tokens": 12, "ignore_eos": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("openai")
    write_language_model(path / "tiny/1")
    with serving_language_model(path, max_queued=QUEUED, max_num_seqs=16) as running:
        yield running


def ask(server, document, path="/v1/completions"):
    body = document if isinstance(document, (str, bytes)) else json.dumps(document)
    status, _, answer = server.request("POST", path, body)
    return status, json.loads(answer)


def memory(server):
    """Bytes resident in the server and in the process of its model."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    total = 0
    for tid in os.listdir(f"/proc/{server.process.pid}/task"):
        children += Path(f"/proc/{server.process.pid}/task/{tid}/children").read_text().split()
    for pid in {str(server.process.pid), *children}:
        status = Path(f"/proc/{pid}/status").read_text()
        total += 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])
    return total


def check_alive(server):
    status, answer = ask(server, PROMPT)
    assert status == 200 and answer["usage"]["completion_tokens"] == 12


def test_malformed_bodies(server):
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED", 0)) or random.randrange(1 << 32)
    print(f"CAMSHAFT_TEST_SEED={seed}")
    dice = random.Random(seed)
    chat = {
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 2,
        "stop": ["a"],
        "logit_bias": {"5": 1},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "stream_options": {"include_usage": True},
        "stream": True,
    }
    odd = (None, True, -1, 1e300, 1 << 70, "", "é\u0000", [], {}, [[]], {"": {}}, [None], "x" * 1000)
    for _ in range(150):
        if dice.random() < 0.5:  # text that is broken
            text = json.dumps(chat).encode()
            place = dice.randrange(len(text))
            body = text[:place] + dice.choice((b"", dice.randbytes(3), b"}", b'"', b"\\ud800")) + text[place + 1 :]
        else:  # a field that is something else
            body = json.dumps({**chat, dice.choice(list(chat)): dice.choice(odd), "stream": False})
        path = dice.choice(("/v1/chat/completions", "/v1/completions", "/v1/embeddings"))
        status, _, answer = server.request("POST", path, body)
        assert status in (200, 400, 404), (status, body, answer)
        if status != 200:
            assert json.loads(answer)["error"]["message"], body
    check_alive(server)


def test_huge_prompts_are_refused_at_once(server):
    million = 1_000_000
    for document, path in (
        ({"prompt": [5] * million}, "/v1/completions"),
        ({"prompt": "shaft " * million}, "/v1/completions"),
        ({"prompt": "x"  * (LONGEST + 1)}, "/v1/completions"),
        ({"messages": [{"role": "user", "content": "shaft " * million}]}, "/v1/chat/completions"),
        ({"messages": [{"role": "user", "content": "a b "} for _ in range(20_000)]}, "/v1/chat/completions"),
    ):  # fmt: skip
        start = time.monotonic()
        status, answer = ask(server, document, path)
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded", answer["error"]
        assert str(LONGEST) in answer["error"]["message"]
        assert time.monotonic() - start < 5
    status, answer = ask(server, {"prompt": [[5]] * (QUEUED + 1)})
    assert status == 400 and answer["error"]["param"] == "prompt"
    status, answer = ask(server, json.dumps({"prompt": "x" * (17 << 20)}))
    assert status == 400 and "bytes" in answer["error"]["message"]


def test_deep_and_wide_documents(server):
    for body in (
        '{"prompt":' + 100_000 * "[" + 100_000 * "]" + "}",
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"prompt":[' + ",".join(["[]"] * 1_000_000) + "]}",
        '{"metadata":{' + ",".join(f'"{i}":{{}}' for i in range(200_000)) + '},"prompt":"x"}',
    ):
        status, answer = ask(server, body)
        assert status == 400 and answer["error"]["message"], answer
    check_alive(server)


def test_schema_bombs(server):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    doubling = {"$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}}
    doubling["$defs"]["d60"] = {"type": "string"}
    deep = {"type": "string"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    schemas = [
        {**doubling, "$ref": "#/$defs/d0"},
        {"$ref": "#"},
        {"$ref": "http://127.0.0.1:1/x.json"},
        {"type": "string", "pattern": "(a|a)*" * 50 + "(x+x+)+y"},
        {"type": "string", "pattern": "((((a{1000}){1000}){1000}){1000})"},
        {"type": "array", "minItems": 1 << 30, "items": {"type": "array", "minItems": 1 << 30}},
        {"enum": [str(i) * 20 for i in range(20_000)]},
        {"anyOf": [{"type": "object", "properties": {f"p{i}": {"type": "string"}}} for i in range(500)]},
        deep,
        {"type": "nothing"},
        {"properties": 5},
    ]
    start = time.monotonic()
    for schema in schemas:
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        given = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4}
        for document in (
            {**given, "tools": [tool] * 5, "tool_choice": {"type": "function", "function": {"name": "f"}}},
            {**given, "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}},
        ):
            status, answer = ask(server, document, "/v1/chat/completions")
            assert status in (200, 400), answer
            assert status == 200 or answer["error"]["message"], answer
        check_alive(server)
    status, answer = ask(server, {"messages": [{"role": "user", "content": "x"}], "tools": [tool] * 129}, "/v1/chat/completions")  # fmt: skip
    assert status == 400 and answer["error"]["param"] == "tools"
    assert time.monotonic() - start < 120


def test_slow_grammars_are_refused_by_their_own_calls(server):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    for regex in ("(((a{100}){100}){100}){100}", "(", "a{2,1}"):
        for field, given in (
            ("guided_regex", {"guided_regex": regex}),
            ("structured_outputs", {"structured_outputs": {"regex": regex}}),
        ):
            status, answer = ask(server, {**PROMPT, **given})
            assert status == 400 and answer["error"]["param"] == field, answer
            assert "structured_outputs: " in answer["error"]["message"]
    check_alive(server)


def test_what_is_refused_before_it_is_worked_on(server):
    said = {"messages": [{"role": "user", "content": "x"}]}
    wide = "[" + "[]," * 70_000 + "[]]"
    tool = {"type": "function", "function": {"name": "f"}}
    long = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": wide}}]}
    for path, fields in (
        ("completions", {"prompt": "x", "stop": "a" * 1_000_000}),
        ("completions", {"prompt": "x", "stop": ["a" * 4000 + str(i) for i in range(9)]}),
        ("completions", {"prompt": "x", "stop_token_ids": list(range(2000))}),
        ("completions", {"prompt": ["shaft " * 2000] * (QUEUED + 1)}),
        ("completions", {"prompt": "x", "guided_json": wide}),
        ("chat/completions", {"messages": [{"role": "x" * 10, "content": "x"}]}),
        ("chat/completions", {**said, "chat_template_kwargs": {"self": 1}}),
        ("chat/completions", {**said, "chat_template_kwargs": {"image_placeholder": "x"}}),
        ("chat/completions", {**said, "tools": [tool], "tool_choice": {"type": "function", "function": {"name": []}}}),
        ("chat/completions", {"messages": [*said["messages"], long]}),
    ):
        start = time.monotonic()
        status, answer = ask(server, {**fields, "max_tokens": 2}, f"/v1/{path}")
        assert status == 400 and answer["error"]["message"], (list(fields), status, answer)
        assert time.monotonic() - start < 5
    body = json.dumps({"prompt": "x", "metadata": json.loads(wide)})
    status, answer = ask(server, {"text_input": "", "request": body}, "/v2/models/tiny/generate")
    assert "lists and objects" in str(answer), (status, answer)
    check_alive(server)


async def call(server, document, leave=None):
    """Status and body of a call; None where it left: at a random moment, or once the first event has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["HTTP"])
    body = json.dumps(document).encode()
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    try:
        if leave is not None:
            writer.write(body[: len(body) if leave > 0 else 5])
            await writer.drain()
            await asyncio.sleep(abs(leave))
            if leave > 0.05:
                await reader.readuntil(b"data: ")
            writer.transport.abort()
            return None
        writer.write(body)
        answer = await reader.read()
        head, _, rest = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), rest
    finally:
        writer.close()


def status_of_as_many_as_there_may_be(server):
    status, _, answer = server.request(
        "POST", "/v1/completions", json.dumps({**PROMPT, "prompt": ["x"] * QUEUED, "max_tokens": 1})
    )
    return status


def test_clients_that_vanish(server):
    endless = {"prompt": "The engine", "max_tokens": LONGEST - 64, "ignore_eos": True, "stream": True}

    async def everyone():
        dice = random.Random(7)
        leaving = [call(server, {**endless, "n": 2}, dice.choice((-0.01, 0.001, 0.02, 0.06, 0.1))) for _ in range(24)]
        staying = [call(server, PROMPT) for _ in range(8)]
        return await asyncio.gather(*leaving, *staying)

    for _ in range(3):
        answers = [answer for answer in asyncio.run(everyone()) if answer is not None]
        assert [status for status, _ in answers] == [200] * 8
    # All that they asked for ends: as many texts as the server takes at once have place again.
    end = time.monotonic() + 10
    while (status := status_of_as_many_as_there_may_be(server)) != 200 and time.monotonic() < end:
        time.sleep(0.1)
    assert status == 200, status


def test_ten_times_the_load(server):
    """Whatever is accepted is answered as it is when it is alone; the rest is refused with 503."""
    _, alone = ask(server, PROMPT)
    text = alone["choices"][0]["text"]

    async def everyone(count):
        return await asyncio.gather(*(call(server, {**PROMPT, "stream": i % 2 == 1}) for i in range(count)))

    def check(answers):
        accepted = 0
        for status, body in answers:
            assert status in (200, 503), body
            if status == 503:
                assert json.loads(body)["error"]["code"] == "overloaded"
                continue
            accepted += 1
            events = re.findall(rb"data: (\{.*\})", body)
            if events:
                assert body.count(b"data: [DONE]") == 1
                parts = [json.loads(event)["choices"][0] for event in events]
                assert "".join(part["text"] for part in parts) == text and parts[-1]["finish_reason"] == "length"
            else:
                assert json.loads(body)["choices"][0]["text"] == text
        return accepted

    check(asyncio.run(everyone(10 * QUEUED)))
    before = memory(server)
    accepted = [check(asyncio.run(everyone(10 * QUEUED))) for _ in range(4)]
    assert min(accepted) >= QUEUED
    grown = memory(server) - before
    assert grown < 0.05 * before, f"{before} bytes, and {grown} more"
    check_alive(server)


def test_a_model_that_dies_is_started_again(server):
    children = []
    for tid in os.listdir(f"/proc/{server.process.pid}/task"):
        children += Path(f"/proc/{server.process.pid}/task/{tid}/children").read_text().split()
    (child,) = set(children)

    async def killed():
        waiting = asyncio.create_task(call(server, {**PROMPT, "max_tokens": LONGEST - 64, "n": 16, "temperature": 1}))
        await asyncio.sleep(0.05)
        os.kill(int(child), 9)
        return await waiting

    status, body = asyncio.run(killed())
    assert status == 503 and "started again" in json.loads(body)["error"]["message"], body
    check_alive(server)
