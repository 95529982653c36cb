#!/usr/bin/env python3
"""Compares Camshaft with ONNX Runtime, and with its own reference evaluation, on random graphs.

  differential.py --count 500 --jobs 2 [--seed S]

Graph i comes from seed S+i alone; S is CAMSHAFT_TEST_SEED, or another number each time, and printed. Each difference is
printed with its seed, and its model and inputs are kept under .cache/differential/. Where ONNX Runtime's own rounding
makes it, as the standard's reference implementation in f64 shows (exact.py), the graph is printed and is no difference.
At the end: how many graphs used each operator, and how many differences it has. Exits with 1 when there is a difference.
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
    import project_python

    project_python.use()

import agreement
import exact
import generate
import graph_builder
import numpy as np

from server import Failure, Server

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "differential"


def whole_model(model, feed, optimised):
    """ONNX Runtime's results for the whole model, or None when it refuses it."""
    try:
        session = graph_builder.session(model, optimised)
        names = [o.name for o in session.get_outputs()]
        return {n: graph_builder.as_array(a) for n, a in zip(names, session.run(names, feed))}
    except Exception:  # whatever ONNX Runtime throws
        return None


def rounding_spread(server, case, k, name):
    """How far the output moves by rounding: of the reference with noise, and of ONNX Runtime with its optimisations and
    with inputs whose last bit changed."""
    want = case.expected[k][name]
    if want.dtype == np.object_:
        return None
    spread = server.spread(case.model, case.feeds[k])[name]
    seconds = [whole_model(case.model, case.feeds[k], optimised=True)]
    seconds += [whole_model(case.model, nudged(case.feeds[k], seed), optimised=False) for seed in range(2)]
    for second in seconds:
        if second is not None and agreement.same_kind(second[name], want) is None:
            other = agreement.distance(second[name], want)
            spread = np.maximum(spread, np.where(np.isfinite(other), other, 0))
    return spread


def nudged(feed, seed):
    """The feed with the last bit of every float moved, up or down."""
    rng = np.random.default_rng(seed)
    return {
        name: np.nextafter(array, np.where(rng.random(array.shape) < 0.5, np.inf, -np.inf).astype(array.dtype))
        if array.dtype.kind == "f"
        else array
        for name, array in feed.items()
    }


def makers(case, name):
    return {node.op_type for node in case.builder.nodes if name in node.output}


def rounded_on_the_way(case, k, name, want):
    """How far ONNX Runtime's value is from that of exact steps; None where these do not tell."""
    exactly = exact.by_exact_steps(case, k).get(name)
    return None if exactly is None or agreement.same_kind(exactly, want) else agreement.distance(exactly, want)


def differing(server, case, results):
    """What differs: [(which, output, set of sizes, text)], and the operators by which ONNX Runtime departs from the
    standard's reference implementation where that one agrees with us."""
    found, rounded = [], set()
    for k, result in enumerate(results):
        corrected = None
        spreads = {}
        for name, want in case.expected[k].items():
            value = case.values[name]
            for which in ("engine", "reference"):
                got = result[f"{which}:{name}"]
                what = agreement.difference(got, want, value)
                if what and not value.exact and agreement.same_kind(got, want) is None:
                    if name not in spreads:
                        spreads[name] = rounding_spread(server, case, k, name)
                    what = agreement.difference(got, want, value, spreads[name])
                    if what:
                        corrected = exact.without_rounding(case, k) if corrected is None else corrected
                        exactly, operators = corrected.get(name, (want, set()))
                        if not agreement.difference(got, exactly, value, spreads[name]):
                            rounded |= operators
                            what = None
                        elif not corrected and (chosen := rounded_on_the_way(case, k, name, want)) is not None:
                            if not agreement.difference(got, want, value, np.maximum(spreads[name], chosen)):
                                rounded |= makers(case, name)
                                what = None
                if what:
                    found.append((which, name, k, what))
    return found, rounded


def blame(server, case):
    """The operator whose result is the first wrong one when all values are outputs; 'fused' when none is."""
    producers = {name: node for node in case.builder.nodes for name in node.output if name in case.values}
    made = [case.values[name] for name in producers]
    model, inputs = generate.build_model(case.builder, made)
    feeds = [{v.name: v.arrays[k] for v in inputs} for k in range(case.builder.sets)]
    try:
        results = server.run(model, feeds, threads=case.threads)
    except Failure as failure:
        return f"? ({failure.stage})"
    for value in made:
        for k, result in enumerate(results):
            for which in ("engine", "reference"):
                got = result[f"{which}:{value.name}"]
                if agreement.difference(got, value.arrays[k], value):
                    node = producers[value.name]
                    return f"{node.domain + '.' if node.domain else ''}{node.op_type} ({which})"
    return "fused"


