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


def bench(engine, inputs, threads, duration, warmup):
    """The JSON object that `camshaft bench` prints; `inputs` is the path of an .npz, the times are seconds."""
    done = camshaft(
        "bench", engine, "--inputs", inputs, "--threads", threads, "--duration", duration, "--warmup", warmup, "--json"
    )
    return json.loads(done.stdout)


def worst_error(got, want):
    """The largest difference of two arrays as a part of the scale (largest magnitude) of `want`.

    Integers and booleans must be equal: any difference is an infinite error, as are other shapes, dtypes and NaNs.
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
    scale = np.abs(want).max(initial=0.0)
    return float(np.abs(got - want).max(initial=0.0) / (scale or 1.0))


def record(group, name, figures):
    """Keeps one model's or test's figures in .cache/results/<group>.json, where scripts/report.py finds them."""
    path = CACHE / "results" / f"{group}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = figures
    path.write_text(json.dumps(known, indent=1))
