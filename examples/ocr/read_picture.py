#!/usr/bin/env python3
"""Reads the text in a picture with Camshaft: builds an engine from the PP-OCRv4 recogniser, runs it, compares the answer
and the speed with ONNX Runtime's.

usage: read_picture.py [PICTURE]     dark lines of text on a light ground; without one, a sample is drawn
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]
import camshaft_cli
import ocr
import rivals
import rounds

MODEL = ROOT / ".cache/models/rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
FOLDER = ROOT / ".cache/demo"
SAMPLE = [
    "A camshaft opens the valves",
    "in the right order,",
    "at the right time.",
    "x86 CPU: 48 pixels in, text out!",
]


def build(engine):
    """Builds the engine unless one is there that is newer than the model and the program."""
    if engine.exists() and engine.stat().st_mtime > max(MODEL.stat().st_mtime, camshaft_cli.BINARY.stat().st_mtime):
        print(f"engine    {engine.relative_to(ROOT)} (built and verified before)")
        return
    print(
        f"build     {MODEL.name} -> {engine.relative_to(ROOT)}, verified against the reference evaluation:", flush=True
    )
    start = time.perf_counter()
    done = camshaft_cli.camshaft("build", MODEL, "-o", engine)
    for line in (done.stdout + done.stderr).splitlines():
        print(f"          {line}")
    print(f"          {time.perf_counter() - start:.1f} s, {engine.stat().st_size / 1e6:.1f} MB")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    engine, inputs = FOLDER / "recogniser.engine", FOLDER / "input.npz"
    build(engine)

    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "sample.png"
    if len(sys.argv) == 1:
        ocr.render(SAMPLE).save(path)
    batch = ocr.preprocess(ocr.find_lines(Image.open(path)))
    print(f"picture   {os.path.relpath(path)}: {len(batch)} lines, input {'x'.join(map(str, batch.shape))}")

    (probabilities,) = camshaft_cli.run(engine, {"x": batch}).values()
    for text in ocr.decode(probabilities, ocr.alphabet(MODEL)):
        print(f"text      {text}")

    (expected,) = rivals.onnxruntime_session(MODEL, threads=1).run(None, {"x": batch})
    print(
        f"check     worst difference from ONNX Runtime: {camshaft_cli.worst_error(probabilities, expected):.1e} of the output's scale"
    )

    np.savez(inputs, x=batch[:1])
    for threads in sorted({1, min(2, os.cpu_count())}):
        workers = {
            name: rounds.start(name, file, inputs, threads, duration=0.3, warmup=0.05)
            for name, file in (("camshaft", engine), ("onnxruntime", MODEL))
        }
        results = rounds.interleave(workers, 5)
        for worker in workers.values():
            worker.close()
        fastest = rounds.summarize(results)
        ratio = rounds.speedup(*results.values())["ratio"]
        print(
            f"speed     one line, {threads} thread{'s' * (threads > 1)}: Camshaft {fastest['camshaft']['ms']:.2f} ms, "
            f"ONNX Runtime {fastest['onnxruntime']['ms']:.2f} ms (fastest of alternating rounds; {ratio:.2f} times as fast)"
        )


if __name__ == "__main__":
    main()
