"""The standard's node cases, written back as ONNX: as they are imported, and in canonical form.

The copy must give the same bits by the reference evaluation, pass onnx's checker where the original does, and give the
original's results in ONNX Runtime where that runs the original. not_exported.txt explains the exceptions.
"""

from pathlib import Path

import exporting
import onnx.backend.test
import pytest

import onnx

DATA = Path(onnx.backend.test.__file__).parent / "data/node"
KNOWN = Path(__file__).with_name("not_exported.txt")
# Fewer mean that ONNX Runtime was asked less than it can say.
LEAST_COMPARED = 1200


def known():
    """{name: reason} of the lines 'name: reason'."""
    lines = [line for line in KNOWN.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def requests(folder, canonicalize):
    """{name: request} of the cases that have data."""
    made = {}
    for case in sorted(DATA.iterdir()):
        data = case / "test_data_set_0"
        if data.exists():
            count = len(list(data.glob("input_*.pb")))
            inputs = [str(data / f"input_{i}.pb") for i in range(count)]
            made[case.name] = {
                "model": str(case / "model.onnx"),
                "out": str(folder / f"{case.name}.onnx"),
                "canonicalize": canonicalize,
                "inputs": inputs,
            }
    return made


def feed_of(request):
    """The case's inputs as ONNX Runtime takes them; None where onnx does not read them."""
    graph = onnx.load(request["model"]).graph
    given = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in given]
    try:
        return {value.name: exporting.to_value(path, value.type) for value, path in zip(inputs, request["inputs"])}
    except Exception:  # of its own types, without a common one
        return None


@pytest.mark.parametrize("canonicalize", [False, True], ids=["as imported", "canonical"])
def test_cases_come_back(canonicalize, tmp_path):
    cases = requests(tmp_path, canonicalize)
    assert len(cases) > 1700
    wrong, compared = {}, 0
    for (name, request), answer in zip(cases.items(), exporting.export(list(cases.values()))):
        if answer["status"] != "same":
            wrong[name] = f"{answer['status']}: {answer['message']}"
            continue
        feed = feed_of(request)
        if feed is None:
            continue
        compared += exporting.run(request["model"], feed) is not None
        if what := exporting.complaint(request["model"], request["out"], feed):
            wrong[name] = what
    assert compared > LEAST_COMPARED
    new = {name: reason for name, reason in wrong.items() if name not in known()}
    assert not new, "\n".join(f"{name}: {reason}" for name, reason in new.items())
    gone = set(known()) - set(wrong)
    assert not gone, f"these come back now: take them off the list: {gone}"
