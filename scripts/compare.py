#!/usr/bin/env python3
"""Measures models beside ONNX Runtime: latency in alternating rounds, and the time from a file to the first answer.

Results go to .cache/results/{latency,engines}.json, from which scripts/report.py makes docs/results.md.
"""

import argparse
import json
import sys
import time

import camshaft_cli
import interleave
import numpy as np

sys.path.insert(0, str(camshaft_cli.ROOT / "tests/models"))
from catalog import MODELS

RESULTS = camshaft_cli.CACHE / "results"


def measure(model, arguments):
    """Builds one model's engine, measures it at each number of threads, prints a line for each."""
    engine, inputs = RESULTS / f"{model.name}.engine", RESULTS / f"{model.name}.npz"
    RESULTS.mkdir(parents=True, exist_ok=True)
    try:
        start = time.perf_counter()
        camshaft_cli.camshaft("build", model.path(), "-o", engine)
        seconds = time.perf_counter() - start
        memory = json.loads(camshaft_cli.camshaft("inspect", engine, "--json").stdout).get("memory")
        camshaft_cli.record(
            "engines", model.name, {"build_s": seconds, "bytes": engine.stat().st_size, "memory": memory}
        )
        np.savez(inputs, **model.feed())
        figures = {"input": next(iter(model.feeds)), "date": time.strftime("%Y-%m-%d"), "threads": {}}
        for threads in arguments.threads:
            warm = interleave.latency(
                engine, model.path(), inputs, threads, arguments.rounds, arguments.duration, seed=arguments.seed
            )
            cold = interleave.cold_start(engine, model.path(), inputs, threads, arguments.cold_rounds)
            figures["threads"][threads] = {"latency": warm, "cold": cold}
            print(
                f"{model.name:24} {threads} thread{'s' if threads > 1 else ' '}  Camshaft {warm['camshaft_ms']:8.2f} ms  "
                f"ONNX Runtime {warm['onnxruntime_ms']:8.2f} ms  ratio {warm['ratio']:5.2f} [{warm['ratio_low']:.2f}-{warm['ratio_high']:.2f}]  "
                f"first answer {cold['camshaft_ms']:7.1f} / {cold['onnxruntime_ms']:7.1f} ms",
                flush=True,
            )
        camshaft_cli.record("latency", model.name, figures)
    finally:
        engine.unlink(missing_ok=True)
        inputs.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="names from tests/models/catalog.py (default: the quick ones)"
    )
    parser.add_argument("--all", action="store_true", help="every model")
    parser.add_argument(
        "--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2], help="default: 1,2"
    )
    parser.add_argument("--rounds", type=int, default=12, help="alternating rounds of each (default: 12)")
    parser.add_argument("--duration", type=float, default=0.5, help="seconds a round (default: 0.5)")
    parser.add_argument("--cold-rounds", type=int, default=5, help="fresh processes of each (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of the order within a round (default: 0)")
    arguments = parser.parse_args()
    names = (
        list(MODELS) if arguments.all else arguments.models or [model.name for model in MODELS.values() if model.quick]
    )
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    failed = []
    for name in names:
        try:
            measure(MODELS[name], arguments)
        except RuntimeError as error:  # one model that fails must not cost the figures of the others
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
