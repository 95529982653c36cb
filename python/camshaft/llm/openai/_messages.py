"""The messages of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.llm._chat_images import IMAGE_PART
from camshaft.llm._image_encoder import PreparedImage
from camshaft.llm._llm import LLM
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._errors import RequestError

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_content", "reasoning")


def read_messages(
    body: Body, llm: LLM, names: Sequence[str] | None = None
) -> tuple[list[dict[str, Any]], int, list[PreparedImage]]:
    """For the chat template, how many characters they have, and their pictures. names: what the client calls them."""
    given = body.objects("messages")
    if not given:
        raise RequestError("'messages' has one message or more", "messages")
    characters = 0
    messages = []
    images: list[PreparedImage] = []
    for place, values in enumerate(given):
        where = f"messages[{place}]" if names is None else names[place]
        if unknown := next((name for name in values if name not in _FIELDS and values[name] is not None), None):
            raise RequestError(
                f"'{where}' has a field that no message has: '{unknown[:80]}'", f"{where}.{unknown[:80]}"
            )
        # Templates ask whether the content is none: of a message that calls tools it may be.
        kept = {name for name, value in values.items() if value is not None or name == "content"} - {"refusal"}
        message = {name: value for name, value in values.items() if name in kept}
        role = message.get("role")
        if role not in _ROLES:
            raise RequestError(f"'{where}.role' is one of {', '.join(_ROLES)}", f"{where}.role")
        if role == "developer":  # the name that OpenAI's later models have for it
            message["role"] = "system"
        if "tool_calls" in message:
            characters += _check_tool_calls(message["tool_calls"], f"{where}.tool_calls")
        if message.get("content") is not None:
            message["content"], count = _content(message["content"], f"{where}.content", llm, images)
            characters += count
        elif "tool_calls" not in message:
            raise RequestError(f"'{where}' has no content", f"{where}.content")
        messages.append(message)
    return messages, characters, images


def _content(content: Any, where: str, llm: LLM, images: list[PreparedImage]) -> tuple[Any, int]:
    if isinstance(content, str):
        return content, len(content)
    if not isinstance(content, list):
        raise RequestError(f"'{where}' is a text or a list of parts", where)
    parts: list[dict[str, str]] = []
    characters = 0
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "image_url" and llm.image_encoder is not None:
            images.append(_image(part, f"{where}[{place}]", llm, images))
            parts.append(IMAGE_PART)
            continue
        if kind not in ("text", "refusal"):
            shown = str(kind)[:40]
            reads = "text alone" if llm.image_encoder is None else "text and pictures ('image_url')"
            raise RequestError(
                f"'{where}[{place}]' is of the type '{shown}': this model reads {reads}", f"{where}[{place}]"
            )
        text = part.get(kind)
        if not isinstance(text, str):
            raise RequestError(f"'{where}[{place}].{kind}' is no text", f"{where}[{place}].{kind}")
        parts.append({"type": "text", "text": text})
        characters += len(text)
    return parts, characters


def _image(part: dict[str, Any], where: str, llm: LLM, before: list[PreparedImage]) -> PreparedImage:
    given = part.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given
    if not isinstance(url, str):
        raise RequestError(f"'{where}.image_url' is an object with a 'url', which is a text", f"{where}.image_url")
    if isinstance(given, dict):
        if unknown := next((name for name in given if name not in ("url", "detail")), None):
            raise RequestError(f"'{where}.image_url' has no field '{unknown[:80]}'", f"{where}.image_url")
        if given.get("detail") not in (None, "auto", "low", "high"):  # pictures have one size here
            raise RequestError(f"'{where}.image_url.detail' is auto, low or high", f"{where}.image_url.detail")
    try:
        return llm.prepared_image(url, before)
    except (InvalidArgumentError, FileError) as error:
        raise RequestError(f"'{where}': {error}", f"{where}.image_url") from None


def _check_tool_calls(calls: Any, where: str) -> int:
    if not isinstance(calls, list):
        raise RequestError(f"'{where}' is a list", where)
    characters = 0
    for place, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        named = ("name", "arguments")
        values: list[Any] = [function.get(name) for name in named] if isinstance(function, dict) else [None]
        if not all(isinstance(value, str) for value in values):
            raise RequestError(f"'{where}[{place}].function' has a name and arguments, which are texts", where)
        characters += sum(map(len, values))
    return characters
