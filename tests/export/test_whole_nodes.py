"""`camshaft simplify` writes operators that reading takes apart as they were: one node of the standard's tests stays one."""

import re
from pathlib import Path

import pytest
from camshaft_cli import camshaft
from exporting import checked
from onnx.backend.test.case.node import collect_testcases

import onnx

SOURCE = Path(__file__).parents[2] / "src/onnx/export/whole_nodes.cpp"
OPERATORS = {name: int(since) for name, since in re.findall(r'\{"(\w+)", (\d+)\}', SOURCE.read_text())}
#: Those of which the standard's tests have no node that is verified on numbers which are drawn.
WITHOUT = {"AffineGrid", "MaxUnpool", "GroupNormalization"}


@pytest.fixture(scope="module")
def cases():
    found = {}
    for case in collect_testcases(None):
        model = case.model
        if model is not None and len(model.graph.node) == 1:
            found.setdefault(model.graph.node[0].op_type, []).append(model)
    return found


@pytest.mark.parametrize("operator", sorted(OPERATORS.keys() - WITHOUT))
def test_one_node_stays_one(operator, cases, tmp_path):
    simple = tmp_path / "simple.onnx"
    left = []
    for model in cases[operator][:4]:
        onnx.save(model, tmp_path / "model.onnx")
        # Which verifies it, where the numbers that are drawn are ones that the operator takes.
        if camshaft("simplify", tmp_path / "model.onnx", "-o", simple, check=False).returncode == 0:
            assert checked(simple) is None or checked(tmp_path / "model.onnx")
            left.append([node.op_type for node in onnx.load(simple).graph.node])
    assert [operator] in left, left


def test_every_operator_is_as_it_was_since_then():
    """What later versions have besides are attributes: the names of inputs and outputs are the same."""
    for operator, since in OPERATORS.items():
        then = onnx.defs.get_schema(operator, since, "")
        now = onnx.defs.get_schema(operator, onnx.defs.onnx_opset_version(), "")
        assert [each.name for each in then.inputs] == [each.name for each in now.inputs], operator
        assert then.attributes.keys() <= now.attributes.keys(), operator
        assert then.since_version <= since
