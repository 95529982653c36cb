#!/usr/bin/env python3
"""Writes docs/results.md, docs/performance.md and docs/performance_gpu.md from .cache/results/*.json, which the tests,
bench/compare and bench/compare_gpu leave there. A section of results.md for which there are no figures stays as it is."""

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

sys.path[:0] = [str(camshaft_cli.ROOT / folder) for folder in ("tests/models", "tests/mutation", "bench")]
import gpu_page
import mutation_scores
import performance_page
from catalog import EVERY
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
    return [(name, figures[name]) for name in EVERY if name in figures]


def accuracy():
    if not load("accuracy"):
        return
    figures = [
        (name, sizes, max(size["error"] for size in sizes.values()), max(size["spread"] for size in sizes.values()))
        for name, sizes in in_order(load("accuracy"))
    ]
    good = sum(error <= BUDGET for _, _, error, _ in figures)
    yield "## Accuracy"
    yield ""
    yield (
        f"Largest difference from ONNX Runtime as a part of each output's scale; one engine a model, all sizes. {good} of {len(EVERY)} models are within "
        f"{BUDGET:.0e}{'' if len(figures) == len(EVERY) else f', {len(EVERY) - len(figures)} have no figures'}. The last column is how far ONNX Runtime with and without its graph optimisations differs from itself."
    )
    yield ""
    rows = [(name, "; ".join(sizes), f"{error:.1e}", f"{spread:.1e}") for name, sizes, error, spread in figures]
    yield from markdown(("model", "sizes", "worst error", "ONNX Runtime's own"), rows)
    ocr, minilm = load("ocr").get("lines"), load("minilm").get("ranking")
    if ocr:
        yield ""
        yield f"PP-OCRv4 reads {sum(line['written'] == line['read'] for line in ocr)} of {len(ocr)} rendered lines without an error."
    if minilm:
        yield ""
        yield f"MiniLM ranks {minilm['sentences']} sentences in ONNX Runtime's order for {minilm['same']} of {minilm['queries']} queries."


def quantised():
    results = load("quantized")
    if not results:
        return
    yield "## Accuracy of int8"
    yield ""
    yield (
        "Made by `bench/quantized/measure.py`: all are calibrated on the same data, which is not what they are judged on. "
        "In brackets: layers on integers. ONNX Runtime's `quantize_static` and NNCF's `quantize` at their defaults."
    )
    yield ""
    ways = ("fp32", "camshaft", "onnxruntime", "nncf")

    def cell(way):
        if "score" not in way:
            return "failed" if "error" in way else ""
        return f"{way['score']:.4g}" + (f" ({way['layers']})" if way["layers"] else "")

    rows = [
        (name, task["metric"], task["limit"], str(task["samples"]), *(cell(task["ways"].get(way, {})) for way in ways))
        for name, task in results.items()
    ]
    yield from markdown(("task", "score", "limit", "samples", *ways), rows)


def mutants():
    results = load("mutants")
    if not results:
        return
    yield "## Wrong engines that verification rejects"
    yield ""
    yield (
        "Engines with one thing wrong, of the zoo's and the real models, that change an output by more than four times what "
        "rounding does; `tests/mutation/campaign.py` makes and judges them. `emulated` is the emulated GPU, of small models, "
        "`cuda` a real one."
    )
    yield ""
    yield from mutation_scores.tables(results)


def section(title, figures, page):
    """The lines of a section: made of `figures`, or else those of `page`."""
    lines = list(figures)
    if lines:
        return lines
    old = page.splitlines()
    if f"## {title}" not in old:
        return []
    start = old.index(f"## {title}")
    end = next((i for i in range(start + 1, len(old)) if old[i].startswith("## ")), len(old))
    return "\n".join(old[start:end]).rstrip("\n").splitlines()


def results_page(page):
    """The lines of results.md, of which `page` is the text as it was."""
    made = (
        section("Accuracy", accuracy(), page),
        section("Accuracy of int8", quantised(), page),
        section("Wrong engines that verification rejects", mutants(), page),
    )
    return [line for lines in made if lines for line in ("", *lines)]


def write(name, lines):
    path = camshaft_cli.ROOT / "docs" / name
    path.write_text("\n".join(lines) + "\n")
    print(path.relative_to(camshaft_cli.ROOT))


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    note = "Made by `scripts/report.py`; do not edit. `scripts/test.sh --all` makes the figures. How fast it is: [performance.md](performance.md)."
    old = camshaft_cli.ROOT / "docs/results.md"
    sections = results_page(old.read_text() if old.exists() else "")
    write("results.md", ["# Results", "", note, "", *machine("onnxruntime"), *sections])
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
