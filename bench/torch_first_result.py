#!/usr/bin/env python3
"""The time from torch.compile() to the first result, of the backend camshaft and of inductor (at its defaults, which compile the
fastest, and whose graphs it caches, as it does not with freezing), on one thread: with an empty cache, and in a new process with
the cache that this one has left.

    torch_first_result.py [WORD...] [--batch N] [--freezing] [--cpu-time] [--json FILE]

Models are those of torch_compile.py, by words of their names. Each time is a process of its own, which has imported PyTorch and
made the model before. Ratios are of the clock's time, or with --cpu-time of the processor's, with that of the compilers that are
called: for a machine that others use, too."""

import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/python/pytorch")]

import torch_compile

FEW = "resnet18 mobilenet_v2 efficientnet_b0 vit_b_16 convnext_tiny distilbert".split()


def processor_time():
    return sum(resource.getrusage(who)[i] for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) for i in (0, 1))


def measure(name, batch, backend, folder, freezing, cpu_time):
    import torch

    if backend == "camshaft":
        import camshaft.torch  # noqa: F401  # which registers the backend

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch._inductor.config.freezing = freezing
    module, given = torch_compile.made(name, batch)
    options = {"backend": "camshaft", "options": {"cache_dir": folder}} if backend == "camshaft" else {}
    with torch.no_grad():
        expected = module(*given)
        begun, used = time.perf_counter(), processor_time()
        actual = torch.compile(module, dynamic=False, **options)(*given)
        seconds = processor_time() - used if cpu_time else time.perf_counter() - begun
    error = float((actual - expected).abs().max() / expected.abs().max())
    if error > 1e-3:
        raise SystemExit(f"{name}: {backend} differs by {error:.1e} of the scale")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--freezing", action="store_true", help="of inductor")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, backend, folder = options.one
        print(json.dumps(measure(name, options.batch, backend, folder, options.freezing, options.cpu_time)))
        return
    names = [n for n in torch_compile.MODELS if any(w in n for w in options.words)] if options.words else FEW
    found = {}
    for name in names:
        row = found[name] = {}
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
            environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # and its time is known
            for state in ("cold", "warm"):
                for backend in ("camshaft", "inductor"):
                    command = [sys.executable, __file__, "--one", name, backend, f"{folder}/{backend}"]
                    command += ["--batch", str(options.batch), *(["--freezing"] if options.freezing else [])]
                    command += ["--cpu-time"] if options.cpu_time else []
                    done = subprocess.run(command, capture_output=True, text=True, env=environment)
                    if done.returncode:
                        sys.exit(f"{name}, {backend}: {done.stderr.strip().splitlines()[-1]}")
                    row[f"{backend} {state}"] = json.loads(done.stdout.strip().splitlines()[-1])
        own, theirs = (
            [row[f"{backend} {state}"] for state in ("cold", "warm")] for backend in ("camshaft", "inductor")
        )
        print(
            f"{name:20} camshaft {own[0]:6.2f} s, from the cache {own[1]:5.2f} s; inductor {theirs[0]:6.2f} s and "
            f"{theirs[1]:5.2f} s; cold {own[0] / theirs[0]:.2f}, from the caches {own[1] / theirs[1]:.2f}, "
            f"from the cache beside cold {own[1] / theirs[0]:.2f}",
            flush=True,
        )
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    for what, own, theirs in (
        ("cold", "cold", "cold"),
        ("both from their caches", "warm", "warm"),
        ("from the cache, inductor cold", "warm", "cold"),
    ):
        ratios = [row[f"camshaft {own}"] / row[f"inductor {theirs}"] for row in found.values()]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{what}: geometric mean {mean:.2f}, largest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
