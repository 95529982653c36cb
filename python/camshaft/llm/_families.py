"""What families of models are tables of, and those of decoders: how their tensors are called, and where they differ.

A family is a table. What a configuration decides of it (Falcon's norms, for one) is in the function `variant` of the family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from camshaft._errors import UnsupportedError
from camshaft.llm._fields import Fields

Names = Mapping[str, str]

_ATTENTION = {name: f"self_attn.{name}_proj" for name in "qkvo"}
_LLAMA: Names = {
    "embedding": "embed_tokens",
    "final_norm": "norm",
    "head": "lm_head",
    "attention_norm": "input_layernorm",
    **_ATTENTION,
    "mlp_norm": "post_attention_layernorm",
    **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
}
_QK_NORMS: Names = {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}
_FOUR_NORMS: Names = {
    "attention_output_norm": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_output_norm": "post_feedforward_layernorm",
}


@dataclass(frozen=True)
class Family:
    """How a model is made. The roles of `names`: embedding, positions, token_types, embedding_norm, final_norm, head,
    project_in, project_out; and of each layer attention_norm, q, k, v or qkv, q_norm, k_norm, o, attention_output_norm,
    mlp_norm, gate and up or gate_up or up alone, down, mlp_output_norm; and of those that see an encoder cross_norm, cross_q,
    cross_k, cross_v, cross_o; relative_bias, of all layers. A norm that has no name is left out."""

    names: Names
    prefixes: tuple[str, ...] = ("model.", "")  # of all but the head, the first that the embedding is found with
    layer: str = "layers.{}."
    norm: Literal["rms", "layer"] = "rms"
    norm_offset: float = 0.0  # that is added to a norm's weights
    norm_before: bool = True  # or behind the sum with the residual
    causal: bool = True  # or tokens see those behind them, too
    parallel: bool = False  # attention and MLP read the same input, and are summed with it
    qkv: Literal["stacked", "grouped"] = "stacked"  # all of q, k and v; or for each key head its queries, k and v
    transposed: bool = False  # weights are [inputs, outputs]
    biases: Mapping[str, bool | tuple[str, bool]] = field(default_factory=dict)
    position_offset: int = 0  # of learned positions
    offset_is_within: bool = False  # max_position_embeddings counts the rows in front of the offset
    rotary_share: float = 1.0  # of a head's elements, where the configuration does not say
    windows: Literal["none", "all", "alternate", "pattern", "late"] = (
        "none"  # which layers have one, without layer_types
    )
    activation: str | None = None  # where the configuration does not say
    tied: bool = False  # where the configuration does not say
    scales_embedding: bool = False  # by the root of its width
    scales_scores: bool = True  # by the root of the head's size
    query_scale: str | None = None  # the field whose root divides scores, instead of the head's size
    head_size_is_own: bool = True  # the configuration may have a head_dim
    theta: float = 10000.0  # where the configuration does not say
    epsilon: float = 1e-5  # where the configuration does not say
    experts: Names = field(default_factory=dict)  # router, gate, up, down, and shared_gate, shared_up, …
    normalizes_experts: bool = False  # where the configuration does not say
    ignored: tuple[str, ...] = ()  # what tensors begin with that the text model does not have
    variant: Callable[[Family, Fields], Family] | None = None


def _biases(roles: str, rule: bool | tuple[str, bool] = True) -> dict[str, bool | tuple[str, bool]]:
    return dict.fromkeys(roles.split(), rule)


def _phi(family: Family, config: Fields) -> Family:
    if not config.flag("qk_layernorm", default=False):
        return family
    norms = {"q_norm": "self_attn.q_layernorm", "k_norm": "self_attn.k_layernorm"}
    return replace(family, names={**family.names, **norms})


def _gpt_neox(family: Family, config: Fields) -> Family:
    return replace(family, parallel=config.flag("use_parallel_residual", default=True))


def _falcon(family: Family, config: Fields) -> Family:
    if config.flag("alibi", default=False):
        raise UnsupportedError(f"{config.where}: field 'alibi' is true; attention with ALiBi is not supported")
    is_new = config.flag("new_decoder_architecture", default=False)
    parallel = config.flag("parallel_attn", default=True)
    norms = {"attention_norm": "input_layernorm"}
    if is_new and not parallel:
        raise UnsupportedError(f"{config.where}: new_decoder_architecture without parallel_attn is not supported")
    if is_new and config.integer("num_ln_in_parallel_attn", default=2, high=2) == 2:
        norms = {"attention_norm": "ln_attn", "mlp_norm": "ln_mlp"}
    elif not parallel:
        norms["mlp_norm"] = "post_attention_layernorm"
    return replace(family, names={**family.names, **norms}, parallel=parallel)


def _opt(family: Family, config: Fields) -> Family:
    if not config.flag("layer_norm_elementwise_affine", default=True):
        raise UnsupportedError(
            f"{config.where}: norms without weights (layer_norm_elementwise_affine) are not supported"
        )
    names = dict(family.names)
    before = config.flag("do_layer_norm_before", default=True)
    if not before or config.flag("_remove_final_layer_norm", default=False):
        del names["final_norm"]
    if config.has("word_embed_proj_dim") and config.raw("word_embed_proj_dim") != config.raw("hidden_size"):
        names |= {"project_in": "project_in", "project_out": "project_out"}
    return replace(family, names=names, norm_before=before)


_PHI3_NAMES = {role: name for role, name in _LLAMA.items() if role not in ("q", "k", "v", "gate", "up")}
_PHI_NAMES = {role: name for role, name in _LLAMA.items() if role not in ("gate", "up", "down", "mlp_norm")}
_GPT_MLP = {"up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h"}
_GEMMA = Family(
    _LLAMA,
    norm_offset=1.0,
    biases=_biases("q k v o", ("attention_bias", False)),
    activation="gelu_pytorch_tanh",
    tied=True,
    scales_embedding=True,
)
#: Of both halves of Whisper.
_WHISPER_LAYER = {
    "attention_norm": "self_attn_layer_norm",
    **_ATTENTION,
    "o": "self_attn.out_proj",
    "mlp_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}
_QWEN_EXPERTS = {
    "router": "mlp.gate",
    **{name: f"mlp.experts.{{}}.{name}_proj" for name in ("gate", "up", "down")},
}


def _t5(family: Family, config: Fields) -> Family:
    kind = config.text("feed_forward_proj", default="relu")
    gated, _, name = kind.rpartition("-")
    if gated not in ("", "gated"):
        raise UnsupportedError(f"{config.where}: feed_forward_proj '{kind}'; an activation, or gated-… are supported")
    names = dict(family.names)
    inner = names["up"]
    if gated:
        names |= {"gate": f"{inner}_0", "up": f"{inner}_1"}
    # The gated GELU of T5 1.1 has always been the one with tanh.
    return replace(family, names=names, activation="gelu_new" if kind == "gated-gelu" else name)


def _t5_names(part: str, mlp: int) -> Names:
    """Of the encoder or the decoder, whose layers have the MLP at place `mlp`."""
    return {
        "embedding": "shared",
        "final_norm": f"{part}.final_layer_norm",
        "relative_bias": f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias",
        "attention_norm": "layer.0.layer_norm",
        **{role: f"layer.0.SelfAttention.{role}" for role in "qkvo"},
        "mlp_norm": f"layer.{mlp}.layer_norm",
        "up": f"layer.{mlp}.DenseReluDense.wi",
        "down": f"layer.{mlp}.DenseReluDense.wo",
    }


_T5 = Family(
    {
        **_t5_names("decoder", 2),
        "head": "lm_head",
        "cross_norm": "layer.1.layer_norm",
        **{f"cross_{role}": f"layer.1.EncDecAttention.{role}" for role in "qkvo"},
    },
    prefixes=("",),
    layer="decoder.block.{}.",
    scales_scores=False,
    epsilon=1e-6,
    tied=True,
    # Copies of the one table, and a bias that no version has used.
    ignored=(
        "encoder.embed_tokens.",
        "decoder.embed_tokens.",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.",
    ),
    variant=_t5,
)
#: What reads the prompt, and gives the states that T5's decoder sees (_text_encoder.py).
T5_ENCODER = replace(_T5, names=_t5_names("encoder", 1), layer="encoder.block.{}.", causal=False)

FAMILIES: dict[str, Family] = {
    "t5": _T5,
    "mt5": _T5,
    "llama": Family(
        _LLAMA, biases=_biases("q k v o", ("attention_bias", False)) | _biases("gate up down", ("mlp_bias", False))
    ),
    "mistral": Family(_LLAMA, windows="all"),
    "qwen2": Family(_LLAMA, biases=_biases("q k v"), windows="late"),
    "qwen3": Family({**_LLAMA, **_QK_NORMS}, biases=_biases("q k v o", ("attention_bias", False)), windows="late"),
    "qwen2_vl": Family(
        _LLAMA, prefixes=("model.language_model.", "model."), biases=_biases("q k v"), windows="late", theta=1e6
    ),
    "gemma": _GEMMA,
    "gemma2": replace(
        _GEMMA, names={**_LLAMA, **_FOUR_NORMS}, windows="alternate", query_scale="query_pre_attn_scalar"
    ),
    "gemma3_text": replace(
        _GEMMA,
        names={**_LLAMA, **_FOUR_NORMS, **_QK_NORMS},
        prefixes=("model.", "language_model.model.", "model.language_model.", ""),
        windows="pattern",
        query_scale="query_pre_attn_scalar",
        theta=1e6,
        ignored=("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."),
    ),
    "phi3": Family({**_PHI3_NAMES, "qkv": "self_attn.qkv_proj", "gate_up": "mlp.gate_up_proj"}, windows="all"),
    "phi": Family(
        {**_PHI_NAMES, "o": "self_attn.dense", "up": "mlp.fc1", "down": "mlp.fc2", "final_norm": "final_layernorm"},
        norm="layer",
        parallel=True,
        biases=_biases("q k v o up down head"),
        rotary_share=0.5,
        head_size_is_own=False,
        variant=_phi,
    ),
    "gpt_neox": Family(
        {
            "embedding": "embed_in",
            "final_norm": "final_layer_norm",
            "head": "embed_out",
            "attention_norm": "input_layernorm",
            "qkv": "attention.query_key_value",
            "o": "attention.dense",
            "mlp_norm": "post_attention_layernorm",
            **_GPT_MLP,
        },
        prefixes=("gpt_neox.", ""),
        norm="layer",
        qkv="grouped",
        biases=_biases("qkv o", ("attention_bias", True)) | _biases("up down"),
        rotary_share=0.25,
        head_size_is_own=False,
        variant=_gpt_neox,
    ),
    "falcon": Family(
        {
            "embedding": "word_embeddings",
            "final_norm": "ln_f",
            "head": "lm_head",
            "qkv": "self_attention.query_key_value",
            "o": "self_attention.dense",
            **_GPT_MLP,
        },
        prefixes=("transformer.", ""),
        layer="h.{}.",
        norm="layer",
        qkv="grouped",
        biases=_biases("qkv o up down", ("bias", False)),
        activation="gelu",
        tied=True,
        head_size_is_own=False,
        variant=_falcon,
    ),
    "gpt2": Family(
        {
            "embedding": "wte",
            "positions": "wpe",
            "final_norm": "ln_f",
            "head": "lm_head",
            "attention_norm": "ln_1",
            "qkv": "attn.c_attn",
            "o": "attn.c_proj",
            "mlp_norm": "ln_2",
            "up": "mlp.c_fc",
            "down": "mlp.c_proj",
        },
        prefixes=("transformer.", ""),
        layer="h.{}.",
        norm="layer",
        transposed=True,
        biases=_biases("qkv o up down"),
        tied=True,
        head_size_is_own=False,
    ),
    "opt": Family(
        {
            "embedding": "embed_tokens",
            "positions": "embed_positions",
            "final_norm": "final_layer_norm",
            "head": "lm_head",
            "attention_norm": "self_attn_layer_norm",
            **_ATTENTION,
            "o": "self_attn.out_proj",
            "mlp_norm": "final_layer_norm",
            "up": "fc1",
            "down": "fc2",
        },
        prefixes=("model.decoder.", "decoder.", ""),
        norm="layer",
        biases=_biases("q k v o up down", ("enable_bias", True)),
        position_offset=2,  # of the padding that Fairseq's tables began with
        tied=True,
        head_size_is_own=False,
        variant=_opt,
    ),
    "whisper": Family(
        {
            "embedding": "embed_tokens",
            "positions": "embed_positions",
            "final_norm": "layer_norm",
            "head": "proj_out",
            **_WHISPER_LAYER,
            "cross_norm": "encoder_attn_layer_norm",
            **{f"cross_{name}": f"encoder_attn.{name}_proj" for name in "qkv"},
            "cross_o": "encoder_attn.out_proj",
        },
        prefixes=("model.decoder.",),
        norm="layer",
        biases=_biases("q v o up down cross_q cross_v cross_o"),
        tied=True,
        head_size_is_own=False,
    ),
    "mixtral": Family(
        _LLAMA,
        windows="all",
        theta=1e6,
        experts={
            "router": "block_sparse_moe.gate",
            "gate": "block_sparse_moe.experts.{}.w1",
            "up": "block_sparse_moe.experts.{}.w3",
            "down": "block_sparse_moe.experts.{}.w2",
        },
        normalizes_experts=True,
    ),
    "qwen2_moe": Family(
        _LLAMA,
        biases=_biases("q k v", ("qkv_bias", True)),
        windows="late",
        experts={
            **_QWEN_EXPERTS,
            **{f"shared_{name}": f"mlp.shared_expert.{name}_proj" for name in ("gate", "up", "down")},
            "shared_weight": "mlp.shared_expert_gate",
        },
    ),
    "qwen3_moe": Family(
        {**_LLAMA, **_QK_NORMS},
        biases=_biases("q k v o", ("attention_bias", False)),
        windows="all",
        experts=_QWEN_EXPERTS,
    ),
}


#: What turns sound into the states that Whisper's decoder sees; its features come from convolutions (_speech_encoder.py).
WHISPER_ENCODER = Family(
    {
        "embedding": "conv1",
        "conv2": "conv2",
        "positions": "embed_positions",
        "final_norm": "layer_norm",
        **_WHISPER_LAYER,
    },
    prefixes=("model.encoder.",),
    norm="layer",
    biases=_biases("q v o up down"),
    head_size_is_own=False,
)

_CLIP_NAMES = {
    "embedding": "embeddings.patch_embedding",
    "positions": "embeddings.position_embedding",
    "attention_norm": "layer_norm1",
    **_ATTENTION,
    "o": "self_attn.out_proj",
    "mlp_norm": "layer_norm2",
    "up": "mlp.fc1",
    "down": "mlp.fc2",
}
#: Towers of vision: patches of a picture become states, which become rows that decoders see (_vision_tower.py).
SIGLIP_VISION = Family(
    _CLIP_NAMES,
    prefixes=(
        "vision_tower.vision_model.",
        "model.vision_tower.vision_model.",
        "vision_tower.",
        "model.vision_tower.",
    ),
    layer="encoder.layers.{}.",
    norm="layer",
    causal=False,
    biases=_biases("q k v o up down embedding"),
    head_size_is_own=False,
)
CLIP_VISION = replace(
    SIGLIP_VISION,
    names={**_CLIP_NAMES, "class": "embeddings", "embedding_norm": "pre_layrnorm"},
    biases=_biases("q k v o up down"),
)
#: Two layers between LLaVA's tower and its decoder.
PROJECTOR = Family(
    {"embedding": "linear_1", "linear_2": "linear_2"},
    prefixes=("multi_modal_projector.", "model.multi_modal_projector."),
    biases=_biases("embedding linear_2", ("multimodal_projector_bias", True)),
)
QWEN2_VISION = Family(
    {
        "embedding": "patch_embed.proj",
        "attention_norm": "norm1",
        "qkv": "attn.qkv",
        "o": "attn.proj",
        "mlp_norm": "norm2",
        "up": "mlp.fc1",
        "down": "mlp.fc2",
        "merger_norm": "merger.ln_q",
        "merger_up": "merger.mlp.0",
        "merger_down": "merger.mlp.2",
    },
    prefixes=("visual.", "model.visual."),
    layer="blocks.{}.",
    norm="layer",
    causal=False,
    biases=_biases("qkv o up down merger_up merger_down"),
    head_size_is_own=False,
)
QWEN2_5_VISION = replace(
    QWEN2_VISION,
    names={**QWEN2_VISION.names, **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")}},
    norm="rms",
    biases=_biases("qkv o gate up down merger_up merger_down"),
)


def family_of(config: Fields, families: Mapping[str, Family] = FAMILIES) -> Family:
    """The family that a configuration's model_type names, as the configuration decides it."""
    name = config.text("model_type")
    if name not in families:
        raise UnsupportedError(f"{config.where}: model_type '{name}' is not supported; {', '.join(families)} are")
    family = families[name]
    return family if family.variant is None else family.variant(family, config)


def has_bias(family: Family, role: str, config: Fields) -> bool:
    rule = family.biases.get(role, False)
    return rule if isinstance(rule, bool) else config.flag(rule[0], default=rule[1])
