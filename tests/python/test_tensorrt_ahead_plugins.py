"""tensorrt.plugin.aot_impl: kernels that engines keep, with launches that are expressions of sizes, on an emulated GPU."""

import re

import pytest
from test_plugin_kernels import HEAD, on_gpu
from test_tensorrt import Heard, trt

trtp = trt.plugin

PLUGINS = (
    HEAD
    + '''
import numpy.typing as npt
import camshaft.tensorrt as trt
trtp = trt.plugin

TEXT = """
extern "C" __global__ void wrap(const float* x, int left, int right, int rows, int columns, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, wide = columns + left + right;
  if (i < rows * wide) y[i] = x[i / wide * columns + (i % wide - left + columns) % columns];
}
extern "C" __global__ void add(const float* x, int n, signed char by, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + by;
}
"""
calls = []

@trtp.register("ahead::wrap")
def describe_wrap(x: trtp.TensorDesc, pads: npt.NDArray[np.int32]) -> trtp.TensorDesc:
    made = x.like()
    made.shape_expr[x.ndim - 1] += int(pads[0] + pads[1])
    return made

@trtp.autotune("ahead::wrap")
def wrap_types(x, outputs):
    combination = trtp.AutoTuneCombination("FP32, FP32")
    combination.tactics([64, 128])
    return [combination]

@trtp.aot_impl("ahead::wrap")
def wrap_kernel(x, pads, outputs, tactic):
    calls.append(tactic)
    assert x.dtype == trt.float32 and outputs[0].has_shape
    rows, columns = trtp.ShapeExprs.from_tuple(tuple(x.shape_expr)[:-1]).numel(), x.shape_expr[x.ndim - 1]
    launch = trtp.KernelLaunchParams(grid_x=trtp.cdiv(outputs[0].shape_expr.numel(), tactic), block_x=tactic)
    extra = [trtp.SymInt32(e) for e in (int(pads[0]), int(pads[1]), rows, columns)]
    return b"wrap", compiled(TEXT), launch, trtp.SymIntExprs.from_tuple(extra)

from stream_memory import read, write

def with_function():
    @trtp.impl("ahead::wrap")
    def wrap(x, pads, outputs, stream):
        assert stream != 0 and not hasattr(x, "__array_interface__")
        given = x.__cuda_array_interface__
        assert not given["data"][1]  # PyTorch refuses others
        array = read(given["data"][0], given["shape"], stream)
        write(outputs[0].data_ptr, np.pad(array, [(0, 0)] * (x.ndim - 1) + [tuple(pads)], "wrap"), stream)

@trtp.register("ahead::add_")
def describe_add(x: trtp.TensorDesc, by: int) -> trtp.TensorDesc:
    return x.aliased()

@trtp.aot_impl("ahead::add_")
def add_kernel(x, by, outputs, tactic):
    assert tactic == 0 and outputs[0].get_aliased() is not None
    extra = trtp.SymIntExprs(2)
    extra[0], extra[1] = trtp.SymInt32(x.shape_expr.numel()), trtp.SymInt8(by)
    launch = trtp.KernelLaunchParams()
    launch.grid_x, launch.block_x = trtp.cdiv(x.shape_expr.numel(), 32), 32
    return "add", compiled(TEXT), launch, extra

class Log(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.errors = []
    def log(self, severity, message):
        if severity <= trt.ILogger.ERROR:
            self.errors.append(message)

def network_of(flags=0, aot=None):
    builder = trt.Builder(Log())
    network = builder.create_network(flags)
    x = network.add_input("x", trt.float32, (-1, 3, 5))
    doubled = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    wrapped = network.add_plugin(trtp.op.ahead.wrap(doubled, pads=np.array([2, 1], np.int32)), aot=aot).get_output(0)
    added = network.add_plugin(trtp.op.ahead.add_(wrapped, by=-3)).get_output(0)
    y = network.add_elementwise(added, added, trt.ElementWiseOperation.PROD).get_output(0)
    y.name = "y"
    network.mark_output(y)
    return builder, network

def plan_of(flags=0, aot=None):
    builder, network = network_of(flags, aot)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 3, 5), (2, 3, 5), (40, 3, 5))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan, builder.logger.errors
    return bytes(plan)

def tactics(engine):
    return [layer["tactic"] for layer in engine.inspect()["layers"] if "plugin" in layer["tactic"]]
'''
)

