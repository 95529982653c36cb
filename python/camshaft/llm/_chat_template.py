"""From a conversation to the text that a model reads, by the template of its folder."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft._errors import FileError, InvalidArgumentError, InvalidModelError
from camshaft.llm._chat_images import IMAGE_PART
from camshaft.llm._checks import short
from camshaft.llm._json_size import check_size
from camshaft.llm._optional import needed

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath

    Message = Mapping[str, Any]

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_MOST_CHARACTERS = 1 << 17  # of a template: the longest known have 50,000, and a million take 25 s to read
# What a text that is to be continued is followed by while it is rendered. The space shows whether the template cuts spaces.
_END_OF_TEXT = "<camshaft: here it goes on> "


#: Names that chat_template_kwargs cannot have: they are arguments of their own.
RESERVED = frozenset(
    (
        "self",
        "messages",
        "tools",
        "chat_template",
        "image_placeholder",
        "documents",
        "add_generation_prompt",
        "continue_final_message",
    )
)


def checked_messages(messages: Any) -> Sequence[Any]:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise InvalidArgumentError(f"messages are dicts of `role` and `content`, in a list, not {short(messages)}")
    return messages


def checked_template_kwargs(given: Any) -> Mapping[str, Any]:
    """chat_template_kwargs; none of None."""
    if given is not None and (not isinstance(given, Mapping) or any(not isinstance(name, str) for name in given)):
        raise InvalidArgumentError(f"chat_template_kwargs is {short(given)}; a dict with names is needed")
    if reserved := RESERVED & set(given or ()) - {"documents"}:
        raise InvalidArgumentError(
            f"chat_template_kwargs has {min(reserved)!r}, which is no name of the template's own"
        )
    return given or {}


class ChatTemplate:
    """The templates of a folder: `chat_template.jinja` and `additional_chat_templates/*.jinja`, else `chat_template` of
    tokenizer_config.json, a text or a list of named ones, else chat_template.json.

    Rendered as Transformers' apply_chat_template does, in a sandbox, and within a budget of turns, seconds and characters
    (_sandbox.py). Messages may be those of OpenAI's interface, too: arguments of tools' calls as JSON text, and content as
    a list of texts where the template has no place for lists."""

    def __init__(self, folder: AnyPath) -> None:
        path = Path(os.fspath(folder))
        self._folder = path
        config = _object(path / "tokenizer_config.json")
        tokens = {**_object(path / "special_tokens_map.json"), **config}
        self.special_tokens = {name: text for name in _SPECIAL_TOKENS if (text := _text_of(tokens.get(name)))}
        self._sources = _sources_of(path, config)
        self._compiled: dict[str, tuple[Any, bool]] = {}
        self._sandbox: Any = None
        self._lock = threading.Lock()  # of the two above

    @property
    def names(self) -> list[str]:
        """Of the templates; none where the folder has none."""
        return sorted(self._sources)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        *,
        chat_template: str | None = None,
        continue_final_message: bool = False,
        image_placeholder: str | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> str:
        """messages: dicts of `role`, `content` and whatever else the template knows. tools: JSON schemas of functions.
        chat_template: the name of a template, or a template itself. image_placeholder: of models that read pictures, what one
        is in a text where the template has no place for lists. kwargs: the template's own, as enable_thinking.

        Raises InvalidArgumentError with what the template says about a conversation, or when it does too much."""
        import_jinja = needed("jinja2", f"{self._folder}: a chat template")
        if continue_final_message and add_generation_prompt:
            raise InvalidArgumentError("continue_final_message goes with add_generation_prompt=False alone")
        source = self._chosen(chat_template, tools)
        with self._lock:
            compiled, reads_parts = self._template(source)
        conversation = [_message(message, reads_parts, image_placeholder) for message in messages]
        if not conversation:
            raise InvalidArgumentError("a conversation has one message or more")
        last = _marked(conversation) if continue_final_message else ""
        values = {**self.special_tokens, **kwargs}
        try:
            with compiled.environment.budget():
                text: str = compiled.render(
                    messages=conversation,
                    tools=None if tools is None else [dict(tool) for tool in tools],
                    documents=documents,
                    add_generation_prompt=add_generation_prompt,
                    **values,
                )
        except import_jinja.TemplateError as error:
            raise InvalidArgumentError(f"the chat template refuses the conversation: {error.message}") from None
        except RecursionError:
            raise InvalidArgumentError("the chat template has called itself too often") from None
        except Exception as error:  # Python's, of an operation in the template
            from camshaft.llm._sandbox import TemplateBudgetError

            if isinstance(error, TemplateBudgetError):
                raise InvalidArgumentError(f"the chat template was stopped: {error}") from None
            raise InvalidArgumentError(f"the chat template fails: {type(error).__name__}: {error}") from None
        return _cut(text, last) if continue_final_message else text

    def _chosen(self, name: str | None, tools: Any) -> str:
        if name is not None:
            if name in self._sources:
                return self._sources[name]
            if "{" not in name:
                raise InvalidArgumentError(
                    f"{self._folder}: there is no chat template {name!r}; there are {self.names}"
                )
            return name
        if not self._sources:
            raise InvalidArgumentError(
                f"{self._folder}: there is no chat template: neither chat_template.jinja, nor `chat_template` in "
                "tokenizer_config.json"
            )
        if tools is not None and "tool_use" in self._sources:
            return self._sources["tool_use"]
        if "default" not in self._sources:
            raise InvalidArgumentError(f"{self._folder}: name one of the chat templates {self.names}: none is default")
        return self._sources["default"]

    def _template(self, source: str) -> tuple[Any, bool]:
        found = self._compiled.get(source)
        if found is not None:
            return found
        from camshaft.llm._sandbox import Sandbox

        if len(source) > _MOST_CHARACTERS:
            raise InvalidModelError(f"{self._folder}: a chat template has more than {_MOST_CHARACTERS} characters")
        jinja2 = needed("jinja2", f"{self._folder}: a chat template")
        if self._sandbox is None:
            self._sandbox = Sandbox()
        try:
            parsed = self._sandbox.parse(source)
            reads_parts = _reads_parts(parsed, jinja2.nodes)
            made = self._sandbox.from_string(parsed), reads_parts
        except jinja2.TemplateError as error:
            line = getattr(error, "lineno", None)
            where = "" if line is None else f", line {line}"
            raise InvalidModelError(f"{self._folder}: the chat template{where}: {error.message}") from None
        except (RecursionError, MemoryError, SyntaxError, ValueError) as error:  # Python's own compiler
            raise InvalidModelError(
                f"{self._folder}: the chat template cannot be read: {type(error).__name__}"
            ) from None
        if len(self._compiled) >= 16:  # callers may bring their own
            self._compiled.clear()
        self._compiled[source] = made
        return made


def _sources_of(folder: Path, config: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    if (folder / "chat_template.jinja").is_file():
        found["default"] = _read(folder / "chat_template.jinja")
        for path in sorted((folder / "additional_chat_templates").glob("*.jinja")):
            found[path.stem] = _read(path)
        return found
    where, given = "tokenizer_config.json", config.get("chat_template")
    if given is None:
        where, given = "chat_template.json", _object(folder / "chat_template.json").get("chat_template")
    if isinstance(given, str):
        return {"default": given}
    if isinstance(given, dict):
        given = [{"name": name, "template": text} for name, text in given.items()]
    for each in given or []:
        if not isinstance(each, dict) or not all(isinstance(each.get(key), str) for key in ("name", "template")):
            raise InvalidModelError(f"{folder / where}: chat_template is a text, or a list of names and templates")
        found[each["name"]] = each["template"]
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidModelError(f"{path}: no text in UTF-8") from None


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise InvalidModelError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise InvalidModelError(f"{path}: not an object")
    return value


def _text_of(token: Any) -> str | None:
    """A special token is a text, or an object with it."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _message(message: Message, reads_parts: bool, image_placeholder: str | None) -> dict[str, Any]:
    """As templates expect it. What is None is left out, as by Transformers: templates would print it."""
    if not isinstance(message, Mapping):
        raise InvalidArgumentError(f"messages are dicts of `role` and `content`, not {message!r}")
    made = {key: value for key, value in message.items() if value is not None}
    reasoning = next((made[key] for key in ("reasoning_content", "thinking", "reasoning") if key in made), None)
    if reasoning is not None:
        made = {"thinking": reasoning, **made, "reasoning_content": reasoning}
    content = made.get("content")
    if isinstance(content, (list, tuple)) and not reads_parts:
        # Pictures first, as vLLM has it.
        texts = [part for part in content if image_placeholder is None or part != IMAGE_PART]
        images = [image_placeholder or ""] * (len(content) - len(texts))
        made["content"] = "\n".join([*images, *(_text_of_part(part) for part in texts)])
    elif isinstance(content, str) and reads_parts and image_placeholder is not None:
        made["content"] = [{"type": "text", "text": content}]  # templates of such models may read lists alone
    if isinstance(made.get("tool_calls"), (list, tuple)):
        made["tool_calls"] = [_tool_call(call) for call in made["tool_calls"]]
    return made


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise InvalidArgumentError(f"a part of a message's content is {kind!r}: the model reads text alone")


