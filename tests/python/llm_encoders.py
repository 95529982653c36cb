"""Small encoders with random weights as Hugging Face folders, and what they compute in NumPy."""

import json
import math

import numpy as np
from safetensors.numpy import save_file

BERT = {
    "model_type": "bert",
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "vocab_size": 90,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}


def bert_tensors(config, random):
    """The weights of a BERT of that configuration, in fp32."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], width),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
        "pooler.dense.weight": (width, width),  # which nobody reads
    }
    for i in range(config["num_hidden_layers"]):
        of = f"encoder.layer.{i}."
        for name, outputs, inputs in (
            *((f"attention.self.{role}", width, width) for role in ("query", "key", "value")),
            ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width),
            ("output.dense", width, inner),
        ):
            shapes |= {f"{of}{name}.weight": (outputs, inputs), f"{of}{name}.bias": (outputs,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{of}{name}.weight": (width,), f"{of}{name}.bias": (width,)}
    made = {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape, np.float32)
        is_scale = "LayerNorm.weight" in name
        made[name] = is_scale + (0.1 if len(shape) == 1 else 2 / np.float32(np.sqrt(shape[-1]))) * values
    return made


def write_bert(folder, tensors=None, seed=0, pooling=None, normalize=True, **changes):
    """The folder, with a configuration of BERT's and what is changed; None leaves a field out. pooling: of modules.json,
    which is not there without it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in {**BERT, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    made = bert_tensors({**BERT, **config}, np.random.default_rng(seed)) if tensors is None else tensors
    save_file(made, folder / "model.safetensors")
    if pooling is not None:
        write_modules(folder, pooling, normalize)
    return folder


def write_modules(folder, pooling, normalize=True, max_seq_length=None):
    """As sentence-transformers writes them."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": "" if i == 0 else f"{i}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    modes = {f"pooling_mode_{name}": name.startswith(pooling) and "sqrt" not in name for name in names}
    config = {"word_embedding_dimension": 48, **modes, "include_prompt": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps(config))
    if max_seq_length is not None:
        fields = {"max_seq_length": max_seq_length, "do_lower_case": False}
        (folder / "sentence_bert_config.json").write_text(json.dumps(fields))
    return folder


def bert_hidden_states(config, tensors, ids):
    """[tokens, width] in fp64, of one sequence."""
    w = {name: value.astype(np.float64) for name, value in tensors.items()}
    heads = config["num_attention_heads"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return centred / scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    of = "embeddings."
    x = w[of + "word_embeddings.weight"][ids] + w[of + "token_type_embeddings.weight"][0]
    x = norm(x + w[of + "position_embeddings.weight"][: len(ids)], of + "LayerNorm")
    error_function = np.vectorize(math.erf)
    for i in range(config["num_hidden_layers"]):
        of = f"encoder.layer.{i}."
        q, k, v = (
            linear(x, f"{of}attention.self.{name}").reshape(len(ids), heads, -1) for name in ("query", "key", "value")
        )
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
        share = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hqk,khd->qhd", share / share.sum(-1, keepdims=True), v).reshape(len(ids), -1)
        x = norm(x + linear(y, f"{of}attention.output.dense"), f"{of}attention.output.LayerNorm")
        h = linear(x, f"{of}intermediate.dense")
        h = h * (1 + error_function(h / np.sqrt(2))) / 2
        x = norm(x + linear(h, f"{of}output.dense"), f"{of}output.LayerNorm")
    return x


def pooled(hidden_states, pooling, normalize=True):
    x = {"last": hidden_states[-1], "cls": hidden_states[0], "mean": hidden_states.mean(0)}[pooling]
    return x / np.linalg.norm(x) if normalize else x