CHECK = """
def check(engine):
    for count in (1, 2, 40):
        x = np.random.default_rng(count).standard_normal((count, 3, 5)).astype(np.float32)
        kept = x.copy()
        expected = (np.pad(2 * x, [(0, 0), (0, 0), (2, 1)], "wrap") - 3) ** 2
        for _ in range(3):
            np.testing.assert_allclose(engine(x), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(x, kept)
"""


def test_engines_keep_them_and_run_without_the_plugin(tmp_path):
    """Two tactics, sizes that change, an input that is changed in place: then in a process that has no plugin."""
    plan = tmp_path / "ahead.plan"
    said = on_gpu(
        PLUGINS
        + CHECK
        + f"""
plan = plan_of()
assert set(calls) == {{64, 128}}, calls
engine = camshaft.Engine(plan)
assert len(tactics(engine)) == 2 and all(t.startswith("cuda_plugin") for t in tactics(engine)), tactics(engine)
before = len(calls)
check(engine)
assert len(calls) == before, "running compiles again"
open({str(plan)!r}, "wb").write(plan)
print("right")
"""
    )
    assert said.endswith("right\n")
    said = on_gpu(
        HEAD
        + CHECK
        + f"""
assert not camshaft.plugins()
check(camshaft.Engine({str(plan)!r}))
print("right")
"""
    )
    assert said.endswith("right\n")


def test_the_function_is_what_the_kernel_is_verified_against():
    said = on_gpu(
        PLUGINS.replace("- left + columns", "- left + columns + 1")
        + """
with_function()
builder, network = network_of()
plan = builder.build_serialized_network(network, builder.create_builder_config())
assert plan is None
print(builder.logger.errors[-1])
"""
    )
    assert "on the GPU on [4, 3, 5]: it differs from a run on one thread" in said, said


def test_which_way_is_taken():
    said = on_gpu(
        PLUGINS
        + CHECK
        + """
with_function()
flag = trt.NetworkDefinitionCreationFlag
for flags, aot, is_compiled in (
    (0, None, True),
    (0, True, True),
    (0, False, False),
    (1 << int(flag.PREFER_AOT_PYTHON_PLUGINS), None, True),
    (1 << int(flag.PREFER_JIT_PYTHON_PLUGINS), None, False),
):
    calls.clear()
    engine = camshaft.Engine(plan_of(flags, aot))
    assert bool(calls) == is_compiled, (flags, aot, calls)
    check(engine)
    assert all(tactic.startswith("cuda_plugin") for tactic in tactics(engine)), tactics(engine)
print("right")
"""
    )
    assert said.endswith("right\n")


def test_nodes_of_models_name_them():
    said = on_gpu(
        PLUGINS
        + """
with_function()
for aot in (1, 0, None):
    calls.clear()
    asked = {} if aot is None else {"aot": aot}
    node = helper.make_node("wrap", ["x"], ["y"], pads=[1, 1], plugin_namespace="ahead", **asked)
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("x", ["n", 4]), ("y", None))]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    builder = trt.Builder(Log())
    network = builder.create_network()
    parser = trt.OnnxParser(network, builder.logger)
    assert parser.parse(made.SerializeToString()), parser.get_error(0)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 4), (2, 4), (9, 4))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan, builder.logger.errors
    engine = camshaft.Engine(bytes(plan))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(engine(x), np.pad(x, [(0, 0), (1, 1)], "wrap"))
    assert bool(calls) == (aot != 0) and tactics(engine)[0].startswith("cuda_plugin"), tactics(engine)
print("right")
"""
    )
    assert said.endswith("right\n")


