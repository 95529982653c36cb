#!/usr/bin/env python3
"""Embeddings of all-MiniLM-L6-v2 beside ONNX Runtime and, where it is installed, sentence-transformers, on the CPU.

    bench/llm_embeddings.py [--threads N] [--weights f32] [--batches 1x32 32x4-64 …]

Texts are random tokens, which all get alike. ONNX Runtime runs tests/models/minilm.py's model on batches that are padded
to the longest; sentence-transformers sorts by length, and pads batches of 32. Times are the least of interleaved rounds, in
the processor's time of one thread, which other programs beside change less; of several threads by the clock."""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")),
    str(ROOT / "tests/models"),
]

import minilm  # noqa: E402
from camshaft.llm import LLM, build  # noqa: E402


def lengths_of(batch, random):
    """Of COUNTxLENGTH or COUNTxLEAST-MOST."""
    count, _, length = batch.partition("x")
    least, _, most = length.partition("-")
    return random.integers(int(least), int(most or least) + 1, int(count))


def by_onnxruntime(threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        minilm.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def run(prompts):
        ids = np.zeros((len(prompts), max(map(len, prompts))), np.int64)
        mask = np.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)], mask[row, : len(prompt)] = prompt, 1
        return session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": mask})[0]

    return run


def by_sentence_transformers(threads):
    """On texts that become the tokens; None where it is not installed."""
    try:
        import sentence_transformers
        import torch
    except ModuleNotFoundError:
        return None
    torch.set_num_threads(threads)
    model = sentence_transformers.SentenceTransformer(str(minilm.FOLDER), device="cpu")
    words = model.tokenizer.convert_ids_to_tokens(list(range(model.tokenizer.vocab_size)))

    def run(prompts):
        texts = [" ".join(words[token] for token in prompt[1:-1]) for prompt in prompts]
        return model.encode(texts, batch_size=32, show_progress_bar=False)

    return run


def plain_tokens():
    """The numbers of words that stay one token: of small letters alone."""
    words = [line.strip() for line in (minilm.FOLDER / "vocab.txt").read_text().splitlines()]
    return np.array([i for i, word in enumerate(words) if word.isascii() and word.isalpha() and len(word) > 2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--weights", default="f32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", nargs="+", default=["1x8", "1x32", "1x128", "32x16", "32x4-64", "32x128", "8x250"])
    options = parser.parse_args()
    clock = time.process_time if options.threads == 1 else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        build(minilm.FOLDER, f"{folder}/model", task="embed", weights=options.weights, threads=options.threads)
        llm = LLM(f"{folder}/model", threads=options.threads)
        rivals = {"onnxruntime": by_onnxruntime(options.threads)}
        rivals["sentence-transformers"] = by_sentence_transformers(options.threads)
        ways = {"camshaft": lambda prompts: [each.outputs.embedding for each in llm.embed(prompts)]}
        ways |= {name: run for name, run in rivals.items() if run is not None}
        random, tokens = np.random.default_rng(0), plain_tokens()
        print(f"{'texts x tokens':16}" + "".join(f"{name + ', ms':>28}" for name in ways) + f"{'times':>16}")
        for batch in options.batches:
            # [CLS] and [SEP] at the ends, as the tokenizer has them.
            prompts = [[101, *random.choice(tokens, max(n - 2, 0)).tolist(), 102] for n in lengths_of(batch, random)]
            found = {name: np.array(run(prompts)) for name, run in ways.items()}
            for name, vectors in found.items():
                if options.weights == "f32" and np.abs(vectors - found["camshaft"]).max() > 1e-4:
                    sys.exit(f"{name} has other vectors than camshaft, of {batch}")
            times = {name: [] for name in ways}
            for _ in range(options.rounds):
                for name, run in ways.items():
                    begin = clock()
                    run(prompts)
                    times[name].append(clock() - begin)
            least = {name: min(values) for name, values in times.items()}
            factors = [f"{least[name] / least['camshaft']:.2f}" for name in list(ways)[1:]]
            spread = statistics.median(times["camshaft"]) / least["camshaft"]
            print(
                f"{batch:16}"
                + "".join(f"{1e3 * value:28.2f}" for value in least.values())
                + f"{' '.join(factors):>16}",
                f"(median {spread:.2f} of the least)",
                flush=True,
            )


if __name__ == "__main__":
    main()
