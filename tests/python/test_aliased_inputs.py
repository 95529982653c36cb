"""Outputs that update an input in place: the caches of a decoder, by ONNX's TensorScatter and by PagedAttention."""

import numpy as np
import pytest
from test_module import module as camshaft


@pytest.fixture(scope="module")
def paged():
    """One head of two elements, blocks of two tokens."""
    net = camshaft.Network()
    q, k, v = (net.input(name, "f32", ("tokens", 2)) for name in "qkv")
    keys, values = (net.input(name, "f16", ("blocks", 2, 1, 2)) for name in ("keys", "values"))
    starts, past = net.input("starts", "i32", ("boundaries",)), net.input("past", "i32", ("sequences",))
    table = net.input("table", "i32", ("sequences", "width"))
    y, keys_out, values_out = net.microsoft.PagedAttention(
        q, k, v, keys, values, starts, past, table, num_heads=1, kv_num_heads=1, outputs=3
    )
    for value, name in ((y, "y"), (keys_out, "keys_out"), (values_out, "values_out")):
        net.output(value, name)
    sample = step(np.zeros((1, 2), np.float32), past=0, blocks=[0])
    caches = {name: np.zeros((1, 2, 1, 2), np.float16) for name in ("keys", "values")}
    return camshaft.build(net, inputs=sample | caches)


def step(rows, past, blocks):
    return {
        **dict.fromkeys("qkv", rows),
        "starts": np.array([0, len(rows)], np.int32),
        "past": np.array([past], np.int32),
        "table": np.array([blocks], np.int32),
    }


def test_engine_says_which_output_updates_which_input(paged):
    assert [output.aliased_input for output in paged.outputs] == ["", "keys", "values"]
    assert all(value.aliased_input == "" for value in paged.inputs)


def test_token_by_token_gives_what_all_at_once_gives(paged):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((7, 2), np.float32)
    caches = {name: np.zeros((5, 2, 1, 2), np.float16) for name in ("keys", "values")}
    blocks = [3, 0, 4, 1]
    expected = paged.run(step(rows, 0, blocks) | caches)
    context = paged.create_context()
    for name, cache in caches.items():
        context.set_input(name, cache)
        context.bind_output(name + "_out", cache)
    for token in range(len(rows)):
        outputs = context.run(step(rows[token : token + 1], token, blocks))
        np.testing.assert_allclose(np.from_dlpack(outputs["y"])[0], expected["y"][token], atol=1e-6)
    for name, cache in caches.items():
        np.testing.assert_array_equal(cache, expected[name + "_out"])


def test_other_memory_is_not_shared(paged):
    caches = {name: np.zeros((5, 2, 1, 2), np.float16) for name in ("keys", "values")}
    context = paged.create_context()
    context.bind_output("keys_out", caches["values"])
    with pytest.raises(camshaft.InvalidArgumentError, match="'keys_out' is bound to memory of input 'values', and may"):
        context.run(step(np.zeros((1, 2), np.float32), 0, [0]) | caches)
    context.bind_output("keys_out", caches["keys"])
    context.run()


def test_tables_that_lie_are_refused_and_nothing_is_written_for_them(paged):
    caches = {name: np.zeros((5, 2, 1, 2), np.float16) for name in ("keys", "values")}
    rows = np.ones((3, 2), np.float32)
    for past, blocks in ((0, [0]), (0, [0, 5]), (0, [0, -1]), (-1, [0, 1])):
        with pytest.raises(camshaft.Error):
            paged.run(step(rows, past, blocks) | caches)


@pytest.mark.parametrize(("past", "blocks"), [(-1, [0, 1]), (-4, [0, 1]), (3, [0, 1]), (0, [0])])
def test_positions_that_the_table_has_not_are_refused_before_anything_is_written(paged, past, blocks):
    caches = {name: np.full((5, 2, 1, 2), 7, np.float16) for name in ("keys", "values")}
    context = paged.create_context()
    for name, cache in caches.items():
        context.set_input(name, cache)
        context.bind_output(name + "_out", cache)
    with pytest.raises(camshaft.Error, match="slot"):
        context.run(step(np.ones((3, 2), np.float32), past, blocks))
    assert all((cache == 7).all() for cache in caches.values())


def test_tensor_scatter_updates_its_cache():
    net = camshaft.Network()
    cache = net.input("cache", "f32", (2, 8, 3))
    update, at = net.input("update", "f32", (2, "new", 3)), net.input("at", "i64", (2,))
    net.output(net.TensorScatter(cache, update, at, axis=1), "kept")
    engine = camshaft.build(net, inputs={"at": np.array([0, 3])})
    assert engine.outputs[0].aliased_input == "cache"
    memory = np.zeros((2, 8, 3), np.float32)
    context = engine.create_context()
    context.set_input("cache", memory)
    context.bind_output("kept", memory)
    context.run({"update": np.ones((2, 1, 3), np.float32), "at": np.array([1, 4])})
    assert memory.sum() == 6 and memory[0, 1].all() and memory[1, 4].all()
