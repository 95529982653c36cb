"""The operations that build engines and calibrations. Each takes a job that is checked and a report, which it fills."""

import os
import time
from pathlib import Path

from camshaft._build import build
from camshaft._calibration import Calibration, calibrate
from camshaft._errors import Error, InvalidArgumentError
from camshaft.jobs import _facts, _measure, _report, _settings
from camshaft.jobs._file import existing


def engine_path(job):
    return Path(job.get("engine_path") or Path(job["onnx_path"]).with_suffix(".engine"))


def check_folder(path):
    """Found out before the work, and not after it."""
    folder = Path(path).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise _report.FileError(f"{path}: cannot be written: there is no folder {folder} that may be written to")


def input_names(job):
    """The names of the model's inputs, where a shape is given without one."""
    profiles = job.get("profiles", [job])
    bare = any(isinstance(p.get(k), (list, str)) for p in profiles for k in ("min_shape", "opt_shape", "max_shape"))
    return [info.name for info in model_inputs(job)] if bare else None


def model_inputs(job):
    """The inputs of the model, by an engine that is made without choosing kernels or verifying."""
    return build(job["onnx_path"], tuning="heuristic", verify=False, threads=job.get("threads", 0)).inputs


def run_calibrate(job, report, progress):
    existing(job["onnx_path"], "the model", job.get("_file"))
    path = Path(job["calibration_cache"])
    check_folder(path)
    profiles = _settings.profiles_of(job, input_names(job))
    report["configuration"]["profiles"] = _profiles(profiles)
    begin = time.perf_counter()
    made = _calibrated(job, profiles, progress)
    report["performance"]["build_time_s"] = time.perf_counter() - begin
    report["accuracy"] = _report.not_compared("ranges were learnt")
    _report.add_artifact(report, "calibration", path)
    samples = made.report["samples"]
    for warning in made.report["warnings"]:
        report["recommendations"].append(
            {
                "setting": "calibration_data",
                "text": str(warning),
                "evidence": {"samples": samples, "batches": made.report["batches"]},
            }
        )


def _calibrated(job, profiles, progress):
    files = _settings.data_files(job["calibration_data"])
    options = {key: value for key, value in job.items() if key in ("threads", "tuning", "timing_cache", "device")}
    if "calibration_method" in job:
        options["method"] = job["calibration_method"]
    return calibrate(
        job["onnx_path"],
        _settings.batches(files),
        job.get("calibration_cache"),
        profiles=profiles,
        progress=progress,
        **options,
    )


def calibration_of(job, profiles, report, progress):
    """The ranges that int8 and fp8 take: the cache, or what the data gives, which is then kept in the cache. None where
    the job names neither, as a model that is quantised needs none: of another one the build says so."""
    cache = job.get("calibration_cache")
    wanted = [name for name in _settings.OF_RANGES if job.get(name)]
    if not (wanted or job.get("best")):
        return None
    if cache and os.path.exists(cache):
        return Calibration(cache)
    if "calibration_data" in job:
        if cache:
            check_folder(cache)
        made = _calibrated(job, profiles, progress)
        if cache:
            _report.add_artifact(report, "calibration", cache)
        return made
    if wanted and cache:
        raise InvalidArgumentError(
            f"{' and '.join(wanted)} need the ranges of the model's tensors: calibration_cache '{cache}' is not there, and "
            "there is no calibration_data to make it of"
        )
    return None


def run_convert(job, report, progress):
    existing(job["onnx_path"], "the model", job.get("_file"))
    path = engine_path(job)
    check_folder(path)
    profiles = _settings.profiles_of(job, input_names(job))
    report["configuration"]["profiles"] = _profiles(profiles)
    calibration = calibration_of(job, profiles, report, progress)
    begin = time.perf_counter()
    engine = built(
        job, profiles, [name for name in (*_settings.PRECISIONS, "best") if job.get(name)], calibration, progress
    )
    build_s = time.perf_counter() - begin
    describe(job, report, engine, build_s)
    engine.save(path)
    saved(report, path)


