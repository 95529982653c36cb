#!/usr/bin/env python3
"""Rows a second of a Ray Data job by the number of its workers: a table, and the picture of docs/ray.md.

    bench/ray_workers.py ENGINE [--workers 1 2 4] [--rows 4000] [--plot docs/ray-workers.svg]

Each worker is an actor with one processor and one thread, on a Ray of this machine. What starting takes is not counted:
a job of all rows and one of a fifth differ by the rest of them. Needs Ray with its data library, matplotlib for the
picture, and the package camshaft on PYTHONPATH.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import camshaft
import camshaft.ray
import ray

BATCH = 8


def one_row(engine):
    """Ones for each input, with its dynamic axes behind the first one 32 long."""
    row = {}
    for tensor in camshaft.Engine(engine).inputs:
        kinds = {"f": "float", "i": "int", "u": "uint"}
        shape = [size if size > 0 else 32 for size in tensor.shape[1:]]
        row[tensor.name] = np.ones(shape, kinds[tensor.dtype[0]] + tensor.dtype[1:])
    return row


def seconds_of_job(reference, row, rows, workers):
    columns = {name: np.repeat(value[None], rows, axis=0) for name, value in row.items()}
    dataset = ray.data.from_numpy(np.zeros(rows, np.int8)).map_batches(lambda _: columns, batch_size=None)
    dataset = dataset.repartition(max(1, rows // BATCH // 4)).materialize()
    begin = time.monotonic()
    predictions = dataset.map_batches(
        camshaft.ray.Predictor,
        fn_constructor_args=(reference,),
        batch_size=BATCH,
        num_cpus=1,
        compute=ray.data.ActorPoolStrategy(size=workers),
    )
    answered = sum(len(next(iter(batch.values()))) for batch in predictions.iter_batches(batch_size=None))
    if answered != rows:
        raise RuntimeError(f"{answered} of {rows} rows came back")
    return time.monotonic() - begin


def write_plot(figures, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "camshaft"  # the same figures make the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
    workers = sorted(figures)
    axis.plot(workers, [figures[n] for n in workers], "o-", color="#c8553d", label="rows a second")
    cores = len(os.sched_getaffinity(0))
    linear = [figures[workers[0]] / workers[0] * min(n, cores) for n in workers]
    axis.plot(workers, linear, "--", color="#888888", label=f"as many workers as cores ({cores}) at one's pace")
    axis.set_xlabel("workers")
    axis.set_xticks(workers)
    axis.set_ylim(0)
    axis.legend(frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 2, 4])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    ray.init(num_cpus=max(options.workers) + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    reference = camshaft.ray.put(str(options.engine))
    row = one_row(str(options.engine))
    figures = {}
    for workers in options.workers:
        few, many = (seconds_of_job(reference, row, rows, workers) for rows in (options.rows // 5, options.rows))
        figures[workers] = (options.rows - options.rows // 5) / (many - few)
        print(f"{workers} workers: {figures[workers]:.0f} rows/s", flush=True)
    if options.plot:
        write_plot(figures, options.plot)


if __name__ == "__main__":
    main()
