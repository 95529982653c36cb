"""What checkers and editors are told: it is what the library has, and the documentation's examples pass under it."""

import inspect
import os
import re
import subprocess
import sys

import pytest
from camshaft_cli import ROOT
from test_module import module

# What the examples have around them.
BEFORE = """
from typing import Any
import numpy as np
import camshaft

tensor = np.ones((2, 3), np.float32)
arrays = [tensor]
torch: Any = None
dataset: Any = None
table: Any = None
batch = tensor
"""
# Its code runs in processes of the server, with modules of theirs.
ELSEWHERE = "docs/serving_python.md"
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
OF_PAGE = {
    page: blocks
    for page in PAGES
    if page != ELSEWHERE
    and (blocks := re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL))
}


def mypy(*arguments):
    """(whether it is content, what it says), of the sources' package."""
    environment = {**os.environ, "MYPYPATH": str(ROOT / "python"), "MYPY_CACHE_DIR": str(ROOT / ".cache/mypy")}
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("types")


def test_generated_files_are_what_the_library_has():
    import python_types

    for path, text in python_types.files().items():
        assert path.read_text() == text, f"{path.relative_to(ROOT)} is not what scripts/python_types.py writes"


def test_the_package_passes(folder):
    package = ROOT / "python/camshaft"
    content, said = mypy(*package.glob("*.py"), *package.glob("*.pyi"), package / "jobs/_run.py")
    assert content, said


def test_the_native_part_has_those_functions():
    stub = (ROOT / "python/camshaft/_native.pyi").read_text()
    functions = {name for name, value in vars(module._native).items() if inspect.isbuiltin(value)}
    assert set(re.findall(r"^def (\w+)\(", stub, re.MULTILINE)) == functions


@pytest.mark.parametrize("page", OF_PAGE)
def test_examples_pass(folder, page):
    path = folder / "example.py"
    given = "x = tensor\n" if page == "README.md" else ""  # others make their own
    path.write_text(BEFORE + given + "\n".join(OF_PAGE[page]))
    content, said = mypy(path)
    assert content, said


def test_the_pages_have_examples():
    assert {"README.md", "docs/python.md", "docs/network.md", "docs/jobs.md", "docs/tensorrt.md"} <= set(OF_PAGE)


RIGHT = """
from pathlib import Path
import camshaft.tensorrt as trt

options: camshaft.BuildOptions = {"tuning": "heuristic", "timing_cache": Path("cache"), "debug_tensors": ["a", "b"]}
engine = camshaft.build(Path("m"), Path("e"), progress=lambda stage, done: None, precision=["fp16", "int8"], **options)
camshaft.build(b"", shapes={"x": x.shape}, profiles=None, inputs={"x": x}, seed=3, tolerance=1)
context = engine.create_context(threads=2)
context.bind_output("y", context.run({"x": x})["z"])
np.from_dlpack(context.output("y"))
camshaft.verify("m", against=lambda inputs: {"y": inputs["x"]}, fp16=True, precision="bf16")
calibration: camshaft.Calibration = camshaft.calibrate("m", [(x, x), x, {"x": x}], method="entropy", threads=1)
net = camshaft.Network()
a = net.input("a", "f32", ("batch", 3, None))
b: camshaft.Value = net.Conv(a, x, strides=[2, 2], auto_pad="SAME_UPPER", name="conv")
net.output(-(b + 1) @ x, "y")
net.Cast(b, to=np.float16)
net.microsoft.Gelu(a)
net.Loop(3, True, a, body=lambda body, i, go_on, carried: (go_on, carried))
config = trt.Builder(trt.Logger()).create_builder_config()
config.set_flag(trt.BuilderFlag.FP16)
camshaft.jobs.convert(onnx_path="m", min_shape="1x3", opt_shape=[2, 3], max_shape={"x": (4, 3)}, int8=None)
"""
WRONG = {
    'camshaft.build("m", fp61=True)': 'Unexpected keyword argument "fp61"',
    'camshaft.build("m", fp16="yes")': "incompatible type",
    'camshaft.build("m", precision="fp8")': "incompatible type",
    'camshaft.build("m", seed=0.5)': "incompatible type",
    'camshaft.build("m", tuning="fast")': "incompatible type",
    'camshaft.calibrate("m", [x], method="best")': "incompatible type",
    "camshaft.build(3)": "incompatible type",
    'camshaft.build("m", inputs={"x": 1})': "incompatible type",
    'camshaft.build("m", profiles={"x": 3})': "incompatible type",
    'camshaft.calibrate("m", [x], percentile="99")': "incompatible type",
    'camshaft.calibrate("m", [x], fp16=True)': 'Unexpected keyword argument "fp16"',
    'camshaft.verify("m", against="tensorrt")': "incompatible type",
    'camshaft.Engine("e").create_context("2")': "incompatible type",
    'camshaft.Engine("e").memory()["arena"].upper()': 'has no attribute "upper"',
    "camshaft.Network().Relu(x).item()": 'has no attribute "item"',
    "camshaft.Network().Relu()": "Missing positional argument",
    "camshaft.Network().Relu(x, alpha=1.0)": 'Unexpected keyword argument "alpha"',
    "camshaft.tensorrt.BuilderFlag.FP17": 'has no attribute "FP17"',
    'camshaft.jobs.convert(onxx_path="m")': 'Unexpected keyword argument "onxx_path"',
}


def test_right_and_wrong_calls_are_told_apart(folder):
    before = BEFORE + "x = tensor\nimport camshaft.jobs\nimport camshaft.tensorrt\n"
    path = folder / "calls.py"
    path.write_text(before + RIGHT + "\n".join(WRONG))
    _, said = mypy(path)
    first = (before + RIGHT).count("\n") + 1
    found = {int(number): text for number, text in re.findall(r"calls\.py:(\d+): error: (.*)", said)}
    for number, (call, error) in enumerate(WRONG.items(), first):
        assert error in found.pop(number, "nothing"), f"{call}\n{said}"
    assert not found, said


@pytest.mark.parametrize(
    "function, what", [("build", "build"), ("simplify", "build"), ("quantize", "build"), ("calibrate", "calibration")]
)
def test_signatures_have_the_options(function, what):
    """What help() shows, and what completes names in a running Python."""
    parameters = inspect.signature(getattr(module, function)).parameters
    names = {option["name"].replace("-", "_") for option in module.options(what)} - {"calibration"}
    assert names <= set(parameters) and "options" not in parameters
    assert "model" in parameters and all(parameters[name].default is None for name in names)
    assert "calibration" in inspect.signature(module.build).parameters  # in more forms than the option has
