"""`camshaft simplify` leaves no more nodes than onnxslim: its counts, in node_counts.json, are of the version named there.

usage: test_node_counts.py PYTHON      counts anew with the onnxslim of that Python, model by model
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / folder) for folder in ("tests/models", "scripts")]

from catalog import EVERY  # noqa: E402

import onnx  # noqa: E402

RECORDED = HERE / "node_counts.json"


def count(graph):
    """Nodes of a graph and of the graphs in it; constants are no work."""
    nodes = [node for node in graph.node if node.op_type != "Constant"]
    inner = [
        graph
        for node in graph.node
        for a in node.attribute
        for graph in (*a.graphs, *([a.g] if a.HasField("g") else []))
    ]
    return len(nodes) + sum(map(count, inner))


def limits():
    """{model: nodes}, and those that are not reached, with the reason."""
    recorded = json.loads(RECORDED.read_text())
    return recorded["nodes"], recorded["more"]


def check(name, tmp_path):
    from camshaft_cli import camshaft

    nodes, more = limits()
    camshaft("simplify", EVERY[name].path(), "-o", tmp_path / "simple.onnx", "--no-verify")
    left = count(onnx.load(tmp_path / "simple.onnx", load_external_data=False).graph)
    allowed = more[name]["nodes"] if name in more else nodes[name]
    assert left <= allowed, f"{left} nodes, onnxslim leaves {nodes[name]}"
    if name in more:
        assert left > nodes[name], f"{name} is no longer among those with more: take it from {RECORDED.name}"


NAMES = [name for name in EVERY if name in limits()[0]]


def test_all_that_is_counted_is_there():
    nodes, more = limits()
    assert nodes.keys() <= EVERY.keys() and more.keys() <= nodes.keys()
    assert nodes.keys() >= {name for name, model in EVERY.items() if model.quick}


@pytest.mark.parametrize("name", [name for name in NAMES if EVERY[name].quick])
def test_small_models(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.large
@pytest.mark.parametrize("name", [name for name in NAMES if not EVERY[name].quick])
def test_large_models(name, tmp_path):
    check(name, tmp_path)


SLIM = "import sys, onnx, onnxslim; onnx.save(onnxslim.slim(onnx.load(sys.argv[1])), sys.argv[2])"


def record(python):
    version = subprocess.run(
        [python, "-c", "import onnxslim; print(onnxslim.__version__)"], check=True, capture_output=True, text=True
    ).stdout.strip()
    nodes, slim = {}, RECORDED.with_suffix(".partial.onnx")
    for name, model in EVERY.items():
        subprocess.run([python, "-c", SLIM, model.path(), slim], check=True, stdout=subprocess.DEVNULL)
        nodes[name] = count(onnx.load(slim).graph)
        slim.unlink()
        print(f"{name:32} {nodes[name]:5}", flush=True)
    more = json.loads(RECORDED.read_text())["more"] if RECORDED.exists() else {}
    RECORDED.write_text(json.dumps({"onnxslim": version, "nodes": nodes, "more": more}, indent=1) + "\n")


if __name__ == "__main__":
    record(sys.argv[1])