def built(job, profiles, precision, calibration, progress):
    options = _settings.build_options(job)
    needs_ranges = any(name in precision for name in (*_settings.OF_RANGES, "best"))
    return build(
        job["onnx_path"],
        profiles=profiles,
        precision=precision,
        calibration=calibration if needs_ranges else None,
        progress=progress,
        **options,
    )


def describe(job, report, engine, build_s):
    """Fills a report with what an engine is, and measures it."""
    report["configuration"]["dynamic_shapes"] = is_dynamic(engine)
    report["configuration"]["profiles"] = engine.profiles
    report["configuration"]["device"] = engine.device
    report["configuration"]["precision"] = precisions_of(engine)
    report["optimization"] = _facts.optimization(engine)
    performance, memory = report["performance"], engine.memory() if engine.profiles or not is_dynamic(engine) else {}
    performance["build_time_s"] = build_s
    performance["estimated_latency_ms"] = _facts.estimated_latency_ms(report["optimization"]["tactics_selected"])
    if memory:
        performance["run_memory_mb"] = memory["arena_bytes"] / 2**20
    report["accuracy"] = _facts.accuracy(engine.report)
    found = {"build_s": build_s, "arena_mb": performance["run_memory_mb"]}
    found.update(measure(job, report, engine))
    report["recommendations"] += _facts.recommendations(job, engine, found)


def precisions_of(engine):
    """What it may compute in: not what has no kernels on the device that are faster."""
    named = engine.metadata.get("precision", "").replace(",", " ").split()
    return [name for name in ("fp32", *_settings.PRECISIONS) if name == "fp32" or name in named]


def is_dynamic(engine):
    if engine.profiles:
        return any(sizes["min"] != sizes["max"] for profile in engine.profiles for sizes in profile.values())
    return any(size < 0 for info in engine.inputs for size in info.shape)


def inputs_of(job, engine):
    """Arrays to measure on; None where sizes are open."""
    if "inputs" in job:
        return _measure.load_inputs(existing(job["inputs"], "the file of inputs", job.get("_file")), engine.inputs)
    shapes, _ = _measure.concrete_shapes(engine)
    if shapes is None:
        return None
    try:
        return _measure.make_inputs(engine.inputs, shapes)
    except InvalidArgumentError:
        return None  # strings and the like, which nobody asked to measure


def measure(job, report, engine):
    """Times whole runs at the usual shapes, with all threads and, to say what they gain, with one."""
    seconds, inputs = job.get("measure_seconds", 1.0), inputs_of(job, engine)
    if seconds == 0 or inputs is None:
        return {}
    threads = report["configuration"]["threads"]
    on_cpu = engine.device == "cpu"
    counts = [threads, 1] if on_cpu and threads > 1 else [threads]
    try:
        runs = [_measure.runner(engine, inputs, count) for count in counts]
        times = _measure.interleaved(runs, seconds)
        shares = _measure.layer_shares(engine, inputs, threads)
    except Error as error:
        if "inputs" in job or isinstance(error, (MemoryError, KeyboardInterrupt)):
            raise
        report["recommendations"].append(
            {
                "setting": "inputs",
                "text": f"the engine could not be measured on made-up inputs ({error}): give real ones",
                "evidence": {"error": str(error)},
            }
        )
        return {}
    figures = [_measure.summary(taken) for taken in times]
    shapes = {name: list(array.shape) for name, array in inputs.items()}
    report["performance"]["measured"] = {"shapes": shapes, "threads": threads, **figures[0]}
    found = {"threads": threads, "all_threads_ms": figures[0]["min_ms"]}
    if len(figures) > 1:
        found["single_thread_ms"] = figures[1]["min_ms"]
    moves = [(share, layer) for share, layer in shares if layer["op"] in ("transpose", "cast")]
    found["reformat_share"] = sum(share for share, _ in moves)
    found["reformat_layers"] = [layer["name"] for _, layer in moves[:3]]
    return found


