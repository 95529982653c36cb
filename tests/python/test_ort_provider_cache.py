"""Engines of ONNX Runtime's execution provider that are kept: in a cache on disk, and in models with context nodes."""

import subprocess
import sys
import time

import numpy as np
import pytest
from ort_sessions import (
    F32,
    MODULE,
    QUICK,
    assert_same,
    model_of,
    onnxruntime,
    ort,
    plain_session,
    session,
    session_options,
    taken,
)

import onnx
from onnx import helper, numpy_helper

RNG = np.random.default_rng(1)


@pytest.fixture(autouse=True, scope="module")
def registered():
    ort.register()
    yield
    ort.unregister()


def network(seed=0, width=8):
    w = np.random.default_rng(seed).standard_normal((4, width)).astype(np.float32)
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])],
        {"x": (F32, ["n", 4])},
        {"y": (F32, ["n", width])},
        {"w": w},
    )


def cached(folder, **more):
    return {**QUICK, "engine-cache": "true", "engine-cache-path": str(folder), **more}


def files(folder):
    return sorted(folder.glob("*.engine"))


def check(model, options):
    made = session(model, options)
    feed = {"x": RNG.standard_normal((3, 4)).astype(np.float32)}
    assert_same(made.run(None, feed), plain_session(model).run(None, feed))
    assert taken(made)[1] == 1


def test_an_engine_is_built_once(tmp_path):
    check(network(), cached(tmp_path))
    [kept] = files(tmp_path)
    before = kept.stat().st_mtime_ns, kept.stat().st_ino
    time.sleep(0.01)
    check(network(), cached(tmp_path))
    assert [(f.stat().st_mtime_ns, f.stat().st_ino) for f in files(tmp_path)] == [before]
    assert kept.name.startswith("camshaft_")


def test_other_weights_options_and_sizes_are_other_engines(tmp_path):
    check(network(), cached(tmp_path))
    check(network(seed=1), cached(tmp_path))
    check(network(), cached(tmp_path, tolerance="1e-3"))
    check(network(), {**cached(tmp_path), "opt-shapes": "x:3x4", "max-shapes": "x:8x4", "min-shapes": "x:1x4"})
    assert len(files(tmp_path)) == 4
    check(network(), cached(tmp_path, engine_cache_prefix="mine"))
    assert any(f.name.startswith("mine_") for f in files(tmp_path))


def test_a_cache_has_a_size(tmp_path):
    for seed in range(3):
        check(network(seed=seed, width=4096), cached(tmp_path, engine_cache_size="300000"))
        assert len(files(tmp_path)) == min(seed + 1, 3)
    one = files(tmp_path)[0].stat().st_size
    assert one > 65536
    for _ in range(2):  # the one that is used is kept
        check(network(seed=0, width=4096), cached(tmp_path))
        check(network(seed=3, width=4096), cached(tmp_path, engine_cache_size=str(2 * one + 100)))
        assert len(files(tmp_path)) == 2
    before = files(tmp_path)
    check(network(seed=0, width=4096), cached(tmp_path))
    assert files(tmp_path) == before


def test_weightless_engines_get_the_weights_of_branches(tmp_path):
    def branch(name, random):
        weights = numpy_helper.from_array(random.standard_normal((4, 8)).astype(np.float32), f"{name}_w")
        out = helper.make_tensor_value_info(f"{name}_y", F32, None)
        node = helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_y"])
        return helper.make_graph([node], name, [], [out], [weights])

    def model_of_seed(seed):
        random = np.random.default_rng(seed)
        nodes = [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Greater", ["most", "zero"], ["p"]),
            helper.make_node(
                "If", ["p"], ["y"], then_branch=branch("then", random), else_branch=branch("else", random)
            ),
        ]
        return model_of(nodes, {"x": (F32, ["n", 4])}, {"y": (F32, ["n", 8])}, {"zero": np.float32(0)})

    written = set()
    for seed in (3, 3, 4):  # built, taken, and taken for a model with other weights
        model = model_of_seed(seed)
        made = session(model, cached(tmp_path, engine_cache_weightless="true"))
        assert "If" in taken(made)[0]
        written |= {f.stat().st_mtime_ns for f in files(tmp_path)}
        for sign in (1, -1):
            feed = {"x": sign * (1 + RNG.random((3, 4)).astype(np.float32))}
            assert_same(made.run(None, feed), plain_session(model).run(None, feed))
    assert len(written) == 1


