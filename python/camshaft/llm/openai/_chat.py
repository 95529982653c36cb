"""/v1/chat/completions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from camshaft.llm._chat_template import RESERVED
from camshaft.llm._outputs import CompletionOutput, RequestOutput
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._call import Call, Progress
from camshaft.llm.openai._conversation import Conversation
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._logprobs import TokenNames, chat_logprobs
from camshaft.llm.openai._sampling import (
    MOST_LOGPROBS,
    make_params,
    sampling_fields,
    stream_options,
    take_idle,
)
from camshaft.llm.openai._served import Served
from camshaft.llm.openai._tools import ToolDeltas


class ChatCompletions(Call):
    prefix, kind, chunk_kind = "chatcmpl-", "chat.completion", "chat.completion.chunk"
    prompt_field = "messages"

    def __init__(self, served: Served, body: Body) -> None:
        super().__init__(served)
        served.check_task("generate")
        take_idle(body)
        self.priority = body.integer("priority", 0, -(1 << 31), (1 << 31) - 1)
        self.is_stream, self.include_usage = stream_options(body)
        fields = sampling_fields(body)
        conversation = Conversation(served, body, fields)
        self._tools, self.guide_field = conversation.tools, conversation.guide_field
        self._logprobs = _logprobs(body)
        self._names = TokenNames(served.texts, body.flag("return_tokens_as_token_ids"))
        wanted = body.integer("max_completion_tokens", None, 1, 1 << 31)
        older = body.integer("max_tokens", None, 1, 1 << 31)
        wanted = older if wanted is None else wanted
        modalities = body.raw("modalities", ["text"])
        if modalities != ["text"]:
            body.wrong("modalities", '["text"]', modalities)
        options: dict[str, Any] = {
            "add_generation_prompt": body.flag("add_generation_prompt", True),
            "continue_final_message": body.flag("continue_final_message"),
            "chat_template_kwargs": _template_options(body),
        }
        body.finish()
        served.check_sequences(1, fields["n"])
        self.prompts, self.held_bytes = conversation.prompts(options, "messages")
        fields["max_tokens"] = served.max_tokens(self.prompts, wanted, "messages")
        fields["logprobs"] = self._logprobs
        self.params = make_params(fields)
        self._progress: defaultdict[int, Progress] = defaultdict(Progress)
        self._tool_deltas: defaultdict[int, ToolDeltas] = defaultdict(self._tools.deltas)

    def choice(self, prompt: int, output: RequestOutput, sample: CompletionOutput) -> dict[str, Any]:
        content, calls = self._tools.parse(sample.text)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        return {
            "index": self.index_of(prompt, sample),
            "message": message,
            "logprobs": self._logprobs_of(sample, slice(None)),
            "finish_reason": self._tools.finish_reason(sample.finish_reason, bool(calls)),
            "stop_reason": sample.stop_reason,
        }

    def first_deltas(self, index: int) -> list[dict[str, Any]]:
        return [self._delta(index, {"role": "assistant", "content": ""})]

    def deltas(self, prompt: int, output: RequestOutput, sample: CompletionOutput) -> list[dict[str, Any]]:
        index = self.index_of(prompt, sample)
        progress, tools = self._progress[index], self._tool_deltas[index]
        if progress.finished:
            return []
        progress.finished = sample.finished()
        new = progress.token_range(sample)
        made = [self._delta(index, delta) for delta in tools.add(progress.text(sample.text))]
        if progress.finished:
            made += [self._delta(index, delta) for delta in tools.finish()]
            made.append(self._delta(index, {}))
            made[-1]["finish_reason"] = self._tools.finish_reason(sample.finish_reason, tools.has_calls)
            made[-1]["stop_reason"] = sample.stop_reason
        if self._logprobs is not None and new.start < new.stop:
            if not made:
                made.append(self._delta(index, {"content": ""}))
            made[0]["logprobs"] = self._logprobs_of(sample, new)
        return made

    def _logprobs_of(self, sample: CompletionOutput, new: slice) -> dict[str, Any] | None:
        if self._logprobs is None:
            return None
        return chat_logprobs(sample.token_ids[new], (sample.logprobs or [])[new], self._logprobs, self._names)

    def _delta(self, index: int, delta: dict[str, Any]) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _logprobs(body: Body) -> int | None:
    wanted, count = body.flag("logprobs"), body.integer("top_logprobs", None, 0, MOST_LOGPROBS)
    if count is not None and not wanted:
        raise RequestError("'top_logprobs' needs 'logprobs' to be true", "top_logprobs")
    return (count or 0) if wanted else None


def _template_options(body: Body) -> dict[str, Any]:
    given = body.raw("chat_template_kwargs", {})
    if not isinstance(given, dict) or RESERVED & set(given):
        body.wrong("chat_template_kwargs", f"an object without {', '.join(sorted(RESERVED))}", given)
    return given
