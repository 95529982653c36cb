"""Inputs to measure on, and times of runs."""

import time

from camshaft._engine import Profiler
from camshaft._errors import FileError, InvalidArgumentError
from camshaft._values import _NUMPY


def concrete_shapes(engine, given=None):
    """{input: shape} with every size known: of `given`, else of the engine's first profile, else 1 for a batch (a first
    dimension). Where a size is open, the second value names it, and the first is None."""
    profile = engine.profiles[0] if engine.profiles else {}
    shapes = {}
    for info in engine.inputs:
        if given and info.name in given:
            shapes[info.name] = tuple(given[info.name])
        elif info.name in profile:
            shapes[info.name] = tuple(profile[info.name]["opt"])
        else:
            shape = tuple(1 if axis == 0 and size < 0 else size for axis, size in enumerate(info.shape))
            if any(size < 0 for size in shape):
                return None, info
            shapes[info.name] = shape
    return shapes, None


def make_inputs(infos, shapes, seed=0):
    """Arrays to measure on: normal floats, integers and booleans of 0 and 1, which indices and masks may be."""
    import numpy

    random = numpy.random.default_rng(seed)
    made = {}
    for info in infos:
        if info.dtype not in _NUMPY:
            raise InvalidArgumentError(f"input '{info.name}' is {info.type}, which is not made up: give 'inputs'")
        shape, dtype = shapes[info.name], numpy.dtype(_NUMPY[info.dtype])
        floating = dtype.kind == "f"
        values = random.standard_normal(shape) if floating else random.integers(0, 2, shape)
        made[info.name] = numpy.asarray(values, dtype)
    return made


def load_inputs(path, infos):
    """{input: array} of an .npz file."""
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except OSError as error:
        raise FileError(f"{path}: the inputs cannot be read: {error.strerror or error}") from None
    except (ValueError, AttributeError, TypeError, EOFError):
        raise InvalidArgumentError(f"{path}: not an .npz file, as numpy.savez writes them") from None
    for info in infos:
        if info.name not in arrays:
            raise InvalidArgumentError(f"{path} has no array for input '{info.name}'; it has {', '.join(arrays)}")
    return {info.name: arrays[info.name] for info in infos}


def summary(seconds):
    """The figures of the times of runs, in ms."""
    import numpy

    ms = numpy.asarray(seconds) * 1e3
    p50, p90, p99 = (float(value) for value in numpy.percentile(ms, [50, 90, 99]))
    return {"runs": len(ms), "min_ms": float(ms.min()), "p50_ms": p50, "p90_ms": p90, "p99_ms": p99}


def interleaved(runs, seconds, rounds=8):
    """Times of several functions in turn, so that what disturbs the machine disturbs all of them: a list of seconds for
    each. A turn is an eighth of `seconds`. The first quarter of it is not counted: threads of the one before, which wait for more
    work before they sleep, take the cores of this one meanwhile (with turns of one call the medians of all were up to
    five times as large)."""
    times = [[] for _ in runs]
    for _ in range(rounds):
        for run, taken in zip(runs, times):
            begin = time.perf_counter()
            counts_from, end = begin + seconds / rounds / 4, begin + seconds / rounds
            run()
            while time.perf_counter() < counts_from:
                run()
            before = time.perf_counter()
            while True:
                run()
                now = time.perf_counter()
                taken.append(now - before)
                before = now
                if now >= end:
                    break
    return times


def runner(engine, inputs, threads=0):
    """A function that runs an engine on inputs in a context of its own."""
    context = engine.create_context(threads)
    for name, array in inputs.items():
        context.set_input(name, array)
    return context.run


def worst_error(got, want):
    """The largest difference of two dicts of outputs as a part of the scale of `want`; infinite for other shapes, for
    integers that differ, and for NaNs and infinities in other places."""
    import numpy

    worst = 0.0
    for name, right in want.items():
        right = numpy.asarray(right)
        mine = numpy.asarray(got[name]) if name in got else numpy.empty(0)
        if mine.shape != right.shape:
            return float("inf")
        if right.size == 0 or numpy.array_equal(mine, right):
            continue
        if right.dtype.kind != "f" or not numpy.array_equal(numpy.isfinite(mine), numpy.isfinite(right)):
            return float("inf")
        finite = numpy.isfinite(right)
        mine, right = mine[finite].astype("float64"), right[finite].astype("float64")
        if right.size:
            scale = float(numpy.abs(right).max())
            difference = float(numpy.abs(mine - right).max())
            worst = max(worst, difference / scale if scale > 0 else (0.0 if difference == 0 else float("inf")))
    return worst


def layer_shares(engine, inputs, threads, runs=5):
    """[(share of the time, layer)], the largest first."""
    context, profiler = engine.create_context(threads), Profiler()
    context.run(inputs)
    context.set_profiler(profiler)
    for _ in range(runs):
        context.run()
    layers = [layer for layer in profiler.layers() if not layer["at_binding"]]
    whole = sum(layer["seconds"] for layer in layers)
    return sorted(((layer["seconds"] / whole, layer) for layer in layers if whole > 0), key=lambda pair: -pair[0])
