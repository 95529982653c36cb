"""A part of the differential test that is quick enough for every run (differential.py is the long one), and what its
random graphs claim to cover."""

import collections
import re
from pathlib import Path

import agreement
import differential
import generate
import numpy as np
import patterns
import pytest
from graph_builder import LARGE, GraphBuilder, Rejected
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
from table import INDIRECT, OPERATORS, PATTERNS, importable, not_generated

from onnx import TensorProto

DOCUMENTED = Path(__file__).resolve().parents[2] / "docs/operators.md"


def test_random_graphs_agree_with_onnxruntime():
    assert differential.main(["--count", "500", "--jobs", "2"]) == 0


def test_graphs_that_nobody_compares_are_no_agreement(monkeypatch):
    results = [(seed, ["Add"] if seed < 89 else [], None, "") for seed in range(100)]
    monkeypatch.setattr(differential, "run_all", lambda *_: results)
    assert differential.main(["--count", "100"]) == 1
    results[89] = (89, ["Add"], None, "")
    assert differential.main(["--count", "100"]) == 0


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


def test_sigmoids_near_zero_are_not_generated_in_loops_either():
    state, outer = np.float32([[-4, -4.5]]), np.float32([[-1]])
    patterns.check_sigmoids(["Add", "Sigmoid"], state, np.float32([[0]]), 1)
    patterns.check_sigmoids(["Sigmoid", "Add"], state, outer, 3)
    with pytest.raises(Rejected, match="known_differences"):
        patterns.check_sigmoids(["Add", "Sigmoid", "Neg"], state, outer, 1)
    with pytest.raises(Rejected, match="known_differences"):  # in the second trip alone
        patterns.check_sigmoids(["Sigmoid", "Add"], state, np.float32([[-6]]), 2)


class Answers:
    """A server that has nothing to say of rounding."""

    def spread(self, model, feed):
        return collections.defaultdict(lambda: np.zeros(1))


def group_norm_case():
    """A graph of a GroupNormalization of integers that differ little from each other, and what is made of its result."""
    b = GraphBuilder(np.random.default_rng(1), 21)
    pixels = b.given(lambda k: b.rng.integers(252, 256, (2, 4, 50), np.uint8), [2, 4, 50])
    x = b.emit("Cast", [pixels], to=TensorProto.FLOAT)
    scale, bias = b.constant(np.float32([1, 2, 3, 4])), b.constant(np.float32([1, 2, 3, 4]))
    normed = b.emit("GroupNormalization", [x, scale, bias], num_groups=2)
    outputs = [normed, b.emit("Neg", [normed])]
    model, inputs = generate.build_model(b, outputs)
    values = {v.name: v for v in b.values}
    feeds, expected = [{v.name: v.arrays[0] for v in inputs}], [{v.name: v.arrays[0] for v in outputs}]
    case = generate.Case(0, model, feeds, expected, values, b.operators, b, 1)
    grouped = x.arrays[0].astype(np.float64).reshape(2, 2, 100)
    centred = grouped - grouped.mean(-1, keepdims=True)
    right = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(2, 4, 50)
    right = right * scale.arrays[0][:, None] + bias.arrays[0][:, None]
    return case, outputs, [right.astype(np.float32), -right.astype(np.float32)]


def judged(case, outputs, arrays):
    both = [(f"{which}:{v.name}", a) for which in ("engine", "reference") for v, a in zip(outputs, arrays)]
    return differential.differing(Answers(), case, [dict(both)])


def test_onnxruntime_is_judged_by_the_standard_where_it_rounds():
    case, outputs, right = group_norm_case()
    assert all(agreement.difference(a, v.arrays[0], v) for v, a in zip(outputs, right)), "ONNX Runtime keeps all digits"
    assert judged(case, outputs, right) == ([], {"GroupNormalization"})
    wrong = [right[0], right[1].copy()]
    wrong[1][1, 2, 3] += 0.01
    assert {found[1] for found in judged(case, outputs, wrong)[0]} == {outputs[1].name}, "what is wrong stays wrong"


def test_what_is_chosen_among_larger_numbers_may_be_nothing_but_rounding():
    """The imaginary parts at frequency 0, which are 0, by ONNX Runtime's transform of six samples."""
    b = GraphBuilder(np.random.default_rng(1), 21)
    signal = b.given(lambda k: b.rng.standard_normal((3, 20, 1)).astype(np.float32), [3, 20, 1])
    window = b.constant(np.float32([0.5, 0.9, 1.3, 0.2, 0.7, 1.1]))
    spectrum = b.emit("STFT", [signal, b.constant(np.int64(1)), window], onesided=0)
    chosen = b.emit(
        "Gather", [b.emit("Gather", [spectrum, b.constant(np.int64(1))], axis=-1), b.constant(np.int64(0))], axis=-1
    )
    model, inputs = generate.build_model(b, [spectrum, chosen])
    values = {v.name: v for v in b.values}
    feeds = [{v.name: v.arrays[0] for v in inputs}]
    expected = [{v.name: v.arrays[0] for v in (spectrum, chosen)}]
    case = generate.Case(0, model, feeds, expected, values, b.operators, b, 1)
    right, nothing = spectrum.arrays[0].copy(), np.zeros_like(chosen.arrays[0])
    right[..., 0, 1] = 0
    assert 0 < np.abs(chosen.arrays[0]).max() < 1e-5, "ONNX Runtime gives 0 itself"
    assert judged(case, [spectrum, chosen], [right, nothing]) == ([], {"Gather"})
    assert judged(case, [spectrum, chosen], [right, nothing + np.float32(1e-3)])[0]
