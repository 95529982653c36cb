"""What was done to a model, by the record of its engine, and what would make it faster, by what was measured."""

from camshaft.jobs import _report, _settings

# What changes the layout or the type of a tensor, and computes nothing.
_REFORMATS = {"transpose", "cast", "quantize", "dequantize"}


def _steps(layer):
    """The operators that a layer computes: "conv {strides=…} → pointwise {…}" are conv and pointwise."""
    return [step.split(" ", 1)[0] for step in layer["description"].split(" → ") if step]


def _chosen(layer):
    """The times of the tactic that was taken, as (measured, estimated) nanoseconds; None where there are none."""
    for tried in layer["tried"]:
        if tried["tactic"] == layer["tactic"] and not tried["refused"]:
            return _time(tried.get("measured_ns")), _time(tried.get("estimated_ns"))
    return None, None


def _time(nanoseconds):
    return nanoseconds if nanoseconds and nanoseconds > 0 else None  # -1: there is none


def optimization(engine):
    """The report's section of that name, of an engine."""
    layers = [layer for layer in engine.layers() if not layer["at_binding"]]
    fused = eliminated = left = 0
    tactics = []
    for layer in layers:
        steps = _steps(layer)
        fused += max(0, len(layer["sources"]) - 1)
        reformats = sum(step in _REFORMATS for step in steps)
        if reformats and reformats == len(steps):
            left += 1
            eliminated += reformats - 1  # done in one pass over memory
        else:
            eliminated += reformats
        measured, estimated = _chosen(layer)
        tactics.append(
            {
                "layer": layer["name"],
                "op": layer["op"],
                "tactic": layer["tactic"],
                "tried": len(layer["tried"]),
                "measured_us": measured / 1e3 if measured else None,
                "estimated_us": estimated / 1e3 if estimated else None,
            }
        )
    made = {
        "layers": len(layers),
        "layer_fusions": fused,
        "reformats_eliminated": eliminated,
        "reformats_left": left,
        "tactics_selected": tactics,
    }
    if engine.report and "model_nodes" in engine.report:
        made["nodes_before"] = engine.report["model_nodes"]
    return made


def estimated_latency_ms(tactics):
    """The sum of the tactics' times; None where no layer has one."""
    known = [time for tactic in tactics for time in [tactic["measured_us"] or tactic["estimated_us"]] if time]
    return sum(known) / 1e3 if known else None


def accuracy(report):
    """The report's section of that name, by the verification at the end of a build."""
    outputs = report.get("verification") or []
    if not outputs:
        return _report.not_compared("the build was not verified")
    errors = [output["relative_error"] for output in outputs if output.get("relative_error") is not None]
    return {
        "passed": all(output["passed"] for output in outputs),
        "worst_error": max(errors, default=None),
        "against": "the reference evaluation of the model",
        "outputs": outputs,
    }


def recommendations(job, engine, measured):
    """What the figures of a build and of its runs say, each with these figures. `measured`: what the operations found
    out beside: {"single_thread_ms", "all_threads_ms", "threads", "reformat_share", "arena_mb", "build_s"}, where known."""
    report = engine.report or {}
    return [
        advice
        for find in (_precisions, _tuning_time, _timing_cache, _threads, _reformats, _shapes, _workspace, _unverified)
        for advice in find(job, engine, report, measured)
    ]


def _advice(setting, text, **evidence):
    return {"setting": setting, "text": text, "evidence": evidence}


def precisions(report, known=()):
    """What the build says of precisions that it was not allowed, but for those that are known already."""
    advice = []
    for gain in report.get("gains", []):
        name, speedup, error = gain["precision"], gain["speedup"], gain["error"]
        if name in known:
            continue
        cost = (
            f"its error was measured as {error:.1e} of the outputs' scale"
            if error is not None
            else "its error is not known"
        )
        needs = "; it needs calibration_data or a calibration_cache" if name in _settings.OF_RANGES else ""
        text = f"{name}: true would run {speedup:.2f} times as fast by the cost model; {cost}{needs}"
        advice.append(_advice(name, text, speedup=speedup, error=error))
    return advice


