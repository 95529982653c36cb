"""What the type of the cache costs and gains in time: seconds of one decoded token of a Llama-like model with seeded weights,
behind contexts of several lengths, minima of rounds in which the types take turns; and the bytes of a block.

    python bench/llm/cache_types.py --folder build/llm/cache-types [--device cuda] [--weights int4]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python"))]

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft
import camshaft.llm
import numpy as np
from camshaft.llm import LLM, SamplingParams
from safetensors.numpy import save_file


def write_model(folder, options):
    width, inner, head = options.width, options.inner, options.width // options.heads
    config = {
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "num_key_value_heads": options.kv_heads,
        "vocab_size": options.vocabulary,
        "max_position_embeddings": max(options.contexts) + 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "eos_token_id": 2,
        "bos_token_id": 1,
    }
    shared = options.kv_heads * head
    shapes = {"model.embed_tokens": (options.vocabulary, width), "model.norm": (width,)}
    for i in range(options.layers):
        of = f"model.layers.{i}."
        shapes |= {of + "input_layernorm": (width,), of + "post_attention_layernorm": (width,)}
        shapes |= {of + "self_attn.q_proj": (width, width), of + "self_attn.o_proj": (width, width)}
        shapes |= {of + "self_attn.k_proj": (shared, width), of + "self_attn.v_proj": (shared, width)}
        shapes |= {of + "mlp.gate_proj": (inner, width), of + "mlp.up_proj": (inner, width)}
        shapes |= {of + "mlp.down_proj": (width, inner)}
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    tensors = {
        f"{name}.weight": np.ones(shape, np.float16)
        if len(shape) == 1
        else (random.standard_normal(shape, np.float32) / np.sqrt(shape[-1])).astype(np.float16)
        for name, shape in shapes.items()
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def block_bytes(engine):
    """Of all layers."""
    widths = {"f32": 4, "f16": 2, "i8": 1, "f8e4m3": 1}
    kept = [info for info in engine.inputs if info.name.startswith(("key_", "value_"))]
    return sum(widths[info.dtype] * int(np.prod(info.shape[1:])) for info in kept)


def seconds_of_tokens(llm, prompt, count):
    """Of those behind the first, which waits for the rest of the prompt."""
    times = [
        time.perf_counter()
        for _ in llm.stream(prompt, SamplingParams(temperature=0, max_tokens=count + 1, ignore_eos=True))
    ]
    return np.diff(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="of models, which are made where they are not there")
    parser.add_argument("--caches", default="f32,f16,int8,fp8")
    parser.add_argument("--contexts", type=lambda text: [int(x) for x in text.split(",")], default=[500, 2000, 4000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=8, help="of a round")
    parser.add_argument("--weights", default="int4")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--tuning", default="heuristic")
    for name, size in (("layers", 4), ("width", 2048), ("inner", 8192), ("heads", 32), ("kv-heads", 8)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--vocabulary", type=int, default=4000)
    options = parser.parse_args()
    source = options.folder / f"source-{options.layers}-{options.width}-{max(options.contexts)}"
    if not source.exists():
        write_model(source, options)
    models = {}
    for cache in options.caches.split(","):
        target = options.folder / f"{source.name}-{options.weights}-{cache}-{options.device}"
        if not target.exists():
            given = {"weights": options.weights, "cache": cache, "device": options.device}
            camshaft.llm.build(source, target, tuning=options.tuning, verify=False, **given)
        more = {"threads": options.threads} if options.threads else {}
        blocks = max(options.contexts) // 16 + 16
        models[cache] = LLM(target, device=options.device, num_blocks=blocks, max_num_seqs=1, **more)
        engine = camshaft.Engine(
            target / "model.engine", **({} if options.device == "cpu" else {"device": options.device})
        )
        print(f"{cache:4}: {block_bytes(engine)} bytes of a block of 16 tokens", flush=True)
    random = np.random.default_rng(1)
    for context in options.contexts:
        prompt = random.integers(3, options.vocabulary, context).tolist()
        least = dict.fromkeys(models, np.inf)
        for _ in range(options.rounds):
            for cache, llm in models.items():
                least[cache] = min(least[cache], seconds_of_tokens(llm, prompt, options.tokens).min())
        print(context, "tokens:", ", ".join(f"{cache} {1e3 * t:.3f} ms" for cache, t in least.items()), flush=True)


if __name__ == "__main__":
    main()
