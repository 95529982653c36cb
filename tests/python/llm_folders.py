"""Small decoders with random weights as Hugging Face folders, and engines of decoders driven step by step."""

import json

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 80,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    "bos_token_id": 1,
}


def llama_tensors(config, random):
    """The weights of a Llama of that configuration, in fp32."""
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["hidden_size"] // 4
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    for i in range(config["num_hidden_layers"]):
        shapes |= {
            f"model.layers.{i}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (width,),
                "self_attn.q_proj": (width, width),
                "self_attn.k_proj": (2 * head, width),
                "self_attn.v_proj": (2 * head, width),
                "self_attn.o_proj": (width, width),
                "post_attention_layernorm": (width,),
                "mlp.gate_proj": (inner, width),
                "mlp.up_proj": (inner, width),
                "mlp.down_proj": (width, inner),
            }.items()
        }
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], width)
    made = {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape, np.float32)
        made[name] = 1 + 0.1 * values if len(shape) == 1 else values / np.float32(np.sqrt(shape[-1]))
    return made


def write_llama(folder, tensors=None, seed=0, **changes):
    """The folder, with a configuration of LLAMA's and what is changed; None leaves a field out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in {**LLAMA, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    made = llama_tensors({**LLAMA, **config}, np.random.default_rng(seed)) if tensors is None else tensors
    save_file(made, folder / "model.safetensors")
    return folder


CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{% if loud is defined %}!{% endif %}"
)


def write_chat_llama(folder, vocabulary=270):
    """A Llama that has a tokenizer of bytes and their pairs, and chat templates."""
    import tokenizers

    write_llama(folder, vocab_size=vocabulary, max_position_embeddings=4096, eos_token_id=None)
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["<user> the engine turns <assistant>"] * 2, trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing("<end> $A", special_tokens=[("<end>", 0)])
    made.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    (folder / "additional_chat_templates").mkdir(exist_ok=True)
    (folder / "additional_chat_templates" / "short.jinja").write_text("{{ messages[-1].content }}")
    return folder


def llama_logits(config, tensors, ids):
    """[tokens, vocabulary] in fp64, of one sequence."""
    w = {name: value.astype(np.float64) for name, value in tensors.items()}
    heads, kv_heads, size = 4, 2, config["hidden_size"] // 4
    angles = np.arange(len(ids))[:, None] * config["rope_theta"] ** (-np.arange(0, size, 2) / size)
    cosine, sine = (np.concatenate([f(angles)] * 2, axis=1)[:, None] for f in (np.cos, np.sin))
    causal = np.where(np.tri(len(ids), dtype=bool), 0, -np.inf)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * w[name]

    def rotated(x):
        first, second = np.split(x, 2, axis=-1)
        return x * cosine + np.concatenate([-second, first], axis=-1) * sine

    x = w["model.embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        of = f"model.layers.{i}."
        h = norm(x, of + "input_layernorm.weight")
        q, k, v = (
            (h @ w[f"{of}self_attn.{name}_proj.weight"].T).reshape(len(ids), count, size)
            for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        k, v = (np.repeat(part, heads // kv_heads, axis=1) for part in (rotated(k), v))
        scores = np.einsum("qhd,khd->hqk", rotated(q), k) / np.sqrt(size) + causal
        share = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hqk,khd->qhd", share / share.sum(-1, keepdims=True), v).reshape(len(ids), -1)
        x = x + y @ w[of + "self_attn.o_proj.weight"].T
        h = norm(x, of + "post_attention_layernorm.weight")
        gate = h @ w[of + "mlp.gate_proj.weight"].T
        h = gate / (1 + np.exp(-gate)) * (h @ w[of + "mlp.up_proj.weight"].T)
        x = x + h @ w[of + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def _empty_caches(shape, cache_type):
    """A cache, and its scales where it has some, of which nobody may read anything."""
    if cache_type in ("f16", "f32"):
        return [np.full(shape, np.nan, {"f16": np.float16, "f32": np.float32}[cache_type])]
    codes = np.full(shape, 0x7F, np.uint8).view(np.int8 if cache_type == "int8" else ml_dtypes.float8_e4m3fn)
    return [codes, np.full(shape[:3], np.nan, np.float32)]


def as_given(array):
    """NumPy exports no floats of 8 bits."""
    if array.dtype != ml_dtypes.float8_e4m3fn:
        return array
    import camshaft  # which those who only write folders may not have

    return camshaft.Memory(array.ctypes.data, "f8e4m3", array.shape, owner=array)


class PagedDecoder:
    """Runs an engine on steps of several sequences: blocks of the cache are given out as they are needed, in any order."""

    def __init__(self, engine, description, blocks=64, seed=0, cross=None):
        """cross: of decoders that see an encoder its caches by their names, and {sequence: (blocks, number of keys)}."""
        self._context = engine.create_context()
        self._size = description["block_size"]
        shape = (blocks, self._size, description["kv_heads"], description["head_size"])
        self._free = np.random.default_rng(seed).permutation(blocks).tolist()
        self._rows, self._lengths = {}, {}
        self._cross = cross
        self.caches = {}
        for i in range(description["layers"]):
            for kind in ("key", "value"):
                self.caches[f"{kind}_cache.{i}"], *scales = _empty_caches(shape, description["cache_type"])
                self.caches.update({f"{kind}_scales.{i}": made for made in scales})
        for info in engine.outputs:  # which are updated in place
            if info.aliased_input:
                self._context.bind_output(info.name, as_given(self.caches[info.aliased_input]))
        assert sum(bool(info.aliased_input) for info in engine.outputs) == len(self.caches)

    def step(self, new, padding=0):
        """new: {sequence: its next tokens}. The logits of all these tokens, by sequence."""
        lengths = [len(ids) for ids in new.values()]
        past = [self._lengths.get(name, 0) for name in new]
        for name, ids in new.items():
            self._lengths[name] = self._lengths.get(name, 0) + len(ids)
            row = self._rows.setdefault(name, [])
            while len(row) * self._size < self._lengths[name]:
                row.append(self._free.pop())
        width = max(len(self._rows[name]) for name in new) + 1  # one that is never read
        table = [self._rows[name] + [-1] * (width - len(self._rows[name])) for name in new]
        positions = np.concatenate([before + np.arange(count) for before, count in zip(past, lengths)])
        step = {
            "input_ids": np.concatenate([*new.values(), [0] * padding]),
            "positions": np.concatenate([positions, [0] * padding]),
            "cumulative_sequence_length": np.cumsum([0, *lengths]),
            "past_seqlens": np.array(past),
            "block_table": np.array(table),
            "logits_indices": np.arange(sum(lengths)),
        }
        caches = {name: as_given(cache) for name, cache in self.caches.items()}
        if self._cross is not None:
            cross_caches, keys = self._cross
            caches |= {name: as_given(cache) for name, cache in cross_caches.items()}
            step["cross_seqlens"] = np.array([keys[name][1] for name in new])
            step["cross_block_table"] = np.array([keys[name][0] for name in new])
        outputs = self._context.run({**{name: a.astype(np.int32) for name, a in step.items()}, **caches})
        logits = np.array(outputs["logits"])
        return dict(zip(new, np.split(logits, np.cumsum(lengths)[:-1])))
