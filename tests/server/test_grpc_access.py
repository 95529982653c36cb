"""gRPC: restricted protocols, tokens, certificates, forwarded metadata."""

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from serving import serving
from test_http_access import certificates
from tritonclient.utils import InferenceServerException

ONE = ("--model-control-mode=explicit", "--load-model=identity_fp32")


def infer(client, **options):
    array = np.arange(100000, dtype=np.float32).reshape(2, -1)
    given = triton.InferInput("INPUT0", array.shape, "FP32")
    given.set_data_from_numpy(array)
    np.testing.assert_array_equal(client.infer("identity_fp32", [given], **options).as_numpy("OUTPUT0"), array)


def refused(run, status, text=""):
    with pytest.raises(InferenceServerException) as raised:
        run()
    assert raised.value.status() == f"StatusCode.{status}", raised.value
    assert text in raised.value.message()


def test_restricted_protocols(repository):
    with (
        serving(
            repository,
            *ONE,
            "--grpc-restricted-protocol=model-repository,health:admin-key=admin-value",
            "--grpc-restricted-protocol=inference:infer-key=x",
        ) as server,
        triton.InferenceServerClient(server.grpc) as client,
    ):
        client.get_server_metadata()
        expected = "This protocol is restricted, expecting header 'triton-grpc-protocol-admin-key'"
        refused(client.is_server_live, "UNAVAILABLE", expected)
        assert client.is_server_live(headers={"triton-grpc-protocol-admin-key": "admin-value"})
        refused(
            lambda: client.get_model_repository_index(headers={"triton-grpc-protocol-admin-key": "wrong"}),
            "UNAVAILABLE",
            expected,
        )
        refused(lambda: infer(client), "UNAVAILABLE", "triton-grpc-protocol-infer-key")
        infer(client, headers={"triton-grpc-protocol-infer-key": "x"})
        errors = []
        client.start_stream(lambda result, error: errors.append(error))
        given = triton.InferInput("INPUT0", [1, 1], "FP32")
        given.set_data_from_numpy(np.zeros((1, 1), np.float32))
        client.async_stream_infer("identity_fp32", [given])
        client.stop_stream()
        assert [error.status() for error in errors] == ["StatusCode.UNAVAILABLE"]


def test_tokens(repository, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("first\n")
    with (
        serving(repository, *ONE, f"--token-file={tokens}") as server,
        triton.InferenceServerClient(server.grpc) as client,
    ):
        assert client.is_server_ready()
        refused(client.get_server_metadata, "UNAUTHENTICATED", "authorization")
        refused(lambda: infer(client, headers={"authorization": "Bearer second"}), "UNAUTHENTICATED")
        infer(client, headers={"authorization": "Bearer first"})


def test_certificates(repository, tmp_path):
    folder = certificates(tmp_path)
    own = (f"--grpc-server-cert={folder / 'server.pem'}", f"--grpc-server-key={folder / 'server.key'}")
    authority = (folder / "ca.pem").read_bytes()
    with serving(repository, *ONE, "--grpc-use-ssl=true", *own) as server:
        with triton.InferenceServerClient(server.grpc, ssl=True, root_certificates=str(folder / "ca.pem")) as client:
            infer(client)
        with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=20)
    mutual = ("--grpc-use-ssl-mutual=true", f"--grpc-root-cert={folder / 'ca.pem'}")
    with serving(repository, *ONE, "--grpc-use-ssl=true", *own, *mutual) as server:
        with triton.InferenceServerClient(
            server.grpc,
            ssl=True,
            root_certificates=str(folder / "ca.pem"),
            private_key=str(folder / "client.key"),
            certificate_chain=str(folder / "client.pem"),
        ) as client:
            infer(client)
        credentials = grpc.ssl_channel_credentials(authority)
        with grpc.secure_channel(server.grpc, credentials) as channel, pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=20)
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
