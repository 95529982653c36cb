#!/usr/bin/env python3
"""The server under load beside other services, on this machine's cores: closed loops of 1 to 256 clients, and Poisson.

    bench/serving_compare.py [MODEL...] [--services camshaft fastapi openvino ray] [--seconds 4] [--rounds 2] [--out FILE]
    bench/serving_compare.py --table FILE     the tables of docs/serving_load.md from what was measured

Models are minilm (32 tokens), ppocr_rec (a line of 320 pixels) and tv_resnet50. Beside are FastAPI on uvicorn with
requests put together, over ONNX Runtime and over OpenVINO, and Ray Serve over ONNX Runtime (bench/services). Answers
are one output. Models are computed in fp32 everywhere; with --bf16 products may be rounded to bf16 by whoever can: by
OpenVINO, which does so by itself where the processor has it, and by Camshaft. Each service is there with one instance that has all cores, and with one a core;
in a round all take turns, and each keeps its best, as what others do on the machine only takes away. The open loop
finds the highest rate at which 99 of 100 requests are answered within 50 ms, refused ones counted as late. Last, at
saturation, all services and the engine alone take turns of a second: shares of the engine's own throughput are
medians over the turns. Processor times are of a request at the server, at its client and of the engine alone: what
they say is the same however much else the machine does.

Needs the targets camshaft_server, camshaft_command and serving_load (cmake --preset release -D CAMSHAFT_BUILD_BENCH=ON),
and for the others an environment:
    python3 -m venv .cache/serving
    .cache/serving/bin/pip install fastapi uvicorn httptools uvloop onnxruntime openvino 'ray[serve]'
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts", "tests/models", "tests/server")]

import project_python

project_python.use()

import catalog
import numpy as np
from serving import serving
from serving_requests import finish_load, http_request, start_load

COMMAND = ROOT / "build/release/tools/camshaft"
OTHERS = ROOT / ".cache/serving/bin/python"
CLIENTS = (1, 4, 16, 64, 256)
TARGET_MS, MAX_BATCH, WAIT_MS = 50, 16, 2
SERVICES = {
    "camshaft": "Camshaft",
    "fastapi": "FastAPI + ONNX Runtime",
    "openvino": "FastAPI + OpenVINO",
    "ray": "Ray Serve + ONNX Runtime",
}


@dataclass
class Task:
    """A model, the inputs of one request, and the output that is asked for."""

    name: str
    path: Path
    inputs: dict
    output: str

    @property
    def shapes(self):
        return [(name, str(array.dtype), list(array.shape[1:])) for name, array in self.inputs.items()]


def make_task(name):
    model = catalog.MODELS[name]
    if name == "minilm":
        inputs = catalog.minilm_feed(1, 32)
    else:
        inputs = model.feed()
    import onnx

    outputs = [output.name for output in onnx.load(str(model.path()), load_external_data=False).graph.output]
    output = "sentence_embedding" if name == "minilm" else outputs[0]
    return Task(name, model.path(), {key: np.ascontiguousarray(value) for key, value in inputs.items()}, output)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service:
    """What takes requests at a port; `target`: of requests that are to be answered in time."""

    def __init__(self, port, request, target_request=None, process=None):
        self.port, self.request, self.target_request = port, request, target_request or request
        self.process = process  # whose processor time is looked at

    def start_load(self, target=False, **options):
        return start_load(self.port, **(self.target_request if target else self.request), **options)

    def measure(self, target=False, **options):
        return finish_load(self.start_load(target, **options))


def write_body(folder, name, body, length, path):
    (folder / name).write_bytes(body)
    headers = [f"Inference-Header-Content-Length:{length}"] if length else []
    return {"path": path, "body": folder / name, "headers": headers}


@contextlib.contextmanager
def camshaft_service(task, folder, cache, instances, bf16):
    """Two models of one engine: one as large as batches may be, one with a target."""
    for name, more in (("plain", ""), ("target", f'latency_target_ms" value {{ string_value: "{TARGET_MS}" }} }}')):
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        shutil.copyfile(task.path, version / "model.onnx")
        config = f"max_batch_size: {MAX_BATCH}\ndynamic_batching {{}}\ninstance_group [{{ count: {instances} }}]\n"
        if more:
            config += 'parameters { key: "' + more + "\n"
        if bf16:
            config += 'parameters { key: "bf16" value { string_value: "true" } }\n'
        (version.parent / "config.pbtxt").write_text(config)
    with serving(folder / "models", f"--engine-cache={cache}", "--http-thread-count=2") as server:
        body, length = http_request(task.inputs, [task.output])
        requests = [write_body(folder, name, body, length, f"/v2/models/{name}/infer") for name in ("plain", "target")]
        yield Service(server.ports["HTTP"], *requests, server.process)


@contextlib.contextmanager
def other_service(task, folder, kind, instances, bf16):
    spec = {
        "model": str(task.path),
        "runtime": "openvino" if kind == "openvino" else "onnxruntime",
        "inputs": task.shapes,
        "output": task.output,
        "max_batch": MAX_BATCH,
        "wait_ms": WAIT_MS,
        "instances": instances,
        "threads": max(1, len(os.sched_getaffinity(0)) // instances),
        "bf16": bf16,
        "port": free_port(),
    }
    script = ROOT / "bench/services" / ("ray_service.py" if kind == "ray" else "fastapi_service.py")
    environment = os.environ | {"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(script.parent)}
    # A group, but no session, of its own: Linux gives each session the same share of the processors.
    with open(folder / f"{kind}.log", "wb") as log:
        process = subprocess.Popen(
            [OTHERS, script, json.dumps(spec)], stdout=log, stderr=log, env=environment, preexec_fn=os.setpgrp
        )
    body = b"".join(array.tobytes() for array in task.inputs.values())
    service = Service(spec["port"], write_body(folder, f"{kind}.body", body, 0, "/infer"))
    try:
        end = time.monotonic() + 180
        while True:
            with contextlib.suppress(RuntimeError):
                if service.measure(clients=1, seconds=0.2)["answered"] > 0:
                    break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{kind} does not answer:\n{(folder / f'{kind}.log').read_text()}")
            time.sleep(0.5)
        yield service
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def rates_in_time(services, highest, options):
    """{service: the highest rate at which 99 of 100 are answered in time}: by halving, from what a closed loop took.

    The services take turns; a rate is tried twice where it is not met at once, as what else the machine does only takes
    away.
    """

    def is_fine(service, rate, seed):
        result = service.measure(target=True, clients=256, seconds=options.seconds + 1, skip=1, rate=rate, seed=seed)
        late = result["slower_than_50_ms"] + result["refused"] + result["failed"]
        return result["answered"] >= 0.9 * rate * options.seconds and late <= 0.01 * result["requests"]

    low, high = dict.fromkeys(services, 0.0), {key: 1.1 * rate for key, rate in highest.items()}
    for seed in range(options.halvings):
        for key, service in services.items():
            middle = (low[key] + high[key]) / 2
            if is_fine(service, middle, seed) or is_fine(service, middle, options.halvings + seed):
                low[key] = middle
            else:
                high[key] = middle
    return low


def engine_throughput(task, cache, seconds, batches=(1, 2, 4, 8, 16)):
    """{batch: elements a second} of the engine alone: a process of one thread a core, each bound to its core."""
    (engine,) = [file for file in Path(cache).iterdir() if file.is_file()]
    found = {}
    for batch in batches:
        shapes = ",".join(f"{name}:{'x'.join(map(str, [batch, *shape]))}" for name, _, shape in task.shapes)
        running = [
            subprocess.Popen(
                [COMMAND, "bench", engine, "--shapes", shapes, "--threads", "1", "--json", "--duration", str(seconds)],
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=lambda core=core: os.sched_setaffinity(0, {core}),
            )
            for core in sorted(os.sched_getaffinity(0))
        ]
        found[batch] = sum(batch / throughput_time(process) for process in running)
    return found


def measure_saturation(services, task, cache, options, batch):
    """{service or "engine": throughputs, one a turn}: short turns, so that what else the machine does falls on all.

    Answers come by the batch: a window of 3 s has 8 of PP-OCR's, or 7, which is 12 % less.
    """
    found = {kind: [] for kind in [*services, "engine"]}
    for _ in range(options.turns):
        for kind, service in services.items():
            measured = service.measure(clients=2 * MAX_BATCH, seconds=options.window + 0.5, skip=0.5)
            found[kind].append(measured["per_second"])
        found["engine"].append(engine_throughput(task, cache, options.window / 3, [batch])[batch])
    return found


def processor_seconds(process):
    """Of all threads of a process that runs."""
    total = 0
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def engine_processor_time(task, engine, batch, runs):
    """Of an element, in ms: two processes, one with so many runs more, differ by these alone."""
    shapes = ",".join(f"{name}:{'x'.join(map(str, [batch, *shape]))}" for name, _, shape in task.shapes)
    command = [COMMAND, "bench", engine, "--shapes", shapes, "--threads", "1", "--warmup", "0", "--iterations"]
    used = []
    for iterations in (1, 1 + runs):
        before = seconds_of_children()
        subprocess.run([*command, str(iterations)], check=True, capture_output=True)
        used.append(seconds_of_children() - before)
    return 1000 * (used[1] - used[0]) / runs / batch


def measure_processor_time(service, task, cache, options):
    """Medians of a request at saturation, in ms: of the server, its client, and the engine by batch."""
    (engine,) = [file for file in Path(cache).iterdir() if file.is_file()]
    found = {"server": [], "client": [], "engine": {1: [], 4: [], MAX_BATCH: []}}

    def run_elements():  # with those that are answered when the load's time is over
        with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/v2/models/plain/stats") as answer:
            return json.load(answer)["model_stats"][0]["inference_count"]

    for _ in range(max(3, options.turns // 2)):
        server, client, elements = processor_seconds(service.process), seconds_of_children(), run_elements()
        service.measure(clients=2 * MAX_BATCH, seconds=3)
        elements = run_elements() - elements
        found["server"].append(1000 * (processor_seconds(service.process) - server) / elements)
        found["client"].append(1000 * (seconds_of_children() - client) / elements)
        for batch, times in found["engine"].items():
            times.append(engine_processor_time(task, engine, batch, max(4, 64 // batch)))
    engine_times = {str(batch): statistics.median(times) for batch, times in found["engine"].items()}
    return {"server": statistics.median(found["server"]), "client": statistics.median(found["client"]),
            "engine": engine_times}  # fmt: skip


def throughput_time(process):
    """Seconds of a run, the mean."""
    report = json.loads(process.communicate()[0])
    return report["latency_ms"]["mean"] / 1000


def measure_task(name, options):
    """{"services": {kind: …}, "engine": …}: of each kind the best of its numbers of instances."""
    task = make_task(name)
    result = {"services": {kind: {"closed": {}, "in_time": 0} for kind in options.services}, "engine": {}}
    with tempfile.TemporaryDirectory() as folder_name, contextlib.ExitStack() as stack:
        cache = Path(folder_name) / "cache"
        services = {}
        for kind, instances in itertools.product(options.services, options.instances):
            print(f"{name}: {kind} with {instances} instances starts", file=sys.stderr, flush=True)
            folder = Path(folder_name) / f"{kind}-{instances}"
            folder.mkdir()
            service = (
                camshaft_service(task, folder, cache, instances, options.bf16)
                if kind == "camshaft"
                else other_service(task, folder, kind, instances, options.bf16)
            )
            services[kind, instances] = stack.enter_context(service)
        highest = dict.fromkeys(services, 0)
        for _ in range(options.rounds):
            for clients in options.clients:
                for (kind, instances), service in services.items():
                    measured = service.measure(clients=clients, seconds=options.seconds + 0.5, skip=0.5)
                    highest[kind, instances] = max(highest[kind, instances], measured["per_second"])
                    closed = result["services"][kind]["closed"]
                    best = closed.get(str(clients))
                    if best is None or measured["per_second"] > best["per_second"]:
                        closed[str(clients)] = measured | {"instances": instances}
                    told = f"{measured['per_second']:.1f}/s, p99 {measured['p99'] / 1000:.1f} ms"
                    told += f", failed {measured['failed']}"
                    print(f"{name} {kind} {instances} x, {clients} clients: {told}", file=sys.stderr, flush=True)
            if "camshaft" in options.services:
                for batch, rate in engine_throughput(task, cache, options.seconds / 2).items():
                    result["engine"][str(batch)] = max(rate, result["engine"].get(str(batch), 0))
                print(f"{name} engine: {result['engine']}", file=sys.stderr, flush=True)
            rates = rates_in_time(services, highest, options)
            for (kind, instances), rate in rates.items():
                entry = result["services"][kind]
                if rate >= entry["in_time"]:
                    entry |= {"in_time": rate, "in_time_instances": instances}
                print(f"{name} {kind} {instances} x, in time: {rate:.1f}/s", file=sys.stderr, flush=True)
        if "camshaft" in options.services and options.turns > 0:
            best = {
                kind: max(options.instances, key=lambda n, kind=kind: highest[kind, n]) for kind in options.services
            }
            chosen = {kind: services[kind, instances] for kind, instances in best.items()}
            batch = int(max(result["engine"], key=result["engine"].get))
            result["saturation"] = measure_saturation(chosen, task, cache, options, batch)
            print(f"{name} saturation: {result['saturation']}", file=sys.stderr, flush=True)
            result["processor"] = measure_processor_time(chosen["camshaft"], task, cache, options)
            print(f"{name} processor time: {result['processor']}", file=sys.stderr, flush=True)
    return result


def share_of_engine(saturation):
    """{service: the median of its throughput over the engine's of the same turn}."""
    engine = saturation["engine"]
    return {
        kind: statistics.median(value / own for value, own in zip(values, engine, strict=True))
        for kind, values in saturation.items()
        if kind != "engine"
    }


def model_table(name, result):
    """Lines of Markdown."""
    kinds = list(result["services"])
    clients = sorted(map(int, result["services"][kinds[0]]["closed"]))
    lines = [f"### {name}", ""]
    lines += [f"| requests/s (p99 in ms) | {' | '.join(f'{n} clients' for n in clients)} | within {TARGET_MS} ms |"]
    lines += ["|---|" + "---|" * (len(clients) + 1)]
    for kind in kinds:
        entry = result["services"][kind]
        cells = [entry["closed"][str(n)] for n in clients]
        texts = [f"{cell['per_second']:.0f} ({cell['p99'] / 1000:.0f})" for cell in cells]
        lines.append(f"| {SERVICES[kind]} | {' | '.join(texts)} | {entry['in_time']:.0f} |")
    others = [result["services"][kind]["in_time"] for kind in kinds if kind != "camshaft"]
    if result["engine"] and others and max(others) > 0:
        times = result["services"]["camshaft"]["in_time"] / max(others)
        lines += ["", f"Within {TARGET_MS} ms Camshaft takes {times:.2f} times what the best of the others does."]
    if saturation := result.get("saturation"):
        batch = max(result["engine"], key=result["engine"].get)
        told = ", ".join(f"{SERVICES[kind]} {share:.2f}" for kind, share in share_of_engine(saturation).items())
        lines += [f"Of the engine's own throughput (batch {batch}, {len(saturation['engine'])} turns): {told}."]
    if times := result.get("processor"):
        best = min(times["engine"].values())
        lines += [f"Processor time of a request: {times['server']:.2f} ms, of the engine at its best batch {best:.2f}"
                  f" ({best / times['server']:.2f} of it), of the client {times['client']:.2f}."]  # fmt: skip
    return [*lines, ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["minilm", "ppocr_rec", "tv_resnet50"])
    parser.add_argument("--services", nargs="*", choices=list(SERVICES), default=list(SERVICES))
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--instances", nargs="*", type=int, default=sorted({1, cores}))
    parser.add_argument("--clients", nargs="*", type=int, default=list(CLIENTS))
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--halvings", type=int, default=6)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--bf16", action="store_true", help="operands of products may be rounded to bf16")
    parser.add_argument("--window", type=float, default=6, help="seconds of a turn at saturation")
    parser.add_argument(
        "--out", type=Path, default=ROOT / ".cache/serving.json", help="results, which others are added to"
    )
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        for name, result in json.loads(options.table.read_text()).items():
            print("\n".join(model_table(name, result)))
        return
    if any(kind != "camshaft" for kind in options.services) and not OTHERS.exists():
        raise SystemExit(f"serving: there is no {OTHERS}; --help says how it is made")
    for name in options.models:
        results = json.loads(options.out.read_text()) if options.out.exists() else {}
        key = f"{name}, bf16" if options.bf16 else name
        results[key] = measure_task(name, options)
        options.out.write_text(json.dumps(results, indent=1))
        print("\n".join(model_table(key, results[key])))


if __name__ == "__main__":
    main()
