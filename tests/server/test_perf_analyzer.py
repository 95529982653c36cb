"""Triton's perf_analyzer against the server: where its wheel (`pip install perf-analyzer`, glibc 2.38 or newer) is
installed, or CAMSHAFT_PERF_ANALYZER names the program."""

import csv
import importlib.util
import os
import subprocess
from pathlib import Path

import pytest
from serving import serving, write_identity, write_model, write_sums

from onnx import helper

REQUESTS = 200
SEQUENCES = """name: "sequences" max_batch_size: 8
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [16] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [16] }]
sequence_batching { direct {} control_input [
  { name: "START" control [{ kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] }] },
  { name: "READY" control [{ kind: CONTROL_SEQUENCE_READY int32_false_true: [0, 1] }] }] }
"""


def find_program():
    if named := os.environ.get("CAMSHAFT_PERF_ANALYZER"):
        return named
    wheel = importlib.util.find_spec("perf_analyzer")
    program = Path(wheel.origin).parent / "bin/perf_analyzer" if wheel and wheel.origin else None
    return str(program) if program and program.exists() else None


def starts(program):
    """The wheel may be installed where the system's C library is too old for it."""
    return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0


PROGRAM = find_program()
pytestmark = pytest.mark.skipif(
    PROGRAM is None or not starts(PROGRAM), reason="perf_analyzer is not installed, or needs a newer C library"
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_sums(folder, "simple", 'name: "simple"\nmax_batch_size: 8\ndynamic_batching {}\n')
    write_identity(folder, "rows", "FP32", ["n", "m"])
    nodes = [
        helper.make_node("Add", ["INPUT0", "START"], ["begun"]),
        helper.make_node("Add", ["begun", "READY"], ["OUTPUT0"]),
    ]
    controls = [(name, "INT32", ["n", 1]) for name in ("START", "READY")]
    inputs = [("INPUT0", "INT32", ["n", 16]), *controls]
    write_model(folder, "sequences", nodes, inputs, [("OUTPUT0", "INT32", ["n", 16])], SEQUENCES)
    write_ensemble(folder)
    return folder


def write_ensemble(folder):
    (folder / "steps/1").mkdir(parents=True)
    tensor = "data_type: TYPE_INT32 dims: [16] }"
    (folder / "steps/config.pbtxt").write_text(
        f'name: "steps" platform: "ensemble" max_batch_size: 8 input [{{ name: "A" {tensor}, {{ name: "B" {tensor}]'
        f' output [{{ name: "SUM" {tensor}] ensemble_scheduling {{ step [{{ model_name: "simple" model_version: -1'
        ' input_map [{ key: "INPUT0" value: "A" }, { key: "INPUT1" value: "B" }]'
        ' output_map { key: "OUTPUT0" value: "SUM" } }] }'
    )


@pytest.fixture(scope="module")
def running(models):
    with serving(models, "--allow-client-shm=true") as server:
        yield server


def analyze(server, report, protocol, model, *options):
    """All of its requests are answered, or it ends with an error; what it reports has its part and the server's."""
    address = server.http if protocol == "http" else server.grpc
    # A number of requests, as on a machine that does other work, too, no window is like the one before.
    command = [PROGRAM, "-m", model, "-i", protocol, "-u", address, "-f", report, "--request-count", str(REQUESTS)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Failed" not in done.stdout, done.stdout
    rows = list(csv.DictReader(report.read_text().splitlines()))
    assert len(rows) == 1, done.stdout
    assert float(rows[0]["Inferences/Second"]) > 0, rows
    assert float(rows[0]["p99 latency"]) >= float(rows[0]["p50 latency"]) > 0, rows
    # By the server's statistics, in whole microseconds.
    assert sum(float(value) for name, value in rows[0].items() if name.startswith("Server ")) > 0, rows


LOADS = {
    "closed": ["--concurrency-range", "4"],
    "by rate": ["--request-rate-range", "200:200"],
    "by rate, Poisson": ["--request-rate-range", "200:200", "--request-distribution", "poisson"],
    "asynchronous": ["--concurrency-range", "4", "--async"],
    "batches": ["--concurrency-range", "2", "-b", "4"],
    "shared memory": ["--concurrency-range", "2", "--shared-memory", "system", "--output-shared-memory-size", "1024"],
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_loads(running, tmp_path, protocol, load):
    analyze(running, tmp_path / "report.csv", protocol, "simple", *LOADS[load])


def test_streams(running, tmp_path):
    options = ["--concurrency-range", "2", "--streaming", "--async"]
    analyze(running, tmp_path / "report.csv", "grpc", "simple", *options)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_kinds_of_models(running, tmp_path, protocol):
    options = ["--concurrency-range", "2"]
    analyze(running, tmp_path / "report.csv", protocol, "rows", "--shape", "INPUT0:3,5", *options)
    analyze(running, tmp_path / "report.csv", protocol, "steps", *options)
    analyze(running, tmp_path / "report.csv", protocol, "sequences", "--sequence-length", "5", *options)
