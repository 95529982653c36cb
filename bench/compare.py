#!/usr/bin/env python3
"""Measures Camshaft beside ONNX Runtime and OpenVINO, interleaved in one run: latency, accuracy, memory, cold start; all in
f32 and, with --defaults, as each is by itself, too.

Every engine gets the same file, with the input shapes fixed, and runs in a process of its own; short rounds alternate
between them. Results go to .cache/results/compare.json, from which scripts/report.py makes docs/performance.md.
An engine that is not installed or cannot run a model is left out there, and the table says why. Exits with 1 where
Camshaft cannot run one, or its results are WRONG: outside the error budget, and beyond four times what rounding alone
does to the model.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("bench", "scripts", "tests/models")]

import bounds
import camshaft_cli
import fixed_model
import numpy as np
import rivals
import rounding
import rounds
import tables
from catalog import BENCH
from options import numbers
from rounds import LABELS, OTHER_PRECISIONS, Refused

RIVALS = tuple(LABELS)[1:]


class Case:
    """A model at one batch size in a folder of its own: the fixed model, its inputs, the engine that Camshaft builds for a
    number of threads."""

    def __init__(self, model, batch, folder):
        self.model, self.engine, self.inputs = folder / "model.onnx", folder / "model.engine", folder / "in.npz"
        self.folder, self.bf16_engine = folder, folder / "model_bf16.engine"
        feed = model.feed(batch)
        self.shapes = {name: list(np.shape(array)) for name, array in feed.items()}
        np.savez(self.inputs, **feed)
        # A model with open shapes may refuse inputs that a build makes up, and is verified on those that are measured.
        self.own_inputs = ["--inputs", self.inputs] if model.as_is else []
        if model.as_is:
            self.model = model.path()
        else:
            fixed_model.write_fixed(model.path(), feed, self.model)
        self.output_names = fixed_model.output_names(self.model)

    def build(self, threads, options):
        """As users do: verified, which is what allows Winograd, and tuned for that number of threads."""
        start = time.perf_counter()
        self.build_engine(self.engine, threads, options)
        self.build_seconds = time.perf_counter() - start
        self.memory = json.loads(camshaft_cli.camshaft("inspect", self.engine, "--json").stdout)["memory"]

    def build_engine(self, path, threads, options):
        camshaft_cli.camshaft("build", self.model, "-o", path, "--threads", threads, *self.own_inputs, *options)

    def build_bf16(self, threads, options):
        """Throws Refused where `camshaft build --bf16` fails."""
        try:
            self.build_engine(self.bf16_engine, threads, ["--bf16", *options])
        except RuntimeError as failure:
            raise Refused(str(failure).strip().splitlines()[-1][:300]) from failure

    def file(self, name):
        return {"camshaft": self.engine, "camshaft_bf16": self.bf16_engine}.get(name, self.model)

    def start(self, name, threads, duration=0, warmup=0, outputs=None):
        return rounds.start(name, self.file(name), self.inputs, threads, duration, warmup, outputs)

    def profile(self, threads, count, seconds):
        """Layers with their cost and the least of their average times over `count` runs of the tool."""
        words = ["--inputs", self.inputs, "--threads", threads, "--duration", seconds, "--warmup", 0.05]
        done = [camshaft_cli.camshaft("bench", self.engine, *words, "--profile", "--json") for _ in range(count)]
        return bounds.fastest([json.loads(one.stdout)["layers"] for one in done])

    def outputs(self, name):
        return self.folder / f"{name}.npz"

    def answer(self, name):
        """{output: array} of an engine: Camshaft's by running it, a rival's as its worker has left it."""
        if rounds.package(name) == "camshaft":
            words = ["--inputs", self.inputs, "--outputs", self.outputs(name), "--quiet"]
            camshaft_cli.camshaft("run", self.file(name), *words)
        with np.load(self.outputs(name)) as arrays:
            found = {key: arrays[key] for key in arrays.files}
        if rounds.package(name) == "camshaft":
            return found
        return {output: found[f"arr_{index}"] for index, output in enumerate(self.output_names)}


def start_all(case, threads, arguments):
    """({name: Worker}, {name: why it is left out})"""
    workers, refused = {}, {}
    for name in ("camshaft", *arguments.rivals, *arguments.other_precisions):
        try:
            if name == "camshaft_bf16":
                case.build_bf16(threads, arguments.build)
            workers[name] = case.start(name, threads, arguments.duration, arguments.warmup, case.outputs(name))
        except Refused as error:
            refused[name] = str(error)
    return workers, refused


def cold_starts(case, names, threads, count):
    """{name: [ms]} from a file to the first answer, each time in a fresh process, alternating. What starting the process
    and importing Python's modules takes does not count."""
    times = {name: [] for name in names}
    for _ in range(count):
        for name in names:
            worker = case.start(name, threads)
            worker.close()
            times[name].append(worker.start["load_ms"] + worker.start["first_run_ms"])
    return times


