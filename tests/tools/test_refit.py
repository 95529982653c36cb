"""camshaft refit: an engine file with other weights."""

import json
import re
import zipfile

import numpy as np
import pytest
from camshaft_cli import camshaft

import onnx
from onnx import TensorProto, helper, numpy_helper


def save_model(folder, seed):
    """y = relu(x @ w + b) @ v"""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(seed)
    shapes = {"w": (8, 16), "b": (16,), "v": (16, 4)}
    weights = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("Add", ["m", "b"], ["s"]),
            helper.make_node("Relu", ["s"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / f"{folder.name}.onnx",
    )
    return folder / f"{folder.name}.onnx", weights


@pytest.fixture
def built(tmp_path):
    old, _ = save_model(tmp_path / "old", 0)
    new, weights = save_model(tmp_path / "new", 1)
    lock = tmp_path / "m.lock"
    report = json.loads(camshaft("build", old, "--refit", "--write-lock", lock, "--json").stdout)
    assert report["refittable"] == 3 and report["not_refittable"] == []
    for model in (old, new):
        camshaft("build", model, "--refit", "--tuning", "locked", "--lock", lock)
    return old.with_suffix(".engine"), new.with_suffix(".engine"), new, weights


def failed(*arguments, code=2):
    done = camshaft(*arguments, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr


def test_the_file_is_that_of_a_fresh_build(tmp_path, built):
    old, fresh, new, weights = built
    np.savez(tmp_path / "w.npz", **weights)
    for file in (new, tmp_path / "w.npz"):
        out = tmp_path / "out.engine"
        text = camshaft("refit", old, "--weights", file, "-o", out).stdout
        assert "3 of 3 initializers replaced" in text
        assert out.read_bytes() == fresh.read_bytes()
    report = json.loads(camshaft("refit", old, "--weights", new, "--json").stdout)
    assert report["replaced"] == 3 and report["output"] == str(old)
    assert old.read_bytes() == fresh.read_bytes()


def test_a_build_prints_the_weights_that_its_engine_has(tmp_path):
    """And not their plain form beside what kernels read of them."""
    model, _ = save_model(tmp_path / "m", 0)
    built = camshaft("build", model, "-o", tmp_path / "e", "--refit").stdout
    there = camshaft("inspect", tmp_path / "e").stdout
    memory = re.search(r"weights ([0-9.]+ \w+), kept", built).group(1)
    assert f"weights {memory}, kept" in there, (memory, there)


def weights_in_nodes(path):
    """The model with its weights in Constant nodes, as PaddlePaddle's exporter writes them."""
    model = onnx.load(path)
    for tensor in reversed(model.graph.initializer):
        value = numpy_helper.from_array(numpy_helper.to_array(tensor), "")
        node = helper.make_node("Constant", [], [tensor.name], name=f"constant_{tensor.name}", value=value)
        model.graph.node.insert(0, node)
    half = helper.make_node("Constant", [], ["half"], value=numpy_helper.from_array(np.float32([0.5])))
    model.graph.node.insert(0, half)
    model.graph.node[-1].output[0] = "whole"
    model.graph.node.append(helper.make_node("Mul", ["whole", "half"], ["y"]))
    del model.graph.initializer[:]
    onnx.save(model, path)


def test_weights_of_constant_nodes(tmp_path):
    """They are replaced, and left out of files without weights, like initializers; single numbers are not."""
    paths, lock = [], tmp_path / "lock"
    for seed, name in enumerate(("old", "new")):
        path, weights = save_model(tmp_path / name, seed)
        weights_in_nodes(path)
        paths.append(path)
    old, new = paths
    camshaft("build", old, "--refit", "--write-lock", lock)
    listed = json.loads(camshaft("refit", old.with_suffix(".engine"), "--list", "--json").stdout)["weights"]
    assert [weight["name"] for weight in listed] == ["b", "v", "w"]
    camshaft("build", new, "--refit", "--tuning", "locked", "--lock", lock)
    fresh = new.with_suffix(".engine").read_bytes()
    np.savez(tmp_path / "w.npz", **weights)
    for form in ("--refit", "--strip-weights"):
        engine, out = tmp_path / "of_old.engine", tmp_path / "out.engine"
        camshaft("build", old, "-o", engine, form, "--tuning", "locked", "--lock", lock)
        assert form == "--refit" or not any(array.tobytes() in engine.read_bytes() for array in weights.values())
        for file in (new, tmp_path / "w.npz"):
            camshaft("refit", engine, "--weights", file, "-o", out)
            assert out.read_bytes() == fresh


def test_weights_that_constant_nodes_pick_and_scale(tmp_path):
    """What is made of an initializer and of a number, or of indices, in a Constant node is redone of the initializer."""
    paths, lock = [], tmp_path / "lock"
    for seed, name in enumerate(("old", "new")):
        path, weights = save_model(tmp_path / name, seed)
        model = onnx.load(path)
        picked = numpy_helper.from_array(np.arange(7, -1, -1), "")
        front = [
            helper.make_node("Constant", [], ["order"], value=picked),
            helper.make_node("Constant", [], ["half"], value=numpy_helper.from_array(np.float32(0.5))),
            helper.make_node("Gather", ["w", "order"], ["w_picked"]),
            helper.make_node("Mul", ["v", "half"], ["v_scaled"]),
        ]
        model.graph.node[0].input[1], model.graph.node[3].input[1] = "w_picked", "v_scaled"
        for node in reversed(front):
            model.graph.node.insert(0, node)
        onnx.save(model, path)
        paths.append(path)
    old, new = paths
    camshaft("build", old, "--refit", "--write-lock", lock)
    camshaft("build", new, "--refit", "--tuning", "locked", "--lock", lock)
    np.savez(tmp_path / "w.npz", **weights)
    for file in (new, tmp_path / "w.npz"):
        camshaft("refit", old.with_suffix(".engine"), "--weights", file, "-o", tmp_path / "out.engine")
        assert (tmp_path / "out.engine").read_bytes() == new.with_suffix(".engine").read_bytes()


def test_some_of_them(tmp_path, built):
    old, _, _, weights = built
    np.savez(tmp_path / "w.npz", b=weights["b"])
    assert "1 of 3" in camshaft("refit", old, "--weights", tmp_path / "w.npz", "-o", tmp_path / "out.engine").stdout


def test_list(built):
    lines = camshaft("refit", built[0], "--list").stdout.splitlines()
    assert lines == ["b: f32[16]", "v: f32[16, 4]", "w: f32[8, 16]"]
    listed = json.loads(camshaft("refit", built[0], "--list", "--json").stdout)["weights"]
    assert [weight["name"] for weight in listed] == ["b", "v", "w"] and all(weight["layers"] for weight in listed)


def test_without_weights(tmp_path, built):
    old, fresh, new, _ = built
    stripped = tmp_path / "stripped.engine"
    lock = tmp_path / "m.lock"
    camshaft(
        "build",
        new.parent.parent / "old" / "old.onnx",
        "--strip-weights",
        "--tuning",
        "locked",
        "--lock",
        lock,
        "-o",
        stripped,
    )
    assert stripped.stat().st_size < old.stat().st_size
    assert "no weights" in failed("run", stripped)
    camshaft("refit", stripped, "--weights", new)
    assert stripped.read_bytes() == fresh.read_bytes()


def test_wrong_files_leave_the_engine_as_it_is(tmp_path, built):
    old, _, new, weights = built
    before = old.read_bytes()
    np.savez(tmp_path / "shape.npz", b=np.zeros(15, np.float32))
    np.savez(tmp_path / "name.npz", c=weights["b"])
    (tmp_path / "text.onnx").write_text("no model")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "name.npz").read_bytes()[:40])
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
        archive.writestr("b.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(1 << 20))
    for name, message in {
        "shape.npz": "f32[15] is given",
        "name.npz": "no initializer 'c'",
        "text.onnx": "text.onnx",
        "cut.npz": "cut.npz",
        "bomb.npz": "bomb.npz",
        "missing.onnx": "missing.onnx",
    }.items():
        done = camshaft("refit", old, "--weights", tmp_path / name, check=False)
        assert done.returncode != 0 and message in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert old.read_bytes() == before
    assert "is no engine" in failed("refit", new, "--weights", new)
    assert "--weights or --lora is required" in failed("refit", old)
    camshaft("build", new, "-o", tmp_path / "plain.engine", "--no-verify")
    assert "--refit" in failed("refit", tmp_path / "plain.engine", "--weights", new)
