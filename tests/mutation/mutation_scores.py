"""What tests/mutation/campaign.py found, as tables."""

from dataclasses import dataclass

from tables import markdown

GPU_PRECISIONS = ("fp32", "fp16", "bf16")
CONFIGURATIONS = (
    *("cpu fp32", "cpu bf16"),
    *(f"emulated {precision}" for precision in GPU_PRECISIONS),
    *(f"cuda {precision}" for precision in GPU_PRECISIONS),
)
KINDS = {
    "sign": "a weight's sign",
    "row_shift": "rows shifted",
    "tail": "a weight's tail is 0",
    "axis_swap": "axes swapped",
    "stale_scale": "a stale scale",
    "epilogue": "a step left out",
    "window": "a window one off",
    "mask": "a mask one off",
    "unwritten": "a tail not written",
}
REQUIRED = 99  # percent


@dataclass
class Total:
    changed: int = 0
    rejected: int = 0
    right_rejected: int = 0
    errors: int = 0


def totals(results, kind=None):
    """Of what mutation_score wrote of several models, in one kind or all."""
    total = Total()
    for result in results:
        total.errors += "kinds" not in result
        total.right_rejected += len(result.get("right_engines_rejected", []))
        for name, score in result.get("kinds", {}).items():
            if kind in (None, name):
                total.changed += score["changed"]
                total.rejected += score["rejected"]
    return total


def percent(total):
    return 100 * total.rejected / total.changed if total.changed else 100.0


def cell(total):
    return f"{total.rejected} of {total.changed}" if total.changed else "-"


def tables(results, by_model=False):
    """Lines: rejected mutants by precision and kind, and by model. `results` maps "MODEL DEVICE PRECISION ..." to what
    mutation_score wrote."""

    def of(configuration, model=None):
        return [
            result
            for key, result in results.items()
            if key.split()[1:3] == configuration.split() and model in (None, key.split()[0])
        ]

    used = [c for c in CONFIGURATIONS if of(c)]
    # Another seed is of the same engine.
    engines = {(key.split()[0], " ".join(key.split()[1:3])) for key, result in results.items() if "kinds" in result}
    rows = [
        (text, *(cell(totals(of(c), kind)) for c in used), cell(totals(results.values(), kind)))
        for kind, text in KINDS.items()
    ]
    rows.append(("all", *(cell(totals(of(c))) for c in used), cell(totals(results.values()))))
    rows.append(
        ("models", *(str(len({model for model, configuration in engines if configuration == c})) for c in used), "")
    )
    yield from markdown(("what is wrong", *used, "all"), rows)
    if by_model:
        yield ""
        names = list(dict.fromkeys(key.split()[0] for key in results))
        yield from markdown(("model", *used), [(name, *(cell(totals(of(c, name))) for c in used)) for name in names])
    total = totals(results.values())
    yield ""
    yield (
        f"{total.rejected} of {total.changed} mutants are rejected ({percent(total):.2f} %), and "
        f"{total.right_rejected or 'none'} of the {len(engines)} right engines."
        + (f" {total.errors} could not be judged." if total.errors else "")
    )
