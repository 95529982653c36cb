"""on_gpu.py FOLDER: what test_module.py has run on the emulated GPU. Kept outputs are the memory on the device that a
program would have."""

import json
import sys
from pathlib import Path

import camshaft
import numpy as np
from camshaft_cli import camshaft as command
from test_module import W, check, feed, make_model

import onnx
from onnx import TensorProto, helper


def raises(text, call):
    try:
        call()
    except camshaft.Error as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error: {text}")


def main(folder):
    engines = []
    model = make_model(folder / "model.onnx")
    command("build", model, "-o", folder / "model.engine", "--device", "cuda")
    engine = camshaft.Engine(folder / "model.engine")
    inputs = feed(5)
    expected = np.maximum(inputs["x"] @ W, 0)

    # The host's memory, waiting.
    first = engine.create_context(1)
    check(first.run(inputs), inputs)

    # In a stream, outputs kept on the device; then its memory as input of another context, in turn with another.
    sources = []
    for seed in range(2):
        context = engine.create_context(1)
        outputs = context.run(feed(5, seed), stream=0)
        assert outputs["z"].__dlpack_device__() == (2, 0) and outputs["z"].on_device
        assert repr(outputs["y"]) == "<camshaft.Array f32[5, 4] on cuda:0>"
        sources.append(outputs["y"])
        engines.append(context)
    second = camshaft.Engine(folder / "model.engine").create_context(1)
    second.keep_output("z", on_device=True)
    second.set_input("i", inputs["i"])
    raises("does not fit", lambda: second.set_input("x", sources[0]))  # 4 columns, not 3

    # Written to memory of the device that is bound, read back by one that keeps its output on the host.
    target = engines[0].run(feed(5, 7), stream=0)["y"]
    first.bind_output("y", target)
    for _ in range(4):
        first.run(inputs, stream=0)
        first.synchronize()
    assert first.output("y").on_device
    raises("output 'y' needs", lambda: first.run(feed(6)))
    raises("is f32, it is bound to an array of i64", lambda: first.bind_output("y", np.zeros(4, np.int64)))
    first.keep_output("y")
    first.keep_output("z")
    outputs = first.run(inputs)
    np.testing.assert_allclose(np.from_dlpack(outputs["y"]), expected, rtol=1e-5, atol=1e-6)

    # An index that kernels find wrong.
    first.run({"i": np.array([9, 0])}, stream=0)
    raises("index 9 is out of range", first.synchronize)
    check(first.run(inputs), inputs)

    # NumPy cannot take what is on the device.
    try:
        np.from_dlpack(target)
    except (BufferError, RuntimeError, TypeError):
        pass
    else:
        raise AssertionError("an array on the device was taken for one on the host")
    batches_on_the_device(folder, sources)
    chain(folder)
    each_gpu(folder, inputs, expected)

    options = ("--shapes", "x:2x4", "--no-data-transfers", "--duration", 0.2, "--warmup", 0, "--json")
    figures = json.loads(command("bench", folder / "s.engine", *options).stdout)
    assert figures["runs_together"] > 1 and figures["runs"] % figures["runs_together"] == 0
    print("all is well")


def batches_on_the_device(folder, sources):
    """Data for a calibration, and inputs for a verification, in memory of the GPU."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["c"])],
        "product",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [5, 4])],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [5, 3])],
        [helper.make_tensor("b", TensorProto.FLOAT, [4, 3], range(12))],
    )
    product = folder / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), product)
    on_host = [np.maximum(feed(5, seed)["x"] @ W, 0).astype(np.float32) for seed in range(2)]
    ranges = [camshaft.calibrate(product, data, device="cuda").ranges for data in (sources, on_host)]
    assert ranges[0] and ranges[0] == ranges[1]
    camshaft.build(product, device="cuda", inputs={"a": sources[0]})


def each_gpu(folder, inputs, expected):
    """An engine on each of two GPUs, whose arrays say where they are."""
    engines = [camshaft.Engine(folder / "model.engine", device=device) for device in ("cuda", "cuda:1")]
    assert [engine.device for engine in engines] == ["cuda:0", "cuda:1"]
    outputs = [engine.create_context(1).run(inputs, stream=0)["y"] for engine in engines]
    assert [output.__dlpack_device__() for output in outputs] == [(2, 0), (2, 1)]
    assert [output.device for output in outputs] == ["cuda:0", "cuda:1"]
    for engine, other in zip(engines, (1, 0)):
        context = engine.create_context(1)
        where = f"output 'y' is said to be on GPU {other}; this engine runs on GPU {1 - other}"
        raises(where, lambda context=context, other=other: context.bind_output("y", outputs[other]))
        context.bind_output("y", outputs[1 - other])
        context.run(inputs)
        context.keep_output("y")
        np.testing.assert_allclose(np.from_dlpack(context.run(inputs)["y"]), expected, rtol=1e-5, atol=1e-6)
    raises("there is no GPU 2", lambda: camshaft.Engine(folder / "model.engine", device="cuda:2"))
    raises("cannot run on cpu", lambda: camshaft.Engine(folder / "model.engine", device="cpu"))


def chain(folder):
    """Two engines, one after the other, in buffers on the device that take turns."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "s.onnx")
    command("build", folder / "s.onnx", "-o", folder / "s.engine", "--device", "cuda")
    heads = [camshaft.Engine(folder / "model.engine").create_context(1) for _ in range(2)]
    tail = camshaft.Engine(folder / "s.engine").create_context(1)
    for turn in range(8):
        inputs = feed(3, turn)
        middle = heads[turn % 2].run(inputs, stream=0)["y"]
        tail.set_input("x", middle)
        tail.enqueue(0)
        tail.synchronize()
        e = np.exp(2 * np.maximum(inputs["x"] @ W, 0))
        np.testing.assert_allclose(
            np.from_dlpack(tail.output("y")), e / e.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