def worst_of(got, want):
    """The worst_error() of {output: array}; an output that is missing is an infinite error."""
    return max((camshaft_cli.worst_error(got[key], want[key]) if key in got else math.inf for key in want), default=0.0)


def rounding_spread(case, want, error, threads):
    """What rounding alone does to the case's model, see rounding.spread()."""
    with np.load(case.inputs) as arrays:
        feed = {key: arrays[key] for key in arrays.files}
    optimised, plain = (rivals.onnxruntime_session(case.model, threads, graph) for graph in (True, False))
    names = [output.name for output in optimised.get_outputs()]

    def distance(answers):
        return worst_of(dict(zip(names, answers)), want)

    return rounding.spread(case.model, feed, error, optimised, plain, distance, case.folder)


def errors(case, names, threads):
    """{name: worst difference from ONNX Runtime, as a part of each output's scale}; where Camshaft's is outside the
    budget, as ONNX Runtime's what rounding alone does to the model."""
    if "onnxruntime" not in names:
        return {}
    answers = {name: case.answer(name) for name in names}
    want = answers["onnxruntime"]
    found = {name: worst_of(got, want) for name, got in answers.items() if name != "onnxruntime"}
    error = found.get("camshaft", 0.0)
    if error > rounding.BUDGET:
        found["onnxruntime"] = rounding_spread(case, want, error, threads)
    return found


def measure(case, threads, arguments):
    """The figures of one case at one number of threads, as they go into compare.json."""
    workers, refused = start_all(case, threads, arguments)
    try:
        if "camshaft" not in workers:
            raise RuntimeError(refused["camshaft"])
        results = rounds.interleave(workers, arguments.rounds, arguments.seed)
    finally:
        for worker in workers.values():
            worker.close()
    figures = rounds.summarize(results)
    for name, worker in workers.items():
        if "precision" in worker.start:
            figures[name]["precision"] = worker.start["precision"]
    in_f32 = [name for name in figures if name in LABELS]
    for name, times in cold_starts(case, in_f32, threads, arguments.cold_rounds).items():
        if times:
            figures[name]["cold_ms"] = min(times)
    for name, error in errors(case, list(figures), threads).items():
        figures[name]["error"] = error
    for name, reason in refused.items():
        figures[name] = {"skipped": reason}
    layers = bounds.bounded(case.profile(threads, 3, arguments.duration), arguments.limits[threads])
    flops = sum(layer.get("flops", 0) for layer in layers)
    figures["camshaft"]["flops"] = flops
    figures["camshaft"]["of_peak"] = flops / figures["camshaft"]["ms"] * 1e-6 / arguments.limits[threads]["gflops"]
    figures["camshaft"] |= {"arena_bytes": case.memory["arena_bytes"], "arena_bound": case.memory["arena_lower_bound"]}
    return {
        "engines": figures,
        "speedup": {name: rounds.speedup(results["camshaft"], results[name]) for name in in_f32 if name != "camshaft"},
        "defaults": against_defaults(results),
        "layers": layers,
        "shapes": case.shapes,
        "build_s": case.build_seconds,
        "rounds": arguments.rounds,
        "duration_s": arguments.duration,
        "date": time.strftime("%Y-%m-%d"),
        "commit": arguments.commit,
    }


def against_defaults(results):
    """{Camshaft, by itself or with --bf16: {rival at its defaults: rounds.speedup()}} of what was measured; empty without
    OTHER_PRECISIONS. ONNX Runtime's defaults are f32."""
    if not set(OTHER_PRECISIONS) & set(results):
        return {}
    return {
        ours: {
            theirs: rounds.speedup(results[ours], results[theirs])
            for theirs in ("onnxruntime", "openvino_defaults")
            if theirs in results
        }
        for ours in ("camshaft", "camshaft_bf16")
        if ours in results
    }


def line(name, batch, threads, figures):
    engines = figures["engines"]
    words = [f"{name:24} batch {batch} threads {threads}"]
    for key, label in (LABELS | OTHER_PRECISIONS).items():
        if key in engines:
            words.append(f"{label} {engines[key]['ms']:.2f} ms" if "ms" in engines[key] else f"{label} skipped")
            if key in OTHER_PRECISIONS and "error" in engines[key]:
                words[-1] += f" (error {engines[key]['error']:.1e})"
    for key, value in figures["speedup"].items():
        words.append(f"{value['ratio']:.2f}x [{value['low']:.2f}-{value['high']:.2f}] {LABELS[key]}")
    if "error" in engines["camshaft"]:
        words.append(f"error {engines['camshaft']['error']:.1e}")
    if "error" in engines.get("onnxruntime", {}):
        words.append(f"(rounding alone {engines['onnxruntime']['error']:.1e})")
    if tables.is_wrong(engines):
        words.append("WRONG")
    words.append(f"{engines['camshaft']['of_peak']:.0%} of peak")
    return "  ".join(words)


