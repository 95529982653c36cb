"""Jobs from their description to their report."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from camshaft._errors import FileError
from camshaft._keywords import with_keywords_of
from camshaft.jobs import _benchmark, _operations, _report, _settings
from camshaft.jobs._file import JobError, check_job, read_job
from camshaft.jobs._keys import JobKeys

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from camshaft._types import Path as AnyPath
    from camshaft._types import Progress, Record

_OPERATIONS = {
    "convert": _operations.run_convert,
    "optimize": _operations.run_optimize,
    "calibrate": _operations.run_calibrate,
    "benchmark": _benchmark.run_benchmark,
}


def run(job: AnyPath | Mapping[str, Any], *, progress: Progress | None = None) -> Record:
    """Does what a YAML or JSON file, or a dict of the same keys, describes. Returns the report, which is also written as
    JSON: to report_path, or beside what the job writes, with .report.json behind its name.

    progress: as in camshaft.build(). Raises JobError for what is no job, FileError for a file of a job that cannot be
    read, and what the operations raise; the exception's `job_report` is the report, which is written then, too."""
    if isinstance(job, Mapping):
        return _run({key: value for key, value in job.items() if value is not None}, "job", {}, None, progress)
    path = os.fspath(job)
    # What a report is called that cannot be called after what was to be made.
    fallback = os.path.splitext(os.path.basename(path))[0]
    try:
        read, lines = read_job(path)
    except JobError as error:
        report = _report.empty({})
        report["operation"] = None
        _stop(error, report, _report.path_of_report({}, fallback))
        raise
    return _run(read, path, lines, fallback, progress)


@with_keywords_of(JobKeys)
def convert(*, progress: Progress | None = None, **keys: Unpack[JobKeys]) -> Record:
    """Builds an engine of `onnx_path`. Keys are those of a job."""
    return run({**keys, "operation": "convert"}, progress=progress)


@with_keywords_of(JobKeys)
def optimize(*, progress: Progress | None = None, **keys: Unpack[JobKeys]) -> Record:
    """Builds engines in several precisions, and keeps the fastest that is accurate enough."""
    return run({**keys, "operation": "optimize"}, progress=progress)


@with_keywords_of(JobKeys)
def calibrate(*, progress: Progress | None = None, **keys: Unpack[JobKeys]) -> Record:
    """Learns ranges of `calibration_data`, and writes `calibration_cache`."""
    return run({**keys, "operation": "calibrate"}, progress=progress)


@with_keywords_of(JobKeys)
def benchmark(*, progress: Progress | None = None, **keys: Unpack[JobKeys]) -> Record:
    """Measures engines beside other runtimes."""
    return run({**keys, "operation": "benchmark"}, progress=progress)


def _run(job, name, lines, fallback, progress):
    job = {key: _plain(value) for key, value in job.items()}
    report = _report.empty(job)
    asked = job.get("report_path")
    if isinstance(asked, str) and _settings.is_read(job, asked, name if lines else None):
        path_of_report = functools.partial(_report.path_of_report, {})  # and no report in the place of a model
    else:
        path_of_report = functools.partial(_report.path_of_report, job)
    path = path_of_report(fallback)
    try:
        check_job(job, name, lines)
        path = path_of_report(_made_by(job))
        _operations.check_folder(path)
        _settings.check_overwritten(job, name if lines else None)
        _settings.load_operators(job)
        _OPERATIONS[report["operation"]]({**job, "_file": name if lines else None}, report, progress)
    except BaseException as error:
        _stop(error, report, path)
        raise
    _report.write_json(path, report)
    report["report_path"] = str(path)
    return report


def _stop(error, report, path):
    """Writes the report of a job that failed; where that cannot be done, the error of the job is what counts."""
    _report.fail(report, error)
    try:
        _report.write_json(path, report)
    except FileError:
        path = None
    try:
        error.job_report, error.job_report_path = report, path
    except AttributeError:
        pass  # an exception of a library's without attributes of its own


def _made_by(job):
    operation = job.get("operation", "convert")
    if operation == "calibrate":
        return job["calibration_cache"]
    return job.get("plot_path", "benchmark") if operation == "benchmark" else _operations.engine_path(job)


def _plain(value):
    """What JSON has in place of paths, tuples and NumPy's numbers."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
