"""A strongly typed network with streamed weights; timing caches, serialization, compatibility, inspector, readers and
writers of plans."""

import json
import os

import numpy as np
import onnxruntime as ort
import tensorrt as trt
from cuda import cudart

from onnx import helper, numpy_helper

print(trt.__version__, trt.get_nv_onnx_parser_version() if hasattr(trt, "get_nv_onnx_parser_version") else "")
L = trt.Logger(trt.Logger.VERBOSE if os.environ.get("V") else trt.Logger.WARNING)
r = np.random.default_rng(0)
W = [(r.standard_normal((256, 256)) / 16).astype(np.float16) for _ in range(4)]
nodes, t = [], "x"
for i in range(4):
    nodes += [
        helper.make_node("MatMul", [t, f"w{i}"], [f"m{i}"], f"mm{i}"),
        helper.make_node("Relu", [f"m{i}"], [f"r{i}"], f"relu{i}"),
    ]
    t = f"r{i}"
m = helper.make_model(
    helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 10, ["b", 256])],
        [helper.make_tensor_value_info(t, 10, ["b", 256])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(W)],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=8,
)


def build(config_of, cache=None):
    b = trt.Builder(L)
    n = b.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    p = trt.OnnxParser(n, L)
    assert p.parse(m.SerializeToString())
    assert n.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    c = b.create_builder_config()
    pr = b.create_optimization_profile()
    pr.set_shape("x", (1, 256), (4, 256), (16, 256))
    c.add_optimization_profile(pr)
    config_of(c)
    if cache is not None:
        tc = c.create_timing_cache(cache)
        assert c.set_timing_cache(tc, ignore_mismatch=False)
    assert b.is_network_supported(n, c)
    plan = b.build_serialized_network(n, c)
    assert plan is not None
    return plan, (bytes(c.get_timing_cache().serialize()) if cache is not None else None)


def cfg(c):
    c.set_flag(trt.BuilderFlag.WEIGHT_STREAMING)
    c.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    c.set_flag(trt.BuilderFlag.EXCLUDE_LEAN_RUNTIME)
    c.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS
    c.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    c.builder_optimization_level = 4
    c.max_aux_streams = 1
    c.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
    c.set_tactic_sources(1 << int(trt.TacticSource.CUBLAS) | 1 << int(trt.TacticSource.EDGE_MASK_CONVOLUTIONS))
    c.tiling_optimization_level = trt.TilingOptimizationLevel.FAST
    c.runtime_platform = trt.RuntimePlatform.SAME_AS_BUILD
    c.plugins_to_serialize = []
    c.avg_timing_iterations = 4
    for pool in (trt.MemoryPoolType.WORKSPACE, trt.MemoryPoolType.TACTIC_DRAM, trt.MemoryPoolType.TACTIC_SHARED_MEMORY):
        c.set_memory_pool_limit(pool, 1 << 20)
        assert c.get_memory_pool_limit(pool) == 1 << 20


plan, t1 = build(cfg, b"")
plan2, t2 = build(lambda c: None, t1)
_, t3 = build(lambda c: None, b"")
c = trt.Builder(L).create_builder_config()
a, z = c.create_timing_cache(t1), c.create_timing_cache(t3)
assert a.combine(z, False)
c.set_timing_cache(a, False)
assert a.reset()
rt = trt.Runtime(L)
rt.engine_host_code_allowed = True
rt.max_threads = 2
e = rt.deserialize_cuda_engine(plan)
assert e.hardware_compatibility_level is not None
print(e.streamable_weights_size, e.minimum_weight_streaming_budget, e.get_weight_streaming_automatic_budget())
x = r.standard_normal((4, 256)).astype(np.float16)


def run(e):
    ctx = e.create_execution_context(trt.ExecutionContextAllocationStrategy.ON_PROFILE_CHANGE)
    ctx.set_input_shape("x", x.shape)
    o = np.empty((4, 256), np.float16)
    d = [cudart.cudaMalloc(q.nbytes)[1] for q in (x, o)]
    cudart.cudaMemcpy(d[0], x.ctypes.data, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
    for k, dd in zip(("x", "r3"), d):
        ctx.set_tensor_address(k, dd)
    assert ctx.execute_async_v3(0)
    cudart.cudaMemcpy(o.ctypes.data, d[1], o.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
    return o


base = run(e)
e.weight_streaming_budget_v2 = e.minimum_weight_streaming_budget
assert e.weight_streaming_budget_v2 < e.streamable_weights_size
print("scratch", e.weight_streaming_scratch_memory_size)
assert (run(e) == base).all()
e.weight_streaming_budget_v2 = e.get_weight_streaming_automatic_budget()
assert (run(e) == base).all()
want = ort.InferenceSession(m.SerializeToString()).run(None, {"x": x})[0]
np.testing.assert_allclose(base.astype(np.float32), want.astype(np.float32), rtol=2e-2, atol=2e-2)
ins = e.create_engine_inspector()
J = json.loads(ins.get_engine_information(trt.LayerInformationFormat.JSON))
assert len(J["Layers"]) == e.num_layers
assert J["Bindings"] == ["x", "r3"]
print(ins.get_layer_information(0, trt.LayerInformationFormat.ONELINE).strip())
ins.execution_context = e.create_execution_context()
assert "Name" in json.loads(ins.get_layer_information(0, trt.LayerInformationFormat.JSON))
assert ins.clear_inspector() if hasattr(ins, "clear_inspector") else True
sc = e.create_serialization_config()
assert sc.set_flag(trt.SerializationFlag.EXCLUDE_LEAN_RUNTIME) is not False
sc.clear_flag(trt.SerializationFlag.EXCLUDE_LEAN_RUNTIME)
assert bytes(e.serialize_with_config(sc)) == bytes(e.serialize())
assert e.get_device_memory_size_for_profile_v2(0) > 0 and e.device_memory_size_v2 > 0


class W2(trt.IStreamWriter):
    def __init__(self):
        trt.IStreamWriter.__init__(self)
        self.data = b""

    def write(self, data):
        self.data += bytes(data)
        return len(data)


class R2(trt.IStreamReaderV2):
    def __init__(self, d):
        trt.IStreamReaderV2.__init__(self)
        self.d, self.at = d, 0

    def read(self, num_bytes, stream):
        out = self.d[self.at : self.at + num_bytes]
        self.at += len(out)
        return out

    def seek(self, offset, where):
        self.at = {trt.SeekPosition.SET: 0, trt.SeekPosition.CUR: self.at, trt.SeekPosition.END: len(self.d)}[
            where
        ] + offset
        return True


e2 = trt.Runtime(L).deserialize_cuda_engine(R2(bytes(plan)))
assert (run(e2) == base).all()
rc = e.create_runtime_config()
rc.set_execution_context_allocation_strategy(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
ctx = e.create_execution_context(rc)
assert ctx
ctx.set_device_memory(cudart.cudaMalloc(max(1, e.device_memory_size_v2))[1], e.device_memory_size_v2)
print("PASSED")
