"""A few mutants of small models, on the CPU and the emulated GPU; campaign.py is the long run."""

import json
import os
import random
import subprocess

import campaign
import catalog
import numpy as np
import pytest
from mutation_scores import CONFIGURATIONS, KINDS, percent, tables, totals

from onnx import TensorProto, helper, numpy_helper

EMULATOR = campaign.ROOT / "build/release/tests/backends/cuda/emulator/lib/libcuda.so.1"
MODELS = ["own_tcn", "own_lstm", "own_topk_head"]
IDENTITY = helper.make_node("Identity", ["product"], ["y"])


def test_wrong_engines_are_rejected_and_right_ones_are_not(tmp_path):
    if not EMULATOR.exists():
        pytest.skip("the emulated GPU was not built")
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"CAMSHAFT_TEST_SEED={seed}")
    out = tmp_path / "mutants.json"
    campaign.main([*MODELS, "--count", "8", "--seed", str(seed), "--out", str(out)])
    results = json.loads(out.read_text())
    assert len(results) == len(MODELS) * sum(not c.startswith("cuda") for c in CONFIGURATIONS)
    total = totals(results.values())
    assert total.errors == 0 and total.right_rejected == 0, results
    assert total.changed >= 60 and percent(total) >= 90, results
    # What is done is not done again.
    before = out.stat().st_mtime_ns
    campaign.main([*MODELS, "--count", "8", "--seed", str(seed), "--out", str(out)])
    assert out.stat().st_mtime_ns == before


@pytest.mark.parametrize("precision", [[], ["--bf16"]], ids=["fp32", "bf16"])
def test_a_tolerance_accepts_what_a_smaller_one_does(precision):
    """Of right and wrong engines, by eight tolerances each."""
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED") or random.SystemRandom().randrange(2**32))
    models = [str(catalog.EVERY[name].path()) for name in ("own_tcn", "own_topk_head", "own_superres")]
    words = [*models, "--count", "4", "--seed", str(seed), "--tolerances", "--verify-seconds", "0", *precision]
    done = subprocess.run(
        [campaign.ROOT / "build/release/tests/mutation_score", *words], capture_output=True, text=True
    )
    assert "a tolerance of" not in done.stdout, f"seed {seed}\n{done.stdout}"
    assert "rejected" in done.stdout, done.stdout + done.stderr


def test_engines_of_other_files_are_judged_as_well(tmp_path):
    """A file that is the same, one with a weight of another sign, and one that is wrong from a batch of 2 on."""
    rows = numpy_helper.from_array(np.array(1), "rows")
    ones = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    other = numpy_helper.from_array(np.diag([-1] + [1] * 7).astype(np.float32) @ np.ones((8, 8), np.float32), "w")

    def write(name, weights, *nodes):
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["product"]), *(nodes or [IDENTITY])],
            "product",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
            [weights, rows],
        )
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        )
        return path

    late = (
        helper.make_node("Shape", ["product"], ["sizes"], end=1),
        helper.make_node("Greater", ["sizes", "rows"], ["several"]),
        helper.make_node("Add", ["product", "product"], ["double"]),
        helper.make_node("Where", ["several", "double", "product"], ["y"]),
    )
    files = [write("same", ones), write("sign", other), write("late", ones, *late)]
    command = [campaign.ROOT / "build/release/tests/mutation_score", write("right", ones), "--wrong", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "same: passed"
    assert said[1].startswith("sign: rejected 'y' by") and " on " not in said[1]
    assert said[2].startswith("late: rejected 'y' by") and " on seed 0, x: [2, 8]" in said[2]
    assert said[-1].split() == ["all", "2", "of", "2", "rejected", "(100.00", "%)"]


def test_what_was_done_elsewhere_is_taken_over(tmp_path):
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    done = {"kinds": {"sign": {"changed": 2, "rejected": 2}}, "passed": [], "right_engines_rejected": []}
    here.write_text(json.dumps({"a cpu fp32 seed 0 count 2": {"error": "no such file"}}))
    there.write_text(json.dumps({"a cpu fp32 seed 0 count 2": done, "a cuda fp16 seed 0 count 2": done}))
    assert campaign.main(["--merge", str(there), "--out", str(here)]) == 0
    assert json.loads(here.read_text()) == json.loads(there.read_text())


def test_what_there_is_no_time_for_is_left(tmp_path):
    out = tmp_path / "mutants.json"
    campaign.main(["own_tcn", "--minutes", "0", "--out", str(out)])
    assert not out.exists()


def test_models_that_are_not_there_are_left(tmp_path, monkeypatch, capsys):
    out = tmp_path / "mutants.json"
    monkeypatch.setattr(campaign, "path", lambda name: tmp_path / f"{name}.onnx")
    campaign.main(["own_tcn", "--device", "cpu", "--out", str(out)])
    assert not out.exists()
    assert "own_tcn is left out" in capsys.readouterr().out


def test_bodies_of_loops_are_mutated(tmp_path):
    out = tmp_path / "mutants.json"
    campaign.main(["own_loop_script", "--device", "cpu", "--count", "4", "--out", str(out)])
    (fp32, bf16) = json.loads(out.read_text()).values()
    assert totals([fp32]).changed >= 1 and totals([fp32]).changed == totals([fp32]).rejected, fp32


def test_tables():
    results = {
        "a cpu fp32 seed 0 count 2": {
            "kinds": {"sign": {"changed": 2, "rejected": 2}}, "passed": [], "right_engines_rejected": []},
        "b cpu bf16 seed 0 count 2": {
            "kinds": {"mask": {"changed": 3, "rejected": 2}}, "passed": ["b"], "right_engines_rejected": []},
        "b cpu bf16 seed 1 count 2": {
            "kinds": {"mask": {"changed": 1, "rejected": 1}}, "passed": [], "right_engines_rejected": []},
        "c cpu fp32 seed 0 count 2": {"error": "no such file"},
    }  # fmt: skip
    lines = list(tables(results, by_model=True))
    assert f"| {KINDS['sign']} | 2 of 2 | - | 2 of 2 |" in lines
    assert "| all | 2 of 2 | 3 of 4 | 5 of 6 |" in lines
    assert "| b | - | 3 of 4 |" in lines
    assert "| models | 1 | 1 |  |" in lines
    assert lines[-1].startswith("5 of 6 mutants are rejected (83.33 %), and none of the 2 right engines. 1 could not")
