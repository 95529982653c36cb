"""What weights and caches of few bits cost a language model: its perplexity on text that it has not seen, beside
fp32; and how many tokens a step gives with guesses of n-grams, on text that repeats.

    python bench/llm/train.py build/llm/debian
    python bench/llm/perplexity.py build/llm/debian             # exits with 1 where a limit is missed
"""

import argparse
import json
import math
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python"))]

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft.llm
from camshaft.llm import LLM, SamplingParams

#: Weights, cache, and how much more than fp32's the perplexity may be, in percent.
CASES = (
    ("f32", "f32", 0.0),
    ("f32", "f16", 0.3),
    ("f32", "int8", 0.3),
    ("f32", "fp8", 0.3),
    ("int8", "f16", 0.3),
    ("int8", "int8", 0.3),
    ("int4", "f16", 2.0),
)
TOKENS_PER_STEP = 1.8


def perplexity(llm, tokens, length):
    """Of parts of a text, each of which begins with the token that begins a document."""
    parts = [[0, *tokens[at : at + length - 1]] for at in range(0, len(tokens) - length, length - 1)]
    total, count = 0.0, 0
    for output in llm.generate(parts, SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)):
        for token, by_token in zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:]):
            total -= by_token[token].logprob
            count += 1
    return math.exp(total / count), count


def tokens_per_step(folder, text, guesses):
    """Of answers that go on with what stands in front of them three times, one at a time."""
    llm = LLM(folder, speculative_config={"num_speculative_tokens": guesses}, max_num_seqs=1)
    ids = llm.tokenizer.encode(text).ids
    begins = range(0, len(ids) - 100, max(len(ids) // 8, 1))
    prompts = [ids[at : at + 100] * 3 + ids[at : at + 20] for at in begins]
    llm.generate(prompts, SamplingParams(temperature=0, max_tokens=300, ignore_eos=True))
    found = llm.statistics()  # of each answer the prompt's step, which gives the first token, is none of guesses
    return (found["generated"] - len(prompts)) / (found["steps"] - len(prompts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="that train.py wrote, or any other with a held_out.txt")
    parser.add_argument("--tokens", type=int, default=40_000, help="of the held-out text")
    parser.add_argument("--length", type=int, default=256, help="of a part")
    parser.add_argument("--json", type=Path, help="to write")
    options = parser.parse_args()
    text = (options.folder / "held_out.txt").read_text()
    results, missed = [], []
    with tempfile.TemporaryDirectory(dir=options.folder.parent) as made:
        for weights, cache, most in CASES:
            target = Path(made) / f"{weights}-{cache}"
            camshaft.llm.build(options.folder, target, weights=weights, cache=cache, tuning="heuristic")
            llm = LLM(target, max_model_len=options.length + 1, enable_prefix_caching=False)
            tokens = llm.tokenizer.encode(text).ids[: options.tokens]
            value, count = perplexity(llm, tokens, options.length)
            more = 100 * (value / (results[0]["perplexity"] if results else value) - 1)
            results.append({"weights": weights, "cache": cache, "perplexity": value, "percent": more, "most": most})
            print(f"{weights:5} cache {cache}: perplexity {value:.4f}, {more:+.3f} % (at most {most}), {count} tokens")
            if more > most:
                missed.append(f"{weights}, cache {cache}")
        rate = tokens_per_step(Path(made) / "f32-f32", text, 4)
        print(f"guesses of n-grams: {rate:.2f} tokens a step (at least {TOKENS_PER_STEP})")
        if rate < TOKENS_PER_STEP:
            missed.append("guesses")
    if options.json:
        options.json.write_text(json.dumps({"perplexity": results, "tokens_per_step": rate}, indent=2))
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
