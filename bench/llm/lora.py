"""What adapters cost: tokens a second of a Llama-like model with seeded weights, built without adapters, and with all linear
layers adapted, where no sequence has one, all have one, or each has one of several; and of prompts. The best of rounds in which
these take turns. With --threads 1 by processor time, which a busy machine leaves as it is.

    python bench/llm/lora.py --folder build/llm/lora [--device cuda] [--weights int4] [--loras 8] [--rank 16]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(Path(__file__).parent),
    str(ROOT / "tests/python"),
    str(ROOT / "scripts"),
    os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")),
]

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft
import camshaft.llm
import lora_folders
import numpy as np
from cache_types import write_model
from camshaft.llm import LLM, LoRARequest, SamplingParams


def modules_of(options):
    width, inner = options.width, options.inner
    shared = options.kv_heads * (width // options.heads)
    layer = {"q": (width, width), "k": (width, shared), "v": (width, shared), "o": (width, width)}
    made = {}
    for i in range(options.layers):
        of = f"model.layers.{i}."
        made |= {f"{of}self_attn.{name}_proj": sizes for name, sizes in layer.items()}
        made |= {f"{of}mlp.{name}_proj": (width, inner) for name in ("gate", "up")}
        made[f"{of}mlp.down_proj"] = (inner, width)
    return made


def seconds_of(llm, prompts, tokens, loras, clock):
    begin = clock()
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    llm.generate(prompts, params, lora_request=loras)
    return clock() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--weights", default="f32")
    parser.add_argument("--lora-dtype", default="auto")
    sizes = {"layers": 8, "width": 1024, "inner": 2816, "heads": 16, "kv_heads": 8, "vocabulary": 8192}
    for name, usual in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=usual)
    parser.add_argument("--loras", type=int, default=8)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seqs", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tuning-seconds", type=float, default=20)
    options = parser.parse_args()
    options.contexts = [2048]
    folder = options.folder
    if not (folder / "hf").exists():
        write_model(folder / "hf", options)
        for i in range(options.loras):
            updates = lora_folders.make_updates(modules_of(options), options.rank, i)
            lora_folders.write_adapter(folder / f"lora{i}", updates)
    build = {"weights": options.weights, "device": options.device, "tuning_seconds": options.tuning_seconds}
    given = [f"lora{i}={folder / f'lora{i}'}" for i in range(options.loras)]
    place = f"{options.weights}-{options.device}-{options.lora_dtype}"
    plain, adapted = folder / f"plain-{place}", folder / f"adapted-{place}"
    if not plain.exists():
        camshaft.llm.build(folder / "hf", plain, verify_seconds=1.0, **build)
    if not adapted.exists():
        camshaft.llm.build(
            folder / "hf", adapted, lora=given, lora_dtype=options.lora_dtype, verify_seconds=1.0, **build
        )
    clock = time.process_time if options.threads == 1 else time.perf_counter
    random = np.random.default_rng(1)
    for seqs in options.seqs:
        args = {"max_num_seqs": seqs, "enable_prefix_caching": False, "threads": options.threads, "max_model_len": 1024}
        without, with_all = LLM(plain, **args), LLM(adapted, **args)
        prompts = random.integers(3, options.vocabulary, (seqs, 8)).tolist()
        long = random.integers(3, options.vocabulary, (1, options.prompt)).tolist()
        kinds = {
            "without": (without, [None] * seqs),
            "no adapter": (with_all, [None] * seqs),
            "one": (with_all, [LoRARequest("lora0")] * seqs),
            f"{options.loras}": (with_all, [LoRARequest(f"lora{i % options.loras}") for i in range(seqs)]),
        }
        best = {}
        for turn in range(options.rounds + 1):
            for name, (llm, loras) in kinds.items():
                decode = seconds_of(llm, prompts, options.tokens, loras, clock) - seconds_of(
                    llm, prompts, 1, loras, clock
                )
                prefill = seconds_of(llm, long, 1, loras[:1], clock)
                if turn > 0:  # the first makes plans
                    known = best.setdefault(name, [1e9, 1e9])
                    known[:] = min(known[0], decode), min(known[1], prefill)
        for name, (decode, prefill) in best.items():
            made = {
                "seqs": seqs,
                "adapters": name,
                "decode_tokens_per_second": round(seqs * (options.tokens - 1) / decode, 1),
                "of_plain": round(best["without"][0] / decode, 3),
                "prefill_tokens_per_second": round(options.prompt / prefill, 1),
                "prefill_of_plain": round(best["without"][1] / prefill, 3),
            }
            print(json.dumps(made), flush=True)
        del without, with_all, kinds


if __name__ == "__main__":
    main()
