"""Engines whose weights come in from their file: results are the same, and memory stays within the budget."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from test_module import MODULE, module

from onnx import TensorProto, helper, numpy_helper

WIDTH, LAYERS = 1024, 48  # 192 MiB
LAYER_BYTES = 4 * WIDTH * WIDTH

# Loads, runs, and says how many bytes of the process were in memory at most, at each tensor that it computes.
CHILD = """
import json, sys
import numpy as np
import camshaft

def resident():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return sum(int(status[key].split()[0]) * 1024 for key in ("RssAnon", "RssFile"))

path, budget, x, out = sys.argv[1:]
inputs = {"x": np.load(x)}
before = resident()
engine = camshaft.Engine(path, weight_budget=budget)
loaded = resident()
context = engine.create_context(threads=2)
context.run(inputs)
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1]) * 1024
open("/proc/self/clear_refs", "w").write("5")  # the peak is that of what follows
for _ in range(3):
    y = np.from_dlpack(context.run(inputs)["y"]).copy()
np.save(out, y)
print(json.dumps({"loaded": loaded - before, "peak": peak() - before, **engine.weight_streaming()}))
"""


@pytest.fixture(scope="module")
def engine_file(tmp_path_factory):
    """(path, x, y)"""
    random = np.random.default_rng(5)
    names = [f"w{i}" for i in range(LAYERS)]
    weights = [
        numpy_helper.from_array((random.standard_normal((WIDTH, WIDTH)) / 32).astype(np.float32), n) for n in names
    ]
    nodes, value = [], "x"
    for name in names:
        nodes.append(helper.make_node("MatMul", [value, name], [f"m_{name}"]))
        nodes.append(helper.make_node("Softsign", [f"m_{name}"], [f"s_{name}"]))
        value = f"s_{name}"
    nodes.append(helper.make_node("Identity", [value], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    built = module.build(model.SerializeToString(), tuning="heuristic", verify=False)
    folder = tmp_path_factory.mktemp("streaming")
    built.save(folder / "deep.engine")
    x = random.standard_normal((2, WIDTH)).astype(np.float32)
    np.save(folder / "x.npy", x)
    return folder / "deep.engine", x, built(x)


@pytest.mark.parametrize("budget", ["20%", "50%", str(3 * LAYER_BYTES)])
def test_memory_stays_within_the_budget(engine_file, tmp_path, budget):
    path, _, expected = engine_file
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path, budget, path.parent / "x.npy", tmp_path / "y.npy"],
        env=os.environ | {"PYTHONPATH": str(MODULE)},
        stdout=subprocess.PIPE,
        check=True,
    )
    child = json.loads(done.stdout)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    assert LAYERS * LAYER_BYTES <= child["weight_bytes"] < 1.01 * LAYERS * LAYER_BYTES
    allowance = 24 << 20  # libraries, the context, and a chunk of the file for each thread that checks it
    assert child["loaded"] < allowance
    assert child["budget"] < 0.51 * child["weight_bytes"]
    assert child["peak"] < child["budget"] + allowance
    assert child["brought_bytes"] > child["staying_bytes"] + 3 * child["loads_bytes"]


def test_the_budget_of_an_engine(engine_file):
    path, x, expected = engine_file
    engine = module.Engine(path)
    assert engine.weight_streaming()["budget"] == -1
    for budget in ("40%", 100 << 20, "auto", None):
        engine.set_weight_budget(budget)
        np.testing.assert_array_equal(engine(x), expected)
    engine.set_weight_budget("30%")
    streaming = engine.weight_streaming()
    assert streaming["staying_bytes"] + streaming["window_bytes"] <= streaming["budget"]
    assert engine.inspect()["weight_streaming"]["budget"] == streaming["budget"]
    offsets = [weight["offset"] for layer in engine.layers() for weight in layer["weights"]]
    assert len(offsets) == LAYERS and min(offsets) > 0 and len(set(offsets)) == LAYERS
    assert sum(layer["streamed_bytes"] for layer in engine.layers()) >= streaming["loads_bytes"]


def test_errors_say_what_is_needed(engine_file):
    path, x, expected = engine_file
    engine = module.Engine(path)
    least = engine.weight_streaming()["least_budget"]
    assert 2 * LAYER_BYTES <= least <= 2.5 * LAYER_BYTES
    with pytest.raises(module.InvalidArgumentError, match=f"give {least} bytes"):
        module.Engine(path, weight_budget=least - 1)
    with pytest.raises(module.InvalidArgumentError, match="the weight budget cannot be 'half'"):
        engine.set_weight_budget("half")
    for part in (0.4, "0.4", "1000.5 B".replace(" ", "")):  # as parts they are no bytes
        with pytest.raises(module.InvalidArgumentError, match=r"give whole bytes .*, a part of the weights \(40%\)"):
            engine.set_weight_budget(part)
    engine.set_weight_budget(float(least))
    np.testing.assert_array_equal(engine(x), expected)


def test_engines_in_memory(engine_file):
    path, x, expected = engine_file
    engine = module.Engine(path.read_bytes(), weight_budget="25%")
    np.testing.assert_array_equal(engine(x), expected)
    assert engine.weight_streaming()["brought_bytes"] > 0
    assert bytes(engine) == path.read_bytes()


def test_refits_and_budgets_exclude_each_other():
    net = module.Network("small")
    x = net.input("x", np.float32, ("batch", 256))
    h = net.MatMul(x, net.constant(np.eye(256, dtype=np.float32), "w"))
    for i in range(6):
        h = net.MatMul(net.Softsign(h), net.constant(np.eye(256, dtype=np.float32) / 2, f"v{i}"))
    net.output(h, "y")
    engine = module.build(net, refit=True, verify=False)
    array = np.ones((1, 256), np.float32)
    engine.set_weight_budget("80%")
    with pytest.raises(module.InvalidArgumentError, match="take the budget away"):
        engine.refit({"w": 2 * np.eye(256, dtype=np.float32)})
    before = engine(array)
    engine.set_weight_budget(None)
    engine.refit({"w": 2 * np.eye(256, dtype=np.float32)})
    after = engine(array)
    assert not np.array_equal(before, after)
    engine.set_weight_budget("80%")
    np.testing.assert_array_equal(engine(array), after)


def test_a_table_need_not_fit(tmp_path):
    """Its rows are read as they are looked up, where the budget has no room for all of it."""
    random = np.random.default_rng(6)
    table = random.standard_normal((65536, 256)).astype(np.float32)  # 64 MiB
    weights = {"table": table, "w": (random.standard_normal((256, 256)) / 16).astype(np.float32)}
    nodes = [helper.make_node("Gather", ["table", "ids"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 256])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    built = module.build(model.SerializeToString(), tuning="heuristic", verify=False)
    built.save(tmp_path / "m.engine")
    for budget in ("2%", "50%", "100%"):
        engine = module.Engine(tmp_path / "m.engine", weight_budget=budget)
        streaming = engine.weight_streaming()
        assert streaming["weight_bytes"] > table.nbytes and streaming["least_budget"] < table.nbytes / 10
        for seed in range(3):
            ids = np.random.default_rng(seed).integers(0, len(table), 40)
            np.testing.assert_array_equal(engine(ids), built(ids))
        assert engine.weight_streaming()["brought_bytes"] < (
            table.nbytes / 10 if budget != "100%" else 2 * table.nbytes
        )
