"""Calls of tools in the text of a model, in the forms that models are taught to write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from camshaft._errors import InvalidArgumentError

_DECODER = json.JSONDecoder()
_BEGIN, _END = "<tool_call>", "</tool_call>"  # Hermes and Qwen
_MISTRAL, _LLAMA = "[TOOL_CALLS]", "<|python_tag|>"
_MARKS = (_BEGIN, _MISTRAL, _LLAMA)


def parse_tool_calls(text: str) -> tuple[str | None, list[dict[str, str]]]:
    """The text around the calls, None where there is none, and the calls: dicts of `name` and `arguments`, a JSON text.

    Forms: <tool_call>{"name": …, "arguments": …}</tool_call>, the last end may be missing; [TOOL_CALLS] with a list of these,
    or with names each followed by the arguments; <|python_tag|> with objects, separated by semicolons; and a text that is
    nothing but such an object, or a list of these, as Llama 3 writes it, with `parameters` for `arguments`. What is none of
    these is text."""
    if _BEGIN in text:
        return _hermes(text)
    for mark, read in ((_MISTRAL, _mistral), (_LLAMA, _objects)):
        before, found, behind = text.partition(mark)
        if found:
            calls = read(behind)
            return (before.strip() or None, calls) if calls else (text, [])
    stripped = text.strip()
    calls = _objects(stripped) if stripped[:1] in ("{", "[") else []
    return (None, calls) if calls else (text or None, [])


class ToolCallStream:
    """The same of a text that grows: add() gives what is certain to be text for the reader. What may be the beginning of a
    call waits, and finish() gives the rest of the text, and the calls."""

    def __init__(self) -> None:
        self._text = ""
        self._given = 0
        self._holds = False

    def add(self, text: str) -> str:
        self._text += text
        if not self._holds:
            # A text that begins as JSON does may be a call as a whole.
            stripped = self._text.lstrip()
            self._holds = self._given == 0 and (not stripped or stripped[0] in "{[")
            if self._holds and not stripped:
                self._holds = False
                return ""
        if self._holds:
            return ""
        end = len(self._text)
        found = [place for mark in _MARKS if (place := self._text.find(mark, max(0, self._given - len(mark)))) >= 0]
        if found:
            self._holds, end = True, min(found)
        else:
            longest = max(map(len, _MARKS)) - 1
            tail = self._text[-longest:]
            end -= next(
                (n for n in range(min(longest, len(tail)), 0, -1) if any(m.startswith(tail[-n:]) for m in _MARKS)), 0
            )
        given, self._given = self._text[self._given : max(end, self._given)], max(end, self._given)
        return given

    def finish(self) -> tuple[str, list[dict[str, str]]]:
        content, calls = parse_tool_calls(self._text)
        if not calls:
            return self._text[self._given :], []
        rest = content or ""
        shown = self._text[: self._given].strip()
        return (rest[len(shown) :] if rest.startswith(shown) else ""), calls


def tool_choice_schema(
    tools: Sequence[Mapping[str, Any]], tool_choice: str | Mapping[str, Any], parallel: bool = True
) -> dict[str, Any] | None:
    """The JSON schema, for StructuredOutputsParams(json=…), of a text that calls tools as OpenAI's `tool_choice` says:
    "required" is a list of one call or more of any of them, {"type": "function", "function": {"name": …}} the arguments of
    that one alone. None for "auto" and "none": these leave the text free."""
    if tool_choice in ("auto", "none"):
        return None
    functions: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise InvalidArgumentError(f"a tool has no function with a name: {tool!r}")
        functions[function["name"]] = function
    if isinstance(tool_choice, Mapping):
        chosen = tool_choice.get("function", tool_choice)
        name = chosen.get("name") if isinstance(chosen, Mapping) else None
        if not isinstance(name, str) or name not in functions:
            raise InvalidArgumentError(f"tool_choice names {name!r}; the tools are {sorted(functions)}")
        return _parameters(functions[name], None)
    if tool_choice != "required":
        raise InvalidArgumentError(f"tool_choice is {tool_choice!r}: auto, none, required, or a function of a name")
    if not functions:
        raise InvalidArgumentError("tool_choice is 'required', and there are no tools")
    shared: dict[str, dict[str, Any]] = {}
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": _parameters(function, shared)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, function in functions.items()
    ]
    schema: dict[str, Any] = {
        "type": "array",
        "minItems": 1,
        "items": calls[0] if len(calls) == 1 else {"anyOf": calls},
    }
    if not parallel:
        schema["maxItems"] = 1
    return {**schema, **shared}


def _parameters(function: Mapping[str, Any], shared: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    """shared: where definitions go, which are named from the top of a schema; None where this is the top."""
    given = function.get("parameters") or {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"the parameters of {function['name']} are no JSON schema, but {given!r}")
    made = dict(given)
    for kind in ("$defs", "definitions"):
        if shared is None or not isinstance(made.get(kind), Mapping):
            continue
        for name, schema in made.pop(kind).items():
            if shared.setdefault(kind, {}).setdefault(name, schema) != schema:
                raise InvalidArgumentError(f"two tools define {kind}/{name}, each otherwise: name one of them anew")
    return made


def _hermes(text: str) -> tuple[str | None, list[dict[str, str]]]:
    around, calls, place = [], [], 0
    while (begin := text.find(_BEGIN, place)) >= 0:
        end = text.find(_END, begin)
        inside = text[begin + len(_BEGIN) : len(text) if end < 0 else end]
        found = _objects(inside)
        if not found:  # what it did not learn well is shown
            around.append(text[place : begin + len(_BEGIN)])
            place = begin + len(_BEGIN)
            continue
        around.append(text[place:begin])
        calls += found
        place = len(text) if end < 0 else end + len(_END)
    content = "".join([*around, text[place:]])
    return ((content.strip() or None) if calls else text), calls


def _mistral(text: str) -> list[dict[str, str]]:
    text = text.strip()
    if text.startswith("["):
        return _objects(text)
    calls = []
    for each in text.split(_MISTRAL):  # name{…}, or name[ARGS]{…}
        name, brace, _ = each.partition("{")
        read = _read(each, len(name)) if brace else None
        name = name.replace("[ARGS]", "").partition("[CALL_ID]")[0].strip()
        if read is None or not name or each[read[1] :].strip():
            return []
        calls.append({"name": name, "arguments": _written(read[0])})
    return calls


def _objects(text: str) -> list[dict[str, str]]:
    """Of a list of calls, or of calls with semicolons or nothing between them; none where one of them is something else."""
    calls, place = [], 0
    while place < len(text):
        if text[place].isspace() or text[place] in ";,":
            place += 1
            continue
        read = _read(text, place)
        if read is None:
            return []
        value, place = read
        for each in value if isinstance(value, list) else [value]:
            call = _call(each)
            if call is None:
                return []
            calls.append(call)
    return calls


def _read(text: str, place: int) -> tuple[Any, int] | None:
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None


def _call(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = value.get("name")
    arguments = value.get("arguments", value.get("parameters"))
    if not isinstance(name, str) or not name or not isinstance(arguments, (dict, str)):
        return None
    return {"name": name, "arguments": _written(arguments)}


def _written(arguments: Any) -> str:
    if isinstance(arguments, str):  # written twice already
        return arguments
    return json.dumps(arguments, ensure_ascii=False)
