"""generate and generate_stream, by curl; a client that goes away."""

import json
import subprocess
import time

import pytest
import python_models
from serving import serving, write_identity

ECHO = python_models.ECHO.replace("@TYPE@", "FP32")


@pytest.fixture(scope="module")
def generating(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    write_identity(folder, "text", "BYTES", ["n", "m"])
    python_models.write_python(folder, "repeat", python_models.REPEAT, python_models.REPEAT_CONFIG)
    python_models.write_python(folder, "echo", ECHO)
    with serving(folder) as server:
        yield server


def curl(server, path, body, *options):
    """What curl prints: the status in a line of its own behind the body."""
    command = ["curl", "--silent", "--show-error", "--no-buffer", "--write-out", "\n%{http_code}", *options]
    command += ["--json", body if isinstance(body, str) else json.dumps(body), f"http://{server.http}{path}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    text, status = done.stdout.rsplit("\n", 1)
    return int(status), text


def events(text):
    assert text.endswith("\n\n")
    parts = text[:-2].split("\n\n")
    assert all(part.startswith("data: ") for part in parts)
    return [json.loads(part[len("data: ") :]) for part in parts]


def test_generate(generating):
    status, text = curl(
        generating, "/v2/models/text/generate", {"INPUT0": "hello", "id": "5", "parameters": {"mine": 1}}
    )
    assert status == 200
    assert json.loads(text) == {"id": "5", "model_name": "text", "model_version": "1", "OUTPUT0": "hello"}
    status, text = curl(generating, "/v2/models/text/versions/1/generate", {"INPUT0": ["a", "ä\n"]}, "--compressed")
    assert json.loads(text)["OUTPUT0"] == ["a", "ä\n"]
    for wrong in ({"INPUT0": 1}, {"INPUT0": {"a": 1}}, {}, "[", {"INPUT0": "a", "OTHER": [1]}):
        status, text = curl(generating, "/v2/models/text/generate", wrong)
        assert status == 400 and "error" in json.loads(text), wrong
    assert curl(generating, "/v2/models/none/generate", {})[0] in (400, 404)


def test_streams(generating):
    status, text = curl(generating, "/v2/models/repeat/generate_stream", {"IN": 5})
    assert status == 200 and [event["OUT"] for event in events(text)] == [0, 1, 2, 3, 4]
    status, text = curl(generating, "/v2/models/text/generate_stream", {"INPUT0": "one"}, "--http1.0")
    assert status == 200 and [event["OUTPUT0"] for event in events(text)] == ["one"]
    status, text = curl(generating, "/v2/models/repeat/generate_stream", {"IN": 0})
    assert status == 200 and text == ""
    status, text = curl(generating, "/v2/models/repeat/generate_stream", {"IN": "x"})
    assert status == 400
    status, text = curl(generating, "/v2/models/repeat/generate", {"IN": 2})
    assert status == 500 and "exactly 1 response" in json.loads(text)["error"]
    assert json.loads(curl(generating, "/v2/models/repeat/generate", {"IN": 1})[1])["OUT"] == 0
    body = {"inputs": [{"name": "IN", "shape": [1], "datatype": "INT32", "data": [1]}]}
    status, text = curl(generating, "/v2/models/repeat/infer", body)
    assert status == 501 and "decoupled" in json.loads(text)["error"]


def test_stream_of_many_responses(generating):
    status, text = curl(generating, "/v2/models/repeat/generate_stream", {"IN": 3000})
    assert status == 200 and [event["OUT"] for event in events(text)] == list(range(3000))


def test_client_that_goes_away_cancels(generating):
    body = {
        "inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}],
        "parameters": {"do": "wait"},
    }
    text = json.dumps(body)
    connection = generating.socket()
    connection.sendall(
        f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
    )
    time.sleep(0.5)
    assert "it was cancelled" not in generating.log()
    connection.close()
    end = time.monotonic() + 30
    while "it was cancelled" not in generating.log():
        assert time.monotonic() < end, generating.log()
        time.sleep(0.02)
