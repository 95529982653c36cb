"""Lists of what is installed from PyPI: exact, and the demo's are parts of the others."""

import re

import pytest
from camshaft_cli import ROOT


def lines(name):
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(
    "part, whole", [("requirements-demo", "requirements"), ("requirements-demo-models", "requirements-models")]
)
def test_the_demo_installs_a_part(part, whole):
    assert lines(f"{part}.txt") and set(lines(f"{part}.txt")) < set(lines(f"{whole}.txt"))


@pytest.mark.parametrize("path", sorted(ROOT.glob("requirements*.txt")), ids=lambda path: path.name)
def test_versions_are_exact(path):
    for line in lines(path.name):
        assert re.fullmatch(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.+!-]+( --hash=sha256:[0-9a-f]{64})?", line), (
            line
        )
