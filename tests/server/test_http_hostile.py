"""What is sent by those who mean ill, or do not know HTTP: the server refuses it, stays, and keeps no memory."""

import contextlib
import gzip
import json
import socket
import threading
import time
import zlib

import numpy as np
import pytest
from serving import serving

INFER = "/v2/models/identity_fp32/infer"


def infer_body(rows, columns):
    values = np.arange(rows * columns, dtype=np.float32)
    document = {
        "inputs": [
            {
                "name": "INPUT0",
                "shape": [rows, columns],
                "datatype": "FP32",
                "parameters": {"binary_data_size": values.nbytes},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    text = json.dumps(document).encode()
    return text, values.tobytes()


def answers(connection, count=1):
    """Reads so many answers with a Content-Length: their statuses and bodies."""
    found, held = [], b""
    while len(found) < count:
        while b"\r\n\r\n" not in held:
            piece = connection.recv(65536)
            if not piece:
                return found
            held += piece
        head, held = held.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        status = int(lines[0].split()[1])
        length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
        while len(held) < length:
            piece = connection.recv(65536)
            if not piece:
                return found
            held += piece
        found.append((status, held[:length]))
        held = held[length:]
    return found


def check_alive(server):
    text, tensor = infer_body(2, 3)
    status, _, body = server.request("POST", INFER, text + tensor, {"Inference-Header-Content-Length": str(len(text))})
    assert status == 200 and body.endswith(tensor)


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (b"\r\n\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\nHo st: x\r\n\r\n", 400),
        (b"GET /v2/\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"GET /v2 HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(20_000)) + b"\r\n", 431),
        (b"BREW /v2 HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"DELETE /v2/models/simple HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET " + INFER.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /v2/models/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /v2/models/%2e%2e/config HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /v2/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /v2/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ],
)
def test_requests_that_are_none(server, request_bytes, status):
    with server.socket(20) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        found = answers(connection)
    assert found and found[0][0] == status, found
    if status != 404:
        assert "error" in json.loads(found[0][1])
    check_alive(server)


@pytest.mark.parametrize("length", (2**31, 2**32 + 1, 2**63 - 1, 8388609))
def test_sizes_that_are_not_taken(server, length):
    before = server.memory()
    with server.socket(20) as connection:
        connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        [(status, body)] = answers(connection)
    assert status == 400 and "--http-max-input-size" in json.loads(body)["error"]
    assert server.memory() - before < 4 << 20
    check_alive(server)


def test_announced_bytes_take_no_memory(server):
    before = server.memory()
    connections = [server.socket() for _ in range(20)]
    for connection in connections:
        connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\nabc".encode())
    time.sleep(0.3)
    assert server.memory() - before < 8 << 20
    check_alive(server)
    for connection in connections:
        connection.close()


@pytest.mark.parametrize(
    "length, expected",
    [
        ("x", "Unable to parse"),
        ("-1", "Unable to parse"),
        ("99999999999", "Inference-Header-Content-Length"),
        ("1", "failed to parse"),
        ("18446744073709551616", "Unable to parse"),
    ],
)
def test_wrong_lengths_of_the_document(server, length, expected):
    text, tensor = infer_body(2, 3)
    status, _, body = server.request("POST", INFER, text + tensor, {"Inference-Header-Content-Length": length})
    assert status == 400 and expected in json.loads(body)["error"]


def test_tensors_of_wrong_lengths(server):
    text, tensor = infer_body(2, 3)
    headers = {"Inference-Header-Content-Length": str(len(text))}
    for wrong in (tensor[:-1], tensor + b"x", b""):
        status, _, body = server.request("POST", INFER, text + wrong, headers)
        assert status == 400 and "error" in json.loads(body)
    for shape in ([3, 3], [2**62, 4], [2**63 - 1, 2**63 - 1], [-1, 3], [2], [2, 3, 1]):
        document = json.loads(text)
        document["inputs"][0]["shape"] = shape
        changed = json.dumps(document).encode()
        status, _, body = server.request(
            "POST", INFER, changed + tensor, {"Inference-Header-Content-Length": str(len(changed))}
        )
        assert status == 400, shape
    check_alive(server)


def test_chunked_bodies(server):
    text, tensor = infer_body(200, 300)
    whole = text + tensor
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n"
    for size in (1000, 65536, len(whole)):
        with server.socket() as connection:
            connection.sendall(head.encode())
            for start in range(0, len(whole), size):
                piece = whole[start : start + size]
                connection.sendall(b"%x;name=value\r\n%s\r\n" % (len(piece), piece))
            connection.sendall(b"0\r\nTrailer: x\r\n\r\n")
            [(status, body)] = answers(connection)
        assert status == 200 and body.endswith(tensor)
    for wrong in (b"zz\r\n", b"-5\r\n", b"ffffffffffffffff\r\n", b"fffffffffffffffffff\r\n", b"5\r\nabcdefgh\r\n"):
        with server.socket(20) as connection:
            connection.sendall(head.encode() + wrong)
            [(status, _)] = answers(connection)
        assert status == 400, wrong


def test_chunked_body_without_end(server):
    before = server.memory()
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with server.socket(60) as connection:
        connection.sendall(head)
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        with contextlib.suppress(OSError):  # it ends the connection some time after it has answered
            for _ in range(200):
                connection.sendall(piece)
        assert [status for status, _ in answers(connection)] == [400]
    # As one byte a chunk.
    with server.socket(60) as connection:
        connection.sendall(head + b"1\r\n \r\n" * 70_000)
        found = answers(connection)
    assert found[0][0] == 400
    assert server.memory() - before < 64 << 20
    check_alive(server)


@pytest.mark.parametrize("encoding", ("gzip", "deflate"))
def test_bombs(server, encoding):
    squeeze = gzip.compress if encoding == "gzip" else zlib.compress
    before = server.memory()
    bomb = squeeze(b" " * (1 << 30), 9)
    assert len(bomb) < 2 << 20
    status, _, body = server.request("POST", INFER, bomb, {"Content-Encoding": encoding})
    assert status == 400 and "decompression" in json.loads(body)["error"]
    for wrong in (b"no such thing", squeeze(b"{}")[:-3], squeeze(b"{}") + b"x", b""):
        status, _, body = server.request("POST", INFER, wrong, {"Content-Encoding": encoding})
        assert status == 400
    assert server.memory() - before < 48 << 20
    status, _, body = server.request("POST", INFER, b"x", {"Content-Encoding": "br"})
    assert status == 400 and "only 'identity', 'gzip' and 'deflate'" in json.loads(body)["error"]
    check_alive(server)


def test_json_that_nests(server):
    for body in (b"[" * 1_000_000, b'{"a":' * 1_000_000, b'{"inputs":[{"data":' + b"[" * 100_000):
        status, _, answer = server.request("POST", INFER, body)
        assert status == 400 and "nesting depth" in json.loads(answer)["error"] or "list" in json.loads(answer)["error"]
        status, _, _ = server.request("POST", "/v2/models/identity_bytes/generate", body)
        assert status == 400
        status, _, _ = server.request("POST", "/v2/repository/index", body)
        assert status == 400
    check_alive(server)


def test_clients_that_vanish(server):
    text, tensor = infer_body(500, 500)
    whole = (
        f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text) + len(tensor)}\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n".encode()
        + text
        + tensor
    )
    for cut in (1, 20, 100, 300, 10_000, len(whole) - 1, len(whole)):
        for hard in (False, True):
            connection = server.socket()
            if hard:  # a reset in place of an end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(whole[:cut])
            connection.close()
    check_alive(server)