def _precisions(job, engine, report, measured):
    yield from precisions(report)
    slow = [layer for layer in report.get("quantized_layers", []) if not layer["quantized"]]
    if slow:
        reasons = sorted({layer["reason"] for layer in slow if layer["reason"]})
        yield _advice(
            next((name for name in _settings.OF_RANGES if job.get(name)), "int8"),
            f"{len(slow)} of {len(report['quantized_layers'])} layers stay in floating point: {'; '.join(reasons[:3])}",
            layers=[layer["layer"] for layer in slow],
        )


def _tuning_time(job, engine, report, measured):
    if late := report.get("problems_out_of_time", 0):
        whole = late + report["problems_measured"] + report["problems_cached"]
        yield _advice(
            "build_options.tuning-seconds",
            f"{late} of {whole} kernels were left to the cost model as the time for measuring was up: allow more than "
            f"{job.get('build_options', {}).get('tuning-seconds', 60)} s",
            out_of_time=late,
            kernels=whole,
        )
    if job.get("tuning") == "heuristic":
        yield _advice(
            "tuning",
            "the kernels were chosen by the cost model alone: tuning: measure tries them",
            kernels_measured=report.get("problems_measured", 0),
        )


def _timing_cache(job, engine, report, measured):
    tune, whole = report.get("seconds_tune", 0), measured.get("build_s", 0)
    if "timing_cache" not in job and tune > 2 and tune > 0.3 * whole:
        yield _advice(
            "timing_cache",
            f"measuring kernels took {tune:.1f} of {whole:.1f} s: a timing_cache saves them the next time",
            seconds_tune=tune,
            build_time_s=whole,
        )


def _threads(job, engine, report, measured):
    single, many, count = (measured.get(key) for key in ("single_thread_ms", "all_threads_ms", "threads"))
    if not single or not many or count < 2:
        return
    gain = single / many
    if gain < 1:
        text = f"one thread is faster than {count}: {single:.3f} and {many:.3f} ms"
    elif gain < 0.6 * count:
        text = f"{count} threads are only {gain:.2f} times as fast as one: for throughput, run {count} requests at a time on one each"
    else:
        return
    yield _advice("threads", text, single_thread_ms=single, all_threads_ms=many, threads=count)


def _reformats(job, engine, report, measured):
    if (share := measured.get("reformat_share", 0)) > 0.1:
        yield _advice(
            "onnx_path",
            f"{100 * share:.0f} % of the time goes into changes of layout or type: a model without its Transpose and Cast "
            f"nodes around {', '.join(measured['reformat_layers'])} saves them",
            share=share,
            layers=measured["reformat_layers"],
        )


def _shapes(job, engine, report, measured):
    open_inputs = [info.type for info in engine.inputs if any(size < 0 for size in info.shape)]
    if open_inputs and not engine.profiles:
        yield _advice(
            "opt_shape",
            f"nothing says which sizes are usual ({', '.join(open_inputs)}): opt_shape, with min_shape and max_shape where "
            "they vary, tunes and measures for these",
            inputs=open_inputs,
        )


def _workspace(job, engine, report, measured):
    limit, need = job.get("max_workspace_gb"), measured.get("arena_mb")
    if limit and need and need > 1024 * limit:
        yield _advice(
            "max_workspace_gb",
            f"a run needs {need:.0f} MiB, more than the {1024 * limit:.0f} allowed: smaller max_shape needs less",
            run_memory_mb=need,
            workspace_mb=1024 * limit,
        )


def _unverified(job, engine, report, measured):
    if missed := report.get("not_verified", []):
        yield _advice("inputs", f"{len(missed)} things could not be verified: {missed[0]}", not_verified=missed)
