#!/usr/bin/env python3
"""Decoding of Llama-like language models on a GPU, beside Transformers with a static cache and torch.compile
(mode="reduce-overhead", fp16): tokens a second in rounds that alternate, and the part of the memory's bandwidth that weights
and caches, read once a step, make of it. Weights are random, made on the GPU; nothing is downloaded. int4 is held to the
same fp16 rival.

usage: llm_gpu.py [--models 1b,8b] [--weights f16,int4] [--batches 1,32] [--context 512] [--new 128] [--rounds 3]
                  [--folder build/llm-gpu] [--tuning-seconds 20] [--bandwidth 4.8e12] [--device cuda] [--without-rival]
                  [--json FILE]
"""

import argparse
import gc
import inspect
import json
import shutil
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for built in ROOT.glob("build/*/python"):
    sys.path.append(str(built))

import numpy as np

SHAPES = {  # width, inner, layers, heads, kv heads, size of a head, vocabulary
    "tiny": (256, 512, 2, 4, 2, 64, 512),
    "1b": (2048, 8192, 16, 32, 8, 64, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128, 128256),
}


def say(*words):
    print(f"[{time.perf_counter() - BEGIN:6.1f} s]", *words, flush=True)


BEGIN = time.perf_counter()


def config_of(name, longest):
    width, inner, layers, heads, kv_heads, head_size, vocabulary = SHAPES[name]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "vocab_size": vocabulary,
        "max_position_embeddings": longest,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": name == "1b",
        "eos_token_id": 1,
        "bos_token_id": 0,
    }


def shapes_of(config):
    width, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    own, shared = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    for i in range(config["num_hidden_layers"]):
        layer = {
            "input_layernorm": (width,),
            "self_attn.q_proj": (own, width),
            "self_attn.k_proj": (shared, width),
            "self_attn.v_proj": (shared, width),
            "self_attn.o_proj": (width, own),
            "post_attention_layernorm": (width,),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], width)
    return shapes


def random_weights(config, device):
    """Seeded, fp16, on the device."""
    import torch

    generator = torch.Generator(device).manual_seed(1)
    made = {}
    for name, shape in shapes_of(config).items():
        values = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        values = 1 + 0.1 * values if len(shape) == 1 else values * shape[-1] ** -0.5
        made[name] = values.half()
    return made


def write_folder(folder, config, weights):
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: value.cpu() for name, value in weights.items()}, folder / "model.safetensors")


def bytes_of_step(config, weights, batch, tokens):
    """What a step reads at least: all weights but the table of embeddings, and the caches of so many tokens a sequence."""
    bits = {"f16": 16, "int4": 4.5}[weights]
    total = 0
    for name, shape in shapes_of(config).items():
        tied = name == "model.embed_tokens.weight"
        if tied and not config["tie_word_embeddings"]:
            continue
        is_head = tied or name == "lm_head.weight"
        total += np.prod(shape) * (16 if len(shape) == 1 else 8.5 if is_head and weights == "int4" else bits) / 8
    caches = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 2
    return float(total) + batch * tokens * caches


class Rival:
    """Transformers, a static cache, and a step that torch.compile has put into CUDA graphs."""

    def __init__(self, config, weights, device):
        import torch
        import transformers

        self.torch, self.device = torch, device
        known = {k: v for k, v in config.items() if k not in ("architectures", "model_type")}
        with torch.device("meta"):
            self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**known))
        self.model = self.model.to(torch.float16).to_empty(device=device)
        self.model.load_state_dict(weights, strict=False)
        self.model.tie_weights()
        rotary = self.model.model.rotary_emb  # its frequencies are no weight
        self.model.model.rotary_emb = type(rotary)(self.model.config).to(device)
        self.model.eval()
        names = inspect.signature(self.model.forward).parameters
        self.cache_name = "past_key_values" if "past_key_values" in names else "cache"
        self.takes_position = "cache_position" in names
        self.StaticCache = transformers.StaticCache
        self.step = torch.compile(self.forward, mode="reduce-overhead", fullgraph=True)

    def forward(self, ids, position, cache):
        more = {"cache_position": position} if self.takes_position else {}
        more[self.cache_name] = cache
        logits = self.model(ids, position_ids=position[None].expand(len(ids), -1), use_cache=True, **more).logits
        return logits[:, -1:].argmax(-1)

    def prepare(self, prompts, new):
        torch = self.torch
        self.prompts, self.new = torch.tensor(prompts, device=self.device), new
        length = self.prompts.shape[1] + new + 1
        try:
            self.cache = self.StaticCache(config=self.model.config, max_cache_len=length)
        except TypeError:
            self.cache = self.StaticCache(
                config=self.model.config,
                max_batch_size=len(prompts),
                max_cache_len=length,
                device=self.device,
                dtype=torch.float16,
            )
        self.run()
        self.run()

    def run(self):
        """Seconds of decoding, and the tokens."""
        torch = self.torch
        with torch.inference_mode():
            self.cache.reset()
            length = self.prompts.shape[1]
            ids = self.forward(self.prompts, torch.arange(length, device=self.device), self.cache).clone()
            position, found = torch.tensor([length], device=self.device), [ids]
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(self.new):
                torch.compiler.cudagraph_mark_step_begin()
                ids = self.step(ids, position, self.cache).clone()
                position += 1
                found.append(ids)
            torch.cuda.synchronize()
            return time.perf_counter() - start, torch.cat(found, 1).tolist()