def test_requests_before_an_answer_are_answered_in_order(server):
    parts = []
    for i in range(1, 30):
        text, tensor = infer_body(i, 2)
        parts.append(
            f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text) + len(tensor)}\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n".encode()
            + text
            + tensor
        )
        parts.append(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
    with server.socket() as connection:
        sender = threading.Thread(target=connection.sendall, args=(b"".join(parts),))
        sender.start()
        found = answers(connection, 58)
        sender.join()
    assert [status for status, _ in found] == [200] * 58
    for i in range(29):
        assert found[2 * i][1].endswith(np.arange(2 * (i + 1), dtype=np.float32).tobytes())
        assert json.loads(found[2 * i + 1][1])["ready"] is True


def test_bytes_one_at_a_time(server):
    text, tensor = infer_body(2, 2)
    whole = (
        f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text) + len(tensor)}\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n".encode()
        + text
        + tensor
    )
    with server.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(whole)):
            connection.sendall(whole[i : i + 1])
        [(status, body)] = answers(connection)
    assert status == 200 and body.endswith(tensor)


def test_expect_continue(server):
    text, tensor = infer_body(2, 2)
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(text) + len(tensor)}\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n".encode()
    with server.socket() as connection:
        connection.sendall(head)
        assert answers(connection)[0][0] == 100
        connection.sendall(text + tensor)
        assert answers(connection)[0][0] == 200
    with server.socket() as connection:  # what is refused is refused before the body
        connection.sendall(head.replace(b"Content-Length: ", b"Content-Length: 99999", 1))
        assert answers(connection)[0][0] == 400


def test_methods_and_versions(server):
    status, headers, body = server.request("HEAD", "/v2")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 10
    status, headers, body = server.request("PUT", "/v2/logging")
    assert status == 405 and headers["Allow"] == "GET, HEAD, POST"
    with server.socket() as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert answers(connection)[0][0] == 200
        assert connection.recv(1) == b""  # 1.0 ends the connection
    status, _, body = server.request("GET", "/nothing")
    assert status == 404 and json.loads(body) == {"error": "Not Found"}
    status, _, body = server.request("POST", "/v2/repository/mine/index")
    assert status == 501


def test_slow_clients_are_sent_away(repository):
    with serving(
        repository,
        "--model-control-mode=explicit",
        "--load-model=identity_fp32",
        "--http-header-timeout=1",
        "--http-body-timeout=1",
        "--http-idle-timeout=1",
    ) as server:
        for start in (
            b"",
            b"GET /v2 HTTP/1.1\r\nX: ",
            f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab".encode(),
            f"POST {INFER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\nab".encode(),
        ):
            with server.socket(30) as connection:
                connection.sendall(start)
                stop = threading.Event()

                def trickle(connection=connection, start=start, stop=stop):
                    while start and not stop.wait(0.1):
                        try:
                            connection.sendall(b"a")
                        except OSError:
                            return

                thread = threading.Thread(target=trickle)
                thread.start()
                try:
                    assert connection.recv(100) == b""
                except ConnectionResetError:
                    pass
                stop.set()
                thread.join()
        check_alive(server)


def test_more_connections_than_it_takes(repository):
    with serving(
        repository, "--model-control-mode=explicit", "--load-model=identity_fp32", "--http-max-connections=20"
    ) as server:
        held = [server.socket() for _ in range(20)]
        for connection in held:
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answers(connection)[0][0] == 200
        with server.socket() as connection:
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answers(connection)[0][0] == 503
        for connection in held:
            connection.close()
        time.sleep(0.5)
        check_alive(server)
