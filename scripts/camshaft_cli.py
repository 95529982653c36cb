"""Drives the camshaft command from Python, for the demo, the tests and the measurements."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
BINARY = Path(os.environ.get("CAMSHAFT", ROOT / "build/release/tools/camshaft"))


def camshaft(*args, check=True, **options):
    """Runs `camshaft ARGS` without a terminal; returns the CompletedProcess with text output.

    With `check`, a failing command raises RuntimeError that carries its whole output.
    """
    command = [str(BINARY), *map(str, args)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **options
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def run(engine, feed, *args):
    """Runs a model or an engine on {input: array}; returns {output: array}."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/in.npz", **feed)
        camshaft("run", engine, "--inputs", f"{folder}/in.npz", "--outputs", f"{folder}/out.npz", *args)
        with np.load(f"{folder}/out.npz") as outputs:
            return {name: outputs[name] for name in outputs.files}


def worst_error(got, want):
    """The largest difference of two arrays as a part of the scale (largest magnitude) of `want`.

    Integers and booleans must be equal: any difference is an infinite error, as are other shapes, dtypes and NaNs. Masks
    leave numbers that mean "never", as -1e9: what agrees to 2^-20 of itself and lies four orders of magnitude beyond 1 and
    beyond all that does not, counts neither for the scale nor for the error (as in src/builder/verification.h).
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if want.size == 0 or np.array_equal(got, want):
        return 0.0
    if not np.issubdtype(want.dtype, np.floating):
        return float("inf")
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return float("inf")
    finite = np.isfinite(want)
    got, want = got[finite].astype(np.float64), want[finite].astype(np.float64)
    size, difference = np.abs(want), np.abs(got - want)
    differing = size[difference > 2.0**-20 * size]
    if differing.size:
        counts = size < 1e4 * max(1.0, differing.max())
        got, want = got[counts], want[counts]
    scale = np.abs(want).max(initial=0.0)
    return float(np.abs(got - want).max(initial=0.0) / (scale or 1.0))


def worst_ranked_error(got, want):
    """worst_error() of lists of outputs whose rows are one ranking: boxes, labels and scores of detections.

    Rows whose scores are nearly equal may come in another order, and at the end of the list another one of them may be the
    last: each row of `want` is compared with the row of `got` that is nearest to it among those whose score is within
    1e-3 of the scale. The scores are the 1-D array of floats.
    """
    if [a.shape for a in got] != [a.shape for a in want] or [a.dtype for a in got] != [a.dtype for a in want]:
        return float("inf")
    at = next(i for i, array in enumerate(want) if array.ndim == 1 and array.dtype.kind == "f")
    rows = len(want[at])
    if rows == 0:
        return 0.0
    tie = 1e-3 * np.abs(want[at]).max()
    free, worst = np.ones(rows, bool), 0.0
    for row in range(rows):
        distance = np.where(free & (np.abs(got[at] - want[at][row]) <= tie), 0.0, np.inf)
        for ours, theirs in zip(got, want):
            difference = np.abs(ours.astype(np.float64) - theirs[row]).reshape(rows, -1).max(axis=1)
            exact = theirs.dtype.kind != "f"
            relative = np.where(difference > 0, np.inf, 0) if exact else difference / (np.abs(theirs).max() or 1.0)
            distance = np.maximum(distance, relative)
        best = int(distance.argmin())
        if np.isfinite(distance[best]) and distance[best] < 0.1:
            free[best] = False
            worst = max(worst, float(distance[best]))
        elif want[at][row] > want[at].min() + tie:  # not one that the end of the list cuts off
            return float("inf")
    return worst


def record(group, name, figures):
    """Keeps one model's or test's figures in .cache/results/<group>.json, where scripts/report.py finds them."""
    path = CACHE / "results" / f"{group}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = figures
    path.write_text(json.dumps(known, indent=1))
