"""The ONNX standard's own test cases pass, but for those that known_failures.txt explains.

The cases come with the Python package onnx. Each is built, saved, loaded and run in a process of its own by the program
onnx_backend_tests; its tolerances are those of onnx's own runner.
"""

import os
import subprocess
from pathlib import Path

import camshaft_cli
import onnx.backend.test
import pytest

DATA = Path(onnx.backend.test.__file__).parent / "data"
BUILD = camshaft_cli.BINARY.parents[1]
PROGRAM = BUILD / "tests/onnx_backend_tests"
EMULATE_GPU = Path(__file__).parents[2] / "scripts/emulate_gpu.sh"
KNOWN = Path(__file__).with_name("known_failures.txt")

# How many cases the package holds: fewer mean that it is not the one that requirements.txt pins.
CASES = {"node": 1765, "light": 9, "simple": 23, "pytorch-converted": 82, "pytorch-operator": 35}


def known_failures():
    """{name: reason} of the lines 'name: reason'."""
    lines = [line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def run_cases(kind, report, wrapper=(), **options):
    """{name: reason}, the reason empty for a case that passes."""
    command = [*wrapper, PROGRAM, DATA / kind, "--report", report, "--jobs", str(os.cpu_count())]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return {
        name: reason
        for name, _, reason in (line.partition("\t") for line in report.read_text(errors="replace").splitlines())
    }


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """{(kind, name): reason}"""
    return {
        (kind, name): reason
        for kind in CASES
        for name, reason in run_cases(kind, tmp_path_factory.mktemp(kind) / "report.tsv").items()
    }


@pytest.mark.parametrize("kind", CASES)
def test_the_corpus_is_whole(kind, outcomes):
    assert sum(case_kind == kind for case_kind, _ in outcomes) == CASES[kind]


@pytest.mark.parametrize("kind", CASES)
def test_cases_pass(kind, outcomes):
    known = known_failures()
    failures = {name: reason for (case_kind, name), reason in outcomes.items() if case_kind == kind and reason}
    new = {name: reason for name, reason in failures.items() if name not in known}
    assert not new, "\n".join(f"{name}: {reason}" for name, reason in new.items())


def test_known_failures_are_failures(outcomes):
    failures = {name for (_, name), reason in outcomes.items() if reason}
    assert not set(known_failures()) - failures, "these pass now: take them off the list"


def test_enough_node_tests_pass(outcomes):
    passed = sum(kind == "node" and not reason for (kind, _), reason in outcomes.items())
    camshaft_cli.record("conformance", "node", {"passed": passed, "cases": CASES["node"]})
    assert passed >= 1740


def test_what_passes_on_the_cpu_passes_on_the_emulated_gpu(outcomes, tmp_path):
    if not (BUILD / "tests/backends/cuda/emulator/lib/libcuda.so.1").exists():
        pytest.skip("the emulated GPU is not built")
    environment = {**os.environ, "CAMSHAFT_BUILD": str(BUILD), "CAMSHAFT_TEST_DEVICE": "cuda"}
    found = run_cases("node", tmp_path / "report.tsv", [EMULATE_GPU], env=environment)
    assert len(found) == CASES["node"]
    new = {name: reason for name, reason in found.items() if reason and not outcomes["node", name]}
    assert not new, "\n".join(f"{name}: {reason}" for name, reason in new.items())
