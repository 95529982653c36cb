#!/usr/bin/env python3
"""Measures what int8 costs: the score of real tasks in fp32, in Camshaft's int8, in ONNX Runtime's static quantisation and in
NNCF's, all calibrated on the same data, which is not what they are judged on.

Results go to .cache/results/quantized.json, from which scripts/report.py makes its part of docs/results.md. Exits with 1
where Camshaft's int8 misses a task's limit.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("bench/quantized", "bench", "scripts", "tests/models", "examples/ocr")
]

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft_cli
import methods


def tasks():
    import digit_tasks
    import ocr_tasks
    import sentence_tasks
    import speech_tasks

    return [*ocr_tasks.TASKS, *sentence_tasks.TASKS, *speech_tasks.TASKS, *digit_tasks.TASKS]


def ways(arguments):
    """Those that are asked for, fp32 first."""
    made = [methods.Float(), methods.Camshaft(), methods.OnnxRuntime()]
    made += [methods.Camshaft(f"camshaft {m}", ("--method", m)) for m in ("entropy", "minmax", "percentile", "mse")]
    if arguments.nncf:
        made.append(methods.Nncf(arguments.nncf))
    return [way for way in made if way.name in ("fp32", *arguments.ways)]


def measured(task, arguments, count, folder):
    """{way: {score, layers} or {error}}."""
    figures, in_fp32 = {}, None
    for way in ways(arguments):
        start = time.perf_counter()
        try:
            made = []
            for part in task.parts:
                place = Path(folder) / part.name
                place.mkdir(exist_ok=True)
                made.append(way.make(part, place))
            answer = task.answer(*(run for run, _ in made), count)
            in_fp32 = answer if in_fp32 is None else in_fp32
            figures[way.name] = {"score": task.score(answer, in_fp32), "layers": ", ".join(text for _, text in made)}
            said = f"{figures[way.name]['score']:9.4f}  {figures[way.name]['layers']}"
        except Exception as error:  # whatever a rival throws, the others are measured
            figures[way.name] = {"error": str(error)}
            said = f"  failed: {str(error)[-600:]}"
        print(f"  {way.name:22} {said}  ({time.perf_counter() - start:.0f} s)", flush=True)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, metavar="N", help="of each task at most (default: all: 2000 lines)")
    parser.add_argument("--only", default="", metavar="TEXT", help="tasks with this in their name")
    parser.add_argument("--nncf", metavar="PYTHON", help="a Python with NNCF (requirements-nncf.txt)")
    parser.add_argument(
        "--ways",
        nargs="+",
        default=["camshaft", "onnxruntime", "nncf"],
        help='to int8; also "camshaft entropy", "camshaft minmax", "camshaft percentile" and "camshaft mse", the methods '
        "of `camshaft calibrate`",
    )
    arguments = parser.parse_args()
    missed = []
    for task in tasks():
        if arguments.only.lower() not in task.name.lower():
            continue
        count = min(task.samples, arguments.samples or task.samples)
        print(f"{task.name}, {count} samples: {task.metric}, {task.limit()}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            figures = measured(task, arguments, count, folder)
        camshaft_cli.record(
            "quantized",
            task.name,
            {"metric": task.metric, "limit": task.limit(), "samples": count, "ways": figures},
        )
        ours = figures.get("camshaft", {})
        if "camshaft" in arguments.ways and not (
            "score" in ours and task.is_met(ours["score"], figures["fp32"]["score"])
        ):
            missed.append(task.name)
    if missed:
        sys.exit(f"int8 misses the limit of {', '.join(missed)}")


if __name__ == "__main__":
    main()
