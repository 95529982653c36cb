"""Jobs: what builds, calibrates and measures, with a report in JSON of what was done.

    report = camshaft.jobs.run("job.yaml")              # or .json, or a dict of the same keys
    report = camshaft.jobs.convert(onnx_path="model.onnx", engine_path="model.engine", fp16=True)

The command is `camshaft job job.yaml`. The keys are those of schema(), and the report is as schema("report") says."""

from camshaft.jobs._file import JobError, schema
from camshaft.jobs._run import benchmark, calibrate, convert, optimize, run

__all__ = ["JobError", "benchmark", "calibrate", "convert", "optimize", "run", "schema"]
