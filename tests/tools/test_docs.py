"""The documentation is true and readable: commands run (the fenced `sh` blocks of each page, as one shell session from
the root), links lead somewhere, and the pages that are written by hand have short lines and short bullets."""

import json
import os
import re
import subprocess

import pytest
from camshaft_cli import BINARY, ROOT

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]

# Commands that would take too long here, or call these tests again: that they exist and know the options is checked.
ONLY_CHECKED = (
    "scripts/test.sh",
    "bench/compare",
    "bench/operators",
    "scripts/report.py",
    "scripts/lint.sh --tidy",
    "tests/differential/differential.py",
    "tests/mutation/campaign.py",
)
BUILD = re.compile(r"(?:cmake --(?:build --)?preset|ctest --preset|scripts/build\.sh) (\w+)")


def commands(page):
    """The commands of the page's sh blocks; a line that ends in a backslash goes on in the next. What begins with pip is
    for an environment of its own: tests/install/test_wheel.py runs it in one."""
    blocks = re.findall(r"^```sh\n(?!pip )(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
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


def test_what_begins_with_pip_is_run_elsewhere():
    """The README's alone, which tests/install/test_wheel.py runs."""
    assert [page for page in PAGES if re.search(r"^```sh\npip ", (ROOT / page).read_text(), re.MULTILINE)] == [
        "README.md"
    ]


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
    # The demo's build is not there where only the tests' was made.
    environment = os.environ | {"PATH": f"{BINARY.parent}:{os.environ['PATH']}", "CAMSHAFT": str(BINARY)}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
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
    """What stands between backticks and begins with a folder of the root, or of src/, is there; of src/, where files
    are named without their endings, with one."""
    layers = [path.name for path in (ROOT / "src").iterdir() if path.is_dir()]
    folders = "|".join(["src", "tests", "tools", "scripts", "docs", *layers])
    for page in PAGES:
        for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", (ROOT / page).read_text()):
            places = [ROOT / path, ROOT / "src" / path, ROOT / "src" / f"{path}.h"]
            assert any(place.exists() for place in places), f"{page} names {path}, which is not there"


def is_written_by_hand(page):
    return not re.search(r"^Made by `scripts/", (ROOT / page).read_text(), re.MULTILINE)


def prose(text):
    """The lines with their numbers; None in place of those of code blocks and tables."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        yield number, None if in_code or fence or line.startswith("|") else line
        in_code ^= fence


def too_long(text, columns=120):
    """Lines of prose that are longer, and are not a link alone."""
    return [
        number
        for number, line in prose(text)
        if line and len(line) > columns and not re.fullmatch(r"\s*(?:- )?\[[^]]*\]\([^)]*\)[.,;:]?", line)
    ]


def long_bullets(text, most=3):
    """Where bullets, or numbered items, of more lines begin."""
    lengths = {}
    bullet = None
    for number, line in prose(text):
        if line and re.match(r"\s*(?:[-*+]|\d+\.)\s", line):
            bullet = number
        elif not line or line.startswith("#"):
            bullet = None
        if bullet:
            lengths[bullet] = lengths.get(bullet, 0) + 1
    return [number for number, length in lengths.items() if length > most]


def test_what_is_too_long():
    link = f"[{'a' * 120}](b.md)"
    text = (
        f"{'a' * 120}\n{'a' * 121}\n{link}\n- {link}\nsee {link}\n| {'a' * 120} |\n```\n{'a' * 121}\n```\n{'b' * 121}\n"
    )
    assert too_long(text) == [2, 5, 10]
    item = "\n  more"
    assert long_bullets(f"- a{item * 2}\n- b{item * 3}\n\n1. c{item * 3}\n\nd{item * 9}\n") == [4, 9]


def test_pages_are_told_apart():
    by_hand = {page for page in PAGES if is_written_by_hand(page)}
    assert {"README.md", "CONTRIBUTING.md", "docs/status.md", "docs/limits.md", "docs/tried.md"} <= by_hand
    assert not by_hand & {"docs/operators.md", "docs/results.md", "docs/performance.md", "docs/performance_gpu.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if is_written_by_hand(page)])
def test_lines_and_bullets_are_short(page):
    text = (ROOT / page).read_text()
    long_lines, bullets = too_long(text), long_bullets(text)
    assert not long_lines, f"{page}: lines of more than 120 columns: {long_lines}"
    assert not bullets, f"{page}: bullets of more than three lines begin at {bullets}"
