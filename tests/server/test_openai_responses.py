"""OpenAI's Responses API, as its own client sees it, beside chat completions of the same server."""

import json

import pytest
from language_models import LONGEST, serving_language_model, write_language_model

openai = pytest.importorskip("openai", reason="openai is not installed")

from camshaft.llm import LLM, SamplingParams  # noqa: E402

HELLO = [{"role": "user", "content": "The engine"}]
PARAMETERS = {
    "type": "object",
    "properties": {"fast": {"type": "boolean"}, "way": {"enum": ["left", "right"]}},
    "required": ["fast", "way"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "name": "turn", "parameters": PARAMETERS}
GREEDY = {"model": "tiny", "temperature": 0, "max_output_tokens": 20}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("responses")
    write_language_model(path / "tiny/1")
    return path


@pytest.fixture(scope="module")
def llm(repository):
    return LLM(repository / "tiny/1")


@pytest.fixture(scope="module")
def server(repository):
    with serving_language_model(repository) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def unspaced(llm):
    """Against the spaces of JSON, which a model that was never taught writes for ever."""
    return {"logit_bias": {str(llm.tokenizer.token_to_id(word)): -100 for word in "ĉĊčĠ"}}


def test_a_response_is_the_models_own(client, llm):
    expected = llm.generate(llm.chat_prompt(HELLO), SamplingParams(temperature=0, max_tokens=20))[0]
    got = client.responses.create(**GREEDY, input="The engine", metadata={"a": "b"})
    output = expected.outputs[0]
    assert got.output_text == output.text and got.model == "tiny" and got.metadata == {"a": "b"}
    assert [item.type for item in got.output] == ["message"] and got.id.startswith("resp_")
    ended = output.finish_reason == "stop"
    assert got.status == ("completed" if ended else "incomplete")
    assert (got.incomplete_details is None) == ended and got.error is None and got.previous_response_id is None
    usage = got.usage
    assert usage.input_tokens == len(expected.prompt_token_ids) and usage.output_tokens == len(output.token_ids)
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    asked = llm.chat_prompt([{"role": "system", "content": "Be brief."}, *HELLO])
    brief = llm.generate(asked, SamplingParams(temperature=0, max_tokens=20))[0].outputs[0].text
    assert client.responses.create(**GREEDY, input=HELLO, instructions="Be brief.").output_text == brief
    cut = client.responses.create(model="tiny", input="x", max_output_tokens=2, extra_body={"ignore_eos": True})
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    assert cut.output[0].status == "incomplete" and cut.usage.output_tokens == 2
    longest = client.responses.create(model="tiny", input="x", extra_body={"ignore_eos": True})
    assert longest.usage.total_tokens == LONGEST


def test_conversations_are_those_of_chat_completions(client):
    """Items as a client sends them back: its own, and those of responses."""
    first = client.responses.create(**GREEDY, input=HELLO)
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        *HELLO,
        *[item.model_dump() for item in first.output],
        {"type": "function_call", "call_id": "1", "name": "turn", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "turn", "arguments": "[]"},
        {"type": "function_call_output", "call_id": "1", "output": "turned"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "no"}]},
        {"type": "reasoning", "id": "r", "summary": []},
        {"role": "user", "content": [{"type": "input_text", "text": "And"}, {"type": "input_text", "text": "now?"}]},
    ]
    calls = [
        {"id": number, "type": "function", "function": {"name": "turn", "arguments": arguments}}
        for number, arguments in (("1", "{}"), ("2", "[]"))
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        *HELLO,
        {"role": "assistant", "content": first.output_text},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "turned"},
        {"role": "tool", "tool_call_id": "2", "content": "no"},
        {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "now?"}]},
    ]
    got = client.responses.create(**GREEDY, input=items)
    expected = client.chat.completions.create(model="tiny", messages=messages, temperature=0, max_completion_tokens=20)
    assert got.output_text == expected.choices[0].message.content
    assert got.usage.input_tokens == expected.usage.prompt_tokens


