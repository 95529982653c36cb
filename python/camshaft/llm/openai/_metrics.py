"""What the server's /metrics says of a language model, by the names that vLLM has for it."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from camshaft.llm._llm import LLM

_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000)
_GAUGES = {
    "num_requests_running": "Number of requests in model execution batches.",
    "num_requests_waiting": "Number of requests waiting to be processed.",
    "kv_cache_usage_perc": "KV-cache usage. 1 means 100 percent usage.",
}
_COUNTERS = {
    "prompt_tokens_total": "Number of prefill tokens processed.",
    "generation_tokens_total": "Number of generation tokens processed.",
    "num_preemptions_total": "Cumulative number of preemption from the engine.",
    "spec_decode_num_drafts_total": "Number of spec decoding drafts.",
    "spec_decode_num_draft_tokens_total": "Number of draft tokens.",
    "spec_decode_num_accepted_tokens_total": "Number of accepted tokens.",
}
#: Counters that are told what the model counts.
_COUNTED = {
    "num_preemptions_total": "preemptions",
    "spec_decode_num_drafts_total": "drafts",
    "spec_decode_num_draft_tokens_total": "drafted",
    "spec_decode_num_accepted_tokens_total": "accepted",
}
_HISTOGRAMS = {
    "time_to_first_token_seconds": ("Histogram of time to first token in seconds.", _SECONDS),
    "request_time_per_output_token_seconds": ("Histogram of time_per_output_token_seconds per request.", _SECONDS),
    "e2e_request_latency_seconds": ("Histogram of e2e request latency in seconds.", _SECONDS),
    "request_prompt_tokens": ("Number of prefill tokens processed.", _TOKENS),
    "request_generation_tokens": ("Number of generation tokens processed.", _TOKENS),
}
_REASONS = ("stop", "length", "abort", "error")


@dataclasses.dataclass
class Work:
    """What was done for a request. generated: tokens of each of its texts, and in `reasons` why they ended; times: by
    time.monotonic()."""

    prompt_tokens: int
    generated: list[int]
    reasons: list[str]
    first_token_at: float | None
    last_token_at: float | None


class Metrics:
    def __init__(self, utils: Any, llm: LLM, model: str) -> None:
        self._llm = llm
        kinds = utils.MetricFamily
        labels = {"model_name": model}

        def make(name: str, text: str, kind: int) -> Any:
            return utils.MetricFamily("vllm:" + name, text, kind)

        self._gauges = {n: make(n, text, kinds.GAUGE).Metric(labels) for n, text in _GAUGES.items()}
        self._counters = {n: make(n, text, kinds.COUNTER).Metric(labels) for n, text in _COUNTERS.items()}
        self._histograms = {
            name: make(name, text, kinds.HISTOGRAM).Metric(labels, list(bounds))
            for name, (text, bounds) in _HISTOGRAMS.items()
        }
        finished = make("request_success_total", "Count of successfully processed requests.", kinds.COUNTER)
        self._finished = {reason: finished.Metric({**labels, "finished_reason": reason}) for reason in _REASONS}

    def look(self, waiting: int = 0) -> None:
        """What the model says of itself; where nothing changes nothing is told. waiting: calls that it knows nothing of yet."""
        now = self._llm._steps.between_steps(self._llm.statistics)
        blocks = max(now["blocks"], 1)
        for name, value in (
            ("num_requests_running", now["running"]),
            ("num_requests_waiting", now["waiting"] + waiting),
            ("kv_cache_usage_perc", 1 - now["free_blocks"] / blocks),
        ):
            if self._gauges[name].value() != value:
                self._gauges[name].set(value)
        for name, counted in _COUNTED.items():
            counter = self._counters[name]
            if (more := now[counted] - counter.value()) > 0:
                counter.increment(more)

    def ended(self, work: Work, began: float) -> None:
        """began: when its call came, by time.monotonic()."""
        now = time.monotonic()
        self._counters["prompt_tokens_total"].increment(work.prompt_tokens)
        self._counters["generation_tokens_total"].increment(sum(work.generated))
        for reason in work.reasons:
            self._finished[reason].increment(1)
        observe = {
            "request_prompt_tokens": work.prompt_tokens,
            "request_generation_tokens": sum(work.generated),
            "e2e_request_latency_seconds": now - began,
        }
        if work.first_token_at is not None and work.last_token_at is not None:
            observe["time_to_first_token_seconds"] = work.first_token_at - began
            if max(work.generated) > 1:
                span = work.last_token_at - work.first_token_at
                observe["request_time_per_output_token_seconds"] = span / (max(work.generated) - 1)
        for name, value in observe.items():
            self._histograms[name].observe(value)
