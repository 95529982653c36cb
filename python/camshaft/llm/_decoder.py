"""What a decoder or an encoder is: read from a Hugging Face folder's config.json, with every field checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from camshaft._errors import InvalidArgumentError, UnsupportedError
from camshaft.llm._encoders import ENCODERS
from camshaft.llm._families import FAMILIES, Family, family_of, has_bias
from camshaft.llm._fields import Fields, read_json
from camshaft.llm._rope import Rope, read_rope

LONGEST = 1 << 24  # tokens: positions are exact in fp32


@dataclass(frozen=True)
class Experts:
    """A layer's MLPs, of which a router chooses some for each token."""

    count: int
    chosen: int
    width: int  # of one
    normalized: bool  # the weights of the chosen ones add up to 1
    shared_width: int = 0  # of one that all tokens take; 0: there is none


@dataclass(frozen=True)
class Layer:
    window: int  # keys that a token sees, its own the last; 0: all
    scale: float  # of scores
    rope: Rope | None
    experts: Experts | None = None


@dataclass(frozen=True)
class RelativeBias:
    """Of scores, by the distance between a token and a key, in buckets that grow with it (T5)."""

    buckets: int
    max_distance: int  # from which on all keys are in the last one


@dataclass(frozen=True)
class Decoder:
    """Encoders, too: `family.causal` tells them apart."""

    model_type: str
    family: Family
    biased: frozenset[str]  # roles
    layers: tuple[Layer, ...]
    width: int
    embedding_width: int
    mlp_width: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    max_length: int
    learned_positions: int  # rows that there are; 0: none
    activation: str
    epsilon: float
    softcap: float  # of scores; 0: none
    logits_softcap: float
    tied: bool
    cross_keys: int = 0  # of an encoder, which its layers see at most; 0: there is none
    token_types: int = 0  # rows that there are
    relative_bias: RelativeBias | None = None
    head_scale: float = 1.0  # of what the head reads

    @property
    def has_mrope(self) -> bool:
        """Whether a token has three positions: in time, down and across a picture."""
        return any(layer.rope is not None and layer.rope.sections for layer in self.layers)


def read_config(folder: Path) -> Fields:
    return Fields(read_json(folder / "config.json"), str(folder / "config.json"))


def text_model_of(config: Fields) -> Fields:
    """Of Gemma 3, which has one of text and pictures, and is read as one of text."""
    if config.raw("model_type", default="") == "gemma3":
        text = config.within("text_config")
        return Fields({"model_type": "gemma3_text", **config.values, **text.values}, text.where)
    return config


def decoder_of(
    config: Fields, max_length: int | None = None, task: str = "generate", *, is_part: bool = False
) -> Decoder:
    """max_length: the longest sequence, that of the configuration where it is None. task: "generate", or "embed", which
    encoders do, too. is_part: whether it is a part of a model that reads pictures."""
    for name in ("add_cross_attention", "use_bidirectional_attention"):
        if config.has(name) and config.raw(name) is not False:
            raise UnsupportedError(f"{config.where}: field '{name}' is set, which is not supported")
    is_causal = config.flag("is_causal", default=True)
    if task == "generate" and not is_causal:
        raise UnsupportedError(
            f"{config.where}: field 'is_causal' is false: the model generates no text; build it with task='embed'"
        )
    if task == "generate" and config.text("model_type") in ENCODERS:
        raise UnsupportedError(
            f"{config.where}: model_type '{config.text('model_type')}' is an encoder, which generates no text: "
            "build it with task='embed' (--task embed)"
        )
    family = family_of(config, FAMILIES if task == "generate" else {**FAMILIES, **ENCODERS})
    family = replace(family, causal=family.causal and is_causal)
    if is_part:
        family = replace(family, prefixes=("language_model.model.", "model.language_model.", *family.prefixes))
    width, heads = (
        config.integer("hidden_size", "n_embd", "d_model", "dim"),
        config.integer(
            "decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads", high=1 << 14
        ),
    )
    head_size = _head_size(config, family, width, heads)
    kv_heads = _kv_heads(config, heads)
    within = family.position_offset if family.offset_is_within else 0
    trained = (
        config.integer(
            "max_target_positions",
            "max_position_embeddings",
            "n_positions",
            default=2048,
            low=1 + within,
            high=1 << 30,
        )
        - within
    )
    layers, longest = _layers(config, family, head_size, trained, max_length)
    if not family.causal and any(layer.window for layer in layers):
        raise UnsupportedError(f"{config.where}: sliding windows of attention in both directions are not supported")
    activation = config.text("hidden_activation", default=None) if config.has("hidden_activation") else None
    if activation is None and family.activation is not None:
        activation = config.text("activation", default=family.activation)
    elif activation is None:
        activation = config.text("hidden_act", "activation_function", "activation")
    return Decoder(
        model_type=config.text("model_type"),
        family=family,
        biased=frozenset(role for role in family.biases if has_bias(family, role, config)),
        layers=layers,
        width=width,
        embedding_width=config.integer("word_embed_proj_dim", default=width),
        mlp_width=config.integer(
            "decoder_ffn_dim",
            "intermediate_size",
            "ffn_dim",
            "n_inner",
            "ffn_hidden_size",
            "hidden_dim",
            "d_ff",
            default=4 * width,
            high=1 << 24,
        ),
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        vocabulary=config.integer("vocab_size", high=1 << 24),
        max_length=longest,
        learned_positions=trained if "positions" in family.names else 0,
        activation=activation,
        epsilon=config.number(
            "rms_norm_eps",
            "layer_norm_eps",
            "layer_norm_epsilon",
            "layernorm_epsilon",
            default=family.epsilon,
            high=1.0,
        ),
        softcap=_optional_number(config, "attn_logit_softcapping"),
        logits_softcap=_optional_number(config, "final_logit_softcapping"),
        tied=config.flag("tie_word_embeddings", default=family.tied),
        cross_keys=_cross_keys(config, family, longest) if "cross_q" in family.names else 0,
        token_types=config.integer("type_vocab_size", default=2) if "token_types" in family.names else 0,
        relative_bias=_relative_bias(config) if "relative_bias" in family.names else None,
        head_scale=width**-0.5 if _scales_head(config, family) else 1.0,
    )


