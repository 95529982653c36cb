"""/v1/responses."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from camshaft.llm._outputs import CompletionOutput
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._call import Call, Progress, check_sample
from camshaft.llm.openai._conversation import Conversation
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._logprobs import TokenNames, chat_logprobs
from camshaft.llm.openai._response_input import ResponseInput
from camshaft.llm.openai._sampling import MOST_LOGPROBS, make_params, sampling_fields, stream_options, take_idle
from camshaft.llm.openai._served import Served

_LOGPROBS = "message.output_text.logprobs"


class Responses(Call):
    prefix, kind = "resp_", "response"
    prompt_field = "input"
    has_done_mark = False  # the last event says that it is the last

    def __init__(self, served: Served, body: Body) -> None:
        super().__init__(served)
        served.check_task("generate")
        self._metadata, self._user = body.raw("metadata", {}), body.raw("user")
        take_idle(body)
        given = ResponseInput(body)
        self._given = given
        self.priority = body.integer("priority", 0, -(1 << 31), (1 << 31) - 1)
        self.is_stream, _ = stream_options(body)
        count, includes = body.integer("top_logprobs", None, 0, MOST_LOGPROBS), body.raw("include", [])
        if not isinstance(includes, list) or any(each != _LOGPROBS for each in includes):
            body.wrong("include", f'a list of "{_LOGPROBS}", the one thing that may be included,', includes)
        self._logprobs = (count or 0) if count is not None or includes else None
        fields = sampling_fields(body)
        if fields["n"] != 1:
            raise RequestError("'n' is not there: a response is one text", "n")
        conversation = Conversation(served, given.body, fields, given.names)
        self._tools = conversation.tools
        self.guide_field = "text.format" if conversation.guide_field == "response_format" else conversation.guide_field
        self._names = TokenNames(served.texts, False)
        self._limit = wanted = body.integer("max_output_tokens", None, 1, 1 << 31)
        if body.flag("background"):
            raise RequestError("'background' is not there: a response is given while its call waits", "background")
        if body.text("truncation", "disabled", ("disabled", "auto")) != "disabled":
            raise RequestError("'truncation' is 'disabled': what is too long is refused", "truncation")
        body.finish()
        self.prompts, self.held_bytes = conversation.prompts({}, "input")
        fields["max_tokens"] = served.max_tokens(self.prompts, wanted, "input")
        fields["logprobs"] = self._logprobs
        self.params = make_params(fields)
        self._progress, self._deltas = Progress(), self._tools.deltas()
        self._stream = _Items(self)
        self._ended: list[dict[str, Any]] = []  # items of a stream

    def reply(self, outputs: Sequence[Any]) -> dict[str, Any]:
        [sample] = outputs[0].outputs
        check_sample(sample)
        content, calls = self._tools.parse(sample.text)
        status = _status(sample)
        items = []
        if content or not calls:
            items.append(self.message(content or "", status, self.logprobs(sample, slice(None))))
        items += [_function_call(call, "completed") for call in calls]
        return self._response(status, items, sample, self.usage(outputs))

    def events(self, prompt: int, output: Any) -> list[dict[str, Any]]:
        [sample] = output.outputs
        check_sample(sample)
        stream, progress = self._stream, self._progress
        if not self._begun:
            self._begun.add(prompt)
            for kind in ("created", "in_progress"):
                stream.add(f"response.{kind}", response=self._response("in_progress", [], None, None))
        if not progress.finished:
            progress.finished = sample.finished()
            new = progress.token_range(sample)
            deltas = self._deltas.add(progress.text(sample.text))
            if progress.finished:
                deltas += self._deltas.finish()
            stream.take(deltas, self.logprobs(sample, new))
        return stream.taken()

    def last_events(self, outputs: Sequence[Any]) -> list[dict[str, Any]]:
        [sample] = outputs[0].outputs
        status = _status(sample)
        items = self._stream.finish(status)
        response = self._response(status, items, sample, self.usage(outputs))
        self._stream.add(f"response.{status}", response=response)
        return self._stream.taken()

    def error_event(self, error: RequestError) -> dict[str, Any]:
        found = error.document["error"]
        self._stream.add("error", code=found["code"] or found["type"], message=found["message"], param=found["param"])
        return self._stream.taken()[-1]

    def usage(self, outputs: Sequence[Any]) -> dict[str, Any]:
        used = super().usage(outputs)
        return {
            "input_tokens": used["prompt_tokens"],
            "input_tokens_details": {**used["prompt_tokens_details"], "cache_write_tokens": 0},
            "output_tokens": used["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used["total_tokens"],
        }

    def logprobs(self, sample: CompletionOutput, new: slice) -> list[dict[str, Any]]:
        if self._logprobs is None:
            return []
        found: list[dict[str, Any]] = chat_logprobs(
            sample.token_ids[new], (sample.logprobs or [])[new], self._logprobs, self._names
        )["content"]
        return found

    def message(self, text: str, status: str, logprobs: list[dict[str, Any]], name: str = "") -> dict[str, Any]:
        part = text_part(text, logprobs)
        return {
            "id": name or new_id("msg"),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [part],
        }

    def _response(self, status: str, items: list[Any], sample: CompletionOutput | None, usage: Any) -> dict[str, Any]:
        given, params = self._given, self.params
        reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": self.id,
            "object": self.kind,
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": reason,
            "instructions": given.instructions,
            "max_output_tokens": self._limit,
            "metadata": self._metadata,
            "model": self.model,
            "output": items,
            "parallel_tool_calls": given.is_parallel,
            "previous_response_id": None,
            "store": False,
            "temperature": params.temperature,
            "text": {"format": given.format},
            "tool_choice": given.tool_choice,
            "tools": given.tools,
            "top_logprobs": self._logprobs,
            "top_p": params.top_p,
            "truncation": "disabled",
            "usage": usage,
            "user": self._user,
        }


class _Items:
    """The items of a response that grows, and the events that say so."""

    def __init__(self, call: Responses) -> None:
        self._call = call
        self._count = 0
        self._events: list[dict[str, Any]] = []
        self._items: list[dict[str, Any]] = []
        self._is_open = False
        self._logprobs: list[dict[str, Any]] = []  # of the message that is open
        self._pending: list[dict[str, Any]] = []  # of tokens whose text is not shown yet

    def add(self, kind: str, **fields: Any) -> None:
        self._events.append({"type": kind, "sequence_number": self._count, **fields})
        self._count += 1

    def taken(self) -> list[dict[str, Any]]:
        events, self._events = self._events, []
        return events

    def take(self, deltas: list[dict[str, Any]], logprobs: list[dict[str, Any]]) -> None:
        """deltas: those of chat completions."""
        self._pending += logprobs
        for delta in deltas:
            for call in delta.get("tool_calls", ()):
                self._add_to_call(call)
            if delta.get("content"):
                self._add_text(delta["content"])

    def finish(self, status: str) -> list[dict[str, Any]]:
        if not self._items:
            self._begin_message()
        if self._items[-1]["type"] == "message":
            self._logprobs += self._pending
        self._close(status)
        return self._items

    def _add_text(self, text: str) -> None:
        if not self._is_open or self._items[-1]["type"] != "message":
            self._begin_message()
        self._items[-1]["content"][0]["text"] += text
        logprobs, self._pending = self._pending, []
        self._logprobs += logprobs
        self._tell("response.output_text.delta", content_index=0, delta=text, logprobs=logprobs)

    def _begin_message(self) -> None:
        self._open({**self._call.message("", "in_progress", []), "content": []})
        part = text_part("", [])
        self._items[-1]["content"].append(part)
        self._logprobs = part["logprobs"]
        self._tell("response.content_part.added", content_index=0, part=text_part("", []))

    def _add_to_call(self, call: dict[str, Any]) -> None:
        function = call["function"]
        if "id" in call:
            self._open({**_function_call(call, "in_progress"), "arguments": ""})
        self._items[-1]["arguments"] += function["arguments"]
        self._tell("response.function_call_arguments.delta", delta=function["arguments"])

    def _open(self, item: dict[str, Any]) -> None:
        self._close("completed")
        self._items.append(item)
        self._is_open = True
        self.add("response.output_item.added", output_index=len(self._items) - 1, item=dict(item, **_copied(item)))

    def _close(self, status: str) -> None:
        if not self._is_open:
            return
        self._is_open = False
        item = self._items[-1]
        item["status"] = status
        if item["type"] == "message":
            part = item["content"][0]
            self._tell("response.output_text.done", content_index=0, text=part["text"], logprobs=part["logprobs"])
            self._tell("response.content_part.done", content_index=0, part=part)
        else:
            self._tell("response.function_call_arguments.done", arguments=item["arguments"], name=item["name"])
        self.add("response.output_item.done", output_index=len(self._items) - 1, item=item)

    def _tell(self, kind: str, **fields: Any) -> None:
        self.add(kind, item_id=self._items[-1]["id"], output_index=len(self._items) - 1, **fields)


def text_part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def new_id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"


def _copied(item: dict[str, Any]) -> dict[str, Any]:
    """Of an item that grows, what an event shows of it now."""
    return {"content": list(item["content"])} if "content" in item else {}


def _function_call(call: dict[str, Any], status: str) -> dict[str, Any]:
    """call: as chat completions have it."""
    function = call["function"]
    named = {"name": function["name"], "arguments": function["arguments"]}
    return {"id": new_id("fc"), "type": "function_call", "call_id": call["id"], **named, "status": status}


def _status(sample: CompletionOutput) -> str:
    return "incomplete" if sample.finish_reason == "length" else "completed"
