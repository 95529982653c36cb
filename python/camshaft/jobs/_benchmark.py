"""Engines beside other runtimes on the same inputs: batches each built for, batches of one engine, and streams."""

import threading
import time

from camshaft._errors import Error, InvalidArgumentError
from camshaft._progress import shown
from camshaft.jobs import _facts, _measure, _operations, _report, _runtimes, _settings
from camshaft.jobs._file import existing


def run_benchmark(job, report, progress):
    if "onnx_path" in job:
        existing(job["onnx_path"], "the model", job.get("_file"))
    if "engine_path" in job:
        _operations.check_folder(job["engine_path"])
    if "plot_path" in job:
        _operations.check_folder(job["plot_path"])
        from camshaft.jobs import _plot

        _plot.check()
    calibration = None
    given = _settings.profiles_of(job, _operations.input_names(job)) if "onnx_path" in job else None
    if "onnx_path" in job:
        calibration = _operations.calibration_of(job, given, report, progress)
    runtimes, left_out = _runtimes.opened(job, calibration)
    if not runtimes:
        reasons = "; ".join(f"{item['runtime']}: {item['reason']}" for item in left_out)
        raise InvalidArgumentError(f"there is nothing to measure: {reasons}")
    infos = _infos(job, runtimes)
    usual = given[0] if given else None
    cases, studies = [], list(_studies(job, infos, usual))
    with shown(progress) as tell:
        for done, study in enumerate(studies):
            if tell:
                tell("measuring", done / len(studies))
            cases += _measured(job, study, infos, runtimes, left_out, report["configuration"]["threads"])
    report["configuration"]["dynamic_shapes"] = any(size < 0 for info in infos for size in info.shape)
    if not cases:
        reasons = "; ".join(f"{item['runtime']}: {item['reason']}" for item in left_out)
        raise InvalidArgumentError(f"nothing could be measured: {reasons}")
    report["performance"]["cases"], report["performance"]["not_measured"] = cases, left_out
    errors = [case["error"] for case in cases if case["error"] is not None]
    report["accuracy"] = {
        "passed": None,
        "worst_error": max(errors, default=None),
        "against": cases[0]["runtime"],
        "outputs": [],
    }
    _describe(job, report, runtimes, cases, studies)
    _advise(report, cases)
    if "plot_path" in job:
        _plot.draw(cases, left_out, job["plot_path"], _title(job), report["configuration"])
        _report.add_artifact(report, "plot", job["plot_path"])


