"""Tables and figures from compare.json, {model: {batch: {threads: what compare.measure() returns}}}."""

import math

import bounds
from rounding import BUDGET, SPREADS
from rounds import LABELS


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


def time_of(figures, name):
    engine = figures["engines"].get(name, {})
    return milliseconds(engine["ms"]) if "ms" in engine else "–"


def speedup_of(figures, name):
    value = figures["speedup"].get(name)
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
                *(speedup_of(figures, engine) for engine in list(LABELS)[1:]),
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
        f"{threads} thread{'s' if threads > 1 else ''}, batch {batch}, {figures['models']} models, geomean: {', '.join(words)}; "
        f"slowest against the better: {last}"
    )
