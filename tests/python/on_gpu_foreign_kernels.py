"""on_gpu_foreign_kernels.py: kernels that Triton and Numba compile, as plugins on a GPU. Needs one, and both packages:

PYTHONPATH=build/release/python:tests/python:scripts python3 tests/python/on_gpu_foreign_kernels.py
"""

import camshaft
import numba
import numba.cuda
import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import onnx
from onnx import helper


@triton.jit
def softcap_kernel(x, y, n, limit, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    e = tl.exp(2 * tl.load(x + i, mask=i < n) / limit)
    tl.store(y + i, limit * (1 - 2 / (e + 1)), mask=i < n)


def row_scaled(x, y, factor):
    row, column = numba.cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        y[row, column] = factor * (row + 1) * x[row, column]


def model(operator, **attributes):
    info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 37]) for n in "xy"]
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node(operator, ["a"], ["b"], domain="py", **attributes),
        helper.make_node("Sub", ["b", "x"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("py", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(engine, expected):
    assert any(layer["tactic"] == "cuda_plugin" for layer in engine.inspect()["layers"]), engine.inspect()
    for rows in (1, 7, 300):
        x = np.random.default_rng(rows).standard_normal((rows, 37), np.float32)
        for _ in range(3):
            np.testing.assert_allclose(engine(x), expected(x), rtol=1e-4, atol=1e-4)


def main():
    capability = numba.cuda.get_current_device().compute_capability
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "limit": "fp32", "BLOCK": "constexpr"}
    source = ASTSource(softcap_kernel, signature, constexprs={"BLOCK": 256})
    kernel = triton.compile(source, target=GPUTarget("cuda", 10 * capability[0] + capability[1], 32))

    def launch_softcap(x, y, limit):
        return camshaft.triton_launch(kernel, -(-x.size // 256), (x, y, x.size, limit))

    @camshaft.plugin("py::Softcap", cuda=kernel.asm["cubin"], launch=launch_softcap)
    def softcap(x: np.float32, limit=30.0):
        return limit * np.tanh(x / limit)

    check(camshaft.build(model("Softcap", limit=1.5), device="cuda"), lambda x: 1.5 * np.tanh(2 * x / 1.5) - x)
    print("Triton: right")

    matrix = numba.types.Array(numba.float32, 2, "C")
    ptx, _ = numba.cuda.compile(
        row_scaled, numba.void(matrix, matrix, numba.float32), cc=capability, device=False, abi="numba", output="ptx"
    )

    def launch_rows(x, y, factor):
        blocks = (-(-x.shape[0] // 8), -(-x.shape[1] // 16))
        return camshaft.numba_launch(ptx, blocks, (8, 16), (x, y, np.float32(factor)))

    @camshaft.plugin("py::RowScaled", cuda=ptx.encode(), launch=launch_rows)
    def rows(x: np.float32, factor=2.0):
        return (factor * np.arange(1, len(x) + 1)[:, None] * x).astype(np.float32)

    check(
        camshaft.build(model("RowScaled", factor=0.5), device="cuda"),
        lambda x: np.arange(1, len(x) + 1, dtype=np.float32)[:, None] * x - x,
    )
    print("Numba: right")


if __name__ == "__main__":
    main()
