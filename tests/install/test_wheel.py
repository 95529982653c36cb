"""The wheel: made by scripts/wheel.sh, installed into environments of each Python that is on this machine, and used there."""

import json
import os
import platform
import re
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
import pythons
import test_portable
from camshaft_cli import ROOT

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="what is shipped is for x86-64")

README = (ROOT / "README.md").read_text()
PROGRAMS = [
    "camshaft/_camshaft_engine.so",
    "camshaft/_native.abi3.so",
    "camshaft/bin/camshaft",
    "camshaft/bin/camshaft-server",
]
# What a program has around the README's example.
BEFORE = """
import importlib.util
import sys
import numpy as np

assert np.__version__ == sys.argv[1], np.__version__
assert importlib.util.find_spec("onnx") is None
x = np.array([[1, -2, 3]], np.float32)
"""
AFTER = """
assert y.tolist() == [[3, 0, 1.5]], y
assert engine.run({"x": x})["y"].tolist() == y.tolist()
assert np.from_dlpack(engine.create_context().run({"x": x})["y"]).tolist() == y.tolist()
assert camshaft.Engine("model.engine")(x).tolist() == y.tolist()
print(camshaft.__file__)
"""


SUMS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 3]})
        config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x.sum(1))]) for x in arrays]
"""


def path_with(python):
    return f"{Path(python).parent}:{os.environ['PATH']}"


def output(*arguments, **options):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", params=pythons.VERSIONS)
def environment(request, wheel, tmp_path_factory):
    """(version, python) of an environment that has the wheel and nothing that it needs yet."""
    python = pythons.make_environment(request.param, tmp_path_factory.mktemp("environment") / request.param)
    pythons.install(python, "--no-deps", wheel)
    return request.param, python


def test_is_one_file_for_all(wheel):
    tag = re.fullmatch(r"camshaft-[0-9.]+-cp39-abi3-manylinux_2_(\d+)_x86_64\.whl", wheel.name)
    assert tag and int(tag[1]) <= 28
    # 20.9 MB on 30 November 2026; of what is compressed, the engine has a half, and gRPC with what it needs 40 %.
    assert wheel.stat().st_size < 22e6
    names = zipfile.ZipFile(wheel).namelist()
    assert {"camshaft/__init__.py", "camshaft/py.typed", *PROGRAMS} <= set(names)
    scripts = {name.rsplit("/", 1)[1] for name in names if re.search(r"\.data/scripts/.", name)}
    assert scripts == {"camshaft", "camshaft-server", "camshaft-trtexec"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(".libs" in name for name in names)  # nothing of other packages is inside


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_in_it_needs_glibc_and_its_engine_alone(wheel, name, tmp_path):
    """As test_portable.py has it of what is built elsewhere: here the engine is a library, found beside."""
    file = zipfile.ZipFile(wheel).extract(name, tmp_path)
    dynamic = output("readelf", "--dynamic", "--wide", file)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    places = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.+)\]", dynamic)
    own = {"_camshaft_engine.so"} - {Path(name).name}
    assert own <= needed <= own | test_portable.OF_GLIBC, needed
    assert places == ([] if not own else ["$ORIGIN/.."] if "/bin/" in name else ["$ORIGIN"])
    symbols = re.findall(r" GLOBAL +DEFAULT +UND +(\S+)", output("readelf", "--dyn-syms", "--wide", file))
    assert [s for s in symbols if not re.match(r"_?Py|camshaft_\w+@CAMSHAFT_|\w+@GLIBC_", s)] == []
    versions = re.findall(r"Name: (GLIBC_\S+)  Flags", output("readelf", "--version-info", "--wide", file))
    assert versions and all(map(test_portable.is_old, versions))


def test_is_manylinux(wheel):
    shown = output(
        sys.executable, "-m", "auditwheel", "show", wheel, env={**os.environ, "PATH": path_with(sys.executable)}
    )
    tags = {int(minor) for minor in re.findall(r'"manylinux_2_(\d+)_x86_64"', " ".join(shown.split()))}
    assert tags and min(tags) <= 28, shown


@pytest.mark.parametrize("numpy", ["oldest", "newest"])
def test_builds_and_runs_a_model(environment, model, numpy):
    """As the README says, from a folder that is not the sources', and with nothing of the caller's environment."""
    version, python = environment
    release = pythons.numpy_release(version, numpy)
    pythons.install(python, "--only-binary", ":all:", f"numpy=={release}")
    (example,) = re.findall(r"^```python\n(import camshaft\n.*?)^```", README, re.MULTILINE | re.DOTALL)
    folder = model.parent
    printed = output(python, "-I", "-c", BEFORE + example + AFTER, release, cwd=folder, env={})
    assert str(python.parent.parent) in printed
    assert "y" in output(python.parent / "camshaft", "run", "model.engine", "--shapes", "x:2x3", cwd=folder, env={})
    arguments = ["--onnx=model.onnx", "--shapes=x:2x3", "--iterations=3", "--duration=0", "--warmUp=0"]
    assert "PASSED" in output(python.parent / "camshaft-trtexec", *arguments, cwd=folder, env={})


def test_serves_models_of_onnx_and_of_python(environment, model, tmp_path):
    """`camshaft serve` of a new environment, whose Python runs the models in Python; `camshaft top` sees them."""
    version, python = environment
    pythons.install(python, "--only-binary", ":all:", f"numpy=={pythons.numpy_release(version, 'newest')}")
    for name, file in (("relu", "model.onnx"), ("sums", "model.py")):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "1" / file).write_bytes(model.read_bytes() if name == "relu" else SUMS.encode())
    command = [python.parent / "camshaft", "serve", f"--model-repository={tmp_path / 'models'}"]
    command += ["--http-port=0", "--grpc-port=0", "--metrics-port=0", f"--engine-cache={tmp_path / 'cache'}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={})
    try:
        lines = []
        while not lines or not lines[-1].strip().endswith("] ready"):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        url = re.search(r"HTTP at (\S+)", "".join(lines))[1]
        tensor = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, -2, 3]}
        for name in ("relu", "sums"):
            body = json.dumps({"inputs": [tensor]}).encode()
            request = urllib.request.Request(f"http://{url}/v2/models/{name}/infer", body)
            with urllib.request.urlopen(request, timeout=60) as answer:
                data = json.load(answer)["outputs"][0]["data"]
                assert data == ([3, 0, 1.5] if name == "relu" else [2])
        shown = output(python.parent / "camshaft", "top", "--once", "--interval=0.1", f"--url=http://{url}", env={})
        assert "relu 1" in shown and "sums 1" in shown
    finally:
        process.terminate()
        assert process.wait(60) == 0  # the script has become the server: the signal is its
    assert "camshaft-server " in output(python.parent / "camshaft-server", "--version", env={})


def test_the_first_commands(wheel, model, tmp_path):
    """What the README begins with, in a new environment, in a folder with a model; pip finds the wheel that was made."""
    first = re.search(r"^```sh\n(pip install .*?)^```", README, re.MULTILINE | re.DOTALL)[1]
    python = pythons.make_environment(f"3.{sys.version_info.minor}", tmp_path / "environment")
    pythons.install(python, "pip")
    pinned = " ".join(str(ROOT / f"requirements{kind}.txt") for kind in ("", "-bench"))
    environment = {
        **os.environ,
        "PATH": path_with(python),
        "PIP_FIND_LINKS": f"{wheel.parent} {os.environ.get('PIP_FIND_LINKS', '')}".strip(),
        "PIP_CONSTRAINT": pinned,
    }
    for name in ("PYTHONPATH", "CAMSHAFT_PYTHON", "VIRTUAL_ENV"):
        environment.pop(name, None)
    printed = output("bash", "-euc", first, cwd=tmp_path, env=environment)
    rows = [line.split() for line in printed.splitlines()]
    (theirs,) = (row for row in rows if row[3:5] == ["ONNX", "Runtime"])
    assert float(theirs[-2]) > 0 and float(theirs[-1]) < 1e-5  # how many times as long it takes, and how far it is off
    assert (tmp_path / "model.engine").exists()
