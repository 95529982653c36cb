"""Builds a Llama with adapters for the device and for the CPU, and prints both texts as JSON; the emulated GPU runs it."""

import json
import sys
from pathlib import Path

import lora_folders
from camshaft.llm import LLM, LoRARequest, SamplingParams, build
from llm_folders import write_llama

folder, weights, lora_dtype = Path(sys.argv[1]), *sys.argv[2:4]
write_llama(folder / "hf", hidden_size=256, intermediate_size=256, num_hidden_layers=2)
sizes = {"self_attn.q_proj": (256, 256), "self_attn.v_proj": (256, 128), "mlp.gate_proj": (256, 256)}
sizes |= {"mlp.down_proj": (256, 256)}
modules = {f"model.layers.{i}.{name}": each for i in range(2) for name, each in sizes.items()}
for seed, name in enumerate(("a", "b")):
    lora_folders.write_adapter(folder / name, lora_folders.make_updates(modules, 5 + seed, seed, 4.0))
given = [f"{name}={folder / name}" for name in ("a", "b")]
texts = {}
for device in ("cpu", "cuda"):
    options = {
        "weights": weights,
        "activations": "f32",
        "lora_dtype": lora_dtype,
        "tuning": "heuristic",
        "verify": device == "cuda",
    }
    build(folder / "hf", folder / device, device=device, lora=given, **options)
    llm = LLM(folder / device, device=device, max_num_seqs=3, max_num_batched_tokens=16, num_blocks=24, max_loras=1)
    greedy = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    prompts, requests = [[1, 5, 9], [1, 7], [3] * 20], {name: LoRARequest(name) for name in ("a", "b")}
    # One place: the second adapter's matrices replace the first one's on the device.
    outputs = [llm.generate(prompts, greedy, lora_request=[each, None, each]) for each in requests.values()]
    texts[device] = [[output.outputs[0].token_ids for output in batch] for batch in outputs]
    assert texts[device][0][1] == texts[device][1][1] and texts[device][0][0] != texts[device][1][0], texts
print(json.dumps(texts))
