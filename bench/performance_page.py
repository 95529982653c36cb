"""docs/performance.md from compare.json: summary, bars, tables."""

import bounds
import plots
import tables
from rounds import LABELS, OTHER_PRECISIONS

INTRODUCTION = (
    "Made by `scripts/report.py` from what `bench/compare` measured; do not edit. All engines get the same file with its input "
    "shapes fixed, run in processes of their own, and alternate in short rounds; a time is the fastest run of all rounds, and × "
    "says how many times faster Camshaft is by those (above 1: faster), with the 10th and 90th percentile of the rounds' own "
    "ratios in brackets. f32 everywhere, but for the tables of everybody's defaults. ONNX Runtime at its defaults; OpenVINO with "
    "the latency hint, f32, its threads not pinned; in all three the number of threads is fixed. No run copies inputs or "
    "outputs: Camshaft and OpenVINO are called through their C interfaces, ONNX Runtime through its Python package with both bound. "
    "Python takes 0.3 µs of each of OpenVINO's runs and 0.6 of ONNX Runtime's, which are not subtracted; what an engine itself takes "
    "before its first kernel counts for all three. The error is Camshaft's largest difference from ONNX Runtime as a part "
    "of an output's scale, in the same run. Outside the budget it is bold, with what rounding alone does to the model behind it: how "
    "far ONNX Runtime is from itself without its graph optimisations or with inputs changed in the last bit, or, where that does "
    "not account for it, how far noise at each operator moves a reference in f64 (see "
    "[results.md](results.md)). Geomeans are of the models that the rival runs, against the better of those that all rivals run; "
    "their number is in brackets."
)

PEAK = (
    "1 thread, batch 1. GFLOP: of the optimised graph, by the direct algorithms (Winograd does with less, and may pass the peak). "
    "A layer's bound is the larger of its arithmetic at the peak, its exponentials (of softmax, GELU, sigmoid, …) behind it, and its "
    "bytes at the speed of the memory that holds them: constants "
    "at that of the level that all of the model's constants fit in, activations at that of the level that the layer's fit in. "
    "Profiled times include reading the clock at each layer. The last but one column is how many times faster than the better of "
    "the others Camshaft would be if no layer took longer than its bound: the most that is left to gain without other algorithms."
)


DEFAULTS = (
    "What each engine does by itself on this machine, measured in the same rounds as above (`bench/compare --defaults`): only the "
    "number of threads is given. OpenVINO then chooses its precision (in brackets behind its time) and pins its threads, which the "
    "others do not; ONNX Runtime and Camshaft compute in f32. Camshaft with `--bf16`, where the processor has AVX512_BF16, is what "
    "compares with OpenVINO in bf16. Errors are the largest differences from ONNX Runtime as a part of an output's scale."
)


def configurations(results):
    """[(batch, threads)] that have figures."""
    return sorted({(int(b), int(t)) for batches in results.values() for b, threads in batches.items() for t in threads})


def summary(results):
    rows = []
    for batch, threads in configurations(results):
        figures = tables.summary(results, threads, batch)
        slowest = ", ".join(f"{name} {ratio:.2f}" for name, ratio in figures["slowest"][:3])
        means = [tables.mean_text(figures, key) for key in (*list(LABELS)[1:], "better")]
        rows.append((tables.configuration(threads, batch), str(figures["models"]), *means, slowest))
    header = ("geomean", "models", *(f"× {LABELS[name]}" for name in list(LABELS)[1:]), "× the better", "slowest")
    yield from tables.markdown(header, rows)


def skipped(results):
    """Lines on what could not be run, and why."""
    reasons = {}
    for name, batches in results.items():
        for threads in batches.values():
            for figures in threads.values():
                for engine, entry in figures["engines"].items():
                    if "skipped" in entry:
                        reasons[name, engine] = entry["skipped"]
    for (name, engine), reason in reasons.items():
        yield f"- {(LABELS | OTHER_PRECISIONS)[engine]} does not run {name}: {reason}"


def where_the_time_goes(results, batch=1, threads=1, count=3):
    """Each model's part of the peak, and the layers that lose most time against their bounds."""
    rows = []
    for name, figures in tables.cases(results, threads, batch):
        ours, layers = figures["engines"]["camshaft"], figures.get("layers", [])
        if "of_peak" not in ours:
            continue
        bound = sum(layer["bound_ms"] for layer in layers)
        most = tables.at_most(figures)
        rows.append(
            (
                name,
                f"{ours['flops'] * 1e-9:.2f}",
                f"{ours['of_peak']:.0%}",
                tables.milliseconds(ours["ms"]),
                tables.milliseconds(bound),
                f"{min(most.values()):.2f}" if most else "–",
                "; ".join(bounds.described(layer) for layer in bounds.by_lost_time(layers)[:count]).replace("|", "/"),
            )
        )
    header = ("model", "GFLOP", "of peak", "ms", "bound ms", "× the better at most", "layers that lose most")
    yield from tables.markdown(header, rows)


