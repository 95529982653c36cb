#!/usr/bin/env python3
"""int8 and fp8 beside fp16 on a GPU: engines of one model, run in turn. Needs PyTorch, as gpu_networks.py does.

  bench/gpu_eight_bits.py [resnet50:128 bert:32 vit_b_16:32] [--rounds 9] [--modes fp16 int8 fp8] [--output FILE.json]

Ranges are those of a few random inputs, and weights are random: what an engine takes does not depend on them. Engines
are built without verification, unless --verify says otherwise, and each round measures every one of them once, in
another order; what counts is the least of the rounds. Inputs and outputs stay on the device."""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import camshaft_cli
import gpu_networks
import numpy as np

OPTIONS = {"fp16": [], "int8": ["--int8"], "fp8": ["--fp8"], "best": ["--int8", "--fp8"]}


class Bench:
    """An engine that is loaded, and measured on request."""

    def __init__(self, engine, shapes, seconds):
        command = [camshaft_cli.BINARY, "bench", engine, "--shapes", *shapes, "--no-data-transfers", "--json"]
        command += ["--on-request", "--duration", str(seconds), "--warmup", "0.2"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()  # it is loaded

    def milliseconds(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["latency_ms"]["median"]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def build(model, folder, mode, shapes, arguments):
    engine = folder / f"{mode}.engine"
    words = ["--device", "cuda", "--fp16", "--shapes", *shapes, *OPTIONS[mode], "--json"]
    if mode != "fp16":
        words += ["--calibration", folder / "ranges"]
    if not arguments.verify:
        words += ["--no-verify"]
    words += ["--timing-cache", folder / "times", "--tuning-seconds", str(arguments.tuning_seconds)]
    report = json.loads(camshaft_cli.camshaft("build", model, "-o", engine, *words).stdout)
    return engine, report


def measure(name, batch, folder, arguments):
    model = (arguments.models_in or folder) / f"{name}.onnx"
    if not model.exists():
        gpu_networks.export(name, gpu_networks.make(name), str(model))
    samples = {key: value.numpy() for key, value in gpu_networks.inputs(name, 8).items()}
    np.savez(folder / "data.npz", **samples)
    camshaft_cli.camshaft(
        "calibrate", model, "--data", folder / "data.npz", "--device", "cuda", "-o", folder / "ranges"
    )
    shapes = [f"{key}:{'x'.join(map(str, (batch, *value.shape[1:])))}" for key, value in samples.items()]
    engines, facts = {}, {}
    for mode in arguments.modes:
        engine, report = build(model, folder, mode, shapes, arguments)
        if arguments.explain_in:
            text = camshaft_cli.camshaft("inspect", engine, "--explain").stdout
            (arguments.explain_in / f"{name}_{batch}_{mode}.txt").write_text(text)
        engines[mode] = Bench(engine, shapes, arguments.seconds)
        placed = report.get("quantized_layers", [])
        facts[mode] = {"quantized": sum(layer["quantized"] for layer in placed), "layers": len(placed)}
        facts[mode]["errors"] = [output["relative_error"] for output in report.get("verification", [])]
    times = {mode: [] for mode in engines}
    for _ in range(arguments.rounds):
        for mode in random.sample(list(engines), len(engines)):
            times[mode].append(engines[mode].milliseconds())
    for engine in engines.values():
        engine.end()
    least = {mode: min(values) for mode, values in times.items()}
    return {"model": name, "batch": batch, "milliseconds": least, "rounds": times, **{"facts": facts}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet50:128", "bert:32", "vit_b_16:32"], metavar="MODEL:BATCH")
    parser.add_argument("--modes", nargs="+", default=["fp16", "int8", "fp8"], choices=OPTIONS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a measurement")
    parser.add_argument("--tuning-seconds", type=float, default=60)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--models-in", type=pathlib.Path, help="a folder that keeps what was exported")
    parser.add_argument("--explain-in", type=pathlib.Path, help="a folder for what was tried for each layer")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    results = []
    for text in arguments.models:
        name, batch = text.split(":")
        with tempfile.TemporaryDirectory() as folder:
            result = measure(name, int(batch), pathlib.Path(folder), arguments)
        results.append(result)
        fp16 = result["milliseconds"].get("fp16")
        for mode, time in result["milliseconds"].items():
            gain = f", {fp16 / time:.3f} times fp16" if fp16 else ""
            fact = result["facts"][mode]
            print(
                f"{name} at {batch}, {mode}: {time:.3f} ms{gain}; {fact['quantized']} of {fact['layers']} layers",
                flush=True,
            )
        if arguments.output:
            arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
