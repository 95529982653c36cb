"""The report of a job: a dict of the layout of report.schema.json, written whether the job is done or fails."""

import json
import os
import platform
from pathlib import Path

from camshaft import _native
from camshaft._errors import Error, FileError
from camshaft._exit_codes import code_of
from camshaft.jobs import _settings


def empty(job):
    """A report of nothing done yet."""
    operation = job.get("operation", "convert")
    allowed = [name for name in _settings.PRECISIONS if job.get(name)]
    model, gigabytes, threads = job.get("onnx_path"), job.get("max_workspace_gb"), job.get("threads")
    return {
        "version": 1,
        "camshaft": _native.version(),
        "operation": operation if operation in ("convert", "optimize", "calibrate", "benchmark") else None,
        "status": "success",
        "input_model": model if isinstance(model, str) else None,
        "output_engine": None,
        "configuration": {
            "precision": ["fp32", *allowed],
            "workspace_mb": 1024 * gigabytes if isinstance(gigabytes, (int, float)) else None,
            "dynamic_shapes": None,
            "profiles": [],
            "device": str(job.get("device", "cpu")),
            "threads": threads if isinstance(threads, int) and threads > 0 else cores(),
            "host": host(),
        },
        "optimization": {"layer_fusions": None, "reformats_eliminated": None, "tactics_selected": []},
        "performance": {
            "build_time_s": None,
            "engine_size_mb": None,
            "run_memory_mb": None,
            "estimated_latency_ms": None,
            "measured": None,
        },
        "accuracy": not_compared("the job did not come to it"),
        "artifacts": [],
        "recommendations": [],
        "errors": [],
    }


def not_compared(reason):
    """The report's section accuracy where no outputs were compared."""
    return {"passed": None, "worst_error": None, "against": f"nothing: {reason}", "outputs": []}


def cores():
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def host():
    """The processor's name."""
    for device in json.loads(_native.list_devices()):
        if device["kind"] == "cpu" and device.get("name"):
            return device["name"]
    return platform.processor() or platform.machine()


def path_of_report(job, written=None):
    """Where a job's report goes: report_path, or beside what the job writes."""
    if isinstance(job.get("report_path"), str):
        return Path(job["report_path"])
    return Path(f"{written or 'job'}.report.json")


def add_artifact(report, kind, path):
    report["artifacts"].append({"kind": kind, "path": str(path), "bytes": os.path.getsize(path)})


def fail(report, error):
    """Enters what stopped the job."""
    report["status"] = "failed"
    report["errors"].append({"code": code_of(error), "message": str(error) or type(error).__name__})
    judged = error.report if isinstance(error, Error) else None
    if judged and judged.get("verification"):
        from camshaft.jobs._facts import accuracy

        report["accuracy"] = accuracy(judged)


def write_json(path, value):
    """The file is either complete or untouched. Infinities and NaNs, which JSON has not, become null."""
    write_whole(path, (json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_whole(path, data):
    path = Path(path)
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        try:
            part.unlink()
        except OSError:
            pass  # it was renamed, or could not be made


def _finite(value):
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