def _relative_bias(config: Fields) -> RelativeBias:
    buckets = config.integer("relative_attention_num_buckets", default=32, low=4, high=1 << 12)
    # Half of a direction's buckets are of single distances.
    return RelativeBias(
        buckets, config.integer("relative_attention_max_distance", default=128, low=buckets // 2 + 1, high=1 << 16)
    )


def _scales_head(config: Fields, family: Family) -> bool:
    """T5 does where its embeddings are tied; newer configurations say it themselves, as they call all of them tied."""
    if "relative_bias" not in family.names:
        return False
    return config.flag("scale_decoder_outputs", default=config.flag("tie_word_embeddings", default=True))


def _cross_keys(config: Fields, family: Family, longest: int) -> int:
    """Where positions are distances alone prompts may be as long as texts."""
    return longest if "relative_bias" in family.names else config.integer("max_source_positions", high=1 << 16)


def _head_size(config: Fields, family: Family, width: int, heads: int) -> int:
    if family.head_size_is_own and (config.has("head_dim") or config.has("d_kv")):
        return config.integer("head_dim", "d_kv", high=1 << 12)
    if width % heads != 0:
        config.wrong(
            ("decoder_attention_heads", "num_attention_heads", "n_head"), f"a divisor of hidden_size ({width})", heads
        )
    return width // heads


def _kv_heads(config: Fields, heads: int) -> int:
    if config.raw("model_type") == "falcon":
        if not config.flag("new_decoder_architecture", default=False):
            return 1 if config.flag("multi_query", default=True) else heads
        kv_heads = config.integer("num_kv_heads", default=heads, high=heads)
    else:
        kv_heads = config.integer("num_key_value_heads", default=heads, high=heads)
    if heads % kv_heads != 0:
        config.wrong(("num_key_value_heads", "num_kv_heads"), f"a divisor of the {heads} heads", kv_heads)
    return kv_heads


def _optional_number(config: Fields, name: str) -> float:
    return config.number(name, default=0.0, high=1e6)


def _layers(
    config: Fields, family: Family, head_size: int, trained: int, max_length: int | None
) -> tuple[tuple[Layer, ...], int]:
    """The layers, and the longest sequence."""
    count = config.integer(
        "decoder_layers", "num_decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers", high=1 << 12
    )
    windows = _windows(config, family, count)
    given = config.raw("rope_parameters", "rope_scaling", default={})
    scaling = Fields(given, f"{config.where}, 'rope_scaling'").values
    of_kinds = {kind: scaling[kind] for kind in ("full_attention", "sliding_attention") if kind in scaling}
    plain = of_kinds.get("full_attention", scaling)
    longest = _longest(config, family, Fields(plain, f"{config.where}, the scaling of RoPE"), trained, max_length)
    theta = config.number("rope_theta", "rotary_emb_base", default=family.theta, low=1.0)

    def rope_of(is_sliding: bool) -> Rope | None:
        if "positions" in family.names or "relative_bias" in family.names:
            return None
        if "sliding_attention" in of_kinds and is_sliding:
            parameters, base = of_kinds["sliding_attention"], theta
        elif "pattern" == family.windows and is_sliding and not of_kinds:
            parameters, base = {}, config.number("rope_local_base_freq", default=10000.0, low=1.0)
        else:
            parameters, base = plain, theta
        fields = Fields(parameters, f"{config.where}, the scaling of RoPE")
        share = config.number("partial_rotary_factor", "rotary_pct", default=family.rotary_share, high=1.0)
        share = fields.number("partial_rotary_factor", default=share, high=1.0)
        rotated = int(head_size * share)
        if rotated < 2 or rotated % 2 != 0:
            fields.wrong(("partial_rotary_factor",), f"a share of {head_size} elements that is even", share)
        return read_rope(config, fields.values, base, rotated, trained, longest)

    ropes = {is_sliding: rope_of(is_sliding) for is_sliding in {window > 0 for window in windows}}
    scale = config.number(family.query_scale, low=1e-6) if family.query_scale is not None else float(head_size)
    scale = scale**-0.5 if family.scales_scores and config.flag("scale_attn_weights", default=True) else 1.0
    by_index = config.flag("scale_attn_by_inverse_layer_idx", default=False)
    experts = _experts(config, family, count)
    layers = (
        Layer(windows[i], scale / (i + 1) if by_index else scale, ropes[windows[i] > 0], experts[i])
        for i in range(count)
    )
    return tuple(layers), longest


def _longest(config: Fields, family: Family, scaling: Fields, trained: int, max_length: int | None) -> int:
    most = trained
    kind = scaling.raw("rope_type", "type", default="default")
    if kind in ("dynamic", "yarn", "linear") and "positions" not in family.names:
        original = scaling.integer("original_max_position_embeddings", default=trained, high=1 << 30)
        most = max(trained, math.floor(original * scaling.number("factor", default=1.0, low=1e-3, high=1e6)))
    most = LONGEST if "relative_bias" in family.names else min(most, LONGEST)
    if max_length is None:
        return min(trained, LONGEST)
    if isinstance(max_length, bool) or not isinstance(max_length, int) or not 1 <= max_length <= most:
        raise InvalidArgumentError(f"max_length is {max_length!r}; {config.where} allows 1 to {most} tokens")
    return max_length


def _windows(config: Fields, family: Family, count: int) -> list[int]:
    usual = {"alternate": 4096, "pattern": 4096}.get(family.windows, 0)
    window = config.integer("sliding_window", default=usual, low=0, high=1 << 30)
    if family.windows == "none" or not config.flag("use_sliding_window", default=True):
        window = 0
    kinds = config.raw("layer_types", default=None)
    if kinds is not None:
        if not isinstance(kinds, list) or len(kinds) != count:
            config.wrong(("layer_types",), f"a list of {count} kinds of attention", kinds)
        for kind in kinds:
            if kind not in ("full_attention", "sliding_attention"):
                raise UnsupportedError(
                    f"{config.where}: layer_types has {kind!r}; full_attention and sliding_attention are supported"
                )
        if window == 0 and "sliding_attention" in kinds and config.flag("use_sliding_window", default=True):
            config.wrong(("sliding_window",), "the window of the layers with sliding_attention", window)
        return [window if kind == "sliding_attention" else 0 for kind in kinds]
    if family.windows == "alternate":
        return [window if i % 2 == 0 else 0 for i in range(count)]
    if family.windows == "pattern":
        every = config.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
        return [window if (i + 1) % every != 0 else 0 for i in range(count)]
    if family.windows == "late":
        first = config.integer("max_window_layers", default=28, low=0)
        return [window if i >= first else 0 for i in range(count)]
    return [window] * count


def _experts(config: Fields, family: Family, count: int) -> list[Experts | None]:
    if not family.experts:
        return [None] * count
    number = config.integer("num_local_experts", "num_experts", low=0, high=1 << 12)
    chosen = config.integer("num_experts_per_tok", high=max(number, 1))
    experts = Experts(
        number,
        chosen,
        config.integer("moe_intermediate_size", "intermediate_size", high=1 << 24),
        config.flag("norm_topk_prob", default=family.normalizes_experts) or family.normalizes_experts,
        config.integer("shared_expert_intermediate_size", high=1 << 24) if "shared_gate" in family.experts else 0,
    )
    every = config.integer("decoder_sparse_step", default=1)
    without: Any = config.raw("mlp_only_layers", default=[])
    if not isinstance(without, list):
        config.wrong(("mlp_only_layers",), "a list of layers", without)
    return [experts if number > 0 and i not in without and (i + 1) % every == 0 else None for i in range(count)]
