"""Bars of how many times faster Camshaft is, model by model."""

import tables
from rounds import LABELS

COLOURS = {"onnxruntime": "#c8553d", "openvino": "#2f6690"}


def speedups(results, batch, threads, path):
    """Writes an SVG with a panel for each number of threads: a bar for each model and rival, a dashed line at each
    geomean. Returns False, and writes nothing, where there are no figures of that batch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "camshaft"  # the same figures make the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # text as text: a third of the size
    chosen = {count: tables.cases(results, count, batch) for count in threads}
    chosen = {count: cases for count, cases in chosen.items() if cases}
    if not chosen:
        return False
    rows = max(len(cases) for cases in chosen.values())
    figure, axes = plt.subplots(
        1, len(chosen), figsize=(5.5 * len(chosen), 1.4 + 0.34 * rows), squeeze=False, layout="constrained"
    )
    widest = max(
        value["ratio"] for cases in chosen.values() for _, figures in cases for value in figures["speedup"].values()
    )
    for axis, (count, cases) in zip(axes[0], chosen.items()):
        panel(axis, cases)
        axis.set_xlim(0, min(widest, 4) * 1.12)
        axis.set_title(f"{count} thread{'s' if count > 1 else ''}, batch {batch}", fontsize=11)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return True


def panel(axis, cases):
    height = 0.38
    for index, rival in enumerate(COLOURS):
        at = [row + (index - 0.5) * height for row, (_, figures) in enumerate(cases) if rival in figures["speedup"]]
        values = [figures["speedup"][rival]["ratio"] for _, figures in cases if rival in figures["speedup"]]
        if not values:
            continue
        colour, mean = COLOURS[rival], tables.geomean(values)
        axis.barh(at, values, height, color=colour, zorder=2, label=f"times as fast as {LABELS[rival]}")
        axis.axvline(mean, color=colour, linestyle="--", linewidth=1, zorder=1, label=f"geomean {LABELS[rival]}")
        axis.text(mean, -0.9, f"{mean:.2f}", color=colour, fontsize=8, ha=("left", "right")[index])
        for y, value in zip(at, values):
            axis.text(
                min(value, 4) - 0.02, y, f"{value:.2f}", va="center", ha="right", fontsize=6.5, color="white", zorder=3
            )
    axis.axvline(1, color="black", linewidth=0.8, zorder=1)
    axis.set_yticks(range(len(cases)), [name for name, _ in cases], fontsize=8)
    axis.set_ylim(len(cases) - 0.4, -1.4)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
