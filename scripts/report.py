#!/usr/bin/env python3
"""Writes docs/results.md from .cache/results/*.json, which the tests and scripts/compare.py leave there."""

import json
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version

import camshaft_cli

sys.path.insert(0, str(camshaft_cli.ROOT / "tests/models"))
from catalog import MODELS

RESULTS = camshaft_cli.CACHE / "results"
TARGET = 2.5  # times ONNX Runtime's latency, at most
BUDGET = 1e-4  # of an output's scale


def load(group):
    path = RESULTS / f"{group}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def output(*command):
    return subprocess.run(command, cwd=camshaft_cli.ROOT, capture_output=True, text=True).stdout.strip()


def machine():
    """Lines that say where the figures come from."""
    cpu = open("/proc/cpuinfo").read()
    name = re.search(r"model name\s*: (.*)", cpu)[1]
    flags = set(re.search(r"flags\s*: (.*)", cpu)[1].split())
    vectors = [
        label
        for flag, label in (
            ("avx2", "AVX2"),
            ("avx512f", "AVX-512"),
            ("avx512_vnni", "VNNI"),
            ("avx512_bf16", "BF16"),
            ("amx_tile", "AMX"),
        )
        if flag in flags
    ]
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    commit = output("git", "rev-parse", "--short=12", "HEAD") + (
        " with uncommitted changes" if output("git", "status", "--porcelain", "src", "tools") else ""
    )
    return [
        f"- Machine: {name}, {cpu.count('processor	:')} logical processors, {', '.join(vectors)}",
        f"- System: {system}; {output('g++', '--version').splitlines()[0]}",
        f"- Beside: ONNX Runtime {version('onnxruntime')} (CPU), defaults but for the number of threads",
        f"- Camshaft: commit {commit}; written {time.strftime('%Y-%m-%d')}",
    ]


def in_order(figures):
    """The models of the catalog that have figures, in the catalog's order."""
    return [(name, figures[name]) for name in MODELS if name in figures]


def table(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|" + "|".join(" --- " if index == 0 else " ---: " for index in range(len(header))) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def accuracy():
    figures = [
        (name, sizes, max(size["error"] for size in sizes.values()), max(size["spread"] for size in sizes.values()))
        for name, sizes in in_order(load("accuracy"))
    ]
    good = sum(error <= BUDGET for _, _, error, _ in figures)
    yield "## Accuracy"
    yield ""
    yield (
        f"Largest difference from ONNX Runtime as a part of each output's scale; one engine a model, all sizes. {good} of {len(MODELS)} models are within "
        f"{BUDGET:.0e}{'' if len(figures) == len(MODELS) else f', {len(MODELS) - len(figures)} have no figures'}. The last column is how far ONNX Runtime "
        "with and without its graph optimisations differs from itself: random weights that amplify rounding have no sharper answer than that."
    )
    yield ""
    rows = [(name, "; ".join(sizes), f"{error:.1e}", f"{spread:.1e}") for name, sizes, error, spread in figures]
    yield from table(("model", "sizes", "worst error", "ONNX Runtime's own"), rows)
    ocr, minilm = load("ocr").get("lines"), load("minilm").get("ranking")
    if ocr:
        yield ""
        yield f"PP-OCRv4 reads {sum(line['written'] == line['read'] for line in ocr)} of {len(ocr)} rendered lines without an error."
    if minilm:
        yield ""
        yield f"MiniLM ranks {minilm['sentences']} sentences in ONNX Runtime's order for {minilm['same']} of {minilm['queries']} queries."


def latency():
    figures = in_order(load("latency"))
    yield "## Latency"
    yield ""
    yield (
        f"Batch 1; milliseconds, the fastest run of alternating short rounds. Ratio: Camshaft / ONNX Runtime, below 1 is faster than it; in brackets the "
        f"10th and 90th percentile of the rounds' own ratios. The target for now is {TARGET}."
    )
    yield ""
    rows = []
    for name, entry in figures:
        for threads, result in entry["threads"].items():
            warm = result["latency"]
            mark = "" if warm["ratio"] <= TARGET else " (misses the target)"
            rows.append(
                (
                    name,
                    entry["input"],
                    threads,
                    f"{warm['camshaft_ms']:.2f}",
                    f"{warm['onnxruntime_ms']:.2f}",
                    f"{warm['ratio']:.2f} [{warm['ratio_low']:.2f}–{warm['ratio_high']:.2f}]{mark}",
                )
            )
    yield from table(("model", "input", "threads", "Camshaft", "ONNX Runtime", "ratio"), rows)


def cold_start():
    yield "## From a file to the first answer"
    yield ""
    yield (
        "Each time a fresh process: Camshaft loads its engine file, ONNX Runtime makes a session from the ONNX file; then one run. Milliseconds, the fastest of "
        "alternating processes; starting the process and Python's imports do not count."
    )
    yield ""
    rows = [
        (
            name,
            threads,
            f"{result['cold']['camshaft_ms']:.1f}",
            f"{result['cold']['onnxruntime_ms']:.1f}",
            f"{result['cold']['ratio']:.2f}",
        )
        for name, entry in in_order(load("latency"))
        for threads, result in entry["threads"].items()
    ]
    yield from table(("model", "threads", "Camshaft", "ONNX Runtime", "ratio"), rows)


def engines():
    yield "## Engines"
    yield ""
    yield "Time to build, verification included, and size on disk."
    yield ""
    rows = [
        (name, f"{entry['build_s']:.1f} s", f"{entry['bytes'] / 1e6:.1f} MB", f"{MODELS[name].megabytes} MB")
        for name, entry in in_order(load("engines"))
    ]
    yield from table(("model", "build", "engine", "ONNX file"), rows)


def main():
    lines = [
        "# Results",
        "",
        "Made by `scripts/report.py`; do not edit. `scripts/test.sh --all` and `scripts/compare.py --all` make the figures.",
        "",
        *machine(),
    ]
    for section in (accuracy, latency, cold_start, engines):
        lines += ["", *section()]
    path = camshaft_cli.ROOT / "docs/results.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    print(path.relative_to(camshaft_cli.ROOT))


if __name__ == "__main__":
    main()
