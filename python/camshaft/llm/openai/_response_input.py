"""What the Responses API has in other words than chat completions: `input`, `tools`, `tool_choice` and `text`, as a body of
these."""

from __future__ import annotations

from typing import Any

from camshaft.llm.openai._body import Body
from camshaft.llm.openai._errors import RequestError

#: What OpenAI keeps, or does elsewhere, and why it is not here.
_ABSENT = {
    "previous_response_id": "no response is kept: give the whole conversation as 'input'",
    "conversation": "no conversation is kept: give all of it as 'input'",
    "prompt": "no prompts are kept: give 'instructions' and 'input'",
}
_ROLES = ("user", "assistant", "system", "developer")
#: Of parts of contents, and what chat completions call them.
_TEXTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
# Of items that clients send back as they got them.
_IDLE = ("id", "status", "type", "phase")


class ResponseInput:
    """body: what chat completions would be asked; names: of its messages, as the client has them; format: of the text."""

    def __init__(self, body: Body) -> None:
        for name, why in _ABSENT.items():
            if body.raw(name) is not None:
                raise RequestError(f"'{name}' is not there: {why}", name)
        self.instructions = body.text("instructions")
        self.names: list[str] = []
        self._messages: list[dict[str, Any]] = []
        if self.instructions is not None:
            self._add({"role": "system", "content": self.instructions}, "instructions")
        self._read_input(body)
        self.tools = body.objects("tools")
        choice = body.raw("tool_choice")
        self.tool_choice: Any = ("auto" if self.tools else "none") if choice is None else choice
        self.format = _format(body)
        values: dict[str, Any] = {"messages": self._messages}
        if self.tools:
            values["tools"] = [_chat_tool(tool, f"tools[{place}]") for place, tool in enumerate(self.tools)]
        if choice is not None:
            values["tool_choice"] = _chat_choice(choice)
        values["parallel_tool_calls"] = self.is_parallel = body.flag("parallel_tool_calls", True)
        if self.format["type"] == "json_object":
            values["response_format"] = {"type": "json_object"}
        if self.format["type"] == "json_schema":
            values["response_format"] = {"type": "json_schema", "json_schema": {"schema": self.format["schema"]}}
        self.body = Body(values)

    def _add(self, message: dict[str, Any], name: str) -> None:
        self._messages.append(message)
        self.names.append(name)

    def _read_input(self, body: Body) -> None:
        given = body.raw("input")
        if isinstance(given, str):
            self._add({"role": "user", "content": given}, "input")
            return
        if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
            raise RequestError("'input' is a text, or a list of items with one or more", "input")
        calls: list[dict[str, Any]] = []  # of the message before: they are one message
        for place, item in enumerate(given):
            where, kind = f"input[{place}]", item.get("type", "message")
            if kind == "reasoning":  # of other models, whose texts stand beside it
                continue
            if kind == "function_call":
                if not calls:
                    self._add({"role": "assistant", "content": None, "tool_calls": calls}, where)
                calls.append(_call(item, where))
                continue
            calls = []
            if kind == "message":
                self._add(_message(item, where), where)
            elif kind == "function_call_output":
                self._add(_output(item, where), where)
            else:
                raise RequestError(
                    f"'{where}' is of the type '{str(kind)[:40]}': message, function_call and function_call_output are "
                    "what there is",
                    f"{where}.type",
                )
        if not self._messages:
            raise RequestError("'input' has one message or more", "input")


def _message(item: dict[str, Any], where: str) -> dict[str, Any]:
    _check_fields(item, ("role", "content"), where)
    role = item.get("role")
    if role not in _ROLES:
        raise RequestError(f"'{where}.role' is one of {', '.join(_ROLES)}", f"{where}.role")
    return {"role": role, "content": _content(item.get("content"), f"{where}.content")}


def _content(content: Any, where: str) -> Any:
    """Parts that are none of ours are left to whoever reads messages, by their own names."""
    if not isinstance(content, list):
        return content
    return [_part(part, f"{where}[{place}]") for place, part in enumerate(content)]


def _part(part: Any, where: str) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind in _TEXTS:
        return {"type": _TEXTS[kind], _TEXTS[kind]: part.get("refusal" if kind == "refusal" else "text")}
    if kind != "input_image":
        return part
    if part.get("file_id") is not None or part.get("image_url") is None:
        raise RequestError(f"'{where}' has no 'image_url': no files are kept", f"{where}.image_url")
    image = {"url": part["image_url"], **({"detail": part["detail"]} if part.get("detail") is not None else {})}
    return {"type": "image_url", "image_url": image}


def _call(item: dict[str, Any], where: str) -> dict[str, Any]:
    _check_fields(item, ("call_id", "name", "arguments"), where)
    for name in ("call_id", "name", "arguments"):
        if not isinstance(item.get(name), str):
            raise RequestError(f"'{where}.{name}' is no text", f"{where}.{name}")
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _output(item: dict[str, Any], where: str) -> dict[str, Any]:
    _check_fields(item, ("call_id", "output"), where)
    if not isinstance(item.get("call_id"), str):
        raise RequestError(f"'{where}.call_id' is no text", f"{where}.call_id")
    content = _content(item.get("output"), f"{where}.output")
    if not isinstance(content, (str, list)):
        raise RequestError(f"'{where}.output' is a text or a list of parts", f"{where}.output")
    return {"role": "tool", "tool_call_id": item["call_id"], "content": content}


def _check_fields(item: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for name, value in item.items():
        if name not in known and name not in _IDLE and value is not None:
            raise RequestError(f"'{where}' has a field that it should not have: '{name[:80]}'", f"{where}.{name[:80]}")


def _chat_tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise RequestError(
            f"'{where}.type' is 'function': tools that OpenAI runs itself are not there", f"{where}.type"
        )
    _check_fields(tool, ("name", "description", "parameters", "strict"), where)
    function = {name: tool[name] for name in ("name", "description", "parameters") if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _chat_choice(choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") != "function" or not isinstance(choice.get("name"), str):
        raise RequestError("'tool_choice' names no function: {'type': 'function', 'name': …}", "tool_choice")
    return {"type": "function", "function": {"name": choice["name"]}}


def _format(body: Body) -> dict[str, Any]:
    """text.format, as the response repeats it."""
    text = body.within("text")
    form = None if text is None else text.within("format")
    if text is not None:
        text.raw("verbosity")  # of models that were taught to look at it
        text.finish()
    if form is None:
        return {"type": "text"}
    kind = form.text("type", options=("text", "json_object", "json_schema"))
    if kind is None:
        raise RequestError("'text.format' has no type", "text.format.type")
    made: dict[str, Any] = {"type": kind}
    if kind == "json_schema":
        made.update({name: form.raw(name) for name in ("name", "description", "schema", "strict") if form.has(name)})
        if not isinstance(made.get("schema"), (dict, bool)):
            raise RequestError("'text.format.schema' is no schema", "text.format.schema")
    form.finish()
    return made
