"""When two results count as the same."""

import numpy as np

# Of an output's largest magnitude.
TOLERANCE = {"f32": 1e-4, "f16": 1e-3, "f64": 1e-7}
SPREADS = 4  # as `camshaft build` allows where a model amplifies rounding


def tolerance(value):
    """f16 rounds by 5e-4 at every node, and not all implementations round after each."""
    if value.dtype == "f64" and value.narrow:
        return TOLERANCE["f32"]
    return TOLERANCE[value.dtype] * (1 + value.depth if value.dtype == "f16" else 1)


def scale(array):
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max()) if finite.size else 0.0


def distance(got, want):
    """Of each element; infinite where one is NaN or infinite and the other is something else."""
    with np.errstate(all="ignore"):
        same = (got == want) | ((got != got) & (want != want))
        d = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return np.where(same, 0.0, np.where(np.isfinite(d), d, np.inf))


def same_kind(got, want):
    """None, or how dtype or shape differ."""
    if want.dtype.kind in "OU":
        if got.dtype.kind not in "OU":
            return f"{got.dtype} instead of strings"
    elif got.dtype != want.dtype:
        return f"{got.dtype} instead of {want.dtype}"
    return None if got.shape == want.shape else f"shape {list(got.shape)} instead of {list(want.shape)}"


def difference(got, want, value, spread=None):
    """None, or what differs. `spread`: how far rounding alone moves each element."""
    if what := same_kind(got, want):
        return what
    if want.size == 0:
        return None
    if want.dtype.kind in "OU":
        wrong = got.astype("U") != want.astype("U")
        return None if not wrong.any() else describe(got, want, wrong, "other strings")
    d = distance(got, want)
    if value.exact or value.dtype not in TOLERANCE:
        allowed = (
            np.full_like(d, value.slack) if spread is None or value.exact else np.where(spread > 0, np.inf, value.slack)
        )
    else:
        size = scale(want)
        smallest = float(np.finfo(want.dtype).tiny)  # below it, numbers may count as 0
        allowed = np.full_like(d, max(tolerance(value) * size, smallest) if size else tolerance(value))
        if spread is not None:
            allowed = np.maximum(allowed, SPREADS * spread.max())
    wrong = ~(d <= allowed)
    return describe(got, want, wrong, f"off by {d.max():.3g} of {scale(want):.3g}") if wrong.any() else None


def describe(got, want, wrong, what):
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return f"{what}; {int(wrong.sum())} of {wrong.size} wrong, {list(at)}: {got[at]!r} instead of {want[at]!r}"