def run_optimize(job, report, progress):
    """Builds an engine for each precision that may pay, measures them in turn on the same inputs, and keeps the fastest
    whose outputs are within max_error of fp32's."""
    existing(job["onnx_path"], "the model", job.get("_file"))
    path = engine_path(job)
    check_folder(path)
    profiles = _settings.profiles_of(job, input_names(job))
    report["configuration"]["profiles"] = _profiles(profiles)
    has_ranges = "calibration_data" in job or os.path.exists(job.get("calibration_cache", ""))
    calibration = calibration_of({**job, "int8": job.get("int8", has_ranges)}, profiles, report, progress)
    made, tried = [], []
    for precision in _candidates(job, calibration):
        begin = time.perf_counter()
        try:
            engine = built({**job, "best": False}, profiles, precision, calibration, progress)
        except Error as error:
            if not precision or error.code in ("cancelled", "out of memory"):
                raise
            tried.append({"precision": ["fp32", *precision], "refused": str(error)})
            continue
        made.append((precision, engine, time.perf_counter() - begin))
    inputs = inputs_of(job, made[0][1])
    if inputs is None:
        _, info = _measure.concrete_shapes(made[0][1])
        reason = (
            f"the sizes of '{info.name}' ({info.type}) are open: give opt_shape"
            if info
            else "inputs cannot be made up: give 'inputs'"
        )
        raise InvalidArgumentError(f"optimize measures engines, and {reason}")
    chosen, measured = _fastest(job, report, made, inputs)
    precision, engine, _ = made[chosen]
    describe(
        {**job, "best": False, **{name: name in precision for name in _settings.PRECISIONS}},
        report,
        engine,
        sum(item[2] for item in made),
    )
    report["optimization"]["candidates"] = measured + tried
    report["accuracy"]["worst_error_beside_fp32"] = measured[chosen]["error"]
    built_in = {name for item in made for name in item[0]}  # which were measured, and need no estimate
    report["recommendations"] = [advice for advice in report["recommendations"] if advice["setting"] not in built_in]
    if precision:  # only the build in fp32 says what others would gain
        report["recommendations"] += _facts.precisions(made[0][1].report, built_in)
    engine.save(path)
    saved(report, path)


def _candidates(job, calibration):
    """fp32, and each of the precisions that the device gains from and the job does not forbid."""
    on_gpu = job.get("device", "cpu").startswith("cuda")
    singles = [["tf32"], ["bf16"], ["fp16"]] if on_gpu else [["bf16"]]
    allowed = [single for single in singles if job.get(single[0], True)]
    eights = [name for name in _settings.OF_RANGES if name == "int8" or on_gpu or job.get(name)]
    of_ranges = [
        [*single, name] for name in eights if job.get(name, calibration is not None) for single in ([], *allowed[-1:])
    ]
    return [[], *allowed, *of_ranges]


def _fastest(job, report, made, inputs):
    threads = report["configuration"]["threads"]
    runs = [_measure.runner(engine, inputs, threads) for _, engine, _ in made]
    times = _measure.interleaved(runs, job.get("measure_seconds", 1.0))
    want = made[0][1].run(inputs)
    measured = []
    for (precision, engine, seconds), taken in zip(made, times):
        measured.append(
            {
                "precision": ["fp32", *precision],
                "build_time_s": seconds,
                "error": _measure.worst_error(engine.run(inputs), want),
                "chosen": False,
                **_measure.summary(taken),
            }
        )
    within = [k for k, item in enumerate(measured) if item["error"] <= job.get("max_error", 0.02)]
    chosen = min(within, key=lambda k: measured[k]["min_ms"])
    measured[chosen]["chosen"] = True
    return chosen, measured


def saved(report, path):
    """Enters an engine that was written."""
    report["output_engine"] = str(path)
    report["performance"]["engine_size_mb"] = os.path.getsize(path) / 2**20
    _report.add_artifact(report, "engine", path)


def _profiles(profiles):
    return [
        {name: dict(zip(("min", "opt", "max"), map(list, three))) for name, three in profile.items()}
        for profile in profiles or []
    ]
