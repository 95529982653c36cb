"""The line with which scripts/test.sh ends: what failed is named and counted, whoever noticed it."""

import subprocess
import sys

import pytest
from camshaft_cli import ROOT


def suite(path, *results):
    path.parent.mkdir(parents=True, exist_ok=True)
    inner = {"passed": "", "failed": "<failure/>", "skipped": "<skipped/>"}
    cases = "".join(f'<testcase classname="suite" name="case{i}">{inner[r]}</testcase>' for i, r in enumerate(results))
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")


def summary(folder, *runners):
    script = ROOT / "scripts" / "summarise_tests.py"
    done = subprocess.run([sys.executable, script, folder, *runners], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def test_cases_are_added_up(tmp_path):
    suite(tmp_path / "pytest.xml", "passed", "passed", "skipped")
    suite(tmp_path / "sanitized" / "pytest.xml", "passed")
    code, lines = summary(tmp_path, "pytest=0", "sanitized/pytest=0", "fuzzers=0")
    assert (code, lines) == (0, ["4 passed, 0 failed, 1 skipped"])


@pytest.mark.parametrize("runner", ["pytest", "fuzzers"])
def test_a_runner_that_ends_with_an_error_is_a_failure(tmp_path, runner):
    suite(tmp_path / "pytest.xml", "passed")
    code, lines = summary(tmp_path, f"{runner}=3")
    assert code == 1
    assert lines[0] == f"FAILED {runner} ended with exit status 3"
    assert lines[-1].endswith(", 1 failed")


def test_a_failed_case_is_counted_once(tmp_path):
    suite(tmp_path / "pytest.xml", "passed", "failed")
    code, lines = summary(tmp_path, "pytest=1")
    assert (code, lines) == (1, ["FAILED suite::case1", "1 passed, 1 failed"])


def test_a_program_that_crashes_after_its_cases_is_a_failure(tmp_path):
    suite(tmp_path / "gtest" / "test_base.xml", "passed")
    (tmp_path / "ctest.xml").write_text(
        '<testsuite><testcase name="base" status="fail"><failure/></testcase></testsuite>'
    )
    code, lines = summary(tmp_path, "ctest=8")
    assert (code, lines) == (1, ["FAILED ctest base", "1 passed, 1 failed"])


def test_a_program_that_could_not_be_started_is_a_failure(tmp_path):
    (tmp_path / "ctest.xml").write_text('<testsuite><testcase name="base" status="notrun"/></testsuite>')
    code, lines = summary(tmp_path, "ctest=8")
    assert (code, lines) == (1, ["FAILED ctest ended with exit status 8", "0 passed, 1 failed, 1 skipped"])


def test_a_runner_without_results_is_a_failure(tmp_path):
    code, lines = summary(tmp_path, "pytest=4")
    assert (code, lines) == (1, ["FAILED pytest left no results", "0 passed, 1 failed"])