def print_layers(layers, count):
    for layer in bounds.by_lost_time(layers)[:count]:
        print(f"    {layer['lost_ms']:.3f} ms lost: {bounds.described(layer)}", flush=True)


def machine_limits(threads):
    """{threads: what `camshaft devices --measure` says}, also kept for the report."""
    limits = {}
    for count in threads:
        done = camshaft_cli.camshaft("devices", "--measure", "--threads", count, "--json")
        limits[count] = next(device["limits"] for device in json.loads(done.stdout) if "limits" in device)
        camshaft_cli.record("limits", str(count), limits[count])
        print(
            "limits of {threads} threads: {gflops:.0f} GFLOP/s, {gexps:.1f}e9 exponentials/s, L2 {l2_gbs:.0f}, "
            "L3 {l3_gbs:.0f}, DRAM {dram_gbs:.0f} GB/s".format(**limits[count]),
            flush=True,
        )
    return limits


def other_precisions(chosen):
    """Of OTHER_PRECISIONS what this machine and the rivals that were `chosen` allow."""
    host = json.loads(camshaft_cli.camshaft("devices", "--json").stdout)[0]
    bf16 = ["camshaft_bf16"] if "avx512_bf16" in host["features"] else []
    return bf16 + (["openvino_defaults"] if "openvino" in chosen else [])


def keep(path, name, batch, threads, figures):
    known = json.loads(path.read_text()) if path.exists() else {}
    known.setdefault(name, {}).setdefault(str(batch), {})[str(threads)] = figures
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1))


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="of tests/models/catalog.py's BENCH (default: all)")
    parser.add_argument("--threads", type=numbers, default=[1, 2], metavar="N,…", help="default: 1,2")
    parser.add_argument("--batch", type=numbers, default=[1, 8], metavar="N,…", help="default: 1,8")
    parser.add_argument("--rounds", type=int, default=12, help="of each engine, alternating (default: 12)")
    parser.add_argument("--duration", type=float, default=0.3, help="seconds a round (default: 0.3)")
    parser.add_argument("--warmup", type=float, default=0.05, help="seconds before each (default: 0.05)")
    parser.add_argument("--cold-rounds", type=int, default=3, help="fresh processes of each engine (default: 3)")
    parser.add_argument("--rivals", type=lambda text: text.split(","), default=list(RIVALS), help="default: both")
    parser.add_argument(
        "--defaults",
        action="store_true",
        help="also OpenVINO at its defaults and, where the processor has AVX512_BF16, Camshaft with --bf16",
    )
    parser.add_argument(
        "--build", type=str.split, default=[], metavar="OPTIONS", help="further options of camshaft build, in one word"
    )
    parser.add_argument("--layers", type=int, default=0, help="print so many layers, by time lost (default: none)")
    parser.add_argument("--seed", type=int, default=0, help="of the order within a round (default: 0)")
    parser.add_argument("--results", type=Path, default=camshaft_cli.CACHE / "results/compare.json")
    arguments = parser.parse_args(words)
    for name in arguments.models:
        if name not in BENCH:
            parser.error(f"no such model: {name}; there are {', '.join(BENCH)}")
    for name in arguments.rivals:
        if name not in RIVALS:
            parser.error(f"no such rival: {name}; there are {', '.join(RIVALS)}")
    for name, least in (("rounds", 1), ("cold_rounds", 1), ("layers", 0), ("duration", 0), ("warmup", 0)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name.replace('_', '-')} must be {least} or more")
    return arguments


def main():
    arguments = parse(sys.argv[1:])
    arguments.commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    arguments.limits = machine_limits(arguments.threads)
    arguments.other_precisions = other_precisions(arguments.rivals) if arguments.defaults else []
    failed = []
    for name in arguments.models or BENCH:
        model = BENCH[name]
        for batch in arguments.batch:
            if model.fixed and batch != 1:
                print(f"{name:24} batch {batch}: skipped, the model's shapes are fixed", flush=True)
                continue
            try:
                with tempfile.TemporaryDirectory(prefix="camshaft-compare-") as folder:
                    case = Case(model, batch, Path(folder))
                    for threads in arguments.threads:
                        case.build(threads, arguments.build)
                        figures = measure(case, threads, arguments)
                        keep(arguments.results, name, batch, threads, figures)
                        print(line(name, batch, threads, figures), flush=True)
                        print_layers(figures["layers"], arguments.layers)
                        if tables.is_wrong(figures["engines"]):
                            failed.append(f"{name} (wrong results at batch {batch} with --threads {threads})")
            except (RuntimeError, Refused) as error:  # one model that fails must not cost the figures of the others
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                failed.append(name)
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    chosen = {name: results[name] for name in arguments.models or BENCH if name in results}
    for batch in arguments.batch:
        for threads in arguments.threads:
            if tables.cases(chosen, threads, batch):
                print(tables.summary_line(chosen, threads, batch), flush=True)
                for text in tables.defaults_lines(chosen, threads, batch):
                    print(text, flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
