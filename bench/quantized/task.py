"""What a quantised model is judged by: its task, on data that it was not calibrated on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Part:
    """A model of a task, and what it is calibrated on: {input: array} for each run."""

    name: str
    model: Callable[[], Path]
    calibration: Callable[[], list]
    transformer: bool = False  # tools that ask for it are told


@dataclass(frozen=True)
class Task:
    """`answer` takes a function for each part, {input: array} to the list of its outputs, and how many samples are wanted;
    `score` takes what it gave and what it gives in fp32. The score is not to be below `least`, nor more than `lost` below
    that of fp32."""

    name: str
    metric: str
    parts: tuple
    samples: int
    answer: Callable
    score: Callable
    least: float | None = None
    lost: float | None = None

    def is_met(self, score, in_fp32):
        return (self.least is None or score >= self.least) and (self.lost is None or score >= in_fp32 - self.lost)

    def limit(self):
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.lost:g} below fp32"
