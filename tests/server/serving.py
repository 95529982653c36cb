"""A server of models for tests: it is started on free ports, waited for, and asked to end."""

import contextlib
import ctypes
import http.client
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import numpy as np

import onnx
from onnx import TensorProto, helper

BINARY = Path(__file__).parents[2] / "build/release/server/camshaft-server"
PATIENCE = 120  # seconds for a start or an end
TYPES = {
    "BOOL": (TensorProto.BOOL, np.bool_),
    "UINT8": (TensorProto.UINT8, np.uint8),
    "INT8": (TensorProto.INT8, np.int8),
    "UINT16": (TensorProto.UINT16, np.uint16),
    "INT16": (TensorProto.INT16, np.int16),
    "UINT32": (TensorProto.UINT32, np.uint32),
    "INT32": (TensorProto.INT32, np.int32),
    "UINT64": (TensorProto.UINT64, np.uint64),
    "INT64": (TensorProto.INT64, np.int64),
    "FP16": (TensorProto.FLOAT16, np.float16),
    "FP32": (TensorProto.FLOAT, np.float32),
    "FP64": (TensorProto.DOUBLE, np.float64),
    "BYTES": (TensorProto.STRING, np.object_),
}


def has_gpu():
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    return False


class Server:
    """A process, and where it listens."""

    def __init__(self, process):
        self.process, self.lines, self.ports = process, [], {}
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"(HTTP|gRPC|metrics) at \S+:(\d+)$", line.strip()):
                self.ports[found[1]] = int(found[2])

    def log(self):
        return "".join(self.lines)

    @property
    def http(self):
        return f"127.0.0.1:{self.ports['HTTP']}"

    @property
    def grpc(self):
        return f"127.0.0.1:{self.ports['gRPC']}"

    def wait_until_ready(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log()}")
            if any(re.search(r"\] ready$", line.strip()) for line in self.lines):
                return self
            time.sleep(0.01)
        raise AssertionError(f"the server is not ready:\n{self.log()}")

    def request(self, method, path, body=None, headers=None, port="HTTP"):
        """Status, headers and body of an answer, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def socket(self, timeout=PATIENCE):
        return socket.create_connection(("127.0.0.1", self.ports["HTTP"]), timeout=timeout)

    def memory(self):
        """Bytes that are resident."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", text)[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(repository, *flags, through=()):
    """A server that is ready; it must still be there, and end by itself, when the test is done. `through`: a command
    that runs it."""
    command = [
        *through,
        BINARY,
        f"--model-repository={repository}",
        "--http-port=0",
        "--grpc-port=0",
        "--metrics-port=0",
        *flags,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    server = Server(process)
    try:
        yield server.wait_until_ready()
        assert process.poll() is None, server.log()
        assert server.stop() == 0, server.log()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def write_model(repository, name, nodes, inputs, outputs, config="", version=1, constants=()):
    """A model of ONNX: inputs and outputs are (name, type of the protocol, shape)."""
    folder = Path(repository) / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)

    def value(item):
        return helper.make_tensor_value_info(item[0], TYPES[item[1]][0], item[2])

    graph = helper.make_graph(nodes, name, [*map(value, inputs)], [*map(value, outputs)], list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    if config:
        (folder.parent / "config.pbtxt").write_text(config)


def write_identity(repository, name, datatype, shape, config=""):
    """What goes in comes out. Without a configuration of the test's own no axis is one of a batch."""
    if not config:
        kind = "STRING" if datatype == "BYTES" else datatype
        dims = [size if isinstance(size, int) else -1 for size in shape]
        tensor = f"data_type: TYPE_{kind} dims: {dims} }}]"
        config = f'name: "{name}"\ninput [{{ name: "INPUT0" {tensor}\noutput [{{ name: "OUTPUT0" {tensor}\n'
    write_model(
        repository,
        name,
        [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
        [("INPUT0", datatype, shape)],
        [("OUTPUT0", datatype, shape)],
        config,
    )


def write_sums(repository, name="simple", config=""):
    """Triton's well known example: sums and differences of two rows of 16 numbers."""
    write_model(
        repository,
        name,
        [
            helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
            helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
        ],
        [("INPUT0", "INT32", ["n", 16]), ("INPUT1", "INT32", ["n", 16])],
        [("OUTPUT0", "INT32", ["n", 16]), ("OUTPUT1", "INT32", ["n", 16])],
        config,
    )
