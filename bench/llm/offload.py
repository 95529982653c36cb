"""What it costs to compute again what left the cache, beside bringing it back from the host's memory: seconds of an answer to
conversations that take turns, of which the cache has room for one, minima of rounds in which the ways take turns. The
texts must be the same.

    python bench/llm/offload.py --folder build/llm/offload [--device cuda] [--weights int4]
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

import camshaft.llm
import numpy as np
from cache_types import write_model
from camshaft.llm import LLM, SamplingParams


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="of models, which are made where they are not there")
    parser.add_argument("--contexts", type=lambda text: [int(x) for x in text.split(",")], default=[500, 2000])
    parser.add_argument("--conversations", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=8, help="of an answer")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--weights", default="int4")
    parser.add_argument("--cache", default="f16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="to write")
    for name, usual in (("width", 1024), ("inner", 2816), ("layers", 8), ("heads", 16), ("kv-heads", 4)):
        parser.add_argument(f"--{name}", type=int, default=usual, help="of the model")
    parser.add_argument("--vocabulary", type=int, default=8192)
    options = parser.parse_args()
    source, built = options.folder / "hf", options.folder / f"{options.weights}-{options.cache}-{options.device}"
    if not source.exists():
        write_model(source, options)
    if not built.exists():
        camshaft.llm.build(source, built, device=options.device, weights=options.weights, cache=options.cache)
    results = []
    for context in options.contexts:
        length = context + options.tokens + 1
        one = {"max_model_len": length, "max_num_seqs": 1, "threads": options.threads, "device": options.device}
        blocks = -(-length // 16) + 2
        ways = {
            "computed again": LLM(built, num_blocks=blocks, **one),
            "brought back": LLM(built, num_blocks=blocks, kv_offloading_size=4, **one),
            "never left": LLM(built, num_blocks=blocks * options.conversations, **one),
        }
        random = np.random.default_rng(1)
        prompts = [random.integers(3, options.vocabulary, context).tolist() for _ in range(options.conversations)]
        params = SamplingParams(temperature=0, max_tokens=options.tokens, ignore_eos=True, detokenize=False)
        seconds, texts = {}, {}
        for way, llm in ways.items():
            texts[way] = [llm.generate([prompt], params)[0].outputs[0].token_ids for prompt in prompts]
        for _ in range(options.rounds):
            for way, llm in ways.items():
                for place, prompt in enumerate(prompts):
                    begin = time.perf_counter()
                    [output] = llm.generate([prompt], params)
                    seconds[way] = min(seconds.get(way, 1e9), time.perf_counter() - begin)
                    if output.outputs[0].token_ids != texts["never left"][place]:
                        sys.exit(f"{context} tokens, {way}: the text is another one")
        moved = ways["brought back"].statistics()
        row = {"context": context, "restored": moved["restored"], **seconds}
        results.append(row)
        times = ", ".join(f"{way} {1000 * value:.1f} ms" for way, value in seconds.items())
        gain = seconds["computed again"] / seconds["brought back"]
        print(f"{context} tokens: {times}; {gain:.2f} times as fast", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
