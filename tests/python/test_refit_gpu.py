"""Refits of engines for a GPU, an emulated one here, in each precision that it stores."""

import pytest
from test_plugin_kernels import on_gpu

HEAD = """
from pathlib import Path
import numpy as np
import camshaft
from test_refitter import build, feed, is_same, make_weights, save_model

folder = Path(FOLDER)
old = save_model(folder / "old" / "m.onnx", make_weights(0))
weights = make_weights(1)
new = save_model(folder / "new" / "m.onnx", weights)

def result(engine):
    return np.from_dlpack(engine.create_context().run(feed())["y"]).copy()
"""


@pytest.mark.parametrize("options", [{}, {"fp16": True}, {"bf16": True}])
def test_a_refitted_engine_is_that_of_the_new_model(tmp_path, options):
    said = on_gpu(
        f"FOLDER, options = {str(tmp_path)!r}, {options}"
        + HEAD
        + """
engine = build(old, device="cuda", **options)
context = engine.create_context()
before = np.from_dlpack(context.run(feed())["y"]).copy()
engine.refit(weights)
fresh = build(new, device="cuda", **options)
assert is_same(engine, fresh)
after = np.from_dlpack(context.run(feed())["y"]).copy()
np.testing.assert_array_equal(after, result(fresh))
assert not np.array_equal(after, before)
if options.get("fp16"):
    assert any("f16" in text for layer in engine.layers() for text in layer["outputs"]), engine.layers()
stripped = camshaft.Engine(engine.to_bytes(weights=False), device="cuda")
stripped.refit(weights)
np.testing.assert_array_equal(result(stripped), after)
print("right")
"""
    )
    assert said.endswith("right\n")


def test_numbers_beyond_fp16_are_refused(tmp_path):
    said = on_gpu(
        f"FOLDER = {str(tmp_path)!r}"
        + HEAD
        + """
def failure(call):
    try:
        call()
    except camshaft.InvalidArgumentError as error:
        return str(error)
    raise AssertionError("no error")

engine = build(old, device="cuda", fp16=True)
before = result(engine)
large = dict(weights, query=weights["query"] * np.float32(1e7))
message = failure(lambda: engine.refit(large))
assert "'query'" in message and "largest of fp16" in message and "bf16" in message, message
np.testing.assert_array_equal(result(engine), before)
message = failure(lambda: build(save_model(folder / "large" / "m.onnx", large), device="cuda", fp16=True))
assert "largest of fp16" in message and "without refit" in message, message
# Infinities of the model's own are its business, and small numbers lose bits alone.
engine.refit(dict(weights, query=np.full((32, 32), np.inf, np.float32)))
engine.refit(dict(weights, query=weights["query"] * np.float32(1e-6)))
engine.refit(weights)
np.testing.assert_array_equal(result(engine), result(build(new, device="cuda", fp16=True)))
print("right")
"""
    )
    assert said.endswith("right\n")
