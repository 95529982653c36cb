"""on_gpu_collectives.py: ranks on two GPUs, each its own, beside NumPy; ranks that fail, and one that is killed. What
test_collectives_gpu.py has run on the emulated GPUs; on real ones
PYTHONPATH=build/release/python python3 tests/python/on_gpu_collectives.py

Prints as JSON the largest errors, and what the ranks said."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import camshaft
import numpy as np

RANKS = 2
CASES = [  # operator, attributes, and its definition: what rank r has of all ranks' x
    ("AllReduce", {"reduce_op": "sum"}, lambda xs, r: xs[0] + xs[1]),
    ("AllReduce", {"reduce_op": "prod"}, lambda xs, r: xs[0] * xs[1]),
    ("AllReduce", {"reduce_op": "avg"}, lambda xs, r: (xs[0] + xs[1]) / 2),
    ("AllReduce", {"reduce_op": "max"}, lambda xs, r: np.maximum(xs[0], xs[1])),
    ("AllGather", {"axis": 0}, lambda xs, r: np.concatenate(xs, 0)),
    ("AllGather", {"axis": -1}, lambda xs, r: np.concatenate(xs, -1)),
    ("ReduceScatter", {"axis": 0}, lambda xs, r: np.split(xs[0] + xs[1], 2, 0)[r]),
    ("ReduceScatter", {"axis": 1}, lambda xs, r: np.split(xs[0] + xs[1], 2, 1)[r]),
    ("Broadcast", {"root": 1}, lambda xs, r: xs[1]),
    ("AllToAll", {"axis": 0}, lambda xs, r: np.concatenate([np.split(x, 2, 0)[r] for x in xs], 0)),
    ("AllToAll", {"axis": -1}, lambda xs, r: np.concatenate([np.split(x, 2, -1)[r] for x in xs], -1)),
]


def build(net, rank):
    return camshaft.build(net, device=f"cuda:{rank}", tuning="heuristic")


def network(dtype):
    """All of them, between pointwise layers, so that all of it is one recording."""
    net = camshaft.Network()
    x = net.input("x", dtype, (4, "n", 6))
    for number, (op, attributes, _) in enumerate(CASES):
        y = net.Neg(getattr(net.domain("camshaft"), op)(net.Neg(x), group_size=RANKS, **attributes))
        net.output(y, f"y{number}")
    return net


def on_ranks(call):
    """What each rank's call gave or raised."""
    results = [None] * RANKS

    def work(rank):
        try:
            results[rank] = call(rank)
        except camshaft.Error as error:
            results[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def errors_of(dtype):
    engines = [build(network(dtype), rank) for rank in range(RANKS)]
    ends = camshaft.Communicator.local(RANKS, 60)
    random = np.random.default_rng(3)
    contexts = [engine.create_context() for engine in engines]
    largest = [0.0] * len(CASES)
    for rounds, n in ((3, 2), (1, 1024), (3, 2)):  # the third time over the same memory it is replayed
        xs = [random.standard_normal((4, n, 6), np.float32).astype(dtype) for _ in range(RANKS)]

        def run(rank, xs=xs, rounds=rounds):
            contexts[rank].set_communicator(ends[rank])
            for _ in range(rounds):
                outputs = contexts[rank].run({"x": xs[rank]})
            return {name: np.from_dlpack(output).copy() for name, output in outputs.items()}

        for rank, outputs in enumerate(on_ranks(run)):
            if isinstance(outputs, Exception):
                raise outputs
            for number, (op, _, definition) in enumerate(CASES):
                # Neg on both sides: of a product and of the greatest it does not cancel out.
                wanted = -definition([-x.astype(np.float32) for x in xs], rank)
                error = np.abs(outputs[f"y{number}"].astype(np.float32) - wanted).max() / np.abs(wanted).max()
                assert outputs[f"y{number}"].shape == wanted.shape, op
                largest[number] = max(largest[number], float(error))
    return largest


def chain(rank):
    """Its second layer may fail: an index of the input that is out of range."""
    net = camshaft.Network()
    x, index = net.input("x", "f32", (4, 8)), net.input("i", "i64", (1,))
    y = net.domain("camshaft").AllGather(x, group_size=RANKS)
    net.output(net.domain("camshaft").AllReduce(net.Gather(y, index), group_size=RANKS), "y")
    return build(net, rank)


def said_of_failures():
    """One rank's input is missing, then another one's shapes are others."""
    x, index = np.ones((4, 8), np.float32), np.zeros(1, np.int64)
    engines = [chain(rank) for rank in range(RANKS)]
    ends = camshaft.Communicator.local(RANKS, 60)

    def run(rank):
        context = engines[rank].create_context()
        context.set_communicator(ends[rank])
        context.run({"x": x, "i": index})
        start = time.monotonic()
        try:
            context.run({"x": x, "i": index} if rank == 0 else {"x": x, "i": np.full(1, 99)})
            context.run({"x": x, "i": index})
        finally:
            assert time.monotonic() - start < 60
        return None

    return [str(each) for each in on_ranks(run)]


def follow(name):
    engine = chain(1)
    context = engine.create_context()
    context.set_communicator(camshaft.Communicator.join(name, 1, RANKS))
    print("here", flush=True)
    while True:
        context.run({"x": np.ones((4, 8), np.float32), "i": np.zeros(1, np.int64)})


def said_of_a_killed_process():
    name = f"killed-{os.getpid()}"
    other = subprocess.Popen([sys.executable, __file__, name], stdout=subprocess.PIPE, text=True)
    try:
        engine = chain(0)
        context = engine.create_context()
        context.set_communicator(camshaft.Communicator.join(name, 0, RANKS))
        assert other.stdout.readline() == "here\n"
        inputs = {"x": np.ones((4, 8), np.float32), "i": np.zeros(1, np.int64)}
        for _ in range(20):
            outputs = context.run(inputs)
        assert (np.from_dlpack(outputs["y"]) == 2).all()
        killer = threading.Timer(0.5, other.send_signal, (signal.SIGKILL,))
        killer.start()
        start = time.monotonic()
        try:
            while time.monotonic() - start < 60:
                context.run(inputs)
        except camshaft.Error as error:
            return {"error": str(error), "seconds": time.monotonic() - start}
        return {"error": "none", "seconds": time.monotonic() - start}
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        follow(sys.argv[1])
    said = {"errors": {dtype: errors_of(dtype) for dtype in ("float32", "float16")}}
    said["failures"] = said_of_failures()
    said["killed"] = said_of_a_killed_process()
    print(json.dumps(said))
