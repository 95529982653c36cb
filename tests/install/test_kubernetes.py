"""deploy/helm and deploy/kserve: what they make is valid for Kubernetes, and the server takes the flags and answers the probes
that stand there."""

import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

import onnx.parser
import pytest
import yaml
from camshaft_cli import BINARY, ROOT

CHART, KSERVE = ROOT / "deploy/helm/camshaft", ROOT / "deploy/kserve"
SERVER = BINARY.resolve().parent.parent / "server/camshaft-server"
BIN = ROOT / ".venv/bin"
VALUES = {
    "as it is": [],
    "scaled": ["autoscaling.enabled=true", "models.persistentVolumeClaim=m", "engineCache.persistentVolumeClaim=e"],
    "placed": ["models.hostPath=/m", "nodeSelector.gpu=yes", "podAnnotations.team=vision", "image.tag=dev"],
    "explicit": [
        "server.modelControlMode=explicit",
        "server.loadModels={identity}",
        "server.extraFlags={--log-verbose=1}",
    ],
}


def rendered(values):
    settings = [word for value in values for word in ("--set", value)]
    done = subprocess.run([BIN / "helm", "template", "test", CHART, *settings], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_chart_is_clean():
    done = subprocess.run([BIN / "helm", "lint", "--strict", CHART], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_what_the_chart_makes_is_valid(name, tmp_path):
    text = rendered(VALUES[name])
    (tmp_path / "all.yaml").write_text(text)
    done = subprocess.run(
        [BIN / "kubernetes-validate", "--strict", tmp_path / "all.yaml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = [part["kind"] for part in yaml.safe_load_all(text) if part]
    assert sorted(kinds) == sorted(
        ["Deployment", "Service", "PodDisruptionBudget", *(["HorizontalPodAutoscaler"] if name == "scaled" else [])]
    )


def test_wrong_values_are_refused():
    for value in ("server.modelControlMode=sometimes", "replica=2", "autoscaling.queueMicroseconds=0"):
        done = subprocess.run(
            ["helm", "template", "t", CHART, "--set", value], capture_output=True, executable=BIN / "helm"
        )
        assert done.returncode != 0, value


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def containers():
    """Where it stands, and the container."""
    for name, values in VALUES.items():
        deployment = next(p for p in yaml.safe_load_all(rendered(values)) if p and p["kind"] == "Deployment")
        yield f"helm, {name}", deployment["spec"]["template"]["spec"]["containers"][0]
    yield "kserve", yaml.safe_load((KSERVE / "serving-runtime.yaml").read_text())["spec"]["containers"][0]


def answer(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_the_server_takes_the_flags_and_answers_the_probes(tmp_path):
    if not SERVER.exists():
        pytest.skip("the server was not built")
    version = tmp_path / "models/identity/1"
    version.mkdir(parents=True)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x) => (float[n, 2] y) { y = Identity(x) }'
    )
    onnx.save(model, version / "model.onnx")
    tried = 0
    for where, container in containers():
        ports = dict(zip(("http", "grpc", "metrics"), free_ports(3)))
        flags = []
        for flag in container["args"]:
            flag = re.sub(r"=(/models|/mnt/models)$", f"={tmp_path / 'models'}", flag)
            flag = re.sub(r"=(/engines|/tmp/engines)$", f"={tmp_path / 'engines'}", flag)
            flag = flag.replace("=0.0.0.0", "=127.0.0.1")
            if not re.match(r"--(http|grpc|metrics)-port=", flag):
                flags.append(flag)
        flags += [f"--{name}-port={port}" for name, port in ports.items()]
        with subprocess.Popen([SERVER, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                ready = container["startupProbe"]["httpGet"]["path"]
                end = time.monotonic() + 120
                while answer(ports["http"], ready) != 200:
                    assert server.poll() is None and time.monotonic() < end, f"{where}: {server.stdout.read()}"
                    time.sleep(0.1)
                for probe in ("readinessProbe", "livenessProbe"):
                    assert answer(ports["http"], container[probe]["httpGet"]["path"]) == 200, (where, probe)
                with urllib.request.urlopen(f"http://127.0.0.1:{ports['metrics']}/metrics", timeout=10) as response:
                    assert "nv_inference_queue_duration_us" in response.read().decode(), where
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{ports['http']}/v2/models/identity", timeout=10
                ) as response:
                    assert json.load(response)["name"] == "identity", where
            finally:
                server.terminate()
            assert server.wait(timeout=60) == 0, where
        tried += 1
    assert tried == len(VALUES) + 1
