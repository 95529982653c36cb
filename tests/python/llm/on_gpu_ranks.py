"""Builds a Llama in two ranks for the device and in one for the CPU, and prints their texts as JSON; the emulated GPUs run
the ranks, each one of them."""

import json
import sys
from pathlib import Path

from camshaft.llm import LLM, SamplingParams, build
from llm_folders import write_llama

folder = Path(sys.argv[1])
write_llama(folder / "hf", hidden_size=256, intermediate_size=256, num_hidden_layers=2)
texts, devices = {}, []
for device, ranks in (("cpu", 1), ("cuda", 2)):
    options = {"weights": "f32", "cache": "f32", "tuning": "heuristic", "verify": ranks > 1}
    build(folder / "hf", folder / device, device=device, tensor_parallel_size=ranks, **options)
    for backend in (None, "mp")[:ranks]:
        llm = LLM(
            folder / device,
            max_num_seqs=3,
            max_num_batched_tokens=16,
            num_blocks=24,
            distributed_executor_backend=backend,
        )
        prompts = [[1, 5, 9], [1, 7], [3] * 20]
        outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=6, ignore_eos=True))
        assert all(output.outputs[0].finish_reason == "length" for output in outputs), outputs
        texts[f"{device} {backend}"] = [output.outputs[0].token_ids for output in outputs]
    if ranks > 1:
        from camshaft.llm._rank_start import engine_of

        devices = [engine_of(folder / device, llm.description, rank, None).device for rank in range(ranks)]
print(json.dumps({"texts": texts, "devices": devices}))
