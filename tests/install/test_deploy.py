"""deploy/ and pixi.toml: no Docker is needed to know that they are well formed, and that the commands in them run."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import pythons
import yaml
from camshaft_cli import ROOT

DEPLOY = ROOT / "deploy"
EVERY = sorted(DEPLOY.glob("*.Dockerfile"))
# Those that install the wheel.
FILES = [file for file in EVERY if file.name != "server.Dockerfile"]
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="what is shipped is for x86-64")


def output(*arguments, **options):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def instructions(file):
    """[(instruction, rest)] of a Dockerfile without continued lines."""
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert not any(line.endswith("\\") for line in lines)
    return [tuple(line.split(" ", 1)) for line in lines]


def services():
    """{name: service}, with what a service extends."""
    listed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return {name: {**listed.get(service.get("extends"), {}), **service} for name, service in listed.items()}


@pytest.mark.parametrize("file", EVERY, ids=lambda path: path.name)
def test_hadolint_is_content(file):
    output(BIN / "hadolint", "--config", DEPLOY / ".hadolint.yaml", file)


def test_yamllint_is_content():
    rules = "{extends: default, rules: {line-length: {max: 120}, document-start: disable, comments: {min-spaces-from-content: 2}}}"
    files = [DEPLOY / "compose.yaml", *sorted((DEPLOY / "kserve").glob("*.yaml")), DEPLOY / "helm/camshaft/values.yaml"]
    output(sys.executable, "-m", "yamllint", "--strict", "-d", rules, *files)


def test_all_are_there():
    assert [file.name for file in EVERY] == ["cpu.Dockerfile", "cuda.Dockerfile", "server.Dockerfile"]


def test_the_image_of_the_server():
    """It builds by scripts that are there, and copies programs that they make; its flags are tried in test_kubernetes.py."""
    said = instructions(DEPLOY / "server.Dockerfile")
    (built,) = [rest for word, rest in said if word == "RUN" and "scripts/" in rest]
    for command in built.split(" && "):
        assert (ROOT / command.split()[0]).stat().st_mode & 0o111, command
    (copied,) = [rest for word, rest in said if word == "COPY" and rest.startswith("--from=build")]
    for program in copied.split()[1:-1]:
        target = {"camshaft-server": "camshaft_server", "camshaft": "camshaft_command"}[Path(program).name]
        assert target in built.split()


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_the_first_stage_makes_the_wheel(file):
    """Of the sources alone: by a script that is there, from what git has and .dockerignore lets through."""
    said = instructions(file)
    first = said[: [word for word, _ in said].index("FROM", 1)]
    (script,) = (rest for word, rest in first if word == "RUN")
    assert (ROOT / script).stat().st_mode & 0o111 and script == "scripts/wheel.sh"
    assert ("COPY", "--from=wheel /camshaft/dist /wheels") in said
    left_out = (ROOT / ".dockerignore").read_text().split()
    tracked = {path.split("/")[0] for path in output("git", "ls-files", cwd=ROOT).splitlines()}
    assert not tracked & set(left_out)


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """As in the image: what its last stage installs, but for NVIDIA's libraries, which are gigabytes."""
    folder = tmp_path_factory.mktemp("image")
    python = pythons.make_environment(f"3.{sys.version_info.minor}", folder / "environment")
    pythons.install(python, "pip")
    commands = {file.name: [r for w, r in instructions(file) if w == "RUN" and " pip install " in r] for file in FILES}
    (of_cpu,), (of_cuda,) = commands["cpu.Dockerfile"], commands["cuda.Dockerfile"]
    assert of_cuda == of_cpu.replace("[jobs]", "[jobs,cuda]")
    pinned = " ".join(str(ROOT / f"requirements{kind}.txt") for kind in ("", "-bench"))
    settings = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "PIP_CONSTRAINT": pinned}
    for name in ("PYTHONPATH", "CAMSHAFT_PYTHON", "VIRTUAL_ENV"):
        settings.pop(name, None)
    output("sh", "-ec", of_cpu.replace("/wheels", str(wheel.parent)), env=settings)
    return settings


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_what_the_image_runs(file, environment):
    said = dict(instructions(file))
    command = yaml.safe_load(said["ENTRYPOINT"]) + yaml.safe_load(said["CMD"])
    assert "build" in output(*command, env=environment)


def test_the_services_run(environment, model):
    """In turn, over a folder with a model, as the comments say."""
    assert list(services()) == ["build", "benchmark", "build-cuda"]
    for service in services().values():
        assert (ROOT / service["build"]["dockerfile"]).exists() and service["volumes"] == ["${MODELS:-.}:/models"]
        assert "WORKDIR /models" in (ROOT / service["build"]["dockerfile"]).read_text()
        if "cuda" not in service["command"]:
            output("camshaft", *service["command"], cwd=model.parent, env=environment)
    assert (model.parent / "model.engine").exists()  # a timing cache only where there is a choice to measure


def test_libraries_of_the_gpu_are_those_that_are_looked_for():
    """What the extra `cuda` brings is what messages say to install."""
    text = (ROOT / "pyproject.toml").read_text()
    brought = set(re.findall(r'"(nvidia-[a-z0-9-]+)', re.search(r"^cuda = (.*)$", text, re.MULTILINE)[1]))
    sources = (ROOT / "src/backends/cuda/libraries/libraries.cpp").read_text()
    assert brought == {"nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-cudnn-cu13"}
    assert all(name in sources for name in brought), [name for name in brought if name not in sources]


def test_tasks_of_pixi():
    """Each runs a script that is there, or what the README says."""
    text = (ROOT / "pixi.toml").read_text()
    tasks = dict(re.findall(r'^(\w+) = (?:\{ cmd = )?"([^"]*)"', text.split("[tasks]")[1], re.MULTILINE))
    assert {"demo", "test", "lint", "wheel", "install", "build", "benchmark"} == set(tasks)
    readme = (ROOT / "README.md").read_text()
    for name, command in tasks.items():
        if command.startswith("scripts/"):
            assert os.access(ROOT / command, os.X_OK), command
        else:
            assert command.replace("--find-links dist ", "") in readme, f"{name}: {command}"
    for name in re.findall(r'depends-on = \["(\w+)"\]', text):
        assert name in tasks
