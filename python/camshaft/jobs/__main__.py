"""`camshaft job|convert|optimize|benchmark`, and `python -m camshaft.jobs` with the same arguments."""

import argparse
import json
import signal
import sys

from camshaft._build_option import add_build_option, build_options
from camshaft._exit_codes import exit_code
from camshaft.jobs import _benchmark
from camshaft.jobs._file import schema
from camshaft.jobs._run import run

_HELP = {
    "job": "Run the job that a YAML or JSON file describes, and write its report.",
    "convert": "Build an engine of an ONNX model, and write a report of what was done and what would gain.",
    "optimize": "Build in several precisions, measure them, and keep the fastest that is accurate enough.",
    "calibrate": "Learn the ranges that int8 needs from files of arrays, and write them and a report.",
    "benchmark": "Measure engines beside ONNX Runtime, OpenVINO and PyTorch: a table, a report and a picture.",
}
_OF_BENCHMARK = {
    "engines",
    "runtimes",
    "torch_path",
    "batches",
    "dynamic_batches",
    "streams",
    "stream_batch",
    "plot_path",
}
_NO_OPTIONS = {"$schema", "operation", "onnx_path", "profiles", "build_options"}


class _Terminated(KeyboardInterrupt):
    """SIGTERM."""


def main(arguments=None):
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        job = options.file if options.command == "job" else _job_of(options)
        report = run(job, progress=True)
        _tell(report, options.json)
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt as error:
        return _failed(error, "interrupted", 143 if isinstance(error, _Terminated) else 130)
    except Exception as error:
        return _failed(error, str(error) or type(error).__name__, exit_code(error))


def _terminate(number, frame):
    raise _Terminated("terminated")


def _failed(error, message, code):
    for line in message.splitlines():
        print(f"camshaft: error: {line}", file=sys.stderr)
    if path := getattr(error, "job_report_path", None):
        print(f"camshaft: the report is {path}", file=sys.stderr)
    return code


def _parser():
    parser = argparse.ArgumentParser(prog="camshaft", description="Jobs with a report in JSON.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _HELP.items():
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.add_argument("--json", action="store_true", help="Print the report as JSON")
        if name == "job":
            command.add_argument("file", metavar="FILE", help="a YAML or JSON file; docs/jobs.md has its keys")
            continue
        command.add_argument("model", metavar="MODEL", nargs="?" if name == "benchmark" else None, help="the ONNX file")
        for key, rule in schema()["properties"].items():
            if key not in _NO_OPTIONS and (name == "benchmark" or key not in _OF_BENCHMARK):
                _add_option(command, key, rule)
        add_build_option(command)
    return parser


def _add_option(command, key, rule):
    text = rule.get("description", "").replace("%", "%%")
    names = [f"--{key.replace('_', '-')}"] + (["-o"] if key == "engine_path" else [])
    if rule.get("$ref") == "#/$defs/flag":
        command.add_argument(*names, dest=key, action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    if rule.get("repeated"):  # what is given may have commas
        command.add_argument(*names, dest=key, action="append", metavar="X", help=f"{text} May be repeated.")
        return
    kind = _kind(rule)
    command.add_argument(*names, dest=key, type=kind, metavar=_METAVARS.get(kind, "X"), help=text)


def _kind(rule):
    reference = rule.get("$ref", "").rsplit("/", 1)[-1]
    if reference == "shapes":
        return _shapes
    if reference == "counts":
        return _counts
    if reference == "count" or rule.get("type") == "integer":
        return int
    if rule.get("type") == "number":
        return float
    return _names if rule.get("type") == "array" or "anyOf" in rule else str


def _shapes(text):
    """1x3x224x224, or ids:1x128,mask:1x128."""
    if ":" not in text:
        return text
    return dict(item.rsplit(":", 1) for item in text.split(","))


def _counts(text):
    return [int(item) for item in text.split(",")]


def _names(text):
    return text.split(",")


_METAVARS = {_shapes: "SHAPE|NAME:SHAPE,…", _counts: "N,N,…", _names: "X,…", int: "N", float: "X", str: "X"}


def _job_of(options):
    known = schema()["properties"]
    job = {key: value for key, value in vars(options).items() if key in known and value is not None}
    job["operation"] = options.command
    if options.model is not None:
        job["onnx_path"] = options.model
    if options.build_option:
        job["build_options"] = build_options(options.build_option)
    return job


def _tell(report, as_json):
    if as_json:
        print(json.dumps(report, indent=2))
        return
    performance, measured = report["performance"], report["performance"].get("measured")
    if "cases" in performance:
        print(_benchmark.table(report))
    for item in report["artifacts"]:
        print(f"{item['kind']}: {item['path']} ({item['bytes'] / 2**20:.2f} MiB)")
    facts = report["optimization"]
    if "cases" not in performance and facts["tactics_selected"]:
        print(
            f"{facts.get('nodes_before', '?')} nodes in {facts['layers']} layers: {facts['layer_fusions']} fused, "
            f"{facts['reformats_eliminated']} changes of layout or type done on the way; {'+'.join(report['configuration']['precision'])}"
        )
    if measured and "cases" not in performance:
        print(
            f"latency: {measured['min_ms']:.3f} ms at best, {measured['p50_ms']:.3f} median, {measured['p99_ms']:.3f} p99 ({measured['threads']} threads)"
        )
    for advice in report["recommendations"]:
        print(f"recommended: {advice['text']}")
    print(f"report: {report['report_path']}")


if __name__ == "__main__":
    sys.exit(main())
