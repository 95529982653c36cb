"""The families of encoders, whose tokens see each other in both directions: BERT's, and those with rotary positions."""

from __future__ import annotations

from dataclasses import replace

from camshaft._errors import UnsupportedError
from camshaft.llm._families import FAMILIES, Family, Names
from camshaft.llm._fields import Fields

_BERT: Names = {
    "embedding": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    **{role: f"attention.self.{name}" for role, name in (("q", "query"), ("k", "key"), ("v", "value"))},
    "o": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "mlp_norm": "output.LayerNorm",
}


def _bert(family: Family, config: Fields) -> Family:
    if config.flag("is_decoder", default=False):
        raise UnsupportedError(f"{config.where}: field 'is_decoder' is true; this family's models are read as encoders")
    kind = config.text("position_embedding_type", default="absolute")
    if kind != "absolute":
        raise UnsupportedError(f"{config.where}: position_embedding_type '{kind}' is not supported; absolute is")
    return family


def _roberta(family: Family, config: Fields) -> Family:
    # Positions begin behind that of padding, and the table's rows in front of it count.
    padding = config.integer("pad_token_id", default=1, low=0, high=1 << 20)
    return replace(_bert(family, config), position_offset=padding + 1)


def _nomic(family: Family, config: Fields) -> Family:
    """Fields of the model's own code, which Transformers' configurations do not have."""
    for name, known in (("prenorm", False), ("use_rms_norm", False), ("rotary_emb_interleaved", False)):
        if config.flag(name, default=known) is not known:
            raise UnsupportedError(f"{config.where}: field '{name}' is {not known}, which is not supported")
    if config.number("rotary_emb_fraction", default=1.0) != 1:
        raise UnsupportedError(f"{config.where}: rotary positions of a part of a head are not supported")
    for name in ("rotary_scaling_factor", "rotary_emb_scale_base"):
        if config.has(name):
            raise UnsupportedError(f"{config.where}: field '{name}' is set, which is not supported")
    if config.integer("num_experts", default=0, low=0) > 0:
        raise UnsupportedError(f"{config.where}: encoders with experts are not supported")
    return family


_FAMILY = Family(
    _BERT,
    prefixes=("bert.", ""),
    layer="encoder.layer.{}.",
    norm="layer",
    norm_before=False,
    causal=False,
    biases=dict.fromkeys(("q", "k", "v", "o", "up", "down"), True),
    head_size_is_own=False,
    epsilon=1e-12,
    ignored=("pooler.", "bert.pooler.", "cls."),
    variant=_bert,
)
_ROBERTA = replace(
    _FAMILY,
    prefixes=("roberta.", ""),
    ignored=("pooler.", "roberta.pooler.", "lm_head.", "classifier."),
    offset_is_within=True,
    variant=_roberta,
)

ENCODERS: dict[str, Family] = {
    "bert": _FAMILY,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "distilbert": replace(
        _FAMILY,
        names={
            **{role: name for role, name in _BERT.items() if role in ("embedding", "positions", "embedding_norm")},
            **{role: f"attention.{role}_lin" for role in "qkv"},
            "o": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "up": "ffn.lin1",
            "down": "ffn.lin2",
            "mlp_norm": "output_layer_norm",
        },
        prefixes=("distilbert.", ""),
        layer="transformer.layer.{}.",
        ignored=("vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "pre_classifier.", "classifier."),
    ),
    "nomic_bert": replace(
        _FAMILY,
        names={
            **{role: name for role, name in _BERT.items() if role in ("embedding", "token_types")},
            "embedding_norm": "emb_ln",
            "qkv": "attn.Wqkv",
            "o": "attn.out_proj",
            "attention_norm": "norm1",
            "up": "mlp.fc11",
            "gate": "mlp.fc12",
            "down": "mlp.fc2",
            "mlp_norm": "norm2",
        },
        prefixes=("nomic_bert.", "bert.", ""),
        layer="encoder.layers.{}.",
        biases={
            **dict.fromkeys(("qkv", "o"), ("qkv_proj_bias", False)),
            **dict.fromkeys(("up", "gate"), ("mlp_fc1_bias", False)),
            "down": ("mlp_fc2_bias", False),
        },
        theta=1000.0,
        ignored=("pooler.", "cls.", "lm_head."),
        variant=_nomic,
    ),
    "eurobert": replace(FAMILIES["llama"], causal=False),
}
