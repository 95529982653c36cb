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
    """The folders of src/ are layers: each includes itself and those before it."""
    order = ["base", "ir", "reference", "onnx", "optimize", "compile"]
    order += ["backends/cpu", "backends/cuda", "engine", "runtime", "builder", "api"]
    after = {
        "optimize": {"onnx"},
        "compile": {"onnx"},
        "backends/cpu": {"onnx"},
        "backends/cuda": {"onnx", "backends/cpu"},
        "engine": {"onnx", "backends/cpu", "backends/cuda"},
    }

    def layer_of(path):
        folders = path.split("/")
        return "/".join(folders[:2]) if folders[0] == "backends" else folders[0]

    wrong = []
    for path in tracked("src/*.h", "src/*.cpp"):
        layer = layer_of(path.removeprefix("src/"))
        for line in (ROOT / path).read_text().splitlines():
            included = re.match(r'#include "([\w/]+/)', line)
            other = layer_of(included[1]) if included else None
            if other in order and (order.index(other) > order.index(layer) or other in after.get(layer, ())):
                wrong.append(f"{path}: {line}")
    assert not wrong, "\n".join(wrong)


def test_public_headers_need_nothing_of_src():
    """What is installed compiles without src/ and without the libraries behind it."""
    wrong = [
        f"{path}: {line}"
        for path in tracked("include/*.h", "include/*.hpp")
        for line in (ROOT / path).read_text().splitlines()
        if re.match(r'#include "(?!camshaft/)|#include <(?!std(def|int)\.h>).*[/.]', line)
    ]
    assert not wrong, "\n".join(wrong)
