"""Builds a model of text and pictures for the device and for the CPU, and prints what both write as JSON; the emulated GPU runs
it."""

import json
import sys
from pathlib import Path

from camshaft.llm import LLM, SamplingParams, build
from vision_folders import IMAGE_ID, QWEN2_5_VISION, picture, write_llava, write_qwen

folder, kind, weights, cache = Path(sys.argv[1]), *sys.argv[2:5]
if kind == "llava":
    write_llava(folder / "hf")
else:
    write_qwen(folder / "hf", vision=QWEN2_5_VISION)
pictures = [picture(33, 47, 1), picture(20, 20, 3)]
prompts = [
    {"prompt_token_ids": [256, 65, IMAGE_ID, 66], "multi_modal_data": {"image": pictures[0]}},
    {"prompt_token_ids": [70, 71, 72]},
    {"prompt_token_ids": [IMAGE_ID, 68, IMAGE_ID, 70], "multi_modal_data": {"image": pictures}},
]
params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True, detokenize=False)
texts = {}
for device in ("cpu", "cuda"):
    build(
        folder / "hf",
        folder / device,
        device=device,
        weights=weights,
        cache=cache,
        tuning="heuristic",
        verify=device == "cuda",
    )
    llm = LLM(folder / device, device=device, max_num_seqs=3, max_num_batched_tokens=24)
    texts[device] = [output.outputs[0].token_ids for output in llm.generate(prompts, params)]
print(json.dumps(texts))
