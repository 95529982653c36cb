"""A small decoder of the Llama family, trained on Debian's documentation, as a Hugging Face folder: a model without a
download, whose perplexity and text mean something.

    python bench/llm/train.py build/llm/debian      # needs torch, tokenizers, safetensors; some minutes of two cores
    camshaft llm build build/llm/debian -o build/llm/debian-int8 --weights int8

It writes config.json, model.safetensors, tokenizer.json, a chat template, and held_out.txt for perplexity.py. A smaller
one, which begins as its first layer and is taught to say what it says, guesses for it (draft.py):

    python bench/llm/train.py build/llm/debian-draft --teacher build/llm/debian --layers 1 --steps 300"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import tokenizers
import torch
from corpus import documents
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 640,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 2048,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "torch_dtype": "float32",
}
END, ROLE = "<|end|>", "<|role|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|role|>' + message.role + '\\n' + message.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|role|>assistant\\n' }}{% endif %}"
)


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return functional.rms_norm(x, x.shape[-1:], self.weight, CONFIG["rms_norm_eps"])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        width, self.size = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.heads, self.kv_heads = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
        self.q_proj = nn.Linear(width, self.heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(self.heads * self.size, width, bias=False)

    def forward(self, x, cosine, sine):
        def split(y):
            return y.view(*x.shape[:2], -1, self.size).transpose(1, 2)

        def rotated(y):
            first, second = y.chunk(2, dim=-1)
            return y * cosine + torch.cat([-second, first], dim=-1) * sine

        query, key, value = rotated(split(self.q_proj(x))), rotated(split(self.k_proj(x))), split(self.v_proj(x))
        key, value = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (key, value))
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), Gated()
        self.input_layernorm, self.post_attention_layernorm = Norm(CONFIG["hidden_size"]), Norm(CONFIG["hidden_size"])

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = Norm(CONFIG["hidden_size"])
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                deep = math.sqrt(2 * len(self.layers)) if name.endswith(("o_proj.weight", "down_proj.weight")) else 1
                nn.init.normal_(weight, std=0.02 / deep)

    def forward(self, ids):
        size = CONFIG["head_dim"]
        angles = torch.arange(ids.shape[1])[:, None] * CONFIG["rope_theta"] ** (-torch.arange(0, size, 2) / size)
        angles = torch.cat([angles, angles], dim=1)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return functional.linear(self.norm(x), self.embed_tokens.weight)


def tokenizer_of(texts):
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=[END, ROLE],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def load(model, folder):
    """Of a model with as many layers or more."""
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict({name: weights[f"model.{name}"] for name, _ in model.named_parameters()})
    return model


def train(model, ids, steps, batch, length, rate, seed, teacher=None):
    """By a text that lies one behind the other; prints the loss on the way. With a teacher towards its probabilities of
    what comes next, instead of what comes next."""
    random = np.random.default_rng(seed)
    print(
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} million weights, {len(ids) / 1e6:.2f} million tokens"
    )
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)
    begin, mean, warm = time.monotonic(), None, max(1, min(100, steps // 10))
    for step in range(steps):
        done = step / steps
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / warm) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        starts = random.integers(0, len(ids) - length - 1, batch)
        rows = torch.from_numpy(np.stack([ids[at : at + length + 1] for at in starts]).astype(np.int64))
        wanted = rows[:, 1:].flatten()
        if teacher is not None:
            with torch.no_grad():
                wanted = teacher(rows[:, :-1]).flatten(0, 1).softmax(-1)
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 50 == 49 or step == steps - 1:
            print(f"step {step + 1}/{steps}: loss {mean:.3f}, {time.monotonic() - begin:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="to write")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=float, default=8, help="of text, at most")
    parser.add_argument("--layers", type=int, default=CONFIG["num_hidden_layers"])
    parser.add_argument("--teacher", type=Path, metavar="FOLDER", help="whose first layers and tokens the model has")
    parser.add_argument("--resume", action="store_true", help="go on with the folder's model; with another --seed")
    options = parser.parse_args()
    texts, held_out = documents(int(options.megabytes * 1e6))
    folder = options.folder
    torch.manual_seed(options.seed)
    teacher = None if options.teacher is None else load(Model(), options.teacher)
    if not 1 <= options.layers <= CONFIG["num_hidden_layers"]:
        parser.error(f"--layers is {options.layers}, it must be from 1 to {CONFIG['num_hidden_layers']}")
    CONFIG["num_hidden_layers"] = options.layers
    model = Model()
    source = folder if options.resume else options.teacher
    if source is not None:
        load(model, source)
    tokenizer = (
        tokenizer_of(texts) if source is None else tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    )
    ids = np.concatenate([[0, *encoding.ids] for encoding in tokenizer.encode_batch(texts)]).astype(np.int32)
    train(model, ids, options.steps, options.batch, options.length, options.rate, options.seed, teacher)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {f"model.{name}": p.detach().contiguous() for name, p in model.named_parameters()}, folder / "model.safetensors"
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
    about = {"bos_token": END, "eos_token": END, "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=2))
    (folder / "held_out.txt").write_text("\n\n\n".join(held_out))


if __name__ == "__main__":
    main()