def _describe(job, report, runtimes, cases, studies):
    """Fills the report with what the first engine is, and with its first case."""
    own = next((runtime for runtime in runtimes if isinstance(runtime, _runtimes.Camshaft)), None)
    ours = own or next((runtime for runtime in runtimes if isinstance(runtime, _runtimes.EngineFile)), None)
    if ours is None:
        return
    engine, performance = ours.first(), report["performance"]
    report["configuration"].update(
        profiles=engine.profiles, device=engine.device, precision=_operations.precisions_of(engine)
    )
    report["optimization"] = _facts.optimization(engine)
    performance["estimated_latency_ms"] = _facts.estimated_latency_ms(report["optimization"]["tactics_selected"])
    performance["engine_size_mb"] = ours.size() / 2**20
    if engine.profiles or not _operations.is_dynamic(engine):
        performance["run_memory_mb"] = engine.memory()["arena_bytes"] / 2**20
    if own:
        performance["build_time_s"] = own.build_s
        if "engine_path" in job:
            engine.save(job["engine_path"])
            _operations.saved(report, job["engine_path"])
    case = next((case for case in cases if case["runtime"] == ours.label), None)
    if case:
        study = next(s for s in studies if _place(s) == _place(case))
        figures = {key: case[key] for key in ("runs", "min_ms", "p50_ms", "p90_ms", "p99_ms")}
        threads = max(1, report["configuration"]["threads"] // case["streams"])
        shapes = {name: list(shape) for name, shape in study["shapes"].items()}
        performance["measured"] = {"shapes": shapes, "threads": threads, **figures}


def _title(job):
    return (job.get("onnx_path") or job["engines"][0]).rsplit("/", 1)[-1]


def _infos(job, runtimes):
    if "onnx_path" in job:
        return _operations.model_inputs(job)
    return next(runtime.engine.inputs for runtime in runtimes if isinstance(runtime, _runtimes.EngineFile))


def _studies(job, infos, usual):
    """What is measured: {"study", "batch", "streams", "profiles", "shapes"} each, from the job's three lists. Without any
    of them it is the usual shape alone."""
    lists = [job.get(key, []) for key in ("batches", "dynamic_batches", "streams")]
    static, dynamic, streams = lists
    if "inputs" in job and any(lists[:2]):
        raise InvalidArgumentError("'inputs' have one size: leave batches and dynamic_batches out")
    if not any(lists):
        shapes = _shapes(infos, usual, None, job)
        yield _study("static", _first(infos, shapes), 1, shapes, shapes, shapes)
    for batch in static:
        shapes = _shapes(infos, usual, batch, job)
        yield _study("static", batch, 1, shapes, shapes, shapes)
    if dynamic:
        low, high = (_shapes(infos, usual, limit(dynamic), job) for limit in (min, max))
        for batch in dynamic:
            yield _study("dynamic", batch, 1, _shapes(infos, usual, batch, job), low, high)
    for count in streams:
        batch = job.get("stream_batch") if "inputs" not in job else None
        shapes = _shapes(infos, usual, batch, job)
        yield _study("streams", _first(infos, shapes), count, shapes, shapes, shapes)


def _study(name, batch, streams, shapes, low, high):
    usual = high if low != high else shapes
    profile = {key: (low[key], usual[key], high[key]) for key in shapes}
    return {"study": name, "batch": batch, "streams": streams, "profiles": [profile], "shapes": shapes}


def _first(infos, shapes):
    shape = shapes[infos[0].name]
    return shape[0] if shape and infos[0].shape[0] < 0 else 1


def _shapes(infos, usual, batch, job):
    """{input: shape} with the batch in the first dimension of the inputs where that is open by the same name."""
    if "inputs" in job:
        arrays = _measure.load_inputs(job["inputs"], infos)
        return {name: array.shape for name, array in arrays.items()}
    named = next((info.dim_names[0] for info in infos if info.shape and info.shape[0] < 0), None)
    made = {}
    for info in infos:
        shape = list(usual[info.name][1]) if usual and info.name in usual else list(info.shape)
        if info.shape and info.shape[0] < 0 and info.dim_names[0] == named:
            if batch is not None:
                shape[0] = batch
            elif shape[0] < 0:
                shape[0] = 1
        elif batch not in (None, 1) and named is None:
            raise InvalidArgumentError(f"the batch of the model is fixed: input '{info.name}' is {info.type}")
        if any(size < 0 for size in shape):
            raise InvalidArgumentError(f"the sizes of input '{info.name}' ({info.type}) are open: give opt_shape")
        made[info.name] = tuple(shape)
    return made


def _measured(job, study, infos, runtimes, left_out, threads):
    """The cases of a study, of those runtimes that can run it."""
    if "inputs" in job:
        inputs = _measure.load_inputs(job["inputs"], infos)
    else:
        inputs = _measure.make_inputs(infos, study["shapes"])
    streams = study["streams"]
    runs, results, labels = [], [], []
    for runtime in runtimes:
        try:
            of_streams = [
                runtime.runner(study["profiles"], inputs, max(1, threads // streams), streams) for _ in range(streams)
            ]
            results.append(_named(of_streams[0](), results))
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:  # of a rival's, of whatever kind; of ours, what an engine's profile refuses
            if isinstance(runtime, _runtimes.Camshaft) or (isinstance(error, Error) and error.code == "cancelled"):
                raise
            reason = f"{study['study']}, batch {study['batch']}: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            left_out.append({"runtime": runtime.label, "reason": reason})
            continue
        runs.append(of_streams)
        labels.append(runtime.label)
    if not runs:
        return []
    seconds = job.get("measure_seconds", 1.0)
    if streams == 1:
        times = _measure.interleaved([run for (run,) in runs], seconds)
        spans = [None] * len(times)
    else:
        times, spans = _in_streams(runs, seconds)
    cases = []
    for label, taken, span, result in zip(labels, times, spans, results):
        figures = _measure.summary(taken)
        rate = figures["runs"] / span if span else 1e3 / figures["p50_ms"]
        error = _measure.worst_error(result, results[0])
        cases.append(
            {
                "study": study["study"],
                "runtime": label,
                "batch": study["batch"],
                "streams": streams,
                **figures,
                "per_second": study["batch"] * rate,
                "error": None if error == float("inf") else error,
            }
        )
    return cases


def _named(outputs, results):
    """A copy of the outputs, by the names of the first runtime's where there are none, as PyTorch's."""
    import numpy

    if not isinstance(outputs, dict):
        names = list(results[0]) if results else [str(index) for index in range(len(outputs))]
        outputs = dict(zip(names, outputs))
    return {name: numpy.array(value) for name, value in outputs.items()}


def _in_streams(runs, seconds, rounds=5):
    """Times of requests of several threads at once, runtime by runtime in turn: (times, seconds that they took in all)."""
    for of_streams in runs:
        _at_once(of_streams, 0.0)
    times, spans = [[] for _ in runs], [0.0] * len(runs)
    for _ in range(rounds):
        for index, of_streams in enumerate(runs):
            _at_once(of_streams, seconds / rounds / 4)  # not counted, as in interleaved()
            taken, span = _at_once(of_streams, seconds / rounds)
            times[index] += taken
            spans[index] += span
    return times, spans


def _at_once(of_streams, seconds):
    taken, wrong = [], []
    barrier = threading.Barrier(len(of_streams) + 1)

    def work(run):
        mine = []
        barrier.wait()
        end = time.perf_counter() + seconds
        try:
            while not mine or time.perf_counter() < end:
                begin = time.perf_counter()
                run()
                mine.append(time.perf_counter() - begin)
        except Exception as error:  # raised where the threads are joined
            wrong.append(error)
        taken.extend(mine)

    threads = [threading.Thread(target=work, args=(run,), daemon=True) for run in of_streams]
    for thread in threads:
        thread.start()
    barrier.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    return taken, time.perf_counter() - begin


def _advise(report, cases):
    """The batch and the number of streams that gave the most of ours."""
    ours = [case for case in cases if case["runtime"] == cases[0]["runtime"]]
    for key, setting, what in [("batch", "batches", "batch"), ("streams", "streams", "streams")]:
        alike = [case for case in ours if (case["study"] == "streams") == (key == "streams")]
        if len({case[key] for case in alike}) < 2:
            continue
        least, best = min(alike, key=lambda case: case[key]), max(alike, key=lambda case: case["per_second"])
        gain = best["per_second"] / least["per_second"]
        if best is not least and gain > 1.05:
            report["recommendations"].append(
                {
                    "setting": setting,
                    "text": f"{what} {best[key]} gave {gain:.2f} times the throughput of {least[key]}, at {best['p50_ms']:.2f} ms a request",
                    "evidence": {
                        "per_second": best["per_second"],
                        "at_least": least["per_second"],
                        "p50_ms": best["p50_ms"],
                    },
                }
            )


def _place(case):
    return case["study"], case["batch"], case["streams"]


def table(report):
    """The cases as text. "times" is how many times as long the median takes as the first runtime's in the same place, and
    "error" how far results are from its."""
    cases = report["performance"]["cases"]
    rows = [
        ("study", "batch", "streams", "runtime", "min ms", "p50 ms", "p90 ms", "p99 ms", "samples/s", "times", "error")
    ]
    first = {_place(case): case["p50_ms"] for case in cases if case["runtime"] == cases[0]["runtime"]}
    for case in cases:
        figures = [f"{case[key]:.3f}" for key in ("min_ms", "p50_ms", "p90_ms", "p99_ms")]
        error = "differs" if case["error"] is None else f"{case['error']:.1e}"
        times = f"{case['p50_ms'] / first[_place(case)]:.2f}" if _place(case) in first else ""
        times, error = ("", "") if case["runtime"] == cases[0]["runtime"] else (times, error)
        rows.append(
            (
                case["study"],
                str(case["batch"]),
                str(case["streams"]),
                case["runtime"],
                *figures,
                f"{case['per_second']:.1f}",
                times,
                error,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {0, 3}
    lines = [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    lines += [f"not measured: {item['runtime']}: {item['reason']}" for item in report["performance"]["not_measured"]]
    return "\n".join(lines)
