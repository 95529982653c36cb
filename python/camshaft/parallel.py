"""One batch over several engines at once: the GPUs of a machine, say.

engines = [camshaft.Engine("model.engine", device=f"cuda:{number}") for number in range(2)]
outputs = camshaft.parallel.run(engines, {"x": batch})
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from camshaft._engine import Context, Engine
from camshaft._errors import InvalidArgumentError

# The contexts of each engine that no run uses, by their number of threads, and the threads that runs wait in.
_idle: weakref.WeakKeyDictionary[Engine, dict[int, list[Context]]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_workers = ThreadPoolExecutor(max_workers=max(32, os.cpu_count() or 1), thread_name_prefix="camshaft-parallel")


def run(engines: Sequence[Engine], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Computes all outputs of a batch, each engine a part of its rows: {name: NumPy array}.

    engines: of one model, on any devices; the same one may be there several times. Those on the CPU share its cores.
    inputs: {name: NumPy array}. Where the engine takes any number of rows (its first axis has no fixed size), the array is
        shared out along that axis; others go to each engine whole.

    Raises InvalidArgumentError where inputs have different numbers of rows, and for an engine that gives an output which has
    no row for each of its inputs'; and what a run raises. It may be called from several threads."""
    import numpy

    if not engines:
        raise InvalidArgumentError("parallel.run() needs an engine at least")
    shared = [info.name for info in engines[0].inputs if info.shape and info.shape[0] < 0]
    arrays = {name: numpy.asarray(array) for name, array in inputs.items()}
    rows = {name: len(arrays[name]) for name in shared if name in arrays}
    if not rows:
        raise InvalidArgumentError("no input of the engine takes any number of rows: there is nothing to share out")
    if len(set(rows.values())) > 1:
        raise InvalidArgumentError(f"the inputs have different numbers of rows: {rows}")
    total = next(iter(rows.values()))
    used = engines[: max(1, min(len(engines), total))]
    bounds = [total * number // len(used) for number in range(len(used) + 1)]
    on_cpu = sum(engine.device == "cpu" for engine in used)
    threads = max(1, len(os.sched_getaffinity(0)) // max(1, on_cpu))

    def part(number: int) -> dict[str, Any]:
        begin, end = bounds[number], bounds[number + 1]
        own = {name: array[begin:end] if name in rows else array for name, array in arrays.items()}
        return _run(used[number], used[number]._completed(own), threads)

    others = [_workers.submit(part, number) for number in range(1, len(used))]
    try:
        parts = [part(0)]
    finally:
        for other in others:
            other.exception()  # waits: arrays are the runs' until then
    parts += [other.result() for other in others]
    for number, outputs in enumerate(parts):
        for name, output in outputs.items():
            if output.ndim == 0 or len(output) != bounds[number + 1] - bounds[number]:
                raise InvalidArgumentError(
                    f"output '{name}' is {list(output.shape)} for {bounds[number + 1] - bounds[number]} rows: it cannot be "
                    "put together of parts"
                )
    return {name: numpy.concatenate([outputs[name] for outputs in parts]) for name in parts[0]}


def _run(engine: Engine, inputs: Mapping[str, Any], threads: int) -> dict[str, Any]:
    import numpy

    threads = threads if engine.device == "cpu" else 0
    with _lock:
        idle = _idle.setdefault(engine, {}).setdefault(threads, [])
        context = idle.pop() if idle else None
    if context is None:
        context = engine.create_context(threads)
    try:
        outputs = context.run(inputs)
        return {name: numpy.from_dlpack(output).copy() for name, output in outputs.items()}
    finally:
        with _lock:
            idle.append(context)
