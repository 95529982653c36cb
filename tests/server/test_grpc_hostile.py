"""What strangers may send over gRPC: damaged messages, sizes that are not true, clients that go away."""

import contextlib
import socket
import threading
import time

import grpc
import numpy as np
import pytest
from serving import serving
from tritonclient.grpc import service_pb2 as messages

METHOD = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.grpc) as made:
        yield made


def good(rows=1, request_id=""):
    message = messages.ModelInferRequest(model_name="identity_fp32", id=request_id)
    message.inputs.add(name="INPUT0", datatype="FP32", shape=[rows, 4])
    message.raw_input_contents.append(np.arange(4 * rows, dtype=np.float32).tobytes())
    return message


def call(channel, data, **options):
    return channel.unary_unary(METHOD)(data, timeout=60, **options)


def refused(channel, data, code=grpc.StatusCode.INVALID_ARGUMENT):
    with pytest.raises(grpc.RpcError) as raised:
        call(channel, data)
    assert raised.value.code() == code, raised.value.details()
    return raised.value.details()


def answers_still(channel):
    answer = messages.ModelInferResponse.FromString(call(channel, good().SerializeToString()))
    assert np.array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), np.arange(4, dtype=np.float32))


def test_every_truncation(channel):
    whole = good(request_id="x").SerializeToString()
    for size in range(len(whole)):
        refused(channel, whole[:size], code=grpc.StatusCode.NOT_FOUND if size == 0 else refusal_of(whole[:size]))
    answers_still(channel)


def refusal_of(data):
    """A message that ends between two fields is one with fewer of them."""
    try:
        message = messages.ModelInferRequest.FromString(data)
    except Exception:
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.INVALID_ARGUMENT if message.model_name == "identity_fp32" else grpc.StatusCode.NOT_FOUND


def test_random_bytes(channel):
    random = np.random.default_rng(11)
    whole = np.frombuffer(good(3).SerializeToString(), np.uint8)
    for _ in range(500):
        data = whole.copy()
        for at in random.integers(0, len(data) - 48, 3):  # not the data: any would do
            data[at] = random.integers(256)
        try:
            call(channel, data.tobytes())
        except grpc.RpcError as error:
            assert error.code() in (
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.NOT_FOUND,
                grpc.StatusCode.UNIMPLEMENTED,
            ), error
    answers_still(channel)


@pytest.mark.parametrize(
    "shape",
    [[-1, 4], [2**62, 4], [2**62, 2**62], [-(2**63), 4], [2**63 - 1, 0], [1], [1, 4, 1], [], [2, 4], [1] * 3000],
)
def test_shapes(channel, shape):
    message = good()
    message.inputs[0].shape[:] = shape
    refused(channel, message.SerializeToString())
    answers_still(channel)


@pytest.mark.parametrize("size", [0, 1, 15, 17, 1 << 20])
def test_wrong_numbers_of_bytes(channel, size):
    message = good()
    message.raw_input_contents[0] = b"\1" * size
    assert "INPUT0" in refused(channel, message.SerializeToString())


@pytest.mark.parametrize("text", [b"\x05\0\0\0abc", b"\xff\xff\xff\xff", b"\1", b"\1\0\0\0ab", b"\1\0\0\0a\1\0\0\0b"])
def test_damaged_texts(channel, text):
    message = messages.ModelInferRequest(model_name="identity_bytes")
    message.inputs.add(name="INPUT0", datatype="BYTES", shape=[1, 1])
    message.raw_input_contents.append(text)
    refused(channel, message.SerializeToString())


def test_too_many_inputs(channel):
    message = good()
    for _ in range(1000):
        message.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 4])
        message.raw_input_contents.append(message.raw_input_contents[0])
    refused(channel, message.SerializeToString())
    assert "more than 65536" in refused(channel, good().SerializeToString() + b"\x2a\x00" * 70000)
    assert "raw_input_contents" in refused(channel, good().SerializeToString() + b"\x3a\x00")


def test_no_inputs_and_duplicates(channel):
    refused(channel, messages.ModelInferRequest(model_name="identity_fp32").SerializeToString())
    refused(
        channel,
        messages.ModelInferRequest(model_name="../identity_fp32").SerializeToString(),
        grpc.StatusCode.NOT_FOUND,
    )
    refused(channel, b"\x0a\x02\xc3\x28")
    version = good()
    version.model_version = "x"
    with pytest.raises(grpc.RpcError):
        call(channel, version.SerializeToString())


