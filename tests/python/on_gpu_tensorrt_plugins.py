"""on_gpu_tensorrt_plugins.py: TensorRT's plugins in Python on a GPU: Triton kernels that are compiled ahead of time, PyTorch
on the run's stream, CuPy, and sizes that only running tells. Needs one, PyTorch, Triton and CuPy:

PYTHONPATH=build/release/python python3 tests/python/on_gpu_tensorrt_plugins.py
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import camshaft
import camshaft.tensorrt as trt
import cupy
import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl

trtp = trt.plugin


@triton.jit
def wrap_kernel(X, left, right, rows, columns, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = columns + left + right
    x = tl.load(X + i // wide * columns + (i % wide - left + columns) % columns, mask=i < rows * wide)
    tl.store(Y + i, x, mask=i < rows * wide)


@trtp.register("on_gpu::wrap")
def describe_wrap(x: trtp.TensorDesc, pads: npt.NDArray[np.int32]) -> trtp.TensorDesc:
    made = x.like()
    made.shape_expr[x.ndim - 1] += int(pads[0] + pads[1])
    return made


@trtp.autotune("on_gpu::wrap")
def wrap_types(x, outputs):
    combination = trtp.AutoTuneCombination("FP32|FP16, FP32|FP16")
    combination.tactics([128, 1024])
    return [combination]


@trtp.aot_impl("on_gpu::wrap")
def compile_wrap(x, pads, outputs, tactic):
    kind = "*fp32" if x.dtype == trt.float32 else "*fp16"
    names = ("left", "right", "rows", "columns")
    signature = {"X": kind, **dict.fromkeys(names, "i32"), "Y": kind, "BLOCK": "constexpr"}
    kernel = triton.compile(triton.compiler.ASTSource(wrap_kernel, signature, constexprs={"BLOCK": tactic}))
    rows = trtp.ShapeExprs.from_tuple(tuple(x.shape_expr)[:-1]).numel()
    extra = [trtp.SymInt32(e) for e in (int(pads[0]), int(pads[1]), rows, x.shape_expr[x.ndim - 1])]
    launch = trtp.KernelLaunchParams()
    launch.grid_x = trtp.cdiv(outputs[0].shape_expr.numel(), tactic)
    launch.block_x, launch.shared_mem = kernel.metadata.num_warps * 32, kernel.metadata.shared
    return kernel.metadata.name, kernel.asm["ptx"], launch, trtp.SymIntExprs.from_tuple(extra)


@trtp.impl("on_gpu::wrap")
def wrap(x, pads, outputs, stream):
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        given, made = (torch.as_tensor(tensor, device="cuda") for tensor in (x, outputs[0]))
        made.copy_(torch.cat([given[..., -int(pads[0]) :], given, given[..., : int(pads[1])]], -1))


@trtp.register("on_gpu::add_")
def describe_add(x: trtp.TensorDesc, by: int) -> trtp.TensorDesc:
    return x.aliased()


@trtp.impl("on_gpu::add_")
def add_in_place(x, by, outputs, stream):
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        torch.from_dlpack(outputs[0]).add_(by)


@trtp.register("on_gpu::places")
def describe_places(x: trtp.TensorDesc) -> tuple[trtp.TensorDesc, trtp.TensorDesc]:
    most = x.shape_expr.numel()
    count = trtp.size_tensor(most // 2, most)
    return trtp.from_shape_expr((count.expr(), 2), dtype=trt.int32), count


@trtp.impl("on_gpu::places")
def places(x, outputs, stream):
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        found = torch.nonzero(torch.as_tensor(x, device="cuda"))
        torch.as_tensor(outputs[0].aliased(found.shape), device="cuda").copy_(found)
        torch.as_tensor(outputs[1], device="cuda").fill_(len(found))


class Doubling(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    plugin_name, plugin_version, plugin_namespace, num_outputs = "OnGpuDoubling", "1", "", 1

    def get_output_data_types(self, types):
        return types

    def get_output_shapes(self, inputs, shape_inputs, builder):
        return [inputs[0]]

    def supports_format_combination(self, place, descs, inputs):
        return descs[place].desc.type == trt.float32

    def get_workspace_size(self, inputs, outputs):
        return 1024

    def enqueue(self, given, made, inputs, outputs, workspace, stream):
        size = int(np.prod(list(given[0].dims)))

        def array(address, count):
            memory = cupy.cuda.UnownedMemory(address, 4 * count, self)
            return cupy.ndarray(count, np.float32, cupy.cuda.MemoryPointer(memory, 0))

        with cupy.cuda.ExternalStream(stream):
            scratch = array(workspace, 1)
            scratch.fill(2)
            cupy.multiply(array(inputs[0], size), scratch, out=array(outputs[0], size))

    def clone(self):
        return Doubling()


class DoublingCreator(trt.IPluginCreatorV3One):
    name, plugin_version, plugin_namespace = "OnGpuDoubling", "1", ""
    field_names = trt.PluginFieldCollection()

    def create_plugin(self, name, fields, phase):
        return Doubling()


class Log(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.errors = []

    def log(self, severity, message):
        if severity <= trt.ILogger.ERROR:
            self.errors.append(message)


def plan_of(fill, *sizes):
    """`fill` adds the layers on an input x of these (least, usual, most) sizes, and gives the outputs."""
    builder = trt.Builder(Log())
    network = builder.create_network()
    x = network.add_input("x", trt.float32, tuple(-1 if a != c else a for a, c in zip(sizes[0], sizes[2])))
    for index, output in enumerate(fill(network, x)):
        output.name = f"y{index}"
        network.mark_output(output)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", *sizes)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan, builder.logger.errors
    return bytes(plan)


PADS = np.array([2, 1], np.int32)
SIZES = ((1, 3, 64), (8, 3, 64), (512, 3, 64))


def wrapped(aot):
    def fill(network, x):
        doubled = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
        y = network.add_plugin(trtp.op.on_gpu.wrap(doubled, pads=PADS), aot=aot).get_output(0)
        return [network.add_elementwise(y, y, trt.ElementWiseOperation.PROD).get_output(0)]

    return fill


def check_wrapped(engine):
    for count in (1, 8, 512):
        x = np.random.default_rng(count).standard_normal((count, 3, 64)).astype(np.float32)
        for _ in range(3):
            expected = np.pad(2 * x, [(0, 0), (0, 0), (2, 1)], "wrap") ** 2
            np.testing.assert_allclose(engine(x), expected, rtol=1e-5, atol=1e-5)


def tactics(engine):
    return [layer["tactic"] for layer in engine.inspect()["layers"] if "plugin" in layer["tactic"]]


def run_time(engine):
    context, x = engine.create_context(), np.zeros((8, 3, 64), np.float32)
    least = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        context.run({"x": x})
        least = min(least, time.perf_counter() - start)
    return 1e6 * least


def main():
    ahead, just_in_time = (camshaft.Engine(plan_of(wrapped(aot), *SIZES)) for aot in (True, False))
    for engine in (ahead, just_in_time):
        check_wrapped(engine)
        assert all(tactic.startswith("cuda_plugin") for tactic in tactics(engine)), tactics(engine)
        print(f"{tactics(engine)}: {run_time(engine):.0f} µs a run, copies to and from the host in it")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ahead.plan"
        path.write_bytes(plan_of(wrapped(True), *SIZES))
        text = (
            "import sys, numpy as np, camshaft\n"
            "x = np.ones((2, 3, 64), np.float32)\n"
            "assert not camshaft.plugins() and 'triton' not in sys.modules\n"
            f"y = camshaft.Engine({str(path)!r})(x)\n"
            "assert y.shape == (2, 3, 67) and (y == 4).all()\n"
        )
        subprocess.run([sys.executable, "-c", text], check=True)
    print("a process without the plugin runs it")

    def in_place(network, x):
        y = network.add_plugin(trtp.op.on_gpu.add_(x, by=2)).get_output(0)
        return [network.add_plugin(trtp.op.on_gpu.add_(y, by=4)).get_output(0)]

    engine, x = camshaft.Engine(plan_of(in_place, *SIZES)), np.ones((8, 3, 64), np.float32)
    for _ in range(3):
        assert (engine(x) == 7).all() and (x == 1).all()
    print(f"in place: {tactics(engine)}")

    def found(network, x):
        layer = network.add_plugin(trtp.op.on_gpu.places(x))
        return [layer.get_output(0), layer.get_output(1)]

    engine = camshaft.Engine(plan_of(found, (4, 5), (4, 5), (4, 5)))
    x = np.zeros((4, 5), np.float32)
    x[1, 2] = x[3, 0] = 1
    indices, count = engine(x)
    assert count == 2 and np.asarray(indices)[:2].tolist() == [[1, 2], [3, 0]]
    print(f"sizes that only running tells: {tactics(engine)}")

    assert trt.get_plugin_registry().register_creator(DoublingCreator(), "")
    engine = camshaft.Engine(plan_of(lambda n, x: [n.add_plugin_v3([x], [], Doubling()).get_output(0)], *SIZES))
    x = np.random.default_rng(0).standard_normal((8, 3, 64)).astype(np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(engine(x), 2 * x)
    print(f"CuPy in an IPluginV3, with a workspace: {tactics(engine)}")
    print("right")


if __name__ == "__main__":
    main()
