#!/usr/bin/env python3
"""Adds up the results of ctest, GoogleTest and pytest and prints one line: N passed, N failed[, N skipped].

usage: summarise_tests.py DIR RUNNER=STATUS..., where RUNNER is [FOLDER/]pytest or [FOLDER/]ctest: DIR holds RUNNER.xml of
each, and of the latter [FOLDER/]gtest/*.xml; any other RUNNER is a program without such a file, and counts as one case.
STATUS is the exit status that it ended with.
Each GoogleTest case counts; a program that ctest calls failed although none of its cases is (a crash, a time-out) counts
as one failure more, and so does a runner that left no results, or ended with an error although no case of its failed.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree


def outcome(case):
    """'passed', 'failed' or 'skipped' for one <testcase> of JUnit's format, in any of the three writers' dialects."""
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    if case.find("skipped") is not None or case.get("result") in ("skipped", "suppressed"):
        return "skipped"
    if case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def cases(path):
    """(name, outcome) of each test case in a results file; the name of a random test has its seed behind it."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
        seeds = [p.get("value") for p in case.iter("property") if p.get("name") == "CAMSHAFT_TEST_SEED"]
        yield " ".join([name, *(f"(CAMSHAFT_TEST_SEED={seed})" for seed in seeds)]), outcome(case)


def ctest_cases(folder):
    """The cases of every program that ctest ran; a program without GoogleTest results is one case."""
    for program, result in cases(folder / "ctest.xml"):
        program = program.split("::")[-1]
        detail = folder / "gtest" / f"test_{program}.xml"
        inner = list(cases(detail)) if detail.exists() else []
        yield from inner
        if not inner or (result == "failed" and all(r != "failed" for _, r in inner)):
            yield f"ctest {program}", result


def runner_cases(folder, runner):
    """All (name, outcome) pairs of one runner's results under the folder; none of one that writes no results."""
    kind = Path(runner).name
    if kind not in ("ctest", "pytest"):
        return []
    if not (folder / f"{runner}.xml").exists():
        return [(f"{runner} left no results", "failed")]
    return list(ctest_cases((folder / runner).parent) if kind == "ctest" else cases(folder / f"{runner}.xml"))


def collect(folder, statuses):
    """All (name, outcome) pairs of the runners' results under the folder; statuses: each runner's exit status."""
    for runner, status in statuses.items():
        results = runner_cases(folder, runner)
        yield from results
        if status != 0 and all(result != "failed" for _, result in results):
            yield f"{runner} ended with exit status {status}", "failed"
        elif not results:
            yield runner, "passed"


def main():
    statuses = dict(argument.rsplit("=", 1) for argument in sys.argv[2:])
    results = list(collect(Path(sys.argv[1]), {runner: int(status) for runner, status in statuses.items()}))
    count = {kind: sum(r == kind for _, r in results) for kind in ("passed", "failed", "skipped")}
    for name, result in results:
        if result == "failed":
            print(f"FAILED {name}")
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
