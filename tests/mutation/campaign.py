#!/usr/bin/env python3
"""Mutation score over the whole zoo and the real models: how many engines with one thing wrong verification rejects.

  campaign.py --jobs 1                       all models, as many as are not yet done
  campaign.py own_tcn --count 100            some models
  campaign.py --device cuda --minutes 9      on this machine's GPU, for so long
  campaign.py --merge OTHER.json...          takes over what was done elsewhere

Each model is built on the CPU in fp32 and with --bf16, small ones also on the emulated GPU in fp32, fp16 and bf16 (build
the targets emulated_driver, emulated_nvrtc, emulated_blas and emulated_nccl), or with --device cuda all on a real one. Large models get a
third of the mutants. What is done is kept in --out at once, and not done again with the same seed and count. Exits with 1
when a right engine is rejected, or fewer than 99 % of the mutants that change an output by more than four times what
rounding does.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts", "tests/models", "bench")]

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft_cli
from catalog import BENCH, EVERY
from mutation_scores import CONFIGURATIONS, REQUIRED, percent, tables, totals

import onnx

SCORE = Path(os.environ.get("CAMSHAFT_MUTATION_SCORE", ROOT / "build/release/tests/mutation_score"))
EMULATOR = ROOT / "scripts/emulate_gpu.sh"
THREADS = 1  # of a run: several runs beside each other use cores better than threads that wait for each other do
LARGE = 20  # MB; above, a model gets a third of the mutants
SMALL_ON_GPU = 1  # MB; an emulated kernel takes a thousand times as long
DEVICES = ("cpu", "emulated", "cuda")
# Chunks of sound have one length, which nothing in the file says; made-up numbers run a loop once at most.
TAKE_GIVEN_INPUTS = ("silero_vad", "own_loop_script")


def megabytes(name):
    return EVERY[name].megabytes if name in EVERY else 2


def path(name):
    return (EVERY.get(name) or BENCH[name]).path()


def runs(names, seed, count, devices=("cpu", "emulated")):
    """(key, model, configuration, mutants) of each: small models first, and the CPU, which is faster than an emulation."""
    for device in devices:
        for name in sorted(names, key=megabytes):
            if device == "emulated" and megabytes(name) > SMALL_ON_GPU:
                continue
            mutants = count if megabytes(name) <= LARGE else max(count // 3, 1)
            for configuration in CONFIGURATIONS:
                if configuration.startswith(device):
                    yield f"{name} {configuration} seed {seed} count {mutants}", name, configuration, mutants


def given_inputs(name):
    """{input: array} for a model that takes no made-up ones."""
    return EVERY[name].feed() if name in EVERY else BENCH[name].feed(1)


def score(name, configuration, seed, count, seconds, end):
    """What mutation_score wrote; or {"error": text}; or None where that would begin after `end`, or take until then, and
    where this machine does not have the model, which is no judgement on it."""
    device, precision = configuration.split()
    most = min(10 * seconds, end - time.monotonic())
    if most < 1:
        return None
    try:
        model = path(name)
        model.stat()
    except FileNotFoundError as error:
        print(f"{name} is left out: {error}", flush=True)
        return None
    except OSError as error:
        return {"error": str(error)}
    command = [str(EMULATOR)] if device == "emulated" else []
    command += [str(SCORE), str(model), "--count", str(count), "--seed", str(seed)]
    command += ["--device", "cpu" if device == "cpu" else "cuda"]
    command += [
        "--seconds",
        str(seconds),
        "--threads",
        str(THREADS),
        *([] if precision == "fp32" else [f"--{precision}"]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "score.json"
        if name in TAKE_GIVEN_INPUTS:
            for key, array in given_inputs(name).items():
                (Path(folder) / f"{key}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
            command += ["--inputs", folder]
        try:
            # The right engine, and the mutant that is being judged, take their time beside.
            done = subprocess.run([*command, "--json", str(written)], capture_output=True, text=True, timeout=most)
        except subprocess.TimeoutExpired:
            return {"error": f"took more than {10 * seconds} s"} if time.monotonic() < end else None
        if not written.exists():
            return {"error": (done.stderr or done.stdout).strip()[-300:]}
        return json.loads(written.read_text())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="names in tests/models/catalog.py (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--count", type=int, default=30, help="mutants of a small model in each precision")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=60, help="for the mutants of a model in a precision")
    parser.add_argument("--device", action="append", choices=DEVICES, help="default: cpu and emulated")
    parser.add_argument("--minutes", type=float, default=1e6, help="what is not done by then is left")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="files of other campaigns, for --out")
    parser.add_argument("--out", type=Path, default=camshaft_cli.CACHE / "results/mutants.json")
    options = parser.parse_args(arguments)
    every = [*EVERY, "silero_vad"]
    if unknown := set(options.models) - set(every):
        sys.exit(f"no such model: {', '.join(unknown)}; there are {', '.join(every)}")

    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.merge:
        for other in options.merge:
            results.update(json.loads(other.read_text()))
        return finish(results, options.out)

    end = time.monotonic() + 60 * options.minutes
    wanted = list(runs(options.models or every, options.seed, options.count, options.device or ("cpu", "emulated")))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {
            pool.submit(score, name, configuration, options.seed, mutants, options.seconds, end): key
            for key, name, configuration, mutants in wanted
            if "kinds" not in results.get(key, {})
        }
        for future in concurrent.futures.as_completed(waiting):
            key = waiting[future]
            if future.result() is None:
                continue
            results[key] = future.result()
            write(results, options.out)
            found = totals([results[key]])
            text = results[key].get("error") or f"{found.rejected} of {found.changed} rejected"
            print(f"{key}: {text}", flush=True)
            for line in results[key].get("passed", []) + results[key].get("right_engines_rejected", []):
                print(f"  {line}", flush=True)

    return finish({key: results[key] for key, *_ in wanted if key in results})


def write(results, out):
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1))


def finish(results, out=None):
    """Prints the tables, and writes the results where `out` is given; the exit code."""
    if out:
        write(results, out)
    print()
    print("\n".join(tables(results, by_model=True)))
    everything = totals(results.values())
    failed = everything.right_rejected or everything.errors or percent(everything) < REQUIRED
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
