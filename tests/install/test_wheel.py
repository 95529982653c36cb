"""The wheel: made by scripts/wheel.sh, installed into an environment of its own, and used there."""

import platform
import re
import subprocess
import sys
import zipfile

import pytest
from camshaft_cli import ROOT

import onnx
from onnx import TensorProto, helper

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="what is shipped is for x86-64")

SCRIPT = """
import sys
import numpy as np
import camshaft

engine = camshaft.build(sys.argv[1], sys.argv[2])
x = np.array([[1, -2, 3]], np.float32)
y = engine(x)
assert y.tolist() == [[3, 0, 1.5]], y
assert camshaft.Engine(sys.argv[2])(x).tolist() == y.tolist()
print(camshaft.__file__)
"""


def output(*arguments, **options):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel():
    output(ROOT / "scripts/wheel.sh")
    (made,) = (ROOT / "dist").glob("camshaft-*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    output(sys.executable, "-m", "venv", folder)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    import numpy

    output(*pip, "--no-deps", wheel, f"numpy=={numpy.__version__}")
    return folder


def test_is_one_file_for_all(wheel):
    tag = re.fullmatch(r"camshaft-[0-9.]+-cp39-abi3-manylinux_2_(\d+)_x86_64\.whl", wheel.name)
    assert tag and int(tag[1]) <= 28
    assert wheel.stat().st_size < 20e6
    names = zipfile.ZipFile(wheel).namelist()
    assert {"camshaft/__init__.py", "camshaft/_native.abi3.so", "camshaft/py.typed"} <= set(names)
    assert any(name.endswith(".data/scripts/camshaft") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(".libs" in name for name in names)  # nothing of other packages is inside


def test_builds_and_runs_a_model(environment, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [3, 1, 0.5])],
    )
    model = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    # Not from the sources' folder, and with nothing of the caller's environment.
    arguments = [environment / "bin/python", "-I", "-c", SCRIPT, model, tmp_path / "model.engine"]
    assert str(environment) in output(*arguments, cwd=tmp_path, env={})
    command = environment / "bin/camshaft"
    assert "y" in output(command, "run", tmp_path / "model.engine", "--shapes", "x:2x3", cwd=tmp_path, env={})
