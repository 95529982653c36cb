"""Who may do what: restricted APIs, tokens, certificates."""

import json
import ssl
import subprocess

import numpy as np
import pytest
import tritonclient.http as http
from serving import serving

ONE = ("--model-control-mode=explicit", "--load-model=identity_fp32")


def test_restricted_apis(repository):
    with serving(
        repository,
        *ONE,
        "--http-restricted-api=model-repository,health:admin-key=admin-value",
        "--http-restricted-api=inference:infer-key=x",
    ) as server:
        assert server.request("GET", "/v2")[0] == 200
        status, _, body = server.request("GET", "/v2/health/ready")
        assert status == 403 and json.loads(body)["error"] == "This API is restricted, expecting header 'admin-key'"
        assert server.request("GET", "/v2/health/ready", headers={"admin-key": "wrong"})[0] == 403
        assert server.request("GET", "/v2/health/ready", headers={"ADMIN-KEY": "admin-value"})[0] == 200
        assert server.request("POST", "/v2/repository/index")[0] == 403
        assert server.request("POST", "/v2/models/identity_fp32/infer", "{}")[0] == 403
        assert server.request("POST", "/v2/models/identity_fp32/infer", "{}", {"infer-key": "x"})[0] == 400
        with http.InferenceServerClient(server.http) as client:
            assert client.is_server_live(headers={"admin-key": "admin-value"})


def test_tokens_of_a_file(repository, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("first\n# no token\n")
    with serving(repository, *ONE, f"--token-file={tokens}") as server:
        assert server.request("GET", "/v2/health/ready")[0] == 200
        status, headers, _ = server.request("GET", "/v2")
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
        assert server.request("GET", "/v2", headers={"Authorization": "Bearer first"})[0] == 200
        assert server.request("GET", "/v2", headers={"Authorization": "Bearer # no token"})[0] == 401
        assert server.request("GET", "/status.json")[0] == 401
        tokens.write_text("second one\n")
        assert server.request("GET", "/v2", headers={"Authorization": "Bearer first"})[0] == 401
        assert server.request("GET", "/v2", headers={"Authorization": "Bearer second one"})[0] == 200


def certificates(folder):
    """An authority, and certificates of a server and a client by it."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=ca",
        "-days",
        "2",
    )
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
            "-subj",
            f"/CN={name}",
        )
        openssl(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-out",
            f"{name}.pem",
            "-days",
            "2",
            "-extfile",
            "san",
        )
    return folder


def infer(client):
    values = np.arange(200_000, dtype=np.float32).reshape(2, -1)
    item = http.InferInput("INPUT0", values.shape, "FP32")
    item.set_data_from_numpy(values)
    np.testing.assert_array_equal(client.infer("identity_fp32", [item]).as_numpy("OUTPUT0"), values)


def test_tls(repository, tmp_path):
    folder = certificates(tmp_path)
    with serving(
        repository, *ONE, f"--http-server-cert={folder / 'server.pem'}", f"--http-server-key={folder / 'server.key'}"
    ) as server:

        def context():
            return ssl.create_default_context(cafile=folder / "ca.pem")

        with http.InferenceServerClient(server.http, ssl=True, ssl_context_factory=context) as client:
            assert client.is_server_ready()
            infer(client)
        old = ssl.create_default_context(cafile=folder / "ca.pem")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with server.socket() as plain, pytest.raises(ssl.SSLError):
            old.wrap_socket(plain, server_hostname="localhost")
        with server.socket() as plain:  # HTTP at HTTPS
            plain.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not plain.recv(4096).startswith(b"HTTP/1.1 200")


def test_clients_need_certificates(repository, tmp_path):
    folder = certificates(tmp_path)
    with serving(
        repository,
        *ONE,
        f"--http-server-cert={folder / 'server.pem'}",
        f"--http-server-key={folder / 'server.key'}",
        f"--http-root-cert={folder / 'ca.pem'}",
        "--http-use-ssl-mutual=true",
    ) as server:
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        with pytest.raises(OSError), server.socket() as plain:
            connection = context.wrap_socket(plain, server_hostname="localhost")
            connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
            if connection.recv(100) == b"":
                raise ConnectionResetError
        context.load_cert_chain(folder / "client.pem", folder / "client.key")
        with http.InferenceServerClient(server.http, ssl=True, ssl_context_factory=lambda: context) as client:
            infer(client)


def test_headers_that_become_parameters(repository):
    with serving(repository, *ONE, "--http-header-forward-pattern=^x-own") as server:
        body = {"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
        path = "/v2/models/identity_fp32/infer"
        assert server.request("POST", path, json.dumps(body), {"x-own-header": "value"})[0] == 200
