"""Towers of vision of their real sizes with seeded weights beside Transformers, on the CPU: seconds of one picture's rows, from
its pixels on, minima of rounds in which the two take turns. By the processor's time where `--processor-time` says so, as
other programs do not count then (one thread alone).

    python bench/llm/vision.py --folder build/llm/vision --sizes base large --threads 1 [--weights int8]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / "tests/python"),
    os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python")),
]

import camshaft
import camshaft.llm
import numpy as np
import PIL.Image
import torch
import transformers
from camshaft.llm._image_processor import ImageProcessor
from camshaft.llm._images import as_rgb
from camshaft.llm._vision_description import read_vision
from vision_folders import CLIP, QWEN2_VISION, picture, write_llava, write_qwen

# CLIP's ViT-B/16 and ViT-L/14 at 336 pixels, which LLaVA 1.5 has; a quarter of the layers of Qwen2-VL's tower.
SIZES = {
    "base": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "image_size": 224,
        "patch_size": 16,
    },
    "large": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "image_size": 336,
        "patch_size": 14,
    },
    "qwen2": {"embed_dim": 1280, "depth": 8, "num_heads": 16, "mlp_ratio": 4, "patch_size": 14, "hidden_size": 64},
}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/llm/vision", help="where models are kept")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["base"])
    parser.add_argument("--weights", default="f32", help="as `camshaft llm build` has them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processor-time", action="store_true")
    return parser.parse_args()


def written(folder, size):
    if (folder / "config.json").exists():
        return folder
    if size == "qwen2":
        return write_qwen(folder, vision={**QWEN2_VISION, **SIZES[size]}, preprocessor={"max_pixels": 448 * 448})
    inner = 4 * SIZES[size]["hidden_size"]
    return write_llava(folder, vision={**CLIP, **SIZES[size], "intermediate_size": inner})


def main():
    options = parsed()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.processor_time else time.perf_counter
    pixels = picture(640, 480, 1)
    for size in options.sizes:
        folder = written(options.folder / size, size)
        output = options.folder / f"{size}-{options.weights}"
        if not output.exists():
            camshaft.llm.build(folder, output, weights=options.weights, threads=options.threads)
        vision = read_vision(json.loads((output / "llm.json").read_text()), output / "llm.json")
        processor: ImageProcessor = vision.processor
        context = camshaft.Engine(output / "encoder.engine").create_context(options.threads)
        model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        theirs = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")

        def ours_once():
            inputs = processor.inputs(as_rgb(pixels, lambda height, width: None))
            return np.array(context.run(inputs.arrays)["image_embeddings"])

        def theirs_once():
            inputs = theirs(images=[PIL.Image.fromarray(pixels)], return_tensors="pt")
            with torch.inference_mode():
                return model.model.get_image_features(**inputs).pooler_output[0].numpy()

        best = {}
        for round_number in range(options.rounds + 1):
            for name, once in (("ours", ours_once), ("theirs", theirs_once)):
                begin = clock()
                rows = once()
                took = clock() - begin
                if round_number > 0:
                    best[name] = min(best.get(name, took), took)
        ratio = best["theirs"] / best["ours"]
        print(
            f"{size} {options.weights}: {len(rows)} rows, {best['ours']:.3f} s, theirs {best['theirs']:.3f} ({ratio:.2f})"
        )


if __name__ == "__main__":
    main()
