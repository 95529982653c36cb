#!/usr/bin/env python3
"""Measures Camshaft beside PyTorch on one NVIDIA GPU, interleaved in one process and one stream, inputs and outputs on the
device: fp16 eager (images channels-last), the same in a CUDA graph, torch.compile reduce-overhead and max-autotune.

Each PyTorch module is written as ONNX and built by `camshaft build --device cuda --fp16` for the batch. Results, with every
mode's difference from PyTorch in fp32, go to .cache/results/compare_gpu.json, from which scripts/report.py makes
docs/performance_gpu.md. A mode that fails is left out there, and the table says why.

usage: compare_gpu [MODEL…] [--batch 1,8] [--modes eager,graph]
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("bench", "scripts")]
import camshaft_cli  # noqa: E402

sys.path.insert(0, str(camshaft_cli.BINARY.parent.parent / "python"))
import gpu_bounds  # noqa: E402
import gpu_models  # noqa: E402
import gpu_modes  # noqa: E402
import torch  # noqa: E402
from gpu_modes import LABELS, RIVALS, Refused  # noqa: E402
from options import numbers  # noqa: E402

FP16_BUDGET = 0.02  # of an output's scale; or twice what PyTorch's modes differ from fp32


class Case:
    """A model: its module and its ONNX file."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        start = time.perf_counter()
        self.module = gpu_models.make(name)
        self.model = folder / f"{name}.onnx"
        gpu_models.export(name, self.module, str(self.model))
        self.export_seconds = time.perf_counter() - start

    def build(self, feed, options):
        """The engine for these shapes, and how many seconds building it took."""
        engine = self.folder / "model.engine"
        shapes = [f"{key}:{'x'.join(map(str, array.shape))}" for key, array in feed.items()]
        words = ["--device", "cuda", "--fp16", "--shapes", *shapes, *options]
        start = time.perf_counter()
        camshaft_cli.camshaft("build", self.model, "-o", engine, *words)
        return engine, time.perf_counter() - start


def reference(case, feed):
    """Outputs of PyTorch in fp32, without TF32."""
    module, arrays = gpu_modes.on_gpu(case.name, case.module, feed, torch.float32)
    return [output.contiguous() for output in gpu_modes.as_tuple(module(*arrays))]


def error(got, want):
    """The largest difference as a part of an output's scale, of all outputs."""
    if [g.shape for g in got] != [w.shape for w in want]:
        return float("inf")
    worst = max(((g - w).abs().max() / w.abs().max()).item() for g, w in zip(got, want))
    return worst if worst == worst else float("inf")


def set_up(case, feed, want, arguments):
    """({mode: ready to run}, {mode: what is known of it or why it is left out})"""
    modes, figures = {}, {}
    for mode in ("camshaft", *arguments.modes):
        try:
            if mode == "camshaft":
                engine, seconds = case.build(feed, arguments.build)
                modes[mode] = gpu_modes.Camshaft(engine, feed, [w.shape for w in want])
                figures[mode] = {"setup_s": seconds}
            else:
                modes[mode] = gpu_modes.Torch(mode, case.name, case.module, feed)
                figures[mode] = {"setup_s": modes[mode].setup_seconds}
            figures[mode]["error"] = error(modes[mode].results(), want)
        except Exception as failure:
            modes.pop(mode, None)
            words = str(failure).strip().splitlines() or [type(failure).__name__]
            figures[mode] = {"skipped": words[-1][:300]}
            print(f"{case.name}: {mode} is left out: {words[-1][:300]}", file=sys.stderr, flush=True)
    return modes, figures


def measure(case, batch, arguments, limits):
    """The figures of a model at a batch, as they go into compare_gpu.json."""
    feed = gpu_models.inputs(case.name, batch)
    want = reference(case, feed)
    torch.cuda.empty_cache()
    module, arrays = gpu_modes.on_gpu(case.name, case.module, feed)
    bound = gpu_bounds.bound(module, arrays, limits)
    del module, arrays
    torch._dynamo.reset()  # what was compiled for another batch would make this one's sizes dynamic
    modes, figures = set_up(case, feed, want, arguments)
    if "camshaft" not in modes:
        raise Refused(figures["camshaft"]["skipped"])
    order = random.Random(arguments.seed)
    rounds = gpu_modes.Rounds(modes, arguments.round_ms)
    for _ in range(arguments.rounds):
        rounds.round(order.sample(sorted(modes), len(modes)))
    for name, times in rounds.times.items():
        figures[name] |= {
            "ms": min(times),
            "median_ms": statistics.median(times),
            "high_ms": statistics.quantiles(times, n=10)[-1] if len(times) > 1 else times[0],
            "host_us": gpu_modes.host_microseconds(modes[name].run),
            "kernels": gpu_modes.count_kernels(modes[name].run) if arguments.kernels else None,
        }
    return {"modes": figures, "bound": bound, "limits": limits, "rounds": arguments.rounds, "date": time.strftime("%F")}


def best(figures):
    """The fastest mode of PyTorch: (name, ms); None where none ran."""
    times = [(entry["ms"], name) for name, entry in figures["modes"].items() if name in RIVALS and "ms" in entry]
    return min(times)[::-1] if times else None


def line(name, batch, figures):
    model, ours = gpu_models.MODELS[name], figures["modes"]["camshaft"]
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
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(gpu_models.MODELS)} (default: all)")
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
    parser.add_argument("--build", type=str.split, default=["--no-verify"], metavar="OPTIONS",
                        help="further options of camshaft build, in one word (default: --no-verify: outputs are compared here)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the order within a round (default: 0)")
    parser.add_argument("--results", type=Path, default=camshaft_cli.CACHE / "results/compare_gpu.json")
    arguments = parser.parse_args(words)
    for kind, names, known in (("model", arguments.models, gpu_models.MODELS), ("mode", arguments.modes, RIVALS)):
        for name in names:
            if name not in known:
                parser.error(f"no such {kind}: {name}; there are {', '.join(known)}")
    if arguments.rounds < 1 or arguments.round_ms <= 0:
        parser.error("--rounds must be 1 or more, --round-ms more than 0")
    return arguments


def main():
    arguments = parse(sys.argv[1:])
    if not torch.cuda.is_available():
        sys.exit("compare_gpu: PyTorch sees no GPU")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    failed = []
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        limits = gpu_bounds.limits() | {"torch": torch.__version__, "commit": commit}
        print("{name}: {tflops:.0f} TFLOP/s in fp16, {gbs:.0f} GB/s; PyTorch {torch}".format(**limits), flush=True)
        for name in arguments.models or gpu_models.MODELS:
            with tempfile.TemporaryDirectory(prefix="camshaft-compare-gpu-") as folder:
                try:
                    case = Case(name, Path(folder))
                except Exception as failure:  # one model that fails must not cost the figures of the others
                    print(f"{name}: {failure}", file=sys.stderr, flush=True)
                    failed.append(name)
                    continue
                for batch in arguments.batch:
                    try:
                        figures = measure(case, batch, arguments, limits)
                        keep(arguments.results, name, batch, figures)
                        print(line(name, batch, figures), flush=True)
                    except (RuntimeError, Refused) as failure:
                        print(f"{name} batch {batch}: {failure}", file=sys.stderr, flush=True)
                        failed.append(f"{name} batch {batch}")
                    torch.cuda.empty_cache()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