def test_streams_are_the_replies(client):
    given = {"model": "tiny", "input": HELLO, "max_output_tokens": 30, "temperature": 0, "top_logprobs": 2}
    whole = client.responses.create(**given)
    events = list(client.responses.create(**given, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        *("response.created", "response.in_progress"),
        *("response.output_item.added", "response.content_part.added"),
    ]
    assert kinds[-4:] == [
        *("response.output_text.done", "response.content_part.done", "response.output_item.done"),
        f"response.{whole.status}",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == whole.output_text == events[-4].text
    last = events[-1].response
    assert last.id == events[0].response.id and last.output[0].id == deltas[0].item_id
    assert last.output_text == whole.output_text
    for ours, theirs in zip(last.output[0].content[0].logprobs, whole.output[0].content[0].logprobs, strict=True):
        assert ours == theirs and len(ours.top_logprobs) == 2
    assert len(whole.output[0].content[0].logprobs) == whole.usage.output_tokens
    assert last.usage.output_tokens == whole.usage.output_tokens
    given["extra_body"] = {"stop": [whole.output_text[6:9]]}
    ended = client.responses.create(**given)
    assert ended.status == "completed" and whole.output_text.startswith(ended.output_text)
    with client.responses.stream(**given) as stream:  # which puts the events together itself
        for _ in stream:
            pass
    assert stream.get_final_response().output_text == ended.output_text


def test_events_have_names(server):
    """Clients of other languages tell them apart by these."""
    body = {"model": "tiny", "input": "x", "stream": True, "max_output_tokens": 2}
    status, headers, text = server.request("POST", "/v1/responses", json.dumps(body))
    assert status == 200 and "text/event-stream" in headers["Content-Type"]
    for event in text.decode().strip().split("\n\n"):
        name, data = event.split("\n")
        assert name == "event: " + json.loads(data.removeprefix("data: "))["type"]
    assert b"[DONE]" not in text


def test_forms_of_texts(client, unspaced):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    form = {"type": "json_schema", "name": "turn", "schema": PARAMETERS, "strict": True}
    given = {"model": "tiny", "input": HELLO, "text": {"format": form}, "extra_body": {"seed": 1, **unspaced}}
    got = client.responses.create(**given, max_output_tokens=200)
    assert json.loads(got.output_text)["way"] in ("left", "right")
    assert got.text.format.name == "turn" and got.text.format.schema_ == PARAMETERS
    anything = client.responses.create(
        **{**given, "text": {"format": {"type": "json_object"}}}, max_output_tokens=60, temperature=0
    )
    assert anything.output_text.lstrip().startswith("{")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "turn"}])
def test_tools(client, unspaced, choice):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    given = {"model": "tiny", "input": HELLO, "tools": [TOOL], "max_output_tokens": 300, "tool_choice": choice}
    given |= {"parallel_tool_calls": False, "extra_body": {"seed": 5, **unspaced}}
    got = client.responses.create(**given)
    [call] = got.output
    assert (call.type, call.name) == ("function_call", "turn") and got.status == "completed"
    assert json.loads(call.arguments)["way"] in ("left", "right") and got.tools[0].name == "turn"
    events = list(client.responses.create(**given, stream=True))
    arguments = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    assert arguments == call.arguments == events[-1].response.output[0].arguments
    kinds = [event.type for event in events]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 1
    assert kinds[-3:] == [
        *("response.function_call_arguments.done", "response.output_item.done", "response.completed"),
    ]
    with client.responses.stream(**given) as stream:
        for _ in stream:
            pass
    assert json.loads(stream.get_final_response().output[0].arguments) == json.loads(arguments)
    # The result goes back, and the model goes on.
    answered = [*HELLO, call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "done"}]
    assert client.responses.create(**GREEDY, input=answered, tools=[TOOL]).output


WRONG = [
    ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
    ({"input": "x", "conversation": "c"}, "conversation"),
    ({"input": "x", "prompt": {"id": "p"}}, "prompt"),
    ({"input": "x", "background": True}, "background"),
    ({"input": "x", "truncation": "auto"}, "truncation"),
    ({"input": "x", "temperature": "hot"}, "temperature"),
    ({"input": "x", "n": 2}, "n"),
    ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
    ({"input": "x", "reasoning": {"effort": "low"}}, "reasoning"),
    ({"input": "x", "include": ["file_search_call.results"]}, "include"),
    ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"input": "x", "text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
    ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"input": "x", "tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice"),
    ({"input": "x", "tool_choice": "required"}, "tool_choice"),
    ({}, "input"),
    ({"input": []}, "input"),
    ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
    ({"input": [*HELLO, {"role": "user"}]}, "input[1].content"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": [{"type": "function_call", "name": "x"}]}, "input[0].call_id"),
    ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content[0]"),
    ({"input": [{"role": "user", "content": [{"type": ["input_text"]}]}]}, "input[0].content[0]"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, "input[0].content[0].image_url"),
    ({"input": "x" * 200_000}, "input"),
]  # fmt: skip


@pytest.mark.parametrize("fields,param", WRONG, ids=[f"{i}-{param}" for i, (_, param) in enumerate(WRONG)])
def test_what_is_wrong_is_named(server, fields, param):
    status, _, body = server.request("POST", "/v1/responses", json.dumps({"model": "tiny", **fields}))
    error = json.loads(body)["error"]
    assert (status, error["param"], error["type"]) == (400, param, "invalid_request_error"), error


def test_nothing_is_kept(client):
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_1")