def test_weightless_engines_are_of_all_models_of_an_architecture(tmp_path):
    weightless = cached(tmp_path, engine_cache_weightless="true")
    check(network(width=4096), weightless)
    [kept] = files(tmp_path)
    assert kept.stat().st_size < 4 * 4096 * 4  # bytes of the weights
    written = kept.stat().st_mtime_ns
    for seed in (0, 1, 2):  # each with its own weights: check() compares with ONNX Runtime's results
        check(network(seed=seed, width=4096), {**weightless, "trt_weight_stripped_engine_enable": "1"})
    assert [f.stat().st_mtime_ns for f in files(tmp_path)] == [written]
    check(network(width=64), weightless)  # another architecture
    check(network(width=4096), cached(tmp_path))  # with its weights
    assert len(files(tmp_path)) == 3
    for _ in range(2):  # context nodes have the weights, whether the engine was built or taken
        made = with_context(tmp_path, network(seed=4, width=128), "1", weightless)
        made.rename(tmp_path / "context.onnx")
        made = tmp_path / "context.onnx"
        feed = {"x": RNG.standard_normal((5, 4)).astype(np.float32)}
        assert_same(session(str(made), {}).run(None, feed), plain_session(network(seed=4, width=128)).run(None, feed))


def test_weightless_engine_that_was_built_by_a_number_is_built_again(tmp_path):
    def model(factor):
        return model_of(
            [
                helper.make_node("Pow", ["x", "two"], ["s"]),
                helper.make_node("ReduceMean", ["s", "axes"], ["m"], keepdims=1),
                helper.make_node("Add", ["m", "e"], ["a"]),
                helper.make_node("Sqrt", ["a"], ["r"]),
                helper.make_node("Div", ["x", "r"], ["d"]),
                helper.make_node("Mul", ["d", "w"], ["y"]),
            ],
            {"x": (F32, ["n", 4])},
            {"y": (F32, ["n", 4])},
            {
                "two": np.float32(2),
                "axes": np.array([-1], np.int64),
                "e": np.float32(factor),
                "w": np.arange(4, dtype=np.float32),
            },
        )

    weightless = cached(tmp_path, engine_cache_weightless="true")
    for factor in (1e-5, 0.5, 0.5, 1e-5):  # what a norm adds is part of its operator
        check(model(factor), weightless)
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "of another model"])
def test_a_damaged_engine_is_built_again(tmp_path, damage):
    check(network(), cached(tmp_path))
    [kept] = files(tmp_path)
    good = kept.read_bytes()
    if damage == "of another model":
        other = tmp_path / "other"
        check(network(seed=1), cached(other))
        kept.write_bytes(files(other)[0].read_bytes())
    else:
        flipped = bytearray(good)
        flipped[len(good) // 2] ^= 0x55
        kept.write_bytes({"cut": good[: len(good) // 2], "flipped": bytes(flipped), "empty": b"", "text": b"?"}[damage])
    check(network(), cached(tmp_path))
    assert len(kept.read_bytes()) == len(good)
    check(network(), cached(tmp_path))


def test_a_cache_that_cannot_be_written_is_no_error():
    check(network(), cached("/proc/nowhere"))


def test_several_processes_build_at_once(tmp_path):
    onnx.save(network(width=64), tmp_path / "model.onnx")
    code = f"""
import sys; sys.path.insert(0, {str(MODULE)!r})
import onnxruntime, camshaft.ort, numpy as np
camshaft.ort.register()
for _ in range(3):
    s = onnxruntime.InferenceSession({str(tmp_path / "model.onnx")!r},
        providers=[("CamshaftExecutionProvider", {cached(tmp_path / "cache")!r}), "CPUExecutionProvider"])
    y = s.run(None, {{"x": np.ones((2, 4), np.float32)}})[0]
print(y.tobytes().hex())
"""
    workers = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [worker.communicate(timeout=300) for worker in workers]
    assert all(worker.returncode == 0 for worker in workers), results
    assert len({out for out, _ in results}) == 1 and not any("Camshaft" in err for _, err in results), results
    assert len(list((tmp_path / "cache").iterdir())) == 1, "no temporary files are left"


def with_context(tmp_path, model, embed, options=None):
    path, made = tmp_path / "model.onnx", tmp_path / "made" / "model_ctx.onnx"
    made.parent.mkdir(exist_ok=True)
    onnx.save(model, path)
    so = session_options()
    so.add_session_config_entry("ep.context_enable", "1")
    so.add_session_config_entry("ep.context_embed_mode", embed)
    so.add_session_config_entry("ep.context_file_path", str(made))
    session(str(path), options, so=so)
    return made


def context_nodes(path):
    return [n for n in onnx.load(path, load_external_data=False).graph.node if n.op_type == "EPContext"]


@pytest.mark.parametrize("embed", ["0", "1"])
def test_a_model_with_context_nodes_is_written_and_loaded(tmp_path, embed):
    made = with_context(tmp_path, network(), embed)
    [node] = context_nodes(made)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert attributes["source"] == ort.PROVIDER.encode() and attributes["embed_mode"] == int(embed)
    assert len(list(made.parent.glob("*.engine"))) == 1 - int(embed)
    again = session(str(made), {})
    assert taken(again) == (["EPContext"], 1)
    feed = {"x": RNG.standard_normal((5, 4)).astype(np.float32)}
    assert_same(again.run(None, feed), plain_session(network()).run(None, feed))


def test_a_model_in_part_of_context_nodes(tmp_path):
    nodes = [helper.make_node(op, [a], [b]) for op, a, b in (("Relu", "x", "a"), ("Sin", "a", "b"), ("Neg", "b", "y"))]
    model = model_of(nodes, {"x": (F32, ["n"])}, {"y": (F32, ["n"])})
    onnx.save(model, tmp_path / "model.onnx")
    so = session_options()
    so.add_session_config_entry("ep.context_enable", "1")
    so.add_session_config_entry("ep.context_embed_mode", "1")
    so.add_session_config_entry("ep.context_file_path", str(tmp_path / "made.onnx"))
    session(str(tmp_path / "model.onnx"), {**QUICK, "exclude-operators": "Sin"}, so=so)
    assert len(context_nodes(tmp_path / "made.onnx")) == 2
    again = session(str(tmp_path / "made.onnx"), {"exclude-operators": "Sin"})
    feed = {"x": RNG.standard_normal(6).astype(np.float32)}
    assert_same(again.run(None, feed), plain_session(model).run(None, feed))


def test_damaged_context_is_an_error_that_says_so(tmp_path):
    made = with_context(tmp_path, network(), "0")
    [engine] = made.parent.glob("*.engine")
    good = engine.read_bytes()
    engine.write_bytes(good[: len(good) // 2])
    with pytest.raises(Exception, match=r"damaged|corrupt|cut"):
        session(str(made), {})
    engine.unlink()
    with pytest.raises(Exception, match=r"\.engine"):
        session(str(made), {})


@pytest.mark.parametrize("name", ["/etc/passwd", "../model.engine", ""])
def test_context_outside_of_the_models_folder_is_refused(tmp_path, name):
    made = with_context(tmp_path, network(), "0")
    model = onnx.load(made)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = name.encode()
    onnx.save(model, made)
    with pytest.raises(Exception, match="must be in the model's folder"):
        session(str(made), {})


def test_context_of_others_is_not_taken(tmp_path):
    made = with_context(tmp_path, network(), "1")
    model = onnx.load(made)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "source":
            attribute.s = b"OtherExecutionProvider"
    onnx.save(model, made)
    with pytest.raises(Exception, match="EPContext"):
        session(str(made), {})


def test_the_model_compiler_writes_context(tmp_path):
    onnx.save(network(), tmp_path / "model.onnx")
    so = session_options()
    so.add_provider_for_devices(ort.devices(), QUICK)
    compiler = onnxruntime.ModelCompiler(so, str(tmp_path / "model.onnx"), embed_compiled_data_into_model=True)
    compiler.compile_to_file(str(tmp_path / "made.onnx"))
    assert len(context_nodes(tmp_path / "made.onnx")) == 1
    again = session(str(tmp_path / "made.onnx"), {})
    feed = {"x": RNG.standard_normal((5, 4)).astype(np.float32)}
    assert_same(again.run(None, feed), plain_session(network()).run(None, feed))
