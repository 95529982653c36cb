"""Builds a Llama for the device and for the CPU, and prints both texts as JSON; the emulated GPU runs it."""

import json
import sys
from pathlib import Path

from camshaft.llm import LLM, SamplingParams, build
from llm_folders import write_llama

folder, weights, cache = Path(sys.argv[1]), *sys.argv[2:4]
write_llama(folder / "hf", hidden_size=256, intermediate_size=256, num_hidden_layers=2)
texts = {}
for device in ("cpu", "cuda"):
    options = {"weights": weights, "cache": cache, "tuning": "heuristic", "verify": device == "cuda"}
    build(folder / "hf", folder / device, device=device, **options)
    llm = LLM(folder / device, device=device, max_num_seqs=3, max_num_batched_tokens=16, num_blocks=24)
    greedy = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    drawn = SamplingParams(temperature=0.01, seed=1, max_tokens=6, ignore_eos=True)  # whose logits come to the host
    prompts = [[1, 5, 9], [1, 7], [3] * 20]
    outputs = llm.generate(prompts, greedy) + llm.generate(prompts, drawn)
    texts[device] = [output.outputs[0].token_ids for output in outputs]
    assert all(output.outputs[0].finish_reason == "length" for output in outputs), outputs
    # Blocks leave for the host's memory, come back, and are copied on the device where samples part.
    long = [[1 + (i * 7 + j) % 70 for j in range(40)] for i in range(4)]
    whole = LLM(folder / device, device=device, max_model_len=60, max_num_seqs=3)
    few = LLM(folder / device, device=device, max_model_len=60, max_num_seqs=3, num_blocks=9, kv_offloading_size=0.01)
    samples = SamplingParams(temperature=0.01, seed=3, n=2, max_tokens=6, ignore_eos=True)
    for params in (greedy, greedy, samples, samples):  # the second time what was read is there, or comes back
        found, expected = (
            [[sample.token_ids for sample in output.outputs] for output in one.generate(long, params)]
            for one in (few, whole)
        )
        assert found == expected, (device, params)
    assert few.statistics()["restored"] > 5, few.statistics()
    # Itself as a draft, on the same device: two contexts of one engine, each with its caches.
    guesses = {"model": folder / device, "num_speculative_tokens": 3}
    drafted = LLM(folder / device, device=device, max_num_seqs=3, num_blocks=24, speculative_config=guesses)
    guessed = drafted.generate(prompts, greedy)
    assert [output.outputs[0].token_ids for output in guessed] == texts[device][: len(prompts)], device
    assert drafted.statistics()["accepted"] == drafted.statistics()["drafted"] > 0, drafted.statistics()
print(json.dumps(texts))
