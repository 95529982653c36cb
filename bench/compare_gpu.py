#!/usr/bin/env python3
"""Measures Camshaft beside PyTorch on one NVIDIA GPU, interleaved in one process and one stream, inputs and outputs on the
device: fp16 eager (images channels-last), the same in a CUDA graph, torch.compile reduce-overhead and max-autotune, these
with frozen weights.

Each PyTorch module is written as ONNX and built by `camshaft build --device cuda --fp16` for the batch, verified as builds
are by default. Results, with every mode's difference from PyTorch in fp32, go to .cache/results/compare_gpu.json, from which scripts/report.py makes
docs/performance_gpu.md. A mode that fails is left out there, and the table says why.

usage: compare_gpu [MODEL…] [--batch 1,8] [--modes eager,graph]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("bench", "scripts")]
from gpu_models import LABELS, MODELS, RIVALS
from options import numbers

FP16_BUDGET = 0.02  # of an output's scale; or twice what PyTorch's modes differ from fp32


def best(figures):
    """The fastest mode of PyTorch: (name, ms); None where none ran."""
    times = [(entry["ms"], name) for name, entry in figures["modes"].items() if name in RIVALS and "ms" in entry]
    return min(times)[::-1] if times else None


def line(name, batch, figures):
    model, ours = MODELS[name], figures["modes"]["camshaft"]
    words = [f"{name:16} batch {batch:3}"]
    for mode, entry in figures["modes"].items():
        if "ms" in entry:
            kernels = f", {entry['kernels']} kernels" if entry["kernels"] else ""
            words.append(
                f"{LABELS[mode]} {entry['ms']:.4f} ms (median {entry['median_ms']:.4f}, error {entry['error']:.1e}{kernels})"
            )
    words.append(
        f"{batch / ours['ms'] * 1e3:.0f} {model.unit}/s, bound {figures['bound']['ms']:.4f} ms, host {ours['host_us']:.0f} µs"
    )
    theirs = [entry.get("error", 0) for mode, entry in figures["modes"].items() if mode in RIVALS]
    budget = max(FP16_BUDGET, 2 * max(theirs, default=0))
    if ours["error"] > budget:
        words.append(f"THE ERROR {ours['error']:.1e} IS ABOVE {budget:.1e}")
    if best(figures):
        words.append(f"{best(figures)[1] / ours['ms']:.2f}x {LABELS[best(figures)[0]]}")
    return "  ".join(words)


def keep(path, name, batch, figures):
    """Modes that were not measured now keep their figures of another time."""
    known = json.loads(path.read_text()) if path.exists() else {}
    before = known.setdefault(name, {}).get(str(batch), {}).get("modes", {})
    known[name][str(batch)] = figures | {"modes": before | figures["modes"]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1))


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--batch", type=numbers, default=[1, 8, 32, 128], metavar="N,…", help="default: 1,8,32,128")
    parser.add_argument(
        "--modes",
        type=lambda text: [mode for mode in text.split(",") if mode],
        default=list(RIVALS),
        metavar="MODE,…",
        help=f"of {', '.join(RIVALS)} (default: all; max-autotune compiles for minutes)",
    )
    parser.add_argument("--rounds", type=int, default=15, help="of each mode, alternating (default: 15)")
    parser.add_argument("--round-ms", type=float, default=30, help="of one mode at a time (default: 30)")
    parser.add_argument("--no-kernels", dest="kernels", action="store_false", help="do not count kernels")
    parser.add_argument(
        "--build", type=str.split, default=[], metavar="OPTIONS", help="further options of camshaft build, in one word"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order within a round (default: 0)")
    parser.add_argument("--results", type=Path, default=ROOT / ".cache/results/compare_gpu.json")
    arguments = parser.parse_args(words)
    for kind, names, known in (("model", arguments.models, MODELS), ("mode", arguments.modes, RIVALS)):
        for name in names:
            if name not in known:
                parser.error(f"no such {kind}: {name}; there are {', '.join(known)}")
    if arguments.rounds < 1 or arguments.round_ms <= 0:
        parser.error("--rounds must be 1 or more, --round-ms more than 0")
    return arguments


def measurement():
    """gpu_measure, which needs what a Python for the command line alone does not have."""
    try:
        import gpu_measure
    except ModuleNotFoundError as missing:
        sys.exit(
            f"compare_gpu: {sys.executable} has no {missing.name}: install it there (python3 -m pip install torch torchvision "
            "transformers numpy), or name a Python that has it in CAMSHAFT_PYTHON"
        )
    return gpu_measure


def main():
    arguments = parse(sys.argv[1:])
    gpu_measure = measurement()
    failed = []
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    with gpu_measure.device() as limits:
        limits["commit"] = commit
        print("{name}: {tflops:.0f} TFLOP/s in fp16, {gbs:.0f} GB/s; PyTorch {torch}".format(**limits), flush=True)
        for name in arguments.models or MODELS:
            with tempfile.TemporaryDirectory(prefix="camshaft-compare-gpu-") as folder:
                try:
                    case = gpu_measure.Case(name, Path(folder))
                except Exception as failure:  # one model that fails must not cost the figures of the others
                    print(f"{name}: {failure}", file=sys.stderr, flush=True)
                    failed.append(name)
                    continue
                for batch in arguments.batch:
                    try:
                        figures = gpu_measure.measure(case, batch, arguments, limits)
                        keep(arguments.results, name, batch, figures)
                        print(line(name, batch, figures), flush=True)
                    except (RuntimeError, gpu_measure.Refused) as failure:
                        print(f"{name} batch {batch}: {failure}", file=sys.stderr, flush=True)
                        failed.append(f"{name} batch {batch}")
                    gpu_measure.give_memory_back()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
