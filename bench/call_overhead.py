"""What a call costs beside the computing: one Relu of 2x4, through each way into the library and through ONNX Runtime.

Prints microseconds of the calling thread's processor time, which a busy machine does not change much: the least of nine
means over 5,000 calls.
"""

import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python"))]

import camshaft
import numpy as np
import onnxruntime

from onnx import TensorProto, helper

CALLS = 5_000


def microseconds(call):
    means = []
    for _ in range(9):
        start = time.thread_time_ns()
        for _ in range(CALLS):
            call()
        means.append((time.thread_time_ns() - start) / CALLS / 1000)
    return min(means)


def main():
    shape = ["n", 4]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    engine = camshaft.build(model, threads=1)
    x = np.ones((2, 4), np.float32)
    context = engine.create_context(threads=1)
    context.set_input("x", x)
    run, of_library = camshaft._native.run, context._context
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for name, call in (
        ("the library's run, all bound", lambda: run(of_library)),
        ("context.run()", context.run),
        ("engine.run({name: array})", lambda: engine.run({"x": x})),
        ("engine(array)", lambda: engine(x)),
        ("ONNX Runtime's run", lambda: session.run(None, {"x": x})),
    ):
        print(f"{name:32} {microseconds(call):6.2f} us")


if __name__ == "__main__":
    main()
