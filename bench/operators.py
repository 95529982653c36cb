"""Every operator alone, beside ONNX Runtime: models of one node at several sizes and types, on one thread.

Both run in this process, in turn, on inputs and outputs that are bound once. Time is the processor time of the thread,
the least of many runs: other programs then disturb it least. What a run costs before the operator begins (the call from
Python, finding the kernel) is measured on a model that passes one element on, and printed; `ratio` is ONNX Runtime's time
divided by ours with that included, `net` without it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python"))]

import camshaft
import camshaft_cli
import onnxruntime
import operator_cases
import rivals

import onnx
from onnx import helper

BOUND = 0.9  # of ONNX Runtime's speed


class Ours:
    def __init__(self, model, feed, folder):
        camshaft_cli.camshaft("build", model, "-o", f"{folder}/engine", "--no-verify", "--threads", 1)
        self.context = camshaft.Engine(f"{folder}/engine").create_context(threads=1)
        self.context.run(feed)
        run, context = camshaft._native.run, self.context._context
        self.run = lambda: run(context)


class Theirs:
    def __init__(self, model, feed):
        rival = rivals.OnnxRuntime(model, 1)
        rival.bind(feed)
        rival.run()
        run, binding = rival.session._sess.run_with_iobinding, rival.binding._iobinding
        self.run = lambda: run(binding, None)


def least_seconds(ours, theirs, seconds, most=2000):
    """The least time of a run of each, which take turns until `seconds` have passed, five times at least."""
    clock, best = time.thread_time_ns, [1 << 62, 1 << 62]
    end = time.perf_counter() + seconds
    for i in range(most):
        for k, run in enumerate((ours.run, theirs.run)):
            start = clock()
            run()
            taken = clock() - start
            if taken > 0:  # a virtual machine's clock may stand still
                best[k] = min(best[k], taken)
        if i >= 4 and time.perf_counter() > end:
            break
    return best[0] * 1e-9, best[1] * 1e-9


def write_model(case, path):
    names = [f"y{i}" if used else "" for i, used in enumerate(case.outputs)]
    node = helper.make_node(case.op, case.operands, names, domain=case.domain, **case.attributes)

    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        [node],
        case.op,
        [info(name, array) for name, array in case.feed.items()],
        [helper.make_empty_tensor_value_info(name) for name in names if name],
        [onnx.numpy_helper.from_array(array, name) for name, array in case.constants.items()],
    )
    domains = [helper.make_opsetid("", case.opset)]
    if case.domain:
        domains.append(helper.make_opsetid(case.domain, {"ai.onnx.ml": 3}.get(case.domain, 1)))
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), path)


class Refused(Exception):
    """One of both cannot run the case; the text says why."""


def measure(case, seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        write_model(case, path)
        try:
            theirs = Theirs(path, case.feed)
        except Exception as error:  # whatever ONNX Runtime throws
            raise Refused(f"ONNX Runtime: {str(error).splitlines()[0][:150]}") from None
        try:
            ours = Ours(path, case.feed, folder)
        except (RuntimeError, camshaft.Error) as error:
            raise Refused(f"Camshaft: {str(error).strip().splitlines()[-1][:200]}") from None
        try:
            return least_seconds(ours, theirs, seconds)
        except RuntimeError as error:  # of a second run on outputs that are there
            raise Refused(f"ONNX Runtime: {str(error).splitlines()[0][:150]}") from None


def measure_again(case, seconds, doubtful):
    """measure(), once more where Camshaft's speed is below that part of ONNX Runtime's, which might be chance."""
    ours, theirs = measure(case, seconds)
    for _ in range(2):
        if theirs < doubtful * ours:
            again = measure(case, 4 * seconds)
            ours, theirs = min(ours, again[0]), min(theirs, again[1])
    return ours, theirs


def sizes(text):
    return [int(float(number)) for number in text.split(",")]


def options():
    parser = argparse.ArgumentParser(prog="bench/operators", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="OPERATOR", help="all of the table without")
    parser.add_argument("--sizes", type=sizes, default=sizes("1e3,1e5,1e7"), help="elements: 1e3,1e5,1e7")
    parser.add_argument("--types", help="element types (f32,i64,...); all that the operator takes without")
    parser.add_argument("--from", dest="first", metavar="OPERATOR", help="leave out those before it in the table")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long a case is measured, at least")
    parser.add_argument("--core", type=int, help="the processor to stay on")
    parser.add_argument("--output", type=Path, help="a file for all figures, as JSON")
    parser.add_argument("--quiet", action="store_true", help="print only what is too slow, and what could not be run")
    return parser.parse_args()


def main():
    arguments = options()
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})
    onnxruntime.set_default_logger_severity(4)
    empty = measure(operator_cases.empty(), 1.0)
    print(f"a run of nothing: Camshaft {empty[0] * 1e6:.2f} us, ONNX Runtime {empty[1] * 1e6:.2f} us")
    print(f"{'operator':44} {'elements':>9} {'ours us':>10} {'theirs us':>10} {'ratio':>6} {'net':>6}")
    rows, slow, refused = [], [], []
    types = arguments.types.split(",") if arguments.types else None
    for case in operator_cases.cases(arguments.names, arguments.sizes, types, arguments.first):
        try:
            ours, theirs = measure_again(case, arguments.seconds, BOUND * 1.1)
        except Refused as error:
            refused.append((case, str(error)))
            continue
        own, other = (max(t - e, 1e-8) for t, e in zip((ours, theirs), empty))
        row = {"case": case.title, "elements": case.elements, "ours": ours, "theirs": theirs,
               "ratio": theirs / ours, "net": other / own}  # fmt: skip
        rows.append(row)
        is_slow = row["ratio"] < BOUND
        text = (f"{case.title:44} {case.elements:9} {ours * 1e6:10.2f} {theirs * 1e6:10.2f} {row['ratio']:6.2f} "
                f"{row['net']:6.2f}{'  slow' if is_slow else ''}")  # fmt: skip
        if is_slow:
            slow.append(text)
        if is_slow or not arguments.quiet:
            print(text, flush=True)
    for case, why in refused:
        if not why.startswith("ONNX Runtime"):
            print(f"not run: {case.title} {case.elements}: {why}")
    if not arguments.quiet:
        print(f"\nbelow {BOUND} of ONNX Runtime's speed:")
        print("\n".join(slow))
    print(f"{len(rows)} cases, {len(slow)} below {BOUND}; ONNX Runtime has no kernel for "
          f"{sum(why.startswith('ONNX Runtime') for _, why in refused)}")  # fmt: skip
    if arguments.output:
        arguments.output.write_text(json.dumps({"empty": empty, "rows": rows}, indent=1))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
