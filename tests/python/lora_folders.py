"""Adapters of LoRA as PEFT writes them, and weights with an adapter merged."""

import json

import numpy as np
from safetensors.numpy import save_file

PREFIX = "base_model.model."


def make_updates(sizes, rank, seed, scale=1.0):
    """{module: (A [rank, in], B [out, rank])}. sizes: {module: (in, out)}."""
    random = np.random.default_rng(seed)
    made = {}
    for module, (inputs, outputs) in sizes.items():
        a = random.standard_normal((rank, inputs)) / np.sqrt(inputs)
        b = scale * random.standard_normal((outputs, rank)) / np.sqrt(rank)
        made[module] = a.astype(np.float32), b.astype(np.float32)
    return made


def tensors_of(updates, prefix=PREFIX):
    made = {}
    for module, (a, b) in updates.items():
        made[f"{prefix}{module}.lora_A.weight"], made[f"{prefix}{module}.lora_B.weight"] = a, b
    return made


def write_adapter(folder, updates, *, config=None, dtype=np.float32, prefix=PREFIX):
    """config: changes to a configuration whose scale is 1; False: there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.astype(dtype) for name, value in tensors_of(updates, prefix).items()}
    save_file(tensors, folder / "adapter_model.safetensors")
    if config is not False:
        rank = next(iter(updates.values()))[0].shape[0]
        usual = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "use_rslora": False}
        (folder / "adapter_config.json").write_text(json.dumps({**usual, **(config or {})}))
    return folder


def merged(tensors, updates, scale=1.0):
    """Weights [out, in] and the scaled product of the adapter's matrices."""
    made = dict(tensors)
    for module, (a, b) in updates.items():
        weights = tensors[f"{module}.weight"]
        made[f"{module}.weight"] = (weights + np.float32(scale) * (b @ a)).astype(np.float32)
    return made