class Ours:
    def __init__(self, folder, batches, context, new, device):
        from camshaft.llm import LLM

        blocks = max(batches) * (-(-(context + new + 2) // 16) + 1) + 8
        self.llm = LLM(folder, device=device, max_num_seqs=max(batches), num_blocks=blocks)

    def prepare(self, prompts, new):
        self.prompts, self.new = prompts, new
        self.run()
        self.run()

    def timed(self, count):
        from camshaft.llm import SamplingParams

        start = time.perf_counter()
        outputs = self.llm.generate(self.prompts, SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True))
        return time.perf_counter() - start, [list(output.outputs[0].token_ids) for output in outputs]

    def run(self):
        """Of decoding alone: the time of one token, whose prompt is in the prefix cache as it is then, is taken off."""
        first, _ = self.timed(1)
        all_of_it, tokens = self.timed(self.new + 1)
        return all_of_it - first, tokens


def build(folder, target, weights, options):
    import camshaft.llm

    chosen = {"device": options.device, "verify": False, "fp16": True, "tuning_seconds": options.tuning_seconds}
    chosen["max_memory"] = 1.1e11  # of 8B, fp16 as it is stored, in fp32 and in fp16 again
    known = inspect.signature(camshaft.llm.build).parameters
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()):
        chosen = {name: value for name, value in chosen.items() if name in known}
    shutil.rmtree(target, ignore_errors=True)
    camshaft.llm.build(folder, target, weights=weights, **chosen)


def compare(name, options, results):
    config = config_of(name, options.context + options.new + 64)
    folder = options.folder / name
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    made = random_weights(config, device)
    write_folder(folder, config, made)
    say(f"{name}: weights written")
    rival = None
    if not options.without_rival:
        try:
            rival = Rival(config, made, device)
        except Exception:  # what is ours can be measured without it
            traceback.print_exc()
    del made
    prompts = {
        batch: np.random.default_rng(batch).integers(2, config["vocab_size"], (batch, options.context)).tolist()
        for batch in options.batches
    }
    for weights in options.weights:
        target = options.folder / f"{name}-{weights}"
        try:
            build(folder, target, weights, options)
            say(f"{name} {weights}: built")
            ours = Ours(target, options.batches, options.context, options.new, options.device)
            say(f"{name} {weights}: loaded")
        except Exception:
            traceback.print_exc()
            continue
        for batch in options.batches:
            try:
                measure(name, weights, batch, config, ours, rival, prompts[batch], options, results)
            except Exception:
                traceback.print_exc()
        del ours
        gc.collect()
        shutil.rmtree(target, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def measure(name, weights, batch, config, ours, rival, prompts, options, results):
    ours.prepare(prompts, options.new)
    say(f"{name} {weights} batch {batch}: ours is warm")
    if rival is not None:
        try:
            rival.prepare(prompts, options.new)
            say(f"{name} batch {batch}: Transformers is warm")
        except Exception:
            traceback.print_exc()
            rival = None
    best, rivals_best, same = float("inf"), float("inf"), ""
    for _ in range(options.rounds):
        seconds, tokens = ours.run()
        best = min(best, seconds)
        if rival is None:
            continue
        seconds, others = rival.run()
        rivals_best = min(rivals_best, seconds)
        agreeing = [next((i for i, (a, b) in enumerate(zip(x, y)) if a != b), len(x)) for x, y in zip(tokens, others)]
        same = f", tokens alike at first: {min(agreeing)} to {max(agreeing)}"
    rate, step = batch * options.new / best, best / options.new
    part = bytes_of_step(config, weights, batch, options.context + options.new / 2) / step / options.bandwidth
    line = f"{name:4} {weights:4} batch {batch:3}: {rate:8.1f} tokens/s, {step * 1e3:6.3f} ms a step, {part:5.1%} of the bandwidth"
    result = {"model": name, "weights": weights, "batch": batch, "tokens_per_second": rate, "bandwidth": part}
    if rivals_best < float("inf"):
        rivals_rate = batch * options.new / rivals_best
        line += f"; Transformers {rivals_rate:8.1f}, ratio {rate / rivals_rate:.2f}{same}"
        result |= {"transformers": rivals_rate, "ratio": rate / rivals_rate}
    say(line)
    results.append(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="1b,8b")
    parser.add_argument("--weights", default="f16,int4")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "build/llm-gpu")
    parser.add_argument("--tuning-seconds", type=float, default=20)
    parser.add_argument("--bandwidth", type=float, default=4.8e12, help="of the device's memory, bytes a second")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--without-rival", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for name in ("models", "weights"):
        setattr(options, name, getattr(options, name).split(","))
    options.batches = [int(batch) for batch in options.batches.split(",")]
    results = []
    for name in options.models:
        try:
            compare(name, options, results)
        except Exception:
            traceback.print_exc()
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
