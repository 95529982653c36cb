"""Rotary position embeddings: the frequencies of the scalings that models have.

Su et al., "RoFormer", 2021; linear: Chen et al., "Extending Context Window of Large Language Models via Position
Interpolation", 2023; yarn: Peng et al., 2023; longrope: Ding et al., 2024; dynamic and llama3: as Transformers defines them
(docs/source/en/internal/rope_utils.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from camshaft._errors import UnsupportedError
from camshaft.llm._fields import Fields

if TYPE_CHECKING:
    import numpy

    Frequencies = numpy.ndarray[Any, numpy.dtype[numpy.float32]]

_NO_SCALING = {"rope_type": "default"}


@dataclass(frozen=True)
class Rope:
    """Angles of `rotated` elements of each head: position · theta^(-2i/rotated), scaled."""

    theta: float
    rotated: int
    kind: str = "default"
    factor: float = 1.0
    original_length: int = 0  # that the model was trained with
    low: float = 0.0  # llama3: low_freq_factor; yarn: beta_slow
    high: float = 0.0  # llama3: high_freq_factor; yarn: beta_fast
    truncated: bool = True  # yarn: the ramp begins and ends at whole numbers
    factors: tuple[float, ...] = ()  # longrope: of each frequency
    attention_factor: float = 1.0  # of cosines and sines
    sections: tuple[int, ...] = ()  # of the frequencies: each turns by another of a token's positions (M-RoPE)

    def frequencies(self) -> Frequencies:
        """[rotated / 2] in fp32, as Transformers computes them; of "dynamic" those up to the original length, of "axial" the
        same ones for each of two positions."""
        import numpy

        if self.kind == "axial":
            return numpy.tile(Rope(self.theta, self.rotated // 2).frequencies(), 2)
        exponents = numpy.arange(0, self.rotated, 2, dtype=numpy.float32) / numpy.float32(self.rotated)
        powers = numpy.power(numpy.float32(self.theta), exponents, dtype=numpy.float32)
        if self.kind == "longrope":
            return numpy.float32(1) / (numpy.asarray(self.factors, numpy.float32) * powers)
        plain = numpy.float32(1) / powers
        if self.kind == "linear":
            return plain / numpy.float32(self.factor)
        if self.kind == "llama3":
            return self._llama3(plain)
        return self._yarn(plain) if self.kind == "yarn" else plain

    def axes(self) -> Any:
        """i64 [rotated / 2]: which of a token's positions each frequency turns by."""
        import numpy

        return numpy.repeat(numpy.arange(len(self.sections)) % 3, self.sections)

    def _llama3(self, plain: Frequencies) -> Frequencies:
        """Long waves are slowed down by the factor, short ones kept, and between them is a ramp."""
        import numpy

        turns = self.original_length * plain / (2 * math.pi)  # within the original length
        ramp = (turns - self.low) / (self.high - self.low)
        kept = numpy.clip(ramp, 0, 1)
        return ((1 - kept) * plain / self.factor + kept * plain).astype(numpy.float32)

    def _yarn(self, plain: Frequencies) -> Frequencies:
        import numpy

        def place(turns: float) -> float:  # of the frequency that turns so often within the original length
            return self.rotated * math.log(self.original_length / (turns * 2 * math.pi)) / (2 * math.log(self.theta))

        first, last = place(self.high), place(self.low)
        if self.truncated:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, self.rotated - 1)
        ramp = (numpy.arange(self.rotated // 2, dtype=numpy.float32) - first) / max(last - first, 0.001)
        slowed = numpy.clip(ramp, 0, 1)
        return (plain / self.factor * slowed + plain * (1 - slowed)).astype(numpy.float32)


def read_rope(
    config: Fields, parameters: dict[str, Any], theta: float, rotated: int, length: int, longest: int
) -> Rope:
    """parameters: "rope_scaling" or "rope_parameters" of a configuration, {} without scaling. length: its
    max_position_embeddings. longest: what the engine is to take, which decides between longrope's factors."""
    fields = Fields(parameters or _NO_SCALING, f"{config.where}, the scaling of RoPE")
    if fields.has("mrope_section"):
        plain = {name: value for name, value in fields.values.items() if name != "mrope_section"}
        for name in ("rope_type", "type"):  # the older name of what has sections
            if plain.get(name) == "mrope":
                plain[name] = "default"
        made = read_rope(config, plain, theta, rotated, length, longest)
        return replace(made, sections=_sections(fields, rotated // 2))
    kind = {"su": "longrope"}.get(name := fields.text("rope_type", "type", default="default"), name)
    theta = fields.number("rope_theta", default=theta, low=1.0)
    if kind == "default":
        return Rope(theta, rotated)
    given_factor = fields.has("factor")
    original = fields.integer(
        "original_max_position_embeddings",
        default=config.raw("original_max_position_embeddings", default=length),
        high=1 << 30,
    )
    if kind in ("linear", "dynamic"):
        factor = fields.number("factor", low=1e-3, high=1e6)
        return Rope(theta, rotated, kind, factor, length)
    if kind == "llama3":
        low, high = fields.number("low_freq_factor", low=1e-3), fields.number("high_freq_factor", low=1e-3)
        if low >= high:
            fields.wrong(("high_freq_factor",), f"more than low_freq_factor ({low:g})", high)
        return Rope(theta, rotated, kind, fields.number("factor", low=1e-3, high=1e6), original, low, high)
    factor = fields.number("factor", low=1e-3, high=1e6) if given_factor else length / original
    if kind == "yarn":
        low, high = fields.number("beta_slow", default=1, low=1e-3), fields.number("beta_fast", default=32, low=1e-3)
        if theta <= 1:
            fields.wrong(("rope_theta",), "more than 1", theta)
        attention = _yarn_attention(fields, factor)
        whole = fields.flag("truncate", default=True)
        return Rope(theta, rotated, kind, factor, original, low, high, whole, attention_factor=attention)
    if kind == "longrope":
        name = "long_factor" if longest > original else "short_factor"
        factors = tuple(fields.numbers(name, rotated // 2))
        if min(factors) <= 0:
            fields.wrong((name,), "a list of positive numbers", fields.raw(name))
        usual = 1.0 if factor <= 1 or original < 2 else math.sqrt(1 + math.log(factor) / math.log(original))
        attention = fields.number("attention_factor", default=usual, high=1e3)
        return Rope(theta, rotated, kind, factor, original, factors=factors, attention_factor=attention)
    raise UnsupportedError(
        f"{fields.where}: field 'rope_type' is '{kind}'; default, linear, dynamic, llama3, yarn and longrope are known"
    )


def _sections(fields: Fields, count: int) -> tuple[int, ...]:
    sections: Any = fields.raw("mrope_section")
    is_list = isinstance(sections, list) and all(type(each) is int and each >= 0 for each in sections)
    if not is_list or sum(sections) != count:
        fields.wrong(("mrope_section",), f"a list of numbers of frequencies, which are {count} together", sections)
    return tuple(sections)


def _yarn_attention(fields: Fields, factor: float) -> float:
    def grown(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    of_model, of_all = (fields.number(name, default=0, high=1e3) for name in ("mscale", "mscale_all_dim"))
    usual = grown(of_model) / grown(of_all) if of_model and of_all else grown(1)
    return fields.number("attention_factor", default=usual, high=1e3)