def most_to_gain(results, batch=1, threads=1):
    """A sentence: the geomeans that the machine would allow."""
    most = [tables.at_most(figures) for _, figures in tables.cases(results, threads, batch)]
    means = {rival: tables.geomean(one[rival] for one in most if rival in one) for rival in list(LABELS)[1:]}
    yield (
        "If no layer of any model took longer than its bound, the geomeans would be "
        + " and ".join(f"{means[rival]:.2f}× {LABELS[rival]}" for rival in means)
        + "."
    )


def limit_lines(limits):
    for count, one in limits.items():
        exponentials = (
            f", {one['gexps']:.1f}e9 exponentials a second" if "gexps" in one else ""
        )  # measured since they count
        yield (
            f"- {count} thread{'s' if int(count) > 1 else ''}: {one['gflops']:.0f} GFLOP/s of f32 fused multiply-adds"
            f"{exponentials}; reading L1 {one['l1_gbs']:.0f}, L2 {one['l2_gbs']:.0f}, L3 {one['l3_gbs']:.0f}, DRAM {one['dram_gbs']:.0f} GB/s"
        )


def start_and_memory(results, batch=1, threads=1):
    """Cold start and memory of every engine."""
    rows = []
    for name, figures in tables.cases(results, threads, batch):
        engines = figures["engines"]
        ours = engines["camshaft"]
        cold = [engines.get(engine, {}).get("cold_ms") for engine in LABELS]
        memory = [engines.get(engine, {}).get("memory_bytes") for engine in LABELS]
        rivals = [value for value in cold[1:] if value]
        rows.append(
            (
                name,
                *(tables.milliseconds(value) if value else "–" for value in cold),
                f"{min(rivals) / cold[0]:.1f}" if rivals and cold[0] else "–",
                *(f"{value / 1e6:.0f}" if value else "–" for value in memory),
                f"{ours['arena_bytes'] / 1e6:.2f}",
                f"{ours['arena_bytes'] / ours['arena_bound']:.3f}" if ours.get("arena_bound") else "–",
            )
        )
    header = (
        "model",
        *(f"{label} ms" for label in LABELS.values()),
        "× the better",
        *(f"{label} MB" for label in LABELS.values()),
        "arena MB",
        "of bound",
    )
    yield from tables.markdown(header, rows)


def defaults(results):
    """The section on everybody's defaults; nothing where none were measured."""
    measured = [one for one in configurations(results) if tables.at_defaults(results, one[1], one[0])]
    if not measured:
        return
    yield from ("", "## Everybody's defaults", "", DEFAULTS, "")
    rows = []
    for batch, threads in measured:
        means = tables.defaults_means(results, threads, batch)
        cells = [f"{means[pair][0]:.2f} ({means[pair][1]})" if pair in means else "–" for pair in tables.DEFAULT_PAIRS]
        rows.append((tables.configuration(threads, batch), *cells))
    yield from tables.markdown(("geomean", *(tables.pair_label(*pair) for pair in tables.DEFAULT_PAIRS)), rows)
    for batch, threads in measured:
        yield from ("", f"### {tables.configuration(threads, batch)}", "")
        yield from tables.defaults_table(results, threads, batch)


def lines(results, limits, machine, folder):
    """Lines of Markdown; the plots go into `folder`. `machine`: lines that say where the figures come from."""
    dates = sorted(
        {f["date"] for batches in results.values() for threads in batches.values() for f in threads.values()}
    )
    commits = {f["commit"] for batches in results.values() for threads in batches.values() for f in threads.values()}
    yield from ("# Performance", "", INTRODUCTION, "", *machine)
    yield f"- Measured: {' to '.join(dict.fromkeys((dates[0], dates[-1])))}, at commit {', '.join(sorted(commits))}"
    yield from ("", "## Summary", "", *summary(results))
    for batch in dict.fromkeys(batch for batch, _ in configurations(results)):
        counts = [threads for b, threads in configurations(results) if b == batch]
        if plots.speedups(results, batch, counts, folder / f"performance-batch{batch}.svg"):
            yield from ("", f"![Speed beside the others, batch {batch}](performance-batch{batch}.svg)")
    for batch, threads in configurations(results):
        yield from ("", f"## {tables.configuration(threads, batch)}", "")
        yield from tables.latency_table(results, threads, batch)
    yield from defaults(results)
    reasons = list(skipped(results))
    if reasons:
        yield from ("", "Left out:", "", *reasons)
    yield from ("", "## Cold start and memory", "")
    yield (
        "1 thread, batch 1. Cold start: from a file (an engine file; the ONNX file for the others) to the first answer, in a "
        "fresh process; starting the process and imports do not count. Memory: how much the process has grown, mapped files "
        "included, from before loading to after the last round. The arena holds the intermediate tensors; the bound is the "
        "most that is alive at any moment."
    )
    yield from ("", *start_and_memory(results))
    rows = list(where_the_time_goes(results))
    if len(rows) > 2:
        yield from ("", "## Where the time goes", "", "The most that this machine was measured to do:", "")
        yield from limit_lines(limits)
        yield from ("", f"{PEAK}", "", *most_to_gain(results), "", *rows)
