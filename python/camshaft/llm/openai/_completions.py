"""/v1/completions."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from camshaft.llm._outputs import CompletionOutput, Logprob, RequestOutput
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._call import Call, Progress
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._logprobs import TokenNames, completion_logprobs
from camshaft.llm.openai._prompts import listed_prompts, prompt_of
from camshaft.llm.openai._sampling import (
    MOST_LOGPROBS,
    make_params,
    sampling_fields,
    stream_options,
    structured_outputs,
    take_idle,
)
from camshaft.llm.openai._served import Served


class Completions(Call):
    prefix, kind, chunk_kind = "cmpl-", "text_completion", "text_completion"

    def __init__(self, served: Served, body: Body) -> None:
        super().__init__(served)
        served.check_task("generate")
        take_idle(body)
        prompt = body.raw("prompt")
        self.echo = body.flag("echo")
        self.priority = body.integer("priority", 0, -(1 << 31), (1 << 31) - 1)
        self.is_stream, self.include_usage = stream_options(body)
        fields = sampling_fields(body)
        fields["structured_outputs"], self.guide_field = structured_outputs(body)
        self.logprobs = body.integer("logprobs", None, 0, MOST_LOGPROBS)
        self._names = TokenNames(served.texts, body.flag("return_tokens_as_token_ids"))
        best_of = body.integer("best_of", fields["n"], 1)
        if best_of != fields["n"]:
            raise RequestError("'best_of' is not there: ask for 'n' texts, with logprobs, and choose", "best_of")
        add_special_tokens = body.flag("add_special_tokens", True)
        wanted = body.integer("max_tokens", 16, 0, 1 << 31)
        # The model generates one token at least; of an echo alone it is left out.
        self._is_echo_alone = wanted == 0
        if wanted == 0 and not self.echo:
            raise RequestError("'max_tokens' is 0, which goes with 'echo' alone", "max_tokens")
        body.finish()
        served.check_echo(self.echo and self.logprobs is not None)
        prompts = listed_prompts(prompt, "prompt")
        served.check_sequences(len(prompts), fields["n"])  # before all are cut into tokens
        self.prompts = [prompt_of(served, each, add_special_tokens, "prompt") for each in prompts]
        fields["max_tokens"] = served.max_tokens(self.prompts, max(wanted, 1), "prompt")
        fields["logprobs"] = self.logprobs
        fields["prompt_logprobs"] = self.logprobs if self.echo else None
        self.params = make_params(fields)
        if self.echo:
            for each in self.prompts:
                if each["prompt"] is None and served.llm.tokenizer is not None:
                    each["prompt"] = served.llm.tokenizer.decode(each["prompt_token_ids"], skip_special_tokens=False)
        self._progress: defaultdict[int, Progress] = defaultdict(Progress)

    def choice(self, prompt: int, output: RequestOutput, sample: CompletionOutput) -> dict[str, Any]:
        new = slice(0, 0 if self._is_echo_alone else len(sample.token_ids))
        return self._choice(prompt, output, sample, "" if self._is_echo_alone else sample.text, new, self.echo)

    def deltas(self, prompt: int, output: RequestOutput, sample: CompletionOutput) -> list[dict[str, Any]]:
        progress = self._progress[self.index_of(prompt, sample)]
        if progress.finished:
            return []
        progress.finished = sample.finished()
        text, new = progress.text(sample.text), progress.token_range(sample)
        if self._is_echo_alone:
            text, new = "", slice(0, 0)
        has_news = text or progress.finished or (self.logprobs is not None and new.start < new.stop)
        if not has_news:
            return []
        # The echo's logprobs are complete with the first token, but that may show no text yet.
        echoes, progress.echoed = self.echo and not progress.echoed, True
        return [self._choice(prompt, output, sample, text, new, echoes)]

    def completion_tokens(self, sample: CompletionOutput) -> int:
        return 0 if self._is_echo_alone else super().completion_tokens(sample)

    def _choice(
        self,
        prompt: int,
        output: RequestOutput,
        sample: CompletionOutput,
        text: str,
        new: slice,
        echoes: bool,
    ) -> dict[str, Any]:
        given = self.prompts[prompt]["prompt"] or ""
        tokens = list(sample.token_ids[new])
        values: list[dict[int, Logprob] | None] = list((sample.logprobs or [])[new])
        offset = len(sample.text) - len(text) + (len(given) if self.echo else 0)
        if echoes:
            text, offset = given + text, 0
            tokens = output.prompt_token_ids + tokens
            values = list(output.prompt_logprobs or []) + values
        logprobs = None
        if self.logprobs is not None:
            logprobs = completion_logprobs(tokens, values, self.logprobs, self._names, offset)
        return {
            "index": self.index_of(prompt, sample),
            "text": text,
            "logprobs": logprobs,
            "finish_reason": sample.finish_reason,
            "stop_reason": sample.stop_reason,
        }
