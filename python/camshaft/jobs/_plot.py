"""The picture of a benchmark: a column of panels for each study, throughput above and latency below."""

import io
import os

from camshaft._errors import InvalidArgumentError
from camshaft.jobs._report import write_whole

# Okabe and Ito's colours, which the colour-blind tell apart; each has a mark of its own, too.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_MARKS = ["o", "s", "^", "D", "v", "P", "X"]
_TITLES = {
    "static": ("An engine for each batch", "batch"),
    "dynamic": ("One engine for all batches", "batch"),
    "streams": ("Requests at a time", "streams"),
}


def check():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidArgumentError("plot_path needs the package matplotlib: pip install 'camshaft[jobs]'") from None


def draw(cases, left_out, path, title, configuration):
    """Writes a .png or .svg."""
    import matplotlib
    from matplotlib.figure import Figure

    studies = [study for study in _TITLES if any(case["study"] == study for case in cases)]
    labels = list(dict.fromkeys(case["runtime"] for case in cases))
    looks = {label: (_COLOURS[k % len(_COLOURS)], _MARKS[k % len(_MARKS)]) for k, label in enumerate(labels)}
    style = {"svg.hashsalt": "camshaft", "svg.fonttype": "none", "font.size": 9.5, "axes.titlesize": 10.5}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(1.2 + 4.0 * len(studies), 6.8), layout="constrained")
        axes = figure.subplots(2, len(studies), squeeze=False)
        for column, study in enumerate(studies):
            of_study = [case for case in cases if case["study"] == study]
            _panel(axes[0][column], of_study, labels, looks, "per_second", bars=study == "static")
            _panel(axes[1][column], of_study, labels, looks, "p50_ms", bars=study == "static")
            heading, what = _TITLES[study]
            batch = f", batch {of_study[0]['batch']}" if study == "streams" else ""
            axes[0][column].set_title(heading + batch, loc="left", fontweight="bold")
            axes[1][column].set_xlabel(what)
        axes[0][0].set_ylabel("samples per second")
        axes[1][0].set_ylabel("latency in ms: median, line up to p99")
        shown = {name: handle for axis in axes[1] for handle, name in zip(*axis.get_legend_handles_labels())}
        names = [label for label in labels if label in shown]
        handles = [shown[name] for name in names]
        figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(labels)), frameon=False)
        threads = configuration["threads"]
        figure.suptitle(
            f"{title} on {configuration['host']}, {threads} thread{'s' if threads > 1 else ''}, "
            f"{'+'.join(configuration['precision'])}",
            x=0.005,
            ha="left",
            fontsize=12,
        )
        held, kind = io.BytesIO(), os.path.splitext(path)[1][1:]
        figure.savefig(held, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, held.getvalue())


def _panel(axis, cases, labels, looks, key, bars):
    """Throughput from zero on, as bars where each place is an engine of its own; latency on a logarithmic axis, on which
    what a busy machine does to the 99th percentile does not hide the medians."""
    counted = "streams" if cases[0]["study"] == "streams" else "batch"
    places = sorted({case[counted] for case in cases})
    labels = [label for label in labels if any(case["runtime"] == label for case in cases)]
    latency, width = key == "p50_ms", 0.8 / len(labels)
    for index, label in enumerate(labels):
        colour, mark = looks[label]
        mine = sorted((case for case in cases if case["runtime"] == label), key=lambda case: case[counted])
        shift = (index + 0.5) * width - 0.4 if bars else 0.06 * (index - (len(labels) - 1) / 2)
        at, values = [places.index(case[counted]) + shift for case in mine], [case[key] for case in mine]
        if bars and not latency:
            axis.bar(at, values, 0.92 * width, color=colour, label=label, zorder=2)
            if len(labels) * len(places) <= 12:
                for x, value in zip(at, values):
                    axis.annotate(
                        _short(value), (x, value), (0, 2), textcoords="offset points", ha="center", fontsize=7
                    )
            continue
        line = "none" if bars else "-"
        axis.plot(
            at, values, color=colour, marker=mark, markersize=5.5, linestyle=line, linewidth=1.8, label=label, zorder=3
        )
        if latency:
            up = [case["p99_ms"] - case["p50_ms"] for case in mine]
            axis.errorbar(at, values, yerr=[[0] * len(mine), up], fmt="none", ecolor=colour, elinewidth=1, capsize=2.5)
    axis.set_xticks(range(len(places)), [str(place) for place in places])
    axis.set_xlim(-0.55, len(places) - 0.45)
    if latency:
        axis.set_yscale("log", subs=[2, 5])
        axis.margins(y=0.12)
        axis.yaxis.set_minor_formatter(_number)
    else:
        axis.set_ylim(0, axis.get_ylim()[1] * 1.06)
    axis.yaxis.set_major_formatter(_number)
    axis.tick_params(axis="y", which="minor", labelsize=8.5)
    axis.grid(axis="y", which="both", color="#dddddd", linewidth=0.7, zorder=0)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _number(value, place):
    return f"{value:,.10g}"


def _short(value):
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"