def test_on_the_cpu_it_needs_a_function():
    @trtp.register("ahead::alone")
    def alone(x: trtp.TensorDesc) -> trtp.TensorDesc:
        return x.like()

    @trtp.aot_impl("ahead::alone")
    def compile_alone(x, outputs, tactic):
        return "alone", b"module", trtp.KernelLaunchParams(), trtp.SymIntExprs(0)

    builder = trt.Builder(Heard())
    network = builder.create_network()
    layer = network.add_plugin(trtp.op.ahead.alone(network.add_input("x", trt.float32, (4,))))
    network.mark_output(layer.get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "kernels for GPUs alone" in builder.logger.errors()[-1]
    with pytest.raises(ValueError, match="has no impl function, which STRICT_JIT asks for"):
        network.add_plugin(trtp.op.ahead.alone(network.add_input("z", trt.float32, (4,))), aot=False)


PTX = """//
.version 8.3
.target sm_90
.address_size 64
.visible .entry twice(
	.param .u64 .ptr .global .align 1 twice_param_0,
	.param .u32 twice_param_1,
	.param .u64 .ptr .global .align 1 twice_param_2,
	.param .u64 .ptr .global .align 1 twice_param_3
)
{ ret; }
"""
GIVEN = ("twice", PTX, trtp.KernelLaunchParams(), trtp.SymIntExprs.from_tuple([trtp.SymInt32(3)]))


def compiled(*changed):
    from camshaft.tensorrt._quick_kernels import compiled_tactic

    return compiled_tactic("ahead::twice", tuple(changed), 1, 1)


def test_arguments_are_tensors_expressions_tensors_and_scratch():
    text, module, [(name, sizes, arguments)] = compiled(*GIVEN)
    assert text is None and module == PTX.encode() and name == "twice" and sizes == ["1"] * 6 + ["0"]
    # Triton's scratch memory, behind what was given, is null.
    assert arguments == [(0, 0, None, None, 0), (2, 0, "3", None, 4), (1, 0, None, None, 0), (3, 0, None, bytes(8), 0)]


@pytest.mark.parametrize(
    "place, value, error, match",
    [
        (0, 3, TypeError, "gives 3 as name of the kernel"),
        (0, "twice\0", ValueError, r"gives 'twice\\x00' as name of the kernel, which has letters"),
        (0, b"\xfftwice", ValueError, "as name of the kernel, which has letters"),
        (1, None, TypeError, "gives None as kernel"),
        (1, b"", ValueError, "a kernel without bytes"),
        (2, (1, 1), TypeError, "which is KernelLaunchParams"),
        (2, trtp.KernelLaunchParams(grid_x=1.5), TypeError, "gives 1.5 as grid_x"),
        (3, [1], TypeError, "as further arguments"),
        (3, trtp.SymIntExprs(1), TypeError, "a SymInt32, SymInt16 or SymInt8 says how wide"),
        (3, trtp.SymIntExprs.from_tuple([trtp.SymInt16(3)]), ValueError, re.escape("[8, 2, 8] bytes")),
        (0, "once", ValueError, "no kernel 'once'"),
    ],
)
def test_what_is_wrong_is_said(place, value, error, match):
    given = list(GIVEN)
    given[place] = value
    with pytest.raises(error, match=match):
        compiled(*given)


def test_messages_do_not_show_kernels():
    from camshaft.tensorrt._quick_kernels import compiled_tactic

    for wrong in (["twice", b"k" * 10**6], ("twice", [b"k" * 10**6], *GIVEN[2:])):
        with pytest.raises(TypeError, match="its aot_impl function gives") as raised:
            compiled_tactic("ahead::twice", wrong, 1, 1)
        assert len(str(raised.value)) < 300


@pytest.mark.parametrize("change, what", [
    ("grid_x=trtp.cdiv(outputs[0].shape_expr.numel(), tactic) - 10**6", "the number of blocks of its kernel 'wrap'"),
    ("grid_x=1, shared_mem=trtp.SymInt32(-1)", "the shared memory of its kernel 'wrap'"),
    ("grid_y=2049, block_y=2049", "the number of threads of its kernel 'wrap'"),
])  # fmt: skip
def test_launches_that_no_gpu_takes_are_named(change, what):
    said = on_gpu(
        PLUGINS.replace("grid_x=trtp.cdiv(outputs[0].shape_expr.numel(), tactic), block_x=tactic", change)
        + """
builder, network = network_of()
assert builder.build_serialized_network(network, builder.create_builder_config()) is None
print(builder.logger.errors[-1])
"""
    )
    assert what in said, said
