"""OpenAI's interface, as its own client sees it: beside what the model gives without a server."""

import json
import math
import os
import signal
import time
from pathlib import Path

import pytest
from language_models import LONGEST, VOCABULARY, serving_language_model, write_language_model

openai = pytest.importorskip("openai", reason="openai is not installed")

from camshaft.llm import LLM, BeamSearchParams, SamplingParams  # noqa: E402

HELLO = [{"role": "user", "content": "The engine"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "turn",
        "parameters": {
            "type": "object",
            "properties": {"fast": {"type": "boolean"}, "way": {"enum": ["left", "right"]}},
            "required": ["fast", "way"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("openai")
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
    return {str(llm.tokenizer.token_to_id(word)): -100 for word in "ĉĊčĠ"}


def test_models(client, server):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").object == "model"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("other")
    assert caught.value.code == "model_not_found" and caught.value.param == "model"
    status, _, body = server.request("GET", "/v1/models/%zz")
    assert status == 400 and json.loads(body)["error"]["type"] == "invalid_request_error"


def test_completions_are_the_models_own(client, llm):
    params = SamplingParams(temperature=0, max_tokens=20)
    texts = ["The engine", "A valve", "Öl"]
    expected = [output.outputs[0] for output in llm.generate(texts, params)]
    got = client.completions.create(model="tiny", prompt=texts, temperature=0, max_tokens=20)
    assert [choice.text for choice in got.choices] == [output.text for output in expected]
    assert [choice.finish_reason for choice in got.choices] == [output.finish_reason for output in expected]
    assert got.usage.completion_tokens == sum(len(output.token_ids) for output in expected)
    ids = [llm.tokenizer.encode(text).ids for text in texts]
    again = client.completions.create(model="tiny", prompt=ids, temperature=0, max_tokens=20)
    assert [choice.text for choice in again.choices] == [choice.text for choice in got.choices]
    sampled = SamplingParams(seed=7, n=3, max_tokens=12, top_p=0.9, top_k=40, min_p=0.01, presence_penalty=0.5)
    drawn = client.completions.create(
        model="tiny", prompt=texts[0], seed=7, n=3, max_tokens=12, top_p=0.9, presence_penalty=0.5,
        extra_body={"top_k": 40, "min_p": 0.01},
    )  # fmt: skip
    assert [choice.text for choice in drawn.choices] == [o.text for o in llm.generate(texts[0], sampled)[0].outputs]
    assert len({choice.text for choice in drawn.choices}) > 1


def test_beams(client, llm):
    texts = ["The engine", "A valve"]
    given = {"model": "tiny", "prompt": texts, "n": 3, "max_tokens": 12}
    more = {"use_beam_search": True, "length_penalty": 0.5}
    searched = BeamSearchParams(3, 12, temperature=1.0, length_penalty=0.5)
    expected = []
    for output in llm.beam_search(texts, searched):
        for sequence in output.sequences:
            shown = sequence.tokens[:-1] if sequence.finish_reason == "stop" else sequence.tokens
            expected.append((llm.tokenizer.decode(shown), sequence.finish_reason))
    got = client.completions.create(**given, extra_body=more)
    prompts = [texts[0]] * 3 + [texts[1]] * 3
    assert [(prompt + choice.text, choice.finish_reason) for prompt, choice in zip(prompts, got.choices)] == expected
    assert [choice.index for choice in got.choices] == list(range(6))
    assert got.usage.completion_tokens > 6
    streamed = [""] * 6
    for chunk in client.completions.create(**given, extra_body=more, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [choice.text for choice in got.choices]
    spoken = {"model": "tiny", "messages": HELLO, "n": 2, "max_tokens": 9}
    [output] = llm.beam_search([llm.chat_prompt(HELLO)], BeamSearchParams(2, 9, temperature=1.0))
    answers = client.chat.completions.create(**spoken, extra_body={"use_beam_search": True})
    assert len(answers.choices) == 2
    for choice, sequence in zip(answers.choices, output.sequences):
        assert sequence.text.split("<end>")[0].endswith(choice.message.content)
    for wrong, param in (
        ({"logprobs": 1}, "logprobs"),
        ({"stop": "x"}, "stop"),
        ({"top_p": 0.5}, "top_p"),
        ({"frequency_penalty": 1}, "frequency_penalty"),
        ({"n": 100}, "n"),
        ({"extra_body": {**more, "length_penalty": "long"}}, "length_penalty"),
        ({"extra_body": {**more, "use_beam_search": 1}}, "use_beam_search"),
        ({"extra_body": {**more, "guided_choice": ["a"]}}, "guided_choice"),
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(**{**given, "extra_body": more, **wrong})
        assert caught.value.param == param, caught.value


def test_streams_are_the_replies(client):
    given = {"model": "tiny", "prompt": ["The engine", "A valve"], "seed": 3, "n": 2, "max_tokens": 30, "logprobs": 2}
    for echo in (False, True):
        whole = client.completions.create(**given, echo=echo)
        texts, tokens, reasons, usage = [""] * 4, [[] for _ in range(4)], [None] * 4, None
        for chunk in client.completions.create(**given, echo=echo, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                texts[choice.index] += choice.text
                tokens[choice.index] += choice.logprobs.tokens
                reasons[choice.index] = choice.finish_reason or reasons[choice.index]
        assert texts == [choice.text for choice in whole.choices]
        assert tokens == [choice.logprobs.tokens for choice in whole.choices]
        assert reasons == [choice.finish_reason for choice in whole.choices]
        assert usage == whole.usage
    spoken = {"model": "tiny", "messages": HELLO, "seed": 3, "n": 2, "max_tokens": 30}
    whole = client.chat.completions.create(**spoken)
    texts = ["", ""]
    for chunk in client.chat.completions.create(**spoken, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices]


def test_a_streamed_echo_waits_for_text(client, llm):
    """The first token is half a character."""
    half = str(llm.tokenizer.token_to_id("Ã"))
    given = {"model": "tiny", "prompt": "The engine", "max_tokens": 2, "echo": True, "logit_bias": {half: 100}}
    chunks = client.completions.create(**given, stream=True, temperature=0)
    assert "".join(chunk.choices[0].text for chunk in chunks).startswith("The engine")


def test_stop_strings_and_bias(client, llm):
    text = llm.generate("The engine", SamplingParams(temperature=0, max_tokens=20))[0].outputs[0].text
    stop = text[3:5]
    got = client.completions.create(model="tiny", prompt="The engine", temperature=0, max_tokens=20, stop=[stop])
    assert got.choices[0].text == text[: text.index(stop)] and got.choices[0].finish_reason == "stop"
    forced = client.completions.create(model="tiny", prompt="x", max_tokens=3, logit_bias={"65": 100}, temperature=0)
    assert forced.choices[0].text == 3 * llm.tokenizer.decode([65])


def test_conversations(client, llm):
    text = "assistant: "
    conversation = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "The"}, {"type": "text", "text": "shaft"}]},
    ]
    prompt = f"system: Be brief.\nuser: The\nshaft\n{text}"
    expected = llm.generate(prompt, SamplingParams(temperature=0, max_tokens=9, logprobs=3))[0]
    got = client.chat.completions.create(
        model="tiny", messages=conversation, temperature=0, max_completion_tokens=9, logprobs=True, top_logprobs=3
    )
    assert got.usage.prompt_tokens == len(expected.prompt_token_ids)
    assert got.choices[0].message.content == expected.outputs[0].text
    for entry, token, by_token in zip(
        got.choices[0].logprobs.content, expected.outputs[0].token_ids, expected.outputs[0].logprobs, strict=True
    ):
        assert math.isclose(entry.logprob, by_token[token].logprob, rel_tol=1e-4, abs_tol=1e-4)
        assert len(entry.top_logprobs) == 3
    joined = bytes(byte for entry in got.choices[0].logprobs.content for byte in entry.bytes)
    assert joined.decode(errors="replace") == got.choices[0].message.content
    longest = client.chat.completions.create(model="tiny", messages=HELLO, extra_body={"ignore_eos": True})
    assert longest.usage.total_tokens == LONGEST and longest.choices[0].finish_reason == "length"


def test_a_message_that_calls_tools_may_have_no_content(server, llm):
    calls = [{"id": "1", "type": "function", "function": {"name": "turn", "arguments": "{}"}}]
    messages = [*HELLO, {"role": "assistant", "content": None, "tool_calls": calls}, *HELLO]
    expected = llm.generate(llm.chat_prompt(messages), SamplingParams(temperature=0, max_tokens=4))[0]
    given = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 4}
    status, _, body = server.request("POST", "/v1/chat/completions", json.dumps(given))
    assert status == 200, body
    # The template has written "None": the key is there.
    assert json.loads(body)["usage"]["prompt_tokens"] == len(expected.prompt_token_ids)
    assert json.loads(body)["choices"][0]["message"]["content"] == expected.outputs[0].text


def test_loglikelihoods_as_lm_eval_asks_for_them(client, llm):
    """The logprobs of an echo, of which the prompt's and the last token, which was generated, are cut off."""
    requests = [([5, 9, 40], [7, 100, 31]), ([1], [2, 3]), ([200, 201, 202, 203], [204])]
    got = client.completions.create(
        model="tiny",
        prompt=[context + continuation for context, continuation in requests],
        temperature=0,
        max_tokens=1,
        logprobs=1,
        echo=True,
        seed=1234,
    )
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1)
    for choice, (context, continuation) in zip(got.choices, requests, strict=True):
        output = llm.generate([context + continuation], params)[0]
        places = range(len(context), len(context + continuation))
        expected = [output.prompt_logprobs[place][output.prompt_token_ids[place]] for place in places]
        values = choice.logprobs.token_logprobs[len(context) : -1]
        assert values == pytest.approx([each.logprob for each in expected], abs=1e-4)
        top = choice.logprobs.top_logprobs[len(context) : -1]
        is_greedy = [max(each, key=each.get) == name for each, name in zip(top, choice.logprobs.tokens[len(context) :])]
        assert all(greedy for greedy, each in zip(is_greedy, expected) if each.rank == 1)
    alone = client.completions.create(model="tiny", prompt=[5, 9, 40], max_tokens=0, logprobs=0, echo=True)
    assert len(alone.choices[0].logprobs.tokens) == 3 and alone.usage.completion_tokens == 0


def test_forms_of_texts(client, unspaced):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    schema = TOOL["function"]["parameters"]
    form = {"type": "json_schema", "json_schema": {"name": "turn", "schema": schema, "strict": True}}
    got = client.chat.completions.create(
        model="tiny", messages=HELLO, response_format=form, seed=1, max_tokens=200, logit_bias=unspaced
    )
    assert json.loads(got.choices[0].message.content)["way"] in ("left", "right")
    one = client.completions.create(model="tiny", prompt="x", extra_body={"guided_choice": ["aye", "nay"]})
    assert one.choices[0].text in ("aye", "nay")
    number = client.completions.create(
        model="tiny", prompt="x", extra_body={"structured_outputs": {"regex": "[0-9]{4}"}}
    )
    assert number.choices[0].text.isdigit() and len(number.choices[0].text) == 4


def test_tools(client, unspaced):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    given = {"model": "tiny", "messages": HELLO, "tools": [TOOL], "seed": 5, "max_tokens": 300, "logit_bias": unspaced}
    for choice, reason in (
        ("required", "tool_calls"),
        ({"type": "function", "function": {"name": "turn"}}, "stop"),
    ):
        got = client.chat.completions.create(**given, tool_choice=choice, parallel_tool_calls=False).choices[0]
        (call,) = got.message.tool_calls
        assert call.function.name == "turn" and json.loads(call.function.arguments)["way"] in ("left", "right")
        assert got.finish_reason == reason and not got.message.content
        name = arguments = content = ""
        for chunk in client.chat.completions.create(
            **given, tool_choice=choice, parallel_tool_calls=False, stream=True
        ):
            content += chunk.choices[0].delta.content or ""
            for part in chunk.choices[0].delta.tool_calls or ():
                name += part.function.name or ""
                arguments += part.function.arguments or ""
        assert (name, json.loads(arguments), content) == ("turn", json.loads(call.function.arguments), "")
    answered = client.chat.completions.create(**given)  # the template shows them
    bare = client.chat.completions.create(**given, tool_choice="none")
    assert answered.usage.prompt_tokens > bare.usage.prompt_tokens


WRONG = [
    ({"prompt": "x", "temperature": "hot"}, "temperature"),
    ({"prompt": "x", "temperature": -1}, "temperature"),
    ({"prompt": "x", "top_p": 2}, "top_p"),
    ({"prompt": "x", "n": 0}, "n"),
    ({"prompt": "x", "stop": [""]}, "stop"),
    ({"prompt": "x", "logit_bias": {"a": 1}}, "logit_bias"),
    ({"prompt": "x", "logprobs": 21}, "logprobs"),
    ({"prompt": "x", "frobnicate": True}, "frobnicate"),
    ({"prompt": "x", "best_of": 4}, "best_of"),
    ({"prompt": "x", "suffix": "y"}, "suffix"),
    ({"prompt": "x", "max_tokens": 0}, "max_tokens"),
    ({"prompt": "x", "stream_options": {"include_usage": True}}, "stream_options"),
    ({"prompt": "x", "response_format": {"type": "xml"}}, "response_format.type"),
    ({"prompt": "x", "guided_choice": []}, "guided_choice"),
    ({"prompt": "x", "guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
    ({"prompt": [[-1]]}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({}, "prompt"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": HELLO, "tools": [{"type": "function"}]}, "tools[0].function.name"),
    ({"messages": HELLO, "tool_choice": "auto"}, "tool_choice"),
    ({"messages": HELLO, "tools": [TOOL], "tool_choice": {"function": {"name": "no"}}}, "tool_choice"),
    ({"messages": HELLO, "top_logprobs": 2}, "top_logprobs"),
    ({"messages": HELLO, "chat_template": "{{ 1 }}"}, "chat_template"),
    ({"messages": [{"role": "assistant", "content": None}]}, "messages[0].content"),
    ({"prompt": "x", "temperature": -1}, "temperature"),
    ({"prompt": "x", "min_tokens": 9, "max_tokens": 2}, "min_tokens"),
    ({"prompt": "x", "logit_bias": {str(VOCABULARY): 1}}, "logit_bias"),
    ({"prompt": "x", "stop_token_ids": [VOCABULARY]}, "stop_token_ids"),
    ({"prompt": "x", "allowed_token_ids": [VOCABULARY]}, "allowed_token_ids"),
]


@pytest.mark.parametrize("fields,param", WRONG, ids=[f"{i}-{param}" for i, (_, param) in enumerate(WRONG)])
def test_what_is_wrong_is_named(server, fields, param):
    path = "/v1/chat/completions" if "messages" in fields else "/v1/completions"
    status, headers, body = server.request("POST", path, json.dumps({"model": "tiny", **fields}))
    error = json.loads(body)["error"]
    assert (status, error["param"], error["type"]) == (400, param, "invalid_request_error"), error


def test_tokens_beyond_the_vocabulary(client):
    with pytest.raises(openai.BadRequestError, match=str(VOCABULARY)) as caught:
        client.completions.create(model="tiny", prompt=[VOCABULARY])
    assert caught.value.param == "prompt"
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="tiny", prompt="x", logit_bias={str(VOCABULARY): 1})


def test_a_lost_terminal_ends_no_model(client, server):
    """Which sends SIGHUP to all processes of the server: that looks for changed models, and its own go on."""
    listed = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    children = [int(number) for each in listed for number in each.read_text().split()]
    assert children
    for number in (*children, server.process.pid):
        os.kill(number, signal.SIGHUP)
    assert client.completions.create(model="tiny", prompt="The engine", max_tokens=2).choices
    assert all(Path(f"/proc/{number}").exists() for number in children)


def test_tokens_that_were_cached_are_told(server, client):
    """Of whole blocks alone, the last token's left out; streams say it too."""
    given = {"model": "tiny", "prompt": [[9, *range(3, 70)]], "temperature": 0, "max_tokens": 2}
    first, again = (client.completions.create(**given).usage for _ in range(2))
    assert first.prompt_tokens_details.cached_tokens == 0
    assert 0 < again.prompt_tokens_details.cached_tokens < 68
    longer = {**given, "prompt": [[9, *range(3, 70), 5], [9, *range(3, 40)], [7]]}
    cached = client.completions.create(**longer).usage.prompt_tokens_details.cached_tokens
    assert cached > again.prompt_tokens_details.cached_tokens
    *_, last = client.completions.create(**given, stream=True, stream_options={"include_usage": True})
    assert last.usage == again
    several = client.completions.create(**{**given, "n": 3, "temperature": 1}).usage
    assert several.prompt_tokens_details == again.prompt_tokens_details, "a prompt counts once"
    asked = client.chat.completions.create(model="tiny", messages=HELLO * 9, max_tokens=1)
    asked = client.chat.completions.create(model="tiny", messages=HELLO * 9, max_tokens=1)
    assert 0 < asked.usage.prompt_tokens_details.cached_tokens < asked.usage.prompt_tokens


def test_other_doors_and_errors(client, server):
    with pytest.raises(openai.BadRequestError, match="embeddings"):
        client.embeddings.create(model="tiny", input="x")
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt="x")
    status, _, body = server.request("GET", "/v1/completions")
    assert status == 405 and json.loads(body)["error"]["type"] == "invalid_request_error"
    status, _, body = server.request("GET", "/v1/threads")
    assert status == 404 and json.loads(body)["error"]["message"]
    # By Triton's protocol, too: the same body as a tensor.
    given = {"request": json.dumps({"prompt": "x", "max_tokens": 2})}
    status, _, body = server.request("POST", "/v2/models/tiny/generate", json.dumps(given))
    assert status == 200 and json.loads(json.loads(body)["response"])["usage"]["completion_tokens"] == 2


def metrics_of(server):
    _, _, body = server.request("GET", "/metrics", port="metrics")
    lines = [line for line in body.decode().splitlines() if line.startswith("vllm:")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_metrics(repository):
    with (
        serving_language_model(repository) as server,
        openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none") as client,
    ):
        for _ in range(3):
            client.completions.create(model="tiny", prompt=[5, 9], max_tokens=7, extra_body={"ignore_eos": True})
        label = 'model_name="tiny"'
        end = time.monotonic() + 10
        while time.monotonic() < end:
            found = metrics_of(server)
            if (
                found.get(f"vllm:prompt_tokens_total{{{label}}}") == 6
                and found["vllm:kv_cache_usage_perc{" + label + "}"] < 1
            ):
                break
            time.sleep(0.05)
        assert found[f"vllm:generation_tokens_total{{{label}}}"] == 21
        assert found[f'vllm:request_success_total{{finished_reason="length",{label}}}'] == 3
        assert found[f"vllm:time_to_first_token_seconds_count{{{label}}}"] == 3
        assert found[f'vllm:e2e_request_latency_seconds_bucket{{{label},le="+Inf"}}'] == 3
        assert found[f"vllm:request_generation_tokens_sum{{{label}}}"] == 21
        assert found[f"vllm:num_requests_waiting{{{label}}}"] == 0
        assert found[f"vllm:spec_decode_num_drafts_total{{{label}}}"] == 0
        # Who leave in the middle are counted too; some texts end before anybody has noticed.
        aborted = f'vllm:request_success_total{{finished_reason="abort",{label}}}'
        length = f'vllm:request_success_total{{finished_reason="length",{label}}}'
        endless = {"max_tokens": LONGEST - 64, "stream": True, "extra_body": {"ignore_eos": True}}
        left, end = 0, time.monotonic() + 10
        while left < 4 or (metrics_of(server)[aborted] == 0 and time.monotonic() < end):
            stream = client.completions.create(model="tiny", prompt=[5, 9], **endless)
            next(stream)
            stream.close()
            left += 1
        end = time.monotonic() + 10
        while (found := metrics_of(server))[aborted] + found[length] < 3 + left and time.monotonic() < end:
            time.sleep(0.05)
        assert found[aborted] > 0
        assert found[aborted] + found[length] == 3 + left


def test_a_draft_model(repository, llm):
    """The model itself, by a path from its folder on: the text is the same, and guesses are counted."""
    expected = llm.generate([[5, 9]], SamplingParams(temperature=0, max_tokens=31, ignore_eos=True))[0].outputs[0].text
    with (
        serving_language_model(repository, speculative_model=".", num_speculative_tokens=4) as server,
        openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none") as client,
    ):
        got = client.completions.create(
            model="tiny", prompt=[5, 9], max_tokens=31, temperature=0, extra_body={"ignore_eos": True}
        )
        assert got.choices[0].text == expected
        label = '{model_name="tiny"}'
        end = time.monotonic() + 10
        while (found := metrics_of(server)).get(
            "vllm:spec_decode_num_drafts_total" + label, 0
        ) < 6 and time.monotonic() < end:
            time.sleep(0.05)
        assert found["vllm:spec_decode_num_drafts_total" + label] == 6
        assert found["vllm:spec_decode_num_draft_tokens_total" + label] == 24
        assert found["vllm:spec_decode_num_accepted_tokens_total" + label] == 24


def test_keys(repository, tmp_path):
    (tmp_path / "keys").write_text("sesame\n")
    with serving_language_model(repository, f"--token-file={tmp_path / 'keys'}") as server:
        url = f"http://{server.http}/v1"
        with openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                client.models.list()
            assert caught.value.code == "invalid_api_key"
        with openai.OpenAI(base_url=url, api_key="sesame", max_retries=0) as client:
            assert client.completions.create(model="tiny", prompt="x", max_tokens=1).choices
