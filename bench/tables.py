"""Tables and figures from compare.json, {model: {batch: {threads: what compare.measure() returns}}}."""

import math

import bounds
from rounding import BUDGET, SPREADS
from rounds import LABELS, OTHER_PRECISIONS


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def cases(results, threads, batch):
    """[(model, figures)] of one configuration, in the results' order."""
    key = (str(batch), str(threads))
    return [
        (name, batches[key[0]][key[1]])
        for name, batches in results.items()
        if key[0] in batches and key[1] in batches[key[0]]
    ]


def against_better(figures):
    """How many times faster Camshaft is than the fastest of the others; None without others."""
    return min((value["ratio"] for value in figures["speedup"].values()), default=None)


def at_most(figures):
    """{rival: how many times faster than it Camshaft would be if no layer took longer than its bound}; empty without layers."""
    layers, engines = figures.get("layers"), figures["engines"]
    if not layers:
        return {}
    least = min(engines["camshaft"]["ms"], bounds.least_ms(layers))
    return {rival: engines[rival]["ms"] / least for rival in figures["speedup"]}


def markdown(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|" + "|".join(" --- " if index == 0 else " ---: " for index in range(len(header))) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def milliseconds(value):
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def configuration(threads, batch):
    return f"{threads} thread{'s' if threads > 1 else ''}, batch {batch}"


def time_of(figures, name):
    engine = figures["engines"].get(name, {})
    return milliseconds(engine["ms"]) if "ms" in engine else "–"


def speedup_of(speedups, name):
    """A cell of {name: rounds.speedup()}."""
    value = speedups.get(name)
    return f"{value['ratio']:.2f} [{value['low']:.2f}–{value['high']:.2f}]" if value else "–"


def error_of(engines):
    """Camshaft's error; outside the budget in bold, beside what rounding alone does."""
    error, own = (engines.get(name, {}).get("error") for name in ("camshaft", "onnxruntime"))
    if error is None:
        return "–"
    if error <= BUDGET:
        return f"{error:.0e}"
    return f"**{error:.0e}**" + ("" if own is None else f" ({own:.0e})")


def is_wrong(engines):
    """Whether Camshaft's error is outside the budget, and beyond what rounding alone does to the model."""
    error, own = (engines.get(name, {}).get("error", 0.0) for name in ("camshaft", "onnxruntime"))
    return not error <= max(BUDGET, SPREADS * own)


def latency_table(results, threads, batch):
    """Lines of Markdown: a row for each model; how many times faster Camshaft is, above 1 is faster."""
    rows = []
    for name, figures in cases(results, threads, batch):
        ours = figures["engines"]["camshaft"]
        better = against_better(figures)
        rows.append(
            (
                name,
                *(time_of(figures, engine) for engine in LABELS),
                *(speedup_of(figures["speedup"], engine) for engine in list(LABELS)[1:]),
                "–" if better is None else f"**{better:.2f}**" if better < 1 else f"{better:.2f}",
                f"{ours['of_peak']:.0%}" if "of_peak" in ours else "–",
                error_of(figures["engines"]),
            )
        )
    rivals = list(LABELS.values())[1:]
    header = ("model", *(f"{label} ms" for label in LABELS.values()), *(f"× {label}" for label in rivals))
    yield from markdown((*header, "× the better", "of peak", "error"), rows)


def summary(results, threads, batch):
    """{rival: geomean of the speedups on what it runs, "better": geomean against the faster rival on what all of them run,
    "slowest": [(model, its speedup against the faster rival)], "models": count, "counts": {rival or "better": models}}"""
    chosen, rivals = cases(results, threads, batch), list(LABELS)[1:]
    worst = sorted((against_better(figures), name) for name, figures in chosen if figures["speedup"])
    ratios = {rival: [f["speedup"][rival]["ratio"] for _, f in chosen if rival in f["speedup"]] for rival in rivals}
    ratios["better"] = [against_better(f) for _, f in chosen if all(rival in f["speedup"] for rival in rivals)]
    return {
        "models": len(chosen),
        "slowest": [(name, ratio) for ratio, name in worst],
        "counts": {key: len(values) for key, values in ratios.items()},
        **{key: geomean(values) for key, values in ratios.items()},
    }


def mean_text(figures, key):
    """A geomean of summary() with the number of models that it is of."""
    count = figures["counts"][key]
    return f"{figures[key]:.2f} ({count})" if count else "–"


def summary_line(results, threads, batch, slowest=6):
    figures = summary(results, threads, batch)
    words = [
        f"{figures[rival]:.2f}× {LABELS[rival]} ({figures['counts'][rival]})"
        for rival in list(LABELS)[1:]
        if not math.isnan(figures[rival])
    ]
    last = ", ".join(f"{name} {ratio:.2f}" for name, ratio in figures["slowest"][:slowest])
    if figures["counts"]["better"]:
        words.append(f"{figures['better']:.2f}× the better of them where all run ({figures['counts']['better']})")
    return (
        f"{configuration(threads, batch)}, {figures['models']} models, geomean: {', '.join(words)}; "
        f"slowest against the better: {last}"
    )


DEFAULT_RIVALS = {"onnxruntime": LABELS["onnxruntime"], "openvino_defaults": LABELS["openvino"]}
# [(Camshaft by itself or otherwise, rival)]: the pairs of a table of defaults.
DEFAULT_PAIRS = [("camshaft", rival) for rival in DEFAULT_RIVALS] + [("camshaft_bf16", "openvino_defaults")]


def pair_label(ours, theirs):
    return f"{'' if ours == 'camshaft' else '--bf16 '}× {DEFAULT_RIVALS[theirs]}"


def with_precision(figures, name):
    """The time of an engine, and what it computed in."""
    precision = figures["engines"].get(name, {}).get("precision")
    return time_of(figures, name) + (f" ({precision})" if precision else "")


def own_error(figures, name):
    error = figures["engines"].get(name, {}).get("error")
    return "–" if error is None else f"{error:.0e}"


def at_defaults(results, threads, batch):
    """The cases() in which defaults were measured."""
    return [(name, figures) for name, figures in cases(results, threads, batch) if figures.get("defaults")]


def defaults_table(results, threads, batch):
    """Lines of Markdown: every engine as it is by itself, and Camshaft with --bf16; errors are against ONNX Runtime."""
    rows = []
    for name, figures in at_defaults(results, threads, batch):
        rows.append(
            (
                name,
                *(time_of(figures, engine) for engine in ("camshaft", "camshaft_bf16", "onnxruntime")),
                with_precision(figures, "openvino_defaults"),
                *(speedup_of(figures["defaults"].get(ours, {}), theirs) for ours, theirs in DEFAULT_PAIRS),
                error_of(figures["engines"]),
                *(own_error(figures, engine) for engine in OTHER_PRECISIONS),
            )
        )
    header = (
        "model",
        "Camshaft ms",
        "--bf16 ms",
        "ONNX Runtime ms",
        "OpenVINO ms",
        *(pair_label(*pair) for pair in DEFAULT_PAIRS),
        "error",
        "--bf16 error",
        "OpenVINO error",
    )
    yield from markdown(header, rows)


def defaults_means(results, threads, batch):
    """{(ours, theirs): (geomean of the speedups, number of models)} of DEFAULT_PAIRS; pairs without figures are left out."""
    chosen = at_defaults(results, threads, batch)
    means = {}
    for ours, theirs in DEFAULT_PAIRS:
        ratios = [f["defaults"][ours][theirs]["ratio"] for _, f in chosen if theirs in f["defaults"].get(ours, {})]
        if ratios:
            means[ours, theirs] = geomean(ratios), len(ratios)
    return means


def defaults_lines(results, threads, batch):
    """One line on the defaults of a configuration, where they were measured."""
    means = defaults_means(results, threads, batch)
    if means:
        words = [f"{pair_label(*pair)} {mean:.2f} ({count})" for pair, (mean, count) in means.items()]
        yield f"{configuration(threads, batch)}, everybody's defaults, geomean: {', '.join(words)}"
