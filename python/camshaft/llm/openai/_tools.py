"""Tools that the model may call, and the calls in its text."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

from camshaft._errors import InvalidArgumentError
from camshaft.llm._structured_outputs import StructuredOutputsParams
from camshaft.llm._tool_calls import ToolCallStream, parse_tool_calls, tool_choice_schema
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._errors import RequestError

_MOST_TOOLS = 128  # OpenAI's own limit
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")


class ToolChoice:
    """shown: the tools that the chat template gets; characters: how many they have."""

    def __init__(self, body: Body) -> None:
        tools = body.objects("tools")
        for place, tool in enumerate(tools):
            _check_tool(tool, f"tools[{place}]")
        if len(tools) > _MOST_TOOLS:
            body.wrong("tools", f"a list of at most {_MOST_TOOLS}", tools)
        self._is_parallel = body.flag("parallel_tool_calls", True)
        choice = body.raw("tool_choice", "auto" if tools else "none")
        if choice not in ("none", "auto", "required") and not isinstance(choice, dict):
            body.wrong("tool_choice", "none, auto, required, or a function by its name", choice)
        if choice != "none" and not tools:
            raise RequestError("'tool_choice' needs 'tools'", "tool_choice")
        self._tools, self._choice = tools, choice
        self.shown = tools if choice != "none" else None
        self.characters = len(json.dumps(tools)) if self.shown else 0
        self._named = choice["function"]["name"] if isinstance(choice, dict) and self._schema() else None

    def structured_outputs(self) -> StructuredOutputsParams | None:
        schema = self._schema()
        return None if schema is None else StructuredOutputsParams(json=schema)

    def parse(self, text: str) -> tuple[str | None, list[dict[str, Any]]]:
        if self._named is not None:
            return None, [_written({"name": self._named, "arguments": text})]
        if self.shown is None:
            return text, []
        content, calls = parse_tool_calls(text)
        return content, [_written(call) for call in calls]

    def deltas(self) -> ToolDeltas:
        return ToolDeltas(self.shown is not None, self._named)

    def finish_reason(self, reason: str | None, has_calls: bool) -> str | None:
        """Of a call that the client has chosen it is "stop", as OpenAI has it."""
        return "tool_calls" if reason == "stop" and has_calls and self._named is None else reason

    def _schema(self) -> dict[str, Any] | None:
        if isinstance(self._choice, dict) and not isinstance(self._choice.get("function"), dict):
            raise RequestError("'tool_choice' names no function", "tool_choice")
        try:
            return tool_choice_schema(self._tools, self._choice, self._is_parallel)
        except InvalidArgumentError as error:
            raise RequestError(str(error), "tool_choice") from None


class ToolDeltas:
    """A text that grows, as deltas of content and of calls."""

    def __init__(self, has_tools: bool, named: str | None) -> None:
        self._stream = ToolCallStream() if has_tools and named is None else None
        self._named = named
        self.has_calls = False

    def add(self, text: str) -> list[dict[str, Any]]:
        if self._named is not None:
            if not text:
                return []
            if self.has_calls:
                return [{"tool_calls": [{"index": 0, "function": {"arguments": text}}]}]
            self.has_calls = True
            return [{"tool_calls": [{"index": 0, **_written({"name": self._named, "arguments": text})}]}]
        if self._stream is not None:
            text = self._stream.add(text)
        return [{"content": text}] if text else []

    def finish(self) -> list[dict[str, Any]]:
        if self._stream is None:
            return []
        rest, calls = self._stream.finish()
        self.has_calls = bool(calls)
        made: list[dict[str, Any]] = [{"content": rest}] if rest else []
        return made + [{"tool_calls": [{"index": place, **_written(call)}]} for place, call in enumerate(calls)]


def _written(call: dict[str, str]) -> dict[str, Any]:
    return {"id": "call_" + uuid.uuid4().hex[:24], "type": "function", "function": call}


def _check_tool(tool: dict[str, Any], where: str) -> None:
    if tool.get("type") != "function":
        raise RequestError(f"'{where}.type' is 'function'", f"{where}.type")
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not _NAME.match(name):
        raise RequestError(
            f"'{where}.function.name' is a name of letters, digits, '_', '-' and '.', of at most 64",
            f"{where}.function.name",
        )
    if not isinstance(function.get("parameters", {}), dict):
        raise RequestError(f"'{where}.function.parameters' is no schema", f"{where}.function.parameters")
