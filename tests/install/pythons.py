"""Pythons that tests make environments of: those of this machine, by version."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# For each Python the oldest NumPy from 1.23 on, which the metadata asks for, that has a wheel for it, and a NumPy 2.
_NUMPY = {
    "3.9": ("1.23.0", "2.0.2"),
    "3.10": ("1.23.0", "2.2.6"),
    "3.11": ("1.23.2", "2.4.6"),
    "3.12": ("1.26.0", "2.4.6"),
    "3.13": ("2.1.0", "2.4.6"),
    "3.14": ("2.3.2", "2.4.6"),
}
VERSIONS = list(_NUMPY)


def numpy_release(version, which):
    """The "oldest" or the "newest" for a Python."""
    return _NUMPY[version][which == "newest"]


def _places(version):
    """Where programs of that version may be: this one, those on PATH, and what pyenv has installed, PATH or not."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield sys.executable
    if found := shutil.which(f"python{version}"):
        yield found
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from sorted(of_pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)


@functools.cache
def find(version):
    """A program that is Python of a version, "3.12", and makes environments; None where there is none."""
    for place in _places(version):
        ask = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([place, "-I", "-c", ask], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == version:  # pyenv's shims fail where none is chosen
            return place
    return None


def make_environment(version, folder):
    """An empty environment; skips the test where that Python is not here. Gives its python."""
    program = find(version)
    if program is None:
        pytest.skip(f"Python {version} is not on this machine: neither python{version} on PATH nor pyenv's")
    subprocess.run([program, "-I", "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin/python"


def install(python, *packages, **environment):
    """Installs packages there, by this Python's pip."""
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *packages], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, f"{packages}\n{done.stdout}\n{done.stderr}"
