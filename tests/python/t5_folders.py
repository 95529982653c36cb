"""Small T5s with random weights as Hugging Face folders, and what they compute in NumPy, of one prompt at a time."""

import json
import math

import numpy as np
from safetensors.numpy import save_file

T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 32,
    "d_kv": 12,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
    "tie_word_embeddings": True,
    "vocab_size": 70,
    "n_positions": 64,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
#: T5 1.1, Flan-T5 and mT5.
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def t5_tensors(config, random):
    """The weights, in fp32."""
    width, inner = config["d_model"], config["num_heads"] * config["d_kv"]
    shapes = {"shared.weight": (config["vocab_size"], width)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], width)
    norms = []
    for part, count in (("encoder", config["num_layers"]), ("decoder", config["num_decoder_layers"])):
        norms.append(f"{part}.final_layer_norm.weight")
        blocks = ["SelfAttention", *(["EncDecAttention"] if part == "decoder" else [])]
        bias = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        shapes[bias] = (config["relative_attention_num_buckets"], config["num_heads"])
        for i in range(count):
            of = f"{part}.block.{i}.layer"
            for place, block in enumerate(blocks):
                shapes |= {f"{of}.{place}.{block}.{role}.weight": (inner, width) for role in "qkv"}
                shapes[f"{of}.{place}.{block}.o.weight"] = (width, inner)
            mlp = f"{of}.{len(blocks)}.DenseReluDense"
            for name in ("wi_0", "wi_1") if config["feed_forward_proj"].startswith("gated") else ("wi",):
                shapes[f"{mlp}.{name}.weight"] = (config["d_ff"], width)
            shapes[f"{mlp}.wo.weight"] = (width, config["d_ff"])
            norms += [f"{of}.{place}.layer_norm.weight" for place in range(len(blocks) + 1)]
    # Scores are not divided by the root of the head's size.
    scale = {"q": 1.0 / math.sqrt(config["d_kv"]), "shared": 1.0, "relative_attention_bias": 1.5}
    scale |= {"o": 4.0, "wo": 4.0}  # what is said last shall not be all that counts
    made = {}
    for name, shape in shapes.items():
        deviation = scale.get(name.split(".")[-2], 1.0) * (1.0 if "bias" in name else 1.5 / math.sqrt(shape[-1]))
        made[name] = (random.standard_normal(shape) * deviation).astype(np.float32)
    made["shared.weight"] *= math.sqrt(width) if config["tie_word_embeddings"] else 1.0
    made |= {name: (1 + 0.2 * random.standard_normal(width)).astype(np.float32) for name in norms}
    return made


def write_t5(folder, seed=0, tensors=None, **changes):
    """The folder, with a configuration of T5's and what is changed; None leaves a field out. Its tokenizer has a word for
    each token, and puts the end behind prompts."""
    import tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in {**T5, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    made = t5_tensors({**T5, **config}, np.random.default_rng(seed)) if tensors is None else tensors
    save_file(made, folder / "model.safetensors")
    names = {"<pad>": 0, "</s>": 1} | {f"w{token}": token for token in range(2, config["vocab_size"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, unk_token="w2"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<pad>", "</s>"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


class Reference:
    """In fp64."""

    def __init__(self, config, tensors):
        self.config = config
        self.w = {name: value.astype(np.float64) for name, value in tensors.items()}

    def states(self, ids):
        """[tokens, width] of a prompt."""
        x = self.w["shared.weight"][ids]
        for i in range(self.config["num_layers"]):
            of = f"encoder.block.{i}.layer."
            h = self._norm(x, of + "0.layer_norm")
            x = x + self._attention(h, h, of + "0.SelfAttention", self._bias("encoder", len(ids), False))
            x = x + self._mlp(self._norm(x, of + "1.layer_norm"), of + "1.DenseReluDense.")
        return self._norm(x, "encoder.final_layer_norm")

    def logits(self, states, ids):
        """[tokens, vocabulary]"""
        x = self.w["shared.weight"][ids]
        for i in range(self.config["num_decoder_layers"]):
            of = f"decoder.block.{i}.layer."
            h = self._norm(x, of + "0.layer_norm")
            mask = np.where(np.tri(len(ids), dtype=bool), 0, -np.inf)
            x = x + self._attention(h, h, of + "0.SelfAttention", self._bias("decoder", len(ids), True) + mask)
            h = self._norm(x, of + "1.layer_norm")
            x = x + self._attention(h, states, of + "1.EncDecAttention", 0)
            x = x + self._mlp(self._norm(x, of + "2.layer_norm"), of + "2.DenseReluDense.")
        x = self._norm(x, "decoder.final_layer_norm")
        if self.config["tie_word_embeddings"]:
            return x * self.config["d_model"] ** -0.5 @ self.w["shared.weight"].T
        return x @ self.w["lm_head.weight"].T

    def greedy(self, prompt, count, end=1):
        """The likeliest tokens, up to `end`."""
        states, text = self.states(prompt), []
        while len(text) < count and (not text or text[-1] != end):
            text.append(int(self.logits(states, [0, *text])[-1].argmax()))
        return text

    def _bias(self, part, count, causal):
        """[heads, count, count]"""
        table = self.w[f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        buckets, most = len(table), self.config["relative_attention_max_distance"]
        made = np.zeros((table.shape[1], count, count))
        for row in range(count):
            for column in range(count):
                made[:, row, column] = table[_bucket(column - row, buckets, most, causal)]
        return made

    def _norm(self, x, name):
        scaled = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.config["layer_norm_epsilon"])
        return scaled * self.w[name + ".weight"]

    def _mlp(self, x, of):
        kind = self.config["feed_forward_proj"]
        if kind == "relu":
            h = np.maximum(x @ self.w[of + "wi.weight"].T, 0)
        else:
            g = x @ self.w[of + "wi_0.weight"].T
            h = (
                0.5
                * g
                * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)))
                * (x @ self.w[of + "wi_1.weight"].T)
            )
        return h @ self.w[of + "wo.weight"].T

    def _attention(self, x, seen, of, bias):
        heads = self.config["num_heads"]
        q, k, v = (
            (y @ self.w[f"{of}.{role}.weight"].T).reshape(len(y), heads, -1)
            for y, role in ((x, "q"), (seen, "k"), (seen, "v"))
        )
        scores = np.einsum("qhd,khd->hqk", q, k) + bias
        share = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hqk,khd->qhd", share / share.sum(-1, keepdims=True), v)
        return y.reshape(len(x), -1) @ self.w[of + ".o.weight"].T


def _bucket(distance, buckets, most, causal):
    """Of a key so many tokens behind: Raffel et al., 2020."""
    first = 0
    if causal:
        distance = max(-distance, 0)
    else:
        buckets //= 2
        first, distance = (buckets if distance > 0 else 0), abs(distance)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    far = exact + int(math.log(distance / exact) / math.log(most / exact) * (buckets - exact) + 1e-9)
    return first + min(far, buckets - 1)
