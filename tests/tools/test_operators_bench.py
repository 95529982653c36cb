"""bench/operators: its table has what it says, and its models are models."""

import subprocess
import sys

import pytest
from camshaft_cli import ROOT

import onnx

sys.path.insert(0, str(ROOT / "bench"))
operator_cases = pytest.importorskip("operator_cases")
operators = pytest.importorskip("operators")


def test_models_are_valid(tmp_path):
    cases = list(operator_cases.cases([], [1000], ["f32", "u8"]))
    assert len({case.op for case in cases}) > 150
    for case in cases:
        operators.write_model(case, tmp_path / "model.onnx")
        model = onnx.load(tmp_path / "model.onnx")
        if not case.domain:
            context = onnx.checker.C.CheckerContext()
            context.ir_version, context.opset_imports = model.ir_version, {"": case.opset}
            onnx.checker.check_node(model.graph.node[0], context)
        assert {value.name for value in model.graph.input} == set(case.feed)


def test_a_table_with_ratios():
    done = subprocess.run(
        [ROOT / "bench/operators", "Add", "--types", "f32", "--sizes", "1e3", "--seconds", "0.001"],
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("a run of nothing: ")
    rows = [line.split() for line in lines if line.startswith("Add f32")]
    assert len(rows) >= 4 and all(float(words[-1 if words[-1] != "slow" else -2]) > 0 for words in rows)
    assert "5 cases" in lines[-1]