def test_clients_that_go_away(server, channel):
    whole = good(100).SerializeToString()
    for i in range(30):
        with grpc.insecure_channel(server.grpc) as other:
            futures = [other.unary_unary(METHOD).future(whole) for _ in range(10)]
            for future in futures[i % 10 :]:
                future.cancel()
    answers_still(channel)


def test_connections_that_are_no_http2(server, channel):
    port = server.ports["gRPC"]
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 1000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
            stranger.sendall(data)
    answers_still(channel)


def test_damaged_requests_in_a_stream(channel):
    def requests():
        yield good(request_id="1").SerializeToString()
        yield good().SerializeToString()[:20]
        broken = good(request_id="3")
        broken.inputs[0].shape[0] = -1
        yield broken.SerializeToString()
        yield good(request_id="4").SerializeToString()

    answers = [messages.ModelStreamInferResponse.FromString(data) for data in channel.stream_stream(STREAM)(requests())]
    assert [bool(answer.error_message) for answer in answers] == [False, True, True, False]
    assert [answer.infer_response.id for answer in answers] == ["1", "", "3", "4"]


def test_a_stream_that_does_not_read(server, channel):
    """What waits for it is bounded: the server reads no further, and others are served."""
    message = good(1 << 18).SerializeToString()  # 4 MiB
    sent = []

    def requests():
        for i in range(200):
            sent.append(i)
            yield message

    before = server.memory()
    with grpc.insecure_channel(server.grpc, [("grpc.max_receive_message_length", -1)]) as own:
        stream = own.stream_stream(STREAM)(requests())
        next(stream)
        time.sleep(3)
        assert len(sent) < 200
        assert server.memory() - before < 400 << 20
        answers_still(channel)
        stream.cancel()


def test_messages_above_the_limit(repository):
    with (
        serving(
            repository, "--model-control-mode=explicit", "--load-model=identity_fp32", "--grpc-max-message-size=10000"
        ) as server,
        grpc.insecure_channel(server.grpc) as channel,
    ):
        answers_still(channel)
        refused(channel, good(1000).SerializeToString(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        answers_still(channel)


class StallingRelay:
    """Stands between clients and the server, and passes on the first bytes alone of what each connection sends."""

    def __init__(self, port, most):
        self.port, self.most, self.ends = port, most, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in [self.listener, *self.ends]:
            end.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                self.ends += [client, server]
                for source, sink, most in ((client, server, self.most), (server, client, None)):
                    threading.Thread(target=self.relay, args=(source, sink, most), daemon=True).start()

    @staticmethod
    def relay(source, sink, most):
        with contextlib.suppress(OSError):
            while most is None or most > 0:
                data = source.recv(1 << 16 if most is None else min(1 << 16, most))
                if not data:
                    return
                sink.sendall(data)
                most = None if most is None else most - len(data)


def test_messages_that_do_not_come_to_their_end(repository):
    """What the server holds of them is bounded, too: calls are ended, and those that come whole are answered."""
    flags = ["--model-control-mode=explicit", "--load-model=identity_fp32", "--request-memory-limit=50000000"]
    message = good(1 << 21).SerializeToString()  # 32 MiB
    with (
        serving(repository, *flags) as server,
        grpc.insecure_channel(server.grpc) as channel,
        StallingRelay(server.ports["gRPC"], 31 << 20) as relay,
    ):
        answers_still(channel)
        before = server.memory()
        # A connection each: a subchannel that channels share would send one message after another.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        clients = [grpc.insecure_channel(relay.address, options) for _ in range(16)]
        calls = [client.unary_unary(METHOD).future(message, timeout=60) for client in clients]
        end = time.monotonic() + 30
        while time.monotonic() < end and sum(call.done() for call in calls) < 8:
            time.sleep(0.1)
            assert server.memory() - before < 250 << 20
        ended = [call for call in calls if call.done()]
        assert len(ended) >= 8
        assert all(call.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE) for call in ended)
        answers_still(channel)
        for client in clients:
            client.close()


def test_open_streams_do_not_keep_the_server(repository):
    going = threading.Event()

    def requests():
        yield good().SerializeToString()
        going.wait(60)

    with serving(repository, "--model-control-mode=explicit", "--load-model=identity_fp32") as server:
        channel = grpc.insecure_channel(server.grpc)
        stream = channel.stream_stream(STREAM)(requests())
        next(stream)
        start = time.monotonic()
    assert time.monotonic() - start < 25  # not --exit-timeout-secs
    with pytest.raises(grpc.RpcError) as raised:
        next(stream)
    assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
    going.set()
    channel.close()