def _tool_call(call: Any) -> Any:
    """OpenAI's arguments are JSON text, that of templates is what it says."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        check_size(function["arguments"])
        arguments = json.loads(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        return call  # as a model may have written it
    return {**call, "function": {**function, "arguments": arguments}}


def _reads_parts(parsed: Any, nodes: Any) -> bool:
    """Whether a template goes through a message's content: a loop over `content`, `message.content`, or
    `message["content"]`."""
    for loop in parsed.find_all(nodes.For):
        over = loop.iter
        while isinstance(over, nodes.Filter):  # as selectattr("type", "equalto", "image")
            over = over.node
        name = None
        if isinstance(over, nodes.Name):
            name = over.name
        elif isinstance(over, nodes.Getattr):
            name = over.attr
        elif isinstance(over, nodes.Getitem) and isinstance(over.arg, nodes.Const):
            name = over.arg.value
        if name == "content":
            return True
    return False


def _marked(conversation: list[dict[str, Any]]) -> str:
    """Marks the end of the last message's text, which it gives."""
    last = dict(conversation[-1])
    content = last.get("content")
    if isinstance(content, str):
        text, last["content"] = content, content + _END_OF_TEXT
    elif isinstance(content, (list, tuple)) and content and isinstance(content[-1], Mapping) and "text" in content[-1]:
        text = str(content[-1]["text"])
        last["content"] = [*content[:-1], {**content[-1], "text": text + _END_OF_TEXT}]
    else:
        raise InvalidArgumentError("continue_final_message: the last message has no text to go on with")
    conversation[-1] = last
    return text


def _cut(text: str, last: str) -> str:
    place = text.rfind(_END_OF_TEXT.strip())
    if place < 0 or last.strip() not in text:
        raise InvalidArgumentError(
            "continue_final_message: the chat template leaves the last message out, or changes it"
        )
    is_kept = text.startswith(_END_OF_TEXT, place)
    return text[:place] if is_kept else text[:place].rstrip()
