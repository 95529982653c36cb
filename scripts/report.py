#!/usr/bin/env python3
"""Writes docs/results.md, docs/performance.md and docs/performance_gpu.md from .cache/results/*.json, which the tests,
bench/compare and bench/compare_gpu leave there."""

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft_cli

sys.path[:0] = [str(camshaft_cli.ROOT / "tests/models"), str(camshaft_cli.ROOT / "bench")]
import gpu_page
import performance_page
from catalog import MODELS
from rounding import BUDGET
from tables import markdown

RESULTS = camshaft_cli.CACHE / "results"


def load(group):
    path = RESULTS / f"{group}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def output(*command):
    return subprocess.run(command, cwd=camshaft_cli.ROOT, capture_output=True, text=True).stdout.strip()


def installed(package):
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} (not installed)"


def machine(*others):
    """Lines that say where the figures come from; `others` are the packages measured beside."""
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
        f"- Beside: {', '.join(map(installed, others))}",
        f"- Camshaft: commit {commit}; written {time.strftime('%Y-%m-%d')}",
    ]


def in_order(figures):
    """The models of the catalog that have figures, in the catalog's order."""
    return [(name, figures[name]) for name in MODELS if name in figures]


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
        f"{BUDGET:.0e}{'' if len(figures) == len(MODELS) else f', {len(MODELS) - len(figures)} have no figures'}. The last column is what rounding "
        "alone does to the model (see bench/rounding.py): random weights that amplify it have no sharper answer than that."
    )
    yield ""
    rows = [(name, "; ".join(sizes), f"{error:.1e}", f"{spread:.1e}") for name, sizes, error, spread in figures]
    yield from markdown(("model", "sizes", "worst error", "rounding alone"), rows)
    ocr, minilm = load("ocr").get("lines"), load("minilm").get("ranking")
    if ocr:
        yield ""
        yield f"PP-OCRv4 reads {sum(line['written'] == line['read'] for line in ocr)} of {len(ocr)} rendered lines without an error."
    if minilm:
        yield ""
        yield f"MiniLM ranks {minilm['sentences']} sentences in ONNX Runtime's order for {minilm['same']} of {minilm['queries']} queries."


def write(name, lines):
    path = camshaft_cli.ROOT / "docs" / name
    path.write_text("\n".join(lines) + "\n")
    print(path.relative_to(camshaft_cli.ROOT))


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    note = "Made by `scripts/report.py`; do not edit. `scripts/test.sh --all` makes the figures. How fast it is: [performance.md](performance.md)."
    write("results.md", ["# Results", "", note, "", *machine("onnxruntime"), "", *accuracy()])
    results = load("compare")
    if results:
        write(
            "performance.md",
            performance_page.lines(
                results, load("limits"), machine("onnxruntime", "openvino"), camshaft_cli.ROOT / "docs"
            ),
        )
    on_gpu = load("compare_gpu")
    if on_gpu:
        write("performance_gpu.md", gpu_page.lines(on_gpu))


if __name__ == "__main__":
    main()
