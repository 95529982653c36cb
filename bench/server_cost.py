"""The server's own cost: processor time a request, with a model that hands through what it gets.

    bench/server_cost.py [--bytes 4096] [--clients 1 16 64] [--seconds 5]

The server has one core and one thread a protocol, the clients another core. Its processor time is the process's own
(/proc/PID/stat) over all requests of a run, kernel included. Needs the targets camshaft_server and serving_load:
cmake --preset release -D CAMSHAFT_BUILD_BENCH=ON.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/server"))

import numpy as np
from serving import serving, write_identity
from serving_requests import grpc_request, http_request, run_load

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(process):
    """Of all threads, in user and kernel mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def write_requests(folder, columns):
    """{protocol: what run_load() sends}."""
    inputs = {"INPUT0": np.zeros((1, columns), np.float32)}
    body, length = http_request(inputs)
    (folder / "http").write_bytes(body)
    (folder / "grpc").write_bytes(grpc_request("identity", inputs))
    header = f"Inference-Header-Content-Length:{length}"
    return {
        "http": {"path": "/v2/models/identity/infer", "body": folder / "http", "headers": [header]},
        "grpc": {"path": "inference.GRPCInferenceService/ModelInfer", "body": folder / "grpc"},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    own, others = {cores[0]}, set(cores[1:]) or {cores[0]}
    columns = options.bytes // 4
    with tempfile.TemporaryDirectory() as folder:
        config = 'name: "identity"\nmax_batch_size: 8\nparameters [{ key: "threads" value { string_value: "1" } }]\n'
        folder = Path(folder)
        write_identity(folder / "models", "identity", "FP32", ["n", columns], config)
        requests = write_requests(folder, columns)
        os.sched_setaffinity(0, own)
        flags = ("--grpc-infer-thread-count=1", "--http-thread-count=1")
        with serving(folder / "models", *flags) as server:
            os.sched_setaffinity(0, set(cores))
            print(f"{'':>9}{'clients':>8}{'us of CPU':>11}{'a second':>10}{'p50 us':>8}{'p99 us':>8}")
            for protocol, request in requests.items():
                port = server.ports["HTTP" if protocol == "http" else "gRPC"]
                request |= {"port": port, "protocol": protocol, "cores": others}
                for clients in options.clients:
                    run_load(**request, clients=clients, seconds=0.5)
                    before = processor_seconds(server.process.pid)
                    result = run_load(**request, clients=clients, seconds=options.seconds)
                    spent = processor_seconds(server.process.pid) - before
                    print(
                        f"{protocol:>9}{clients:>8}{1e6 * spent / result['requests']:>11.1f}"
                        f"{result['per_second']:>10.0f}{result['p50']:>8.0f}{result['p99']:>8.0f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
