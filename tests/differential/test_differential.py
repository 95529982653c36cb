"""A part of the differential test that is quick enough for every run (differential.py is the long one), and what its
random graphs claim to cover."""

import re
from pathlib import Path

import differential
import generate
import numpy as np
import pytest
from graph_builder import LARGE, GraphBuilder, Rejected
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
from table import INDIRECT, OPERATORS, PATTERNS, importable, not_generated

DOCUMENTED = Path(__file__).resolve().parents[2] / "docs/operators.md"


def test_random_graphs_agree_with_onnxruntime():
    assert differential.main(["--count", "500", "--jobs", "2"]) == 0


def documented():
    """(domain, name) of every operator that docs/operators.md lists."""
    found, domain = set(), None
    for line in DOCUMENTED.read_text().splitlines():
        if line.startswith("## "):
            domain = {"ONNX": ""}.get(line[3:], line[3:])
        elif (row := re.match(r"\| (\w+) \|", line)) and row[1] != "operator":
            found.add((domain, row[1]))
    return found


def test_every_operator_is_generated_or_listed_as_not():
    assert documented() == importable()
    assert set(not_generated()) == importable() - set(OPERATORS) - INDIRECT
    assert set(OPERATORS) <= importable()


def test_reasons_for_not_generating_hold():
    on_cpu = {(kernel.domain, kernel.op_name) for kernel in get_all_opkernel_def() if "CPU" in kernel.provider}
    assert len(on_cpu) > 200
    without = {operator for operator, reason in not_generated().items() if reason == "no kernel"}
    # Rewritten by their definition as a function, they have none of their own.
    assert not without & on_cpu
    assert all(reason for reason in not_generated().values())


def builder(seed, large=False):
    rng = np.random.default_rng(seed)
    opset, theme = (options[int(rng.integers(len(options)))] for options in (generate.OPSETS, generate.THEMES))
    return GraphBuilder(rng, opset, theme, dynamic=rng.random() < 0.5, large=large)


@pytest.mark.parametrize("domain, name", sorted(set(OPERATORS) & importable()))
def test_described_operator_becomes_a_node(domain, name):
    for seed in range(200):
        b = builder(seed)
        try:
            with np.errstate(all="ignore"):
                if domain == "":
                    b.since(name)
                OPERATORS[domain, name](b, name)
        except Rejected:
            continue
        if (domain, name) in b.operators:
            return
    raise AssertionError("ONNX Runtime refuses all that the description makes")


def test_patterns_make_the_operators_without_description():
    made = {("", "Constant")}  # of build_model(as_nodes=True)
    for describe in PATTERNS:
        for seed in range(60):
            b = builder(seed)
            try:
                with np.errstate(all="ignore"):
                    describe(b)
            except Rejected:
                continue
            made |= set(b.operators)
    assert INDIRECT <= made


def test_graphs_have_large_tensors_and_several_threads():
    cases = [case for case in map(generate.generate, range(400)) if case]
    large = [max(a.size for v in case.values.values() for a in v.arrays) >= LARGE[0] for case in cases]
    assert sum(large) >= 20
    threads = [case.threads for case, is_large in zip(cases, large) if is_large]
    assert set(threads) == set(generate.THREADS)
