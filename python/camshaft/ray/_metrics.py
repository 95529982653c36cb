"""Metrics of Ray, as the models of `camshaft serve` know them: they have the names that vLLM's have there, vllm_… ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray.util import metrics


class MetricFamily:
    GAUGE, COUNTER, HISTOGRAM = range(3)

    def __init__(self, name: str, description: str, kind: int) -> None:
        self._name, self._description, self._kind = name.replace(":", "_"), description, kind
        self._metric: Any = None

    def Metric(self, labels: Mapping[str, str], buckets: Sequence[float] = ()) -> _Metric:
        if self._metric is None:
            about = {"description": self._description, "tag_keys": tuple(labels)}
            if self._kind == self.HISTOGRAM:
                self._metric = metrics.Histogram(self._name, boundaries=list(buckets), **about)
            else:
                self._metric = (metrics.Gauge if self._kind == self.GAUGE else metrics.Counter)(self._name, **about)
        return _Metric(self._metric, dict(labels))


class _Metric:
    def __init__(self, metric: Any, labels: dict[str, str]) -> None:
        self._metric, self._labels, self._value = metric, labels, 0.0

    def value(self) -> float:
        return self._value

    def set(self, value: float) -> None:
        self._value = value
        self._metric.set(value, tags=self._labels)

    def increment(self, more: float) -> None:
        if more > 0:  # Ray refuses 0
            self._value += more
            self._metric.inc(more, tags=self._labels)

    def observe(self, value: float) -> None:
        self._metric.observe(value, tags=self._labels)
