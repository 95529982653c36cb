"""Whisper of its real sizes with seeded weights beside Transformers, on the CPU: seconds of the encoder on 30 s of sound, with
features, and of one decoded token behind it, minima of rounds in which the two take turns. By the processor's time where
`--processor-time` says so, as other programs do not count then (one thread alone).

    python bench/llm/speech.py --folder build/llm/speech --sizes tiny base --threads 1 [--weights int8]
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / "tests/python"),
    os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")),
]

import camshaft.llm
import numpy as np
import torch
import transformers
from whisper_folders import GENERATION, RATE, sound, write_whisper

# Width, layers and heads of both halves: openai/whisper's model card.
SIZES = {"tiny": (384, 4, 6), "base": (512, 6, 8), "small": (768, 12, 12), "medium": (1024, 24, 16)}
TOKENS = 64


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/llm/speech", help="where models are kept")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["tiny", "base"])
    parser.add_argument("--weights", default="f32", help="as `camshaft llm build` has them")
    parser.add_argument("--cache", default="f16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processor-time", action="store_true")
    return parser.parse_args()


def written(folder, size):
    width, layers, heads = SIZES[size]
    if not (folder / "config.json").exists():
        write_whisper(
            folder,
            vocab_size=51865,
            d_model=width,
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=4 * width,
            decoder_ffn_dim=4 * width,
            num_mel_bins=80,
            max_source_positions=1500,
            max_target_positions=448,
            generation={"suppress_tokens": [GENERATION["eos_token_id"]]},  # texts go on
        )
    return folder


def main():
    options = parsed()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.processor_time else time.perf_counter
    samples = sound(30)
    print(f"{'':8}{'encoder':>10}{'theirs':>10}{'':>8}{'a token':>12}{'theirs':>10}")
    for size in options.sizes:
        source = written(options.folder / size, size)
        built = options.folder / f"{size}-{options.weights}-{options.cache}"
        if not built.exists():
            camshaft.llm.build(source, built, weights=options.weights, cache=options.cache, threads=options.threads)
        ours = camshaft.llm.Whisper(built, max_num_seqs=1, threads=options.threads)
        theirs = transformers.WhisperForConditionalGeneration.from_pretrained(source).eval()
        extractor = transformers.WhisperFeatureExtractor.from_pretrained(source)
        states = None

        def encode():
            ours._encode(samples, 0)

        def decode(count):
            [result] = ours.transcribe(samples, language="en", max_tokens=count, no_speech_threshold=None)
            assert sum(len(segment.tokens) for segment in result.segments) == count

        def their_encode():
            nonlocal states
            features = extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features
            with torch.inference_mode():
                states = theirs.model.encoder(features)

        def their_decode(count):
            with torch.inference_mode():
                made = theirs.generate(
                    encoder_outputs=states,
                    language="en",
                    task="transcribe",
                    max_new_tokens=count,
                    min_new_tokens=count,
                    do_sample=False,
                    num_beams=1,
                )
            assert made.shape[-1] >= count

        # A token's time is what the second of two texts takes longer, as both begin with the encoder or the prompt.
        calls = [encode, lambda: decode(1), lambda: decode(1 + TOKENS), their_encode]
        calls += [lambda: their_decode(1), lambda: their_decode(1 + TOKENS)]
        best = [float("inf")] * len(calls)
        for _ in range(options.rounds):
            for place, call in enumerate(calls):
                begin = clock()
                call()
                best[place] = min(best[place], clock() - begin)
        token, their_token = (best[2] - best[1]) / TOKENS, (best[5] - best[4]) / TOKENS
        print(
            f"{size:8}{1e3 * best[0]:7.0f} ms{1e3 * best[3]:7.0f} ms{best[3] / best[0]:7.2f}x"
            f"{1e3 * token:9.2f} ms{1e3 * their_token:7.2f} ms{their_token / token:7.2f}x",
            flush=True,
        )


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    transformers.logging.set_verbosity_error()
    main()
