"""bench/operators, bench/convolutions.py: their tables have what they say, and their models are models."""

import subprocess
import sys

import pytest
from camshaft_cli import ROOT

import onnx

sys.path.insert(0, str(ROOT / "bench"))
operator_cases = pytest.importorskip("operator_cases")
operators = pytest.importorskip("operators")
convolutions = pytest.importorskip("convolutions")


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


def test_random_convolutions_are_what_they_say(tmp_path):
    kinds = set()
    for number in range(60):
        drawn = convolutions.draw(7, number)
        assert str(drawn) == str(convolutions.draw(7, number))
        kinds.add(drawn.kind().split(",")[0])
        operators.write_model(convolutions.case_of(drawn), tmp_path / "model.onnx")
        model = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "model.onnx"), strict_mode=True)
        shape = model.graph.output[0].type.tensor_type.shape.dim
        assert [dim.dim_value for dim in shape] == drawn.shapes()[2], str(drawn)
    assert len(kinds) > 12


def test_a_table_of_random_convolutions():
    done = subprocess.run(
        [sys.executable, ROOT / "bench/convolutions.py", "--seed", "3", "--count", "3", "--seconds", "0.001"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len([line for line in lines if "Conv" in line and float(line.split()[0]) > 0]) >= 3
    assert any(line.startswith(("0 of 3", "1 of 3", "2 of 3", "3 of 3")) for line in lines)