def check(server, seed):
    """(operators, kind, text) of one seed; kind is None when all is well, and a text then says what ONNX Runtime rounds."""
    case = generate.generate(seed)
    if case is None:
        return [], None, ""
    operators = sorted({f"{domain}.{name}" if domain else name for domain, name in case.operators})
    try:
        results = server.run(case.model, case.feeds, verify=seed % 8 == 0, threads=case.threads)
        found, rounded = differing(server, case, results)
    except Failure as failure:
        keep(case, str(failure))
        return operators, f"{failure.stage} {failure.code}", str(failure)
    if not found:
        return operators, None, ", ".join(sorted(rounded))
    text = "; ".join(f"{which} '{name}' (sizes {k}): {what}" for which, name, k, what in found[:4])
    kind = blame(server, case)
    keep(case, text)
    return operators, kind, text


def keep(case, text):
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{case.seed}.onnx"
    path.write_bytes(case.model.SerializeToString())
    for k, (feed, expected) in enumerate(zip(case.feeds, case.expected)):
        np.savez(FOLDER / f"{case.seed}.inputs{k}.npz", **{n: generate.plain(a) for n, a in feed.items()})
        np.savez(FOLDER / f"{case.seed}.expected{k}.npz", **{n: generate.plain(a) for n, a in expected.items()})
    (FOLDER / f"{case.seed}.txt").write_text(text + "\n")


def work(seeds, pipe):
    with Server() as server:
        for seed in seeds:
            pipe.send(("start", seed))
            pipe.send(("done", seed, *check(server, seed)))
    pipe.send(("end",))


class Worker:
    """A process that checks seeds; ONNX Runtime crashes now and then, and takes it down."""

    def __init__(self, seeds):
        self.seeds = seeds
        self.current = None
        self.start()

    def start(self):
        self.pipe, other = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=work, args=(self.seeds, other), daemon=True)
        self.process.start()
        other.close()

    def results(self):
        """Those that are there; an ended worker gives None."""
        while self.pipe.poll():
            try:
                message = self.pipe.recv()
            except EOFError:
                self.process.join()
                yield self.current, [], "generator", f"the generator died, exit code {self.process.exitcode}"
                self.seeds = [s for s in self.seeds if s > self.current]
                self.start()
                return
            if message[0] == "end":
                yield None
                return
            self.current = message[1]
            if message[0] == "done":
                yield message[1:]


def run_all(first, count, jobs):
    workers = [Worker([s for s in range(first + j, first + count, jobs)]) for j in range(jobs)]
    while workers:
        multiprocessing.connection.wait([w.pipe for w in workers])
        for worker in list(workers):
            for result in worker.results():
                if result is None:
                    workers.remove(worker)
                    break
                yield result


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="also write the summary here")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = int(os.environ.get("CAMSHAFT_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"seeds from {options.seed} on", flush=True)

    start = time.monotonic()
    used, wrong, rounded, compared = collections.Counter(), collections.defaultdict(list), 0, 0
    for seed, operators, kind, text in run_all(options.seed, options.count, options.jobs):
        used.update(operators)
        compared += bool(operators)
        if kind:
            wrong[kind].append(seed)
            print(f"seed {seed}: {kind}: {text}", flush=True)
        elif text:
            rounded += 1
            print(f"seed {seed}: right by the standard's reference in f64, ONNX Runtime rounds {text}", flush=True)
    seconds = time.monotonic() - start

    print("\ngraphs  operator")
    for name, graphs in sorted(used.items()):
        print(f"{graphs:6}  {name}")
    for kind, seeds in sorted(wrong.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):6} differences: {kind}, seeds {' '.join(map(str, seeds[:8]))}")
    differences = sum(map(len, wrong.values()))
    print(
        f"{compared} graphs, {differences} differences, {rounded} that ONNX Runtime rounds, "
        f"{compared / seconds:.1f} graphs/s"
    )
    if options.json:
        summary = {"count": options.count, "seed": options.seed, "differences": differences, "rounded": rounded,
                   "wrong": wrong, "operators": used}  # fmt: skip
        Path(options.json).write_text(json.dumps(summary, indent=1))
    if compared < 0.9 * options.count:
        print(f"only {compared} of {options.count} seeds gave a graph that ONNX Runtime runs")
        return 1
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
