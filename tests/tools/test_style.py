"""The C++ sources are formatted, and nothing in the tree is out of place."""

import re
import subprocess

from camshaft_cli import ROOT


def tracked(*patterns):
    return subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_formatting():
    done = subprocess.run([ROOT / "scripts/lint.sh"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-4000:]


def test_layers_include_only_earlier_ones():
    """The rooms of src/ are layers: each includes itself and those before it."""
    order = ["base", "graph", "ops", "onnx", "optimize", "compile", "cpu", "cuda", "engine", "runtime", "build"]
    after = {
        "onnx": {"optimize", "compile"},
        "optimize": {"onnx", "compile"},
        "compile": {"onnx", "optimize"},
        "cuda": {"onnx", "optimize", "cpu"},
    }
    wrong = []
    for path in tracked("src/*.h", "src/*.cpp"):
        room = path.split("/")[1]
        for line in (ROOT / path).read_text().splitlines():
            other = re.match(r'#include "(\w+)/', line)
            if (
                other
                and other[1] in order
                and (order.index(other[1]) > order.index(room) or other[1] in after.get(room, ()))
            ):
                wrong.append(f"{path}: {line}")
    assert not wrong, "\n".join(wrong)


def test_public_headers_need_nothing_of_src():
    """What is installed compiles without src/ and without the libraries behind it."""
    wrong = [
        f"{path}: {line}"
        for path in tracked("include/*.h")
        for line in (ROOT / path).read_text().splitlines()
        if re.match(r'#include "(?!camshaft/)|#include <.*[/.]', line)
    ]
    assert not wrong, "\n".join(wrong)
