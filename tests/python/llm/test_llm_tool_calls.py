"""Calls of tools in texts, at once and in streams, and the schemas of tool_choice."""

import json
import random

import pytest
from camshaft import InvalidArgumentError
from camshaft.llm._tool_calls import ToolCallStream, parse_tool_calls, tool_choice_schema

CALL = '{"name": "weather", "arguments": {"city": "Köln", "days": [1, 2]}}'
WEATHER = ("weather", {"city": "Köln", "days": [1, 2]})
TIME = ("time", {})
# Text, what is shown of it, calls.
CASES = [
    ("", None, []),
    ("Just text.", "Just text.", []),
    (f"<tool_call>\n{CALL}\n</tool_call>", None, [WEATHER]),
    (f"Let me see.\n<tool_call>{CALL}</tool_call>", "Let me see.", [WEATHER]),
    (
        f'<tool_call>{CALL}</tool_call>\n<tool_call>{{"name": "time", "arguments": {{}}}}</tool_call>',
        None,
        [WEATHER, TIME],
    ),
    (f"<tool_call>{CALL}", None, [WEATHER]),
    ('<tool_call>{"name": "weather", "argu', '<tool_call>{"name": "weather", "argu', []),
    ("<tool_call>nothing</tool_call>", "<tool_call>nothing</tool_call>", []),
    (CALL, None, [WEATHER]),
    (f"  [{CALL}]\n", None, [WEATHER]),
    ('{"name": "time", "parameters": {}}', None, [TIME]),
    ('{"name": "time", "parameters": {}}; {"name": "time", "parameters": {}}', None, [TIME, TIME]),
    ('<|python_tag|>{"type": "function", "name": "time", "parameters": {}}', None, [TIME]),
    ('{"type": "function", "function": {"name": "time", "arguments": "{}"}}', None, [TIME]),
    ('{"answer": 42}', '{"answer": 42}', []),
    ("[1, 2]", "[1, 2]", []),
    ('{"name": "time", "parameters": {}} is what I would call', None, None),
    (f"[TOOL_CALLS] [{CALL}]", None, [WEATHER]),
    (
        f"Well: [TOOL_CALLS]weather{json.dumps(WEATHER[1])}[TOOL_CALLS]time[ARGS]{{}}",
        "Well:",
        [WEATHER, TIME],
    ),
    ("[TOOL_CALLS]weather(Köln)", "[TOOL_CALLS]weather(Köln)", []),
    ("a < b, and <tool is no call", "a < b, and <tool is no call", []),
    ("[" * 100_000, "[" * 100_000, []),
]


def plain(calls):
    return [(call["name"], json.loads(call["arguments"])) for call in calls]


@pytest.mark.parametrize("text, content, calls", CASES)
def test_calls_are_found(text, content, calls):
    if calls is None:
        content, calls = text, []
    shown, found = parse_tool_calls(text)
    assert shown == content
    assert plain(found) == calls
    assert all(set(call) == {"name", "arguments"} for call in found)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("text, content, calls", CASES)
def test_streams_find_the_same(text, content, calls, seed):
    if len(text) > 1000:
        return
    random_ = random.Random(seed)
    stream, shown, place = ToolCallStream(), [], 0
    while place < len(text):
        size = random_.choice([1, 2, 3, 7, 50])
        shown.append(stream.add(text[place : place + size]))
        place += size
    given = "".join(shown)
    rest, found = stream.finish()
    assert found == parse_tool_calls(text)[1]
    assert (given + rest).strip() == (parse_tool_calls(text)[0] or "").strip()
    if content and not found and text[0] not in "<[{":
        assert given.startswith(content[:4]), "text is shown while it comes"


def test_the_schema_of_a_choice():
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    tools = [
        {"type": "function", "function": {"name": "weather", "parameters": schema}},
        {"type": "function", "function": {"name": "time"}},
    ]
    assert tool_choice_schema(tools, "auto") is tool_choice_schema(tools, "none") is None
    assert tool_choice_schema(tools, {"type": "function", "function": {"name": "weather"}}) == schema
    required = tool_choice_schema(tools, "required", parallel=False)
    assert required["$defs"] == schema["$defs"] and (required["minItems"], required["maxItems"]) == (1, 1)
    names = [each["properties"]["name"]["const"] for each in required["items"]["anyOf"]]
    assert names == ["weather", "time"]
    for choice, message in (
        ({"type": "function", "function": {"name": "no"}}, "'no'; the tools are"),
        ("some", "auto, none, required"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            tool_choice_schema(tools, choice)
    with pytest.raises(InvalidArgumentError, match="there are no tools"):
        tool_choice_schema([], "required")
    other = {"name": "other", "parameters": {"$defs": {"n": {"type": "string"}}}}
    with pytest.raises(InvalidArgumentError, match=r"two tools define \$defs/n"):
        tool_choice_schema([*tools, {"function": other}], "required")
