"""Builds a model of embeddings for the device and for the CPU, and prints the largest difference of both as a part of the
scale; the emulated GPU runs it."""

import sys
from pathlib import Path

import numpy as np
from camshaft.llm import LLM, build
from llm_encoders import write_bert
from llm_folders import write_llama

folder, kind, weights = Path(sys.argv[1]), *sys.argv[2:4]
write = {"bert": write_bert, "llama": write_llama}[kind]
sizes = {"bert": {"num_attention_heads": 4}, "llama": {}}[kind]
write(folder / "hf", hidden_size=256, intermediate_size=256, num_hidden_layers=2, **sizes)
prompts = [[1, 5, 9], [7], [3] * 20, list(range(50))]
found = {}
for device, stored in (("cpu", "f32"), ("cuda", weights)):
    options = {"weights": stored, "tuning": "heuristic", "verify": device == "cuda"}
    build(folder / "hf", folder / device, task="embed", pooling_type="mean", device=device, **options)
    llm = LLM(folder / device, device=device, max_num_seqs=3, max_num_batched_tokens=64)
    found[device] = np.array([output.outputs.embedding for output in llm.embed(prompts)])
print(np.abs(found["cuda"] - found["cpu"]).max() / np.abs(found["cpu"]).max())
