"""Decoders in GGUF files: their fields as a configuration, their tensors under the names of Transformers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft._errors import UnsupportedError
from camshaft.llm._blocks import Blocks
from camshaft.llm._fields import Fields
from camshaft.llm._gguf import GgufEntry, GgufFile

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_ATTENTION = {f"attn_{name}": f"self_attn.{name}_proj" for name in "qkv"}
_LAYER = {
    **_ATTENTION,
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    **{f"ffn_{name}": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
}
_OTHERS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_FREQUENCIES = "rope_freqs.weight"  # what llama3's scaling divides each frequency by


class GgufModel:
    """A source of weights; `config` is what config.json would say."""

    def __init__(self, path: Path) -> None:
        self._file = GgufFile(path)
        self.config = self._config()
        self._names: dict[str, str] = {}
        for name in self._file.entries:
            if name != _FREQUENCIES:
                self._names[_name(name)] = name
        self.entries: dict[str, GgufEntry] = {name: self._file.entries[own] for name, own in self._names.items()}

    def array(self, name: str) -> Array:
        x, order = self._file.array(self._names[name]), self._order(name)
        return x if order is None else x[order]

    def blocks(self, name: str) -> Blocks | None:
        found, order = self._file.blocks(self._names[name]), self._order(name)
        return found if found is None or order is None else found.rows(order)

    def _order(self, name: str) -> Array | None:
        """Queries and keys of Llama lie so that RoPE turns neighbours, not halves: the order that undoes it."""
        import numpy

        if self.config.raw("model_type") != "llama" or not re.search(r"\.[qk]_proj\.", name):
            return None
        rows = self.entries[name].shape[0]
        heads = self.config.raw("num_attention_heads" if ".q_proj." in name else "num_key_value_heads")
        if rows % (2 * heads) != 0:
            return None  # its shape is refused
        order: Array = numpy.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(-1)
        return order

    def _config(self) -> Fields:
        of, where = self._file.fields, str(self._file.path)
        architecture = of.get("general.architecture")
        if architecture not in _ARCHITECTURES:
            known = ", ".join(_ARCHITECTURES)
            raise UnsupportedError(f"{where}: field 'general.architecture' is {architecture!r}; {known} are supported")
        config = {target: of.get(f"{architecture}.{name}") for name, target in _FIELDS.items()}
        config |= {f"{kind}_token_id": of.get(f"tokenizer.ggml.{name}_token_id") for kind, name in _SPECIAL.items()}
        entries = self._file.entries
        if "token_embd.weight" in entries:
            config["vocab_size"] = entries["token_embd.weight"].shape[0] if entries["token_embd.weight"].shape else 0
        config |= {
            "model_type": architecture,
            "hidden_act": "silu",
            "tie_word_embeddings": "output.weight" not in entries,
            "attention_bias": architecture == "llama" and "blk.0.attn_q.bias" in entries,
        }
        scaling = self._scaling(architecture)
        return Fields({**config, **({"rope_scaling": scaling} if scaling else {})}, where)

    def _scaling(self, architecture: str) -> dict[str, Any]:
        of = self._file.fields
        if _FREQUENCIES in self._file.entries and self._file.entries[_FREQUENCIES].dtype == "F32":
            factors = [float(x) for x in self._file.array(_FREQUENCIES).reshape(-1)]
            return {"type": "longrope", "long_factor": factors, "short_factor": factors, "attention_factor": 1.0}
        kind = of.get(f"{architecture}.rope.scaling.type", "none")
        if kind == "none":
            return {}
        scaling = {"type": kind, "factor": of.get(f"{architecture}.rope.scaling.factor")}
        length = of.get(f"{architecture}.rope.scaling.original_context_length")
        return {**scaling, **({} if length is None else {"original_max_position_embeddings": length})}


_SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding"}
_FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
}


def _name(name: str) -> str:
    """Of Transformers; what is unknown stays as it is, and is refused as a tensor of no part."""
    stem, _, kind = name.rpartition(".")
    if stem in _OTHERS:
        return f"{_OTHERS[stem]}.{kind}"
    layer = re.fullmatch(r"blk\.(\d+)\.(.+)", stem)
    if layer is None or layer[2] not in _LAYER:
        return name
    return f"model.layers.{layer[1]}.{_LAYER[layer[2]]}.{kind}"
