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


def component_of(path):
    """The component of a path below src/: its first folder, or the second one of backends, which share a folder."""
    folders = path.split("/")
    return folders[1] if folders[0] == "backends" else folders[0]


def test_components_include_only_earlier_ones():
    """The folders of src/ are components: each includes itself and those before it."""
    order = [
        "base",
        "ir",
        "reference",
        "onnx",
        "plugin",
        "optimize",
        "compile",
        "cpu",
        "cuda",
        "engine",
        "runtime",
        "quantize",
        "builder",
        "api",
        "ort_provider",
    ]
    after = {
        "onnx": {"optimize", "compile"},
        "plugin": {"optimize", "compile"},
        "optimize": {"onnx", "plugin", "compile"},
        "compile": {"onnx", "plugin"},
        "cpu": {"onnx", "plugin"},
        "cuda": {"onnx", "plugin", "cpu"},
        "engine": {"plugin"},
        "runtime": {"plugin"},
        "quantize": {"plugin"},
        "builder": {"plugin"},
    }
    wrong = []
    for path in tracked("src/*.h", "src/*.cpp"):
        component = component_of(path.removeprefix("src/"))
        for line in (ROOT / path).read_text().splitlines():
            include = re.match(r'#include "(\w+/[\w/.-]+)"', line)
            other = component_of(include[1]) if include else None
            if other in order and (order.index(other) > order.index(component) or other in after.get(component, ())):
                wrong.append(f"{path} includes {include[1]}")
    assert not wrong, "\n".join(wrong)


def local_names(text):
    """The types and constants of a source's unnamed namespaces, each with the namespace around it."""
    around, is_local = "", False
    for line in re.sub(
        r'R"(\w*)\(.*?\)\1"', '""', text, flags=re.DOTALL
    ).splitlines():  # texts of kernels have their own
        if named := re.match(r"namespace ([\w:]+) {", line):
            around = named[1]
        elif line == "namespace {":
            is_local = True
        elif line.startswith("}  // namespace"):
            is_local = False
        elif is_local and (
            found := re.match(r"(?:struct|class|union|enum(?: class)?) (\w+)[^;]*$", line)
            or re.match(r"(?:static |inline )*const(?:expr)? [\w:<>, *&]*?\b(\w+)(?:\[\w*\])?(?: = |\{|$)", line)
        ):
            yield f"{around}::{found[1]}"


def test_local_names_are_unique_in_a_component():
    """Sources are compiled in joined files, all of a component as one in the preset native."""
    sources = {}
    for path in tracked("src/*.cpp"):
        if "/cpu/kernels/" not in path and not path.endswith(("contract/product_tiles.cpp", "contract/dot_rows.cpp")):
            for name in set(local_names((ROOT / path).read_text())):
                sources.setdefault((component_of(path.removeprefix("src/")), name), []).append(path)
    assert len(sources) > 500
    twice = [f"{name}: {', '.join(paths)}" for (_, name), paths in sources.items() if len(paths) > 1]
    assert not twice, "\n".join(twice)


def test_public_headers_need_nothing_of_src():
    """What is installed compiles without src/ and without the libraries behind it. CUDA's header is taken where it is, and
    the loader's (dlfcn.h, link.h) are the C library's."""
    wrong = [
        f"{path}: {line}"
        for path in tracked("include/*.h")
        for line in (ROOT / path).read_text().splitlines()
        if re.match(
            r'#include "(?!camshaft/)|#include <(?!std(?:def|int)\.h|dlfcn\.h|link\.h|cuda_runtime_api\.h).*[/.]', line
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_comments_name_files_that_exist():
    """A file that moves takes along what comments say of it: `folder/name.h`, from any folder of the tree."""
    paths = tracked()
    wrong = []
    for path in tracked("src/*", "include/*", "tools/*", "python/*", "tests/*.h", "tests/*.cpp", "docs/*.md"):
        if not path.endswith((".h", ".hpp", ".cpp", ".cuh", ".md")):
            continue
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            if line.startswith("#include"):
                continue
            for name in re.findall(r"(?<![\w/.<])((?:\w+/)+\w+\.(?:h|hpp|cpp|cuh))\b", line):
                if not any(other.endswith("/" + name) or other == name for other in paths):
                    wrong.append(f"{path}:{number}: {name}")
    assert not wrong, "\n".join(wrong)
