#!/usr/bin/env python3
"""What takes too long for every run of the tests: a server under load while something goes on that it must bear.

    tests/server/endurance.py [reloads] [overload] [clients] [truncation] [--reloads N] [--seconds N] [--protocol grpc]

- reloads: 10,000 loads of a model while clients ask it and another one; what is resident must not grow by more than 2 %
- overload: ten times the load that a model with a target can take, for a minute
- clients: a minute of clients that vanish, trickle and lie about sizes
- truncation: a minute in which models' files are cut short and overwritten in place while they serve and load

Each prints a line of JSON, and ends with 1 where something was lost or wrong. Overload needs the target serving_load
(cmake --preset release -D CAMSHAFT_BUILD_BENCH=ON).
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]

import project_python

project_python.use()

import numpy as np
import tritonclient.http as http
from serving import BINARY, serving, write_model
from serving_requests import grpc_request, http_request, run_load

from onnx import helper, numpy_helper

WIDTH, TARGET_MS = 256, 100
COMMAND = BINARY.parents[1] / "tools/camshaft"


def write_scale(repository, name, factor, layers=1, inner=()):
    """y = factor * x of [n, *inner, WIDTH], through matrices of 256 kB each, all of which a run reads: each of them turns the
    columns around by another number, the last one back, as equal ones would be kept once."""
    turns = [i + 1 for i in range(layers - 1)]
    turns.append(-sum(turns))
    weights = [
        numpy_helper.from_array(np.roll(np.eye(WIDTH, dtype=np.float32), turn, 1) * np.float32(scale), f"w{i}")
        for i, (turn, scale) in enumerate(zip(turns, [factor] + [1] * (layers - 1), strict=True))
    ]
    names = ["x", *(f"t{i}" for i in range(1, layers)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(layers)]
    shape = ["n", *inner, WIDTH]
    write_model(repository, name, nodes, [("x", "FP32", shape)], [("y", "FP32", shape)], constants=weights)


class Clients:
    """Threads that ask models one after another and check each answer; what is lost or wrong is kept."""

    def __init__(self, server, factors, threads=2):
        self.server, self.factors = server, factors
        self.answered, self.wrong, self.stopping = 0, [], threading.Event()
        self.lock, self.busy = threading.Lock(), threading.Condition()
        self.held, self.under_way = False, 0
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    @contextlib.contextmanager
    def quiet(self):
        """While it lasts nothing is asked."""
        with self.busy:
            self.held = True
            self.busy.wait_for(lambda: self.under_way == 0)
        yield
        with self.busy:
            self.held = False
            self.busy.notify_all()

    @contextlib.contextmanager
    def turn(self):
        with self.busy:
            self.busy.wait_for(lambda: not self.held)
            self.under_way += 1
        try:
            yield
        finally:
            with self.busy:
                self.under_way -= 1
                self.busy.notify_all()

    def run(self, number):
        names = sorted(self.factors)
        with http.InferenceServerClient(self.server.http, network_timeout=120, connection_timeout=120) as client:
            count = number
            while not self.stopping.is_set():
                name = names[count % len(names)]
                count += 1
                x = http.InferInput("x", [1, WIDTH], "FP32")
                values = np.full((1, WIDTH), count % 1000, np.float32)
                x.set_data_from_numpy(values)
                try:
                    with self.turn():
                        y = client.infer(name, [x]).as_numpy("y")
                    right = any(np.array_equal(y, values * factor) for factor in self.factors[name])
                    problem = "" if right else f"{name}: {y[0, 0]} of {values[0, 0]}"
                except Exception as error:
                    problem = f"{name}: {error}"
                with self.lock:
                    self.answered += not problem
                    if problem:
                        self.wrong.append(problem)


def run_reloads(folder, options):
    for i in range(2):
        write_scale(folder / f"{i}", "scale", 2 + i)
    write_scale(folder / "0", "steady", 5)
    config = json.dumps({"name": "scale", "max_batch_size": 4})
    files = [{"file:1/model.onnx": (folder / f"{i}/scale/1/model.onnx").read_bytes()} for i in range(2)]
    flags = ("--model-control-mode=explicit", "--load-model=*", f"--engine-cache={folder / 'cache'}")
    with serving(folder / "0", *flags) as server:
        clients = Clients(server, {"scale": (2, 3), "steady": (5,)})
        memory, begin = [], time.monotonic()
        with clients, http.InferenceServerClient(server.http, network_timeout=120) as client:
            for i in range(options.reloads):
                client.load_model("scale", config=config, files=files[i % 2])
                if (i + 1) % max(options.reloads // 20, 1) > 0:
                    continue
                with clients.quiet():  # what requests and models that go hold for a moment is up to 5 %
                    client.unload_model("scale")
                    time.sleep(0.5)
                    memory.append(server.memory())
                    client.load_model("scale", config=config, files=files[i % 2])
                print(f"{i + 1} reloads, {clients.answered} answers, {memory[-1]:,} bytes", file=sys.stderr, flush=True)
        # The first tenth fills the pools of the threads that take turns.
        before, after = statistics.median(memory[1:6]), statistics.median(memory[-5:])
        return {
            "reloads": options.reloads,
            "seconds": round(time.monotonic() - begin),
            "answered": clients.answered,
            "lost_or_wrong": clients.wrong[:5],
            "bytes_before": before,
            "bytes_after": after,
            "bytes_at_most": max(memory),
            "growth": round(after / before - 1, 4),
            "good": not clients.wrong and clients.answered > options.reloads / 20 and after <= 1.02 * before,
        }


def write_overloaded(folder):
    """Some milliseconds a request, about as much for each element of a batch."""
    write_scale(folder / "models", "slow", 2, layers=80, inner=(64,))
    config = "max_batch_size: 8\ndynamic_batching {}\nparameters "
    config += f'{{ key: "latency_target_ms" value {{ string_value: "{TARGET_MS}" }} }}\n'
    (folder / "models/slow/config.pbtxt").write_text(config)
    inputs = {"x": np.ones((1, 64, WIDTH), np.float32)}
    body, length = http_request(inputs)
    (folder / "http").write_bytes(body)
    (folder / "grpc").write_bytes(grpc_request("slow", inputs))
    header = f"Inference-Header-Content-Length:{length}"
    return {
        "http": {"path": "/v2/models/slow/infer", "body": folder / "http", "headers": [header]},
        "grpc": {"path": "inference.GRPCInferenceService/ModelInfer", "body": folder / "grpc"},
    }


def within(histogram, us):
    """The share of what a histogram counts that took at most so long, one of its bounds."""
    counts = histogram["counts"]
    return sum(counts[: histogram["bounds_us"].index(us) + 1]) / sum(counts)


def run_overload(folder, options):
    request = write_overloaded(folder)[options.protocol] | {"protocol": options.protocol}
    flags = (f"--engine-cache={folder / 'cache'}", "--http-thread-count=2")
    with serving(folder / "models", *flags) as server:
        request["port"] = server.ports["HTTP" if options.protocol == "http" else "gRPC"]
        sustained = max(run_load(**request, clients=8, seconds=3, skip=1)["per_second"] for _ in range(3))
        memory = server.memory()
        result = run_load(**request, clients=512, seconds=options.seconds, rate=10 * sustained)
        stats = json.loads(server.request("GET", "/v2/models/slow/stats")[2])["model_stats"][0]["inference_stats"]
        afterwards = run_load(**request, clients=1, seconds=1)
        (model,) = json.loads(server.request("GET", "/status.json")[2])["models"]
        return {
            "protocol": options.protocol,
            "sustained_per_second": round(sustained),
            "sent": result["requests"],
            "accepted": result["answered"],
            "refused": result["refused"],
            "lost": result["failed"],
            "p99_ms": round(result["p99"] / 1000, 1),
            "target_ms": TARGET_MS,
            "accepted_per_second": round(result["per_second"]),
            "server_counts_success": stats["success"]["count"],
            "server_counts_within_200_ms": round(within(model["latency"], 200_000), 4),
            "p50_ms_afterwards": round(afterwards["p50"] / 1000, 1),
            "memory_growth": round(server.memory() / memory - 1, 3),
            "good": result["failed"] == 0
            and result["refused"] > 0
            and result["p99"] <= 2000 * TARGET_MS
            and afterwards["refused"] == 0,
        }


def misbehave(port, stopping, dice, counts):
    """One connection after another, each wrong in its way."""
    body, length = http_request({"x": np.ones((1, WIDTH), np.float32)})
    path = "POST /v2/models/scale/infer HTTP/1.1\r\nHost: x\r\n"
    head = f"{path}Inference-Header-Content-Length: {length}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    while not stopping.is_set():
        kind = dice.choice(("vanish", "trickle", "huge", "reset", "half"))
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            if kind == "vanish":  # with the answer under way
                connection.sendall(head + body)
            elif kind == "half":
                connection.sendall(head + body[: dice.randrange(len(body))])
            elif kind == "reset":
                connection.sendall(head + body[:100])
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif kind == "huge":
                connection.sendall(f"{path}Content-Length: {1 << 31}\r\n\r\n".encode() + b"x" * 1000)
                connection.recv(1000)
            else:
                for byte in head[: dice.randrange(5, 50)]:
                    connection.sendall(bytes([byte]))
                    if stopping.wait(0.1):
                        break
        counts[kind] = counts.get(kind, 0) + 1


def run_clients(folder, options):
    write_scale(folder / "models", "scale", 2)
    with serving(folder / "models", f"--engine-cache={folder / 'cache'}") as server:
        stopping, counts = threading.Event(), {}
        clients = Clients(server, {"scale": (2,)})
        with clients:
            time.sleep(2)
            memory, descriptors = server.memory(), len(os.listdir(f"/proc/{server.process.pid}/fd"))
            bad = [
                threading.Thread(target=misbehave, args=(server.ports["HTTP"], stopping, random.Random(i), counts))
                for i in range(32)
            ]
            for thread in bad:
                thread.start()
            time.sleep(options.seconds)
            stopping.set()
            for thread in bad:
                thread.join()
            time.sleep(3)
            left = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        return {
            "misbehaved": dict(sorted(counts.items())),
            "answered": clients.answered,
            "lost_or_wrong": clients.wrong[:5],
            "descriptors": [descriptors, left],
            "memory_growth": round(server.memory() / memory - 1, 3),
            "good": not clients.wrong and clients.answered > 0 and left <= descriptors + 4,
        }


def run_truncation(folder, options):
    """In place, as cp does it: the files of an engine that serves, and of models that are being loaded."""
    write_scale(folder / "onnx", "scale", 2, layers=8)
    write_scale(folder / "models", "other", 3)
    models = folder / "models"
    (models / "plan/1").mkdir(parents=True)
    plan = models / "plan/1/model.plan"
    source = folder / "onnx/scale/1/model.onnx"
    subprocess.run([COMMAND, "build", source, "-o", plan], check=True, capture_output=True)
    whole = plan.read_bytes()
    shutil.copytree(folder / "onnx/scale", models / "scale")
    onnx_file = models / "scale/1/model.onnx"
    whole_onnx = onnx_file.read_bytes()
    dice, cuts, loads = random.Random(1), 0, {"loaded": 0, "refused": 0}
    flags = ("--model-control-mode=explicit", "--load-model=*", f"--engine-cache={folder / 'cache'}")
    with serving(models, *flags) as server:
        clients = Clients(server, {"plan": (2,), "scale": (2,), "other": (3,)})
        end = time.monotonic() + options.seconds
        with clients, http.InferenceServerClient(server.http, network_timeout=120) as client:

            def load_again():
                while time.monotonic() < end:
                    for name in ("plan", "scale"):
                        try:
                            client.load_model(name)
                            loads["loaded"] += 1
                        except Exception:
                            loads["refused"] += 1

            loader = threading.Thread(target=load_again)
            loader.start()
            while time.monotonic() < end:
                for file, bytes_ in ((plan, whole), (onnx_file, whole_onnx)):
                    with open(file, "r+b") as out:  # not another file of that name: the same one
                        out.truncate(dice.randrange(len(bytes_)))
                        time.sleep(0.02)
                        out.truncate(0)
                        time.sleep(0.02)
                        out.write(bytes_)
                    cuts += 1
                time.sleep(0.05)
            loader.join()
        return {
            "cuts": cuts,
            "loads": loads,
            "answered": clients.answered,
            "lost_or_wrong": clients.wrong[:5],
            "good": not clients.wrong and clients.answered > 0 and loads["loaded"] > 0 and loads["refused"] > 0,
        }


RUNS = {"reloads": run_reloads, "overload": run_overload, "clients": run_clients, "truncation": run_truncation}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", choices=[[], *RUNS], metavar="RUN", help="all without names")
    parser.add_argument("--reloads", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--protocol", choices=("http", "grpc"), default="http")
    options = parser.parse_args()
    good = True
    for name in options.runs or RUNS:
        with tempfile.TemporaryDirectory() as folder:
            result = RUNS[name](Path(folder), options)
        good &= result["good"]
        print(json.dumps({name: result}), flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
