#!/usr/bin/env python3
"""Adds up the results of ctest, GoogleTest and pytest and prints one line: N passed, N failed[, N skipped].

usage: summarise_tests.py DIR, which holds ctest.xml, gtest/*.xml and, where pytest ran, pytest.xml. Each GoogleTest case
counts; a program that ctest calls failed although none of its cases is (a crash, a time-out) counts as one failure more.
"""
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


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
    """(name, outcome) of each test case in a results file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
        yield name, outcome(case)


def collect(folder):
    """All (name, outcome) pairs under a results folder."""
    ctest, pytest = folder / "ctest.xml", folder / "pytest.xml"
    if not ctest.exists():
        yield "ctest did not finish", "failed"
    else:
        for program, result in cases(ctest):
            program = program.split("::")[-1]
            detail = folder / "gtest" / f"test_{program}.xml"
            inner = list(cases(detail)) if detail.exists() else []
            yield from inner
            if not inner or (result == "failed" and all(r != "failed" for _, r in inner)):
                yield f"ctest {program}", result
    if pytest.exists():
        yield from cases(pytest)


def main():
    results = list(collect(Path(sys.argv[1])))
    count = {kind: sum(r == kind for _, r in results) for kind in ("passed", "failed", "skipped")}
    for name, result in results:
        if result == "failed":
            print(f"FAILED {name}")
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
