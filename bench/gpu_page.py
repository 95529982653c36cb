"""docs/performance_gpu.md from compare_gpu.json, {model: {batch: what gpu_measure.measure() returns}}. Needs no PyTorch."""

import tables
from gpu_models import RIVALS

INTRODUCTION = (
    "Made by `scripts/report.py` from what `bench/compare_gpu` measured; do not edit. Inputs and outputs are on the device, all "
    "modes take turns in one process and one stream, and a time is the least of all rounds; a round is the mean of the inferences that "
    "are enqueued one after another in 30 ms. PyTorch runs in fp16, images channels-last, and what torch.compile makes has frozen "
    "weights; Camshaft's engines are built from the same modules with `--device cuda --fp16`, verified as by default, and take images "
    "in fp32. × says how many times faster Camshaft is than the best mode of "
    "PyTorch that was measured. The bound is what the contractions need at the least, each the larger of its arithmetic at the rate "
    "of large products and its bytes at the rate of copies, measured on the same device. An error is the largest difference from "
    "PyTorch in fp32, as a part of an output's scale."
)


PAIRS = (
    "Pairs are Camshaft / the best mode of PyTorch. Host: what putting one inference into the stream takes. Set-up: building the "
    "engine, compiling or capturing."
)


def best(figures):
    times = [entry["ms"] for mode, entry in figures["modes"].items() if mode in RIVALS and "ms" in entry]
    return min(times, default=None)


def ratio(figures):
    rival = best(figures)
    return rival / figures["modes"]["camshaft"]["ms"] if rival else None


def batches(results):
    return sorted({int(batch) for figures in results.values() for batch in figures})


def summary(results):
    rows = []
    for batch in batches(results):
        found = {name: ratio(figures[str(batch)]) for name, figures in results.items() if str(batch) in figures}
        found = {name: value for name, value in found.items() if value}
        if found:
            slowest = min(found, key=found.get)
            mean = tables.geomean(found.values())
            rows.append((str(batch), str(len(found)), f"{mean:.2f}", f"{slowest} {found[slowest]:.2f}"))
    yield from tables.markdown(("batch", "models", "geomean ×", "slowest"), rows)


def cell(figures, mode):
    entry = figures["modes"].get(mode, {})
    return tables.milliseconds(entry["ms"]) if "ms" in entry else "–"


def table(results, batch):
    rows = []
    for name, by_batch in results.items():
        if str(batch) not in by_batch:
            continue
        figures = by_batch[str(batch)]
        ours, times = figures["modes"]["camshaft"], ratio(figures)
        rivals = [entry for mode, entry in figures["modes"].items() if mode in RIVALS and "ms" in entry]
        theirs = min(rivals, key=lambda entry: entry["ms"], default={})
        rows.append(
            (
                name,
                tables.milliseconds(ours["ms"]),
                tables.milliseconds(ours["median_ms"]),
                *(cell(figures, mode) for mode in RIVALS),
                f"{times:.2f}" if times else "–",
                f"{batch / ours['ms'] * 1e3:.0f}",
                tables.milliseconds(figures["bound"]["ms"]),
                f"{ours.get('kernels') or '–'} / {theirs.get('kernels') or '–'}",
                f"{ours['host_us']:.0f}" if "host_us" in ours else "–",
                f"{ours['error']:.0e} / {theirs['error']:.0e}" if theirs else f"{ours['error']:.0e}",
                f"{ours['setup_s']:.0f} / {theirs['setup_s']:.0f}" if theirs else f"{ours['setup_s']:.0f}",
            )
        )
    header = (
        "ms",
        "Camshaft",
        "median",
        *RIVALS.values(),
        "×",
        "a second",
        "bound",
        "kernels",
        "host µs",
        "error",
        "set-up s",
    )
    yield from tables.markdown(header, rows)


def skipped(results):
    for name, by_batch in results.items():
        for batch, figures in by_batch.items():
            for mode, entry in figures["modes"].items():
                if "skipped" in entry:
                    yield f"- {name}, batch {batch}, {RIVALS.get(mode, mode)}: {entry['skipped']}"


def devices(results):
    seen = {}
    for by_batch in results.values():
        for figures in by_batch.values():
            limits = figures["limits"]
            seen[limits["name"], limits["torch"], limits["commit"], figures["date"]] = limits
    for (name, torch, commit, date), limits in seen.items():
        yield (
            f"- {name}: {limits['tflops']:.0f} TFLOP/s in fp16 products, {limits['gbs']:.0f} GB/s in copies; PyTorch {torch}; "
            f"Camshaft {commit}, {date}"
        )


def lines(results):
    result = ["# Performance on a GPU", "", INTRODUCTION, "", *devices(results), "", *summary(results)]
    for batch in batches(results):
        result += ["", f"## Batch {batch}", "", *table(results, batch)]
    left_out = list(skipped(results))
    if left_out:
        result += ["", "## Left out", "", *left_out]
    return [*result, "", PAIRS]
