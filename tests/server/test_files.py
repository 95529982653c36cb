"""Files of models that are overwritten and cut short while they are used, and disks that are full."""

import os
import subprocess
import time

import endurance
import numpy as np
import pytest
import tritonclient.http as http
from endurance import WIDTH, write_scale
from serving import BINARY, PATIENCE, serving
from tritonclient.utils import InferenceServerException

COMMAND = BINARY.parents[1] / "tools/camshaft"


def ask(client, name):
    """The factor of a model of write_scale()."""
    values = np.arange(4 * WIDTH, dtype=np.float32).reshape(4, WIDTH)
    x = http.InferInput("x", values.shape, "FP32")
    x.set_data_from_numpy(values)
    y = client.infer(name, [x]).as_numpy("y")
    factor = y[3, 255] / values[3, 255]
    np.testing.assert_array_equal(y, factor * values)
    return factor


def client_of(server):
    return http.InferenceServerClient(server.http, network_timeout=PATIENCE, connection_timeout=PATIENCE)


def overwrite(file, bytes_):
    """As cp does: the same file, cut short and written anew."""
    with open(file, "r+b") as out:
        out.truncate(0)
        out.write(bytes_)


@pytest.fixture
def plan(tmp_path):
    """A repository with an engine of 2 MB, and the engine of another factor."""
    if not COMMAND.exists():
        pytest.skip("the command is not built")
    engines = []
    for factor in (2, 3):
        write_scale(tmp_path / f"onnx{factor}", "scale", factor, layers=8)
        engine = tmp_path / f"{factor}.plan"
        source = tmp_path / f"onnx{factor}/scale/1/model.onnx"
        subprocess.run([COMMAND, "build", source, "-o", engine], check=True, capture_output=True)
        engines.append(engine.read_bytes())
    file = tmp_path / "models/plan/1/model.plan"
    file.parent.mkdir(parents=True)
    file.write_bytes(engines[0])
    assert len(engines[0]) > 2 << 20
    return file, engines[1]


def test_an_engine_serves_on_when_its_file_is_cut_short_and_overwritten(plan, tmp_path):
    file, other = plan
    flags = ("--model-control-mode=explicit", "--load-model=plan", f"--engine-cache={tmp_path / 'cache'}")
    with serving(tmp_path / "models", *flags) as server, client_of(server) as client:
        assert ask(client, "plan") == 2
        os.truncate(file, 100)
        assert ask(client, "plan") == 2
        with pytest.raises(InferenceServerException, match=f"load failed for model 'plan'.*{file}"):
            client.load_model("plan")
        assert ask(client, "plan") == 2
        overwrite(file, other)
        assert ask(client, "plan") == 2
        client.load_model("plan")
        assert ask(client, "plan") == 3
        assert list((tmp_path / "cache").iterdir()) == []  # copies have no names


def test_what_is_loaded_while_its_files_change_is_whole_or_refused(tmp_path):
    """Under load; another model is not disturbed."""
    options = type("Options", (), {"seconds": 4})
    result = endurance.run_truncation(tmp_path, options)
    assert result["lost_or_wrong"] == [] and result["answered"] > 0, result
    assert result["loads"]["loaded"] + result["loads"]["refused"] > 0, result


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"mounting is not allowed: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder):
    with open(folder / "filling", "wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            pass


def test_a_full_disk(small_disk, plan, tmp_path):
    """Neither engines nor traces nor the log have room: everything is served, and what is missing is said."""
    write_scale(tmp_path / "models", "scale", 5, layers=8)
    flags = [f"--engine-cache={small_disk}", f"--trace-config=file={small_disk}/trace", "--trace-config=rate=1"]
    flags += ["--trace-config=level=TIMESTAMPS", "--model-control-mode=explicit", "--load-model=*"]
    fill(small_disk)
    with serving(tmp_path / "models", *flags) as server, client_of(server) as client:
        for _ in range(20):
            assert ask(client, "scale") == 5 and ask(client, "plan") == 2
        assert "is not kept" in server.log()
        before = server.log().count("\n")
        for _ in range(3):
            client.load_model("scale")
            client.load_model("plan")
            assert ask(client, "scale") == 5 and ask(client, "plan") == 2
        assert server.log().count("\n") < before + 60
        (small_disk / "filling").unlink()
        assert ask(client, "scale") == 5


def test_a_log_on_a_full_disk(small_disk, tmp_path):
    write_scale(tmp_path / "models", "scale", 5)
    fill(small_disk)
    command = [BINARY, f"--model-repository={tmp_path / 'models'}", "--http-port=18099", "--allow-grpc=false"]
    command += ["--allow-metrics=false", f"--log-file={small_disk}/log", f"--engine-cache={tmp_path / 'cache'}"]
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + PATIENCE
        with http.InferenceServerClient("127.0.0.1:18099") as client:
            while True:
                try:
                    assert client.is_server_ready()
                    break
                except (AssertionError, OSError):
                    assert process.poll() is None and time.monotonic() < end
                    time.sleep(0.05)
            assert ask(client, "scale") == 5
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_endurance_has_runs_that_pass(tmp_path):
    options = type("Options", (), {"reloads": 60, "seconds": 2})
    for name in ("reloads", "clients"):
        (tmp_path / name).mkdir()
        result = endurance.RUNS[name](tmp_path / name, options)
        assert result["lost_or_wrong"] == [] and result["answered"] > 0, result
