"""Every command of the documentation runs: the fenced `sh` blocks of each page, as one shell session from the root."""

import json
import os
import re
import subprocess

import pytest
from camshaft_cli import ROOT

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]

# Commands that would take too long here, or call these tests again: that they exist and know the options is checked.
ONLY_CHECKED = (
    "scripts/test.sh",
    "bench/compare",
    "scripts/report.py",
    "scripts/lint.sh --tidy",
    "tests/differential/differential.py",
)
BUILD = re.compile(r"(?:cmake --(?:build --)?preset|ctest --preset|scripts/build\.sh) (\w+)")


def commands(page):
    """The commands of the page's sh blocks; a line that ends in a backslash goes on in the next."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [
        line
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]


def check_script(command):
    """The script is there, can be run, and its text knows each of the options."""
    script, *words = command.split()
    assert os.access(ROOT / script, os.X_OK), f"{script} cannot be run"
    program = ROOT / f"{script}.py"  # that the script runs, or the script itself
    text = (program if program.exists() else ROOT / script).read_text()
    for word in words:
        assert not word.startswith("--") or word in text, f"{script} has no option {word}"


def test_the_pages_have_commands():
    assert "scripts/demo.sh" in commands("README.md") and "scripts/test.sh" in commands("README.md")


@pytest.mark.parametrize("page", PAGES)
def test_commands_run(page):
    presets = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["buildPresets"]}
    script = ["set -euo pipefail"]
    for command in commands(page):
        build = BUILD.match(command)
        if build:
            assert build[1] in presets, f"no such preset: {command}"
        elif command.startswith(ONLY_CHECKED):
            check_script(command)
        else:
            script += [f"echo '+' {json.dumps(command)} >&2", command]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{page}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}, which is not there"


def test_every_script_has_help_in_its_text():
    for script in (ROOT / "scripts").iterdir():
        if script.is_file() and os.access(script, os.X_OK):
            first = script.read_text().splitlines()[1]
            assert first.startswith(("# ", '"""')), f"{script.name} does not say what it is for"


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs/howto").glob("*.md")))
def test_code_of_the_guides_is_in_the_sources(page):
    """Each line of each block of C++ or CUDA C++, in order and without gaps, is in one source file."""
    files = [path for folder in ("src", "tests", "include") for path in (ROOT / folder).rglob("*.[ch]*")]
    sources = [path.read_text() for path in files if path.suffix in (".h", ".cpp", ".cuh")]
    blocks = re.findall(
        r"^```(?:cpp|cuda)\n(.*?)^```", (ROOT / "docs/howto" / page).read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) >= 4
    for block in blocks:
        assert any(block in text for text in sources), f"not in the sources as it stands:\n{block}"


def test_paths_of_the_pages_exist():
    """What stands between backticks and begins with a folder of the sources is there."""
    for page in PAGES:
        for path in re.findall(r"`((?:src|tests|tools|scripts|docs)/[\w./-]*)`", (ROOT / page).read_text()):
            assert (ROOT / path).exists(), f"{page} names {path}, which is not there"
