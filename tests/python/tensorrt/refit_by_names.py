"""An engine of wrong weights is refitted by their names, by a parser, and one without weights is given its own."""

import numpy as np
import onnxruntime as ort
import pycuda.driver as cuda
import tensorrt as trt

import onnx
from onnx import helper, numpy_helper

L = trt.Logger(trt.Logger.WARNING)
r = np.random.default_rng(0)


def model(seed):
    r = np.random.default_rng(seed)
    i = [
        numpy_helper.from_array((r.standard_normal(s) * 0.3).astype(np.float32), n)
        for n, s in (("W", (8, 3, 3, 3)), ("B", (8,)), ("Parameter576_B_0", (8, 8)), ("W_0", (8,)))
    ]
    n = [
        helper.make_node("Conv", ["x", "W", "B"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], "gap"),
        helper.make_node("Flatten", ["g"], ["f"], "fl"),
        helper.make_node("MatMul", ["f", "Parameter576_B_0"], ["m"], "mm"),
        helper.make_node("Add", ["m", "W_0"], ["y"], "bias"),
    ]
    return helper.make_model(
        helper.make_graph(
            n,
            "g",
            [helper.make_tensor_value_info("x", 1, [1, 3, 16, 16])],
            [helper.make_tensor_value_info("y", 1, [1, 8])],
            i,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


right, wrong = model(1), model(2)


def build(m):
    b = trt.Builder(L)
    n = b.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    p = trt.OnnxParser(n, L)
    assert p.parse(m.SerializeToString())
    c = b.create_builder_config()
    c.set_flag(trt.BuilderFlag.REFIT)
    c.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)
    return trt.Runtime(L).deserialize_cuda_engine(b.build_serialized_network(n, c))


def infer(engine, x):
    ctx = engine.create_execution_context()
    out = np.empty((1, 8), np.float32)
    d = [cuda.mem_alloc(x.nbytes), cuda.mem_alloc(out.nbytes)]
    cuda.memcpy_htod(d[0], x)
    assert ctx.execute_v2([int(a) for a in d])
    cuda.memcpy_dtoh(out, d[1])
    return out


x = r.standard_normal((1, 3, 16, 16)).astype(np.float32)
want = ort.InferenceSession(right.SerializeToString()).run(None, {"x": x})[0]
engine = build(wrong)
assert engine.refittable and np.abs(infer(engine, x) - want).max() > 1e-2
refitter = trt.Refitter(engine, L)
names = refitter.get_all_weights()
print("refittable:", names)
layers, roles = refitter.get_all()
print(list(zip(layers, roles)))
weights = {t.name: np.ascontiguousarray(numpy_helper.to_array(t)) for t in right.graph.initializer}
for name in names:
    if name in weights:
        assert refitter.set_named_weights(name, trt.Weights(weights[name])), name
        assert refitter.get_named_weights(name).size == weights[name].size
        assert refitter.get_weights_location(name) == trt.TensorLocation.HOST
        assert refitter.get_weights_prototype(name).dtype == trt.float32
missing = refitter.get_missing_weights()
assert not missing, missing
assert refitter.refit_cuda_engine()
np.testing.assert_allclose(infer(engine, x), want, rtol=1e-4, atol=1e-5)
engine2 = build(wrong)
rf = trt.Refitter(engine2, L)
pr = trt.OnnxParserRefitter(rf, L)
onnx.save(right, "right.onnx")
assert pr.refit_from_file("right.onnx"), [pr.get_error(i) for i in range(pr.num_errors)]
assert rf.refit_cuda_engine_async(0)
np.testing.assert_allclose(infer(engine2, x), want, rtol=1e-4, atol=1e-5)
# stripped plan
b = trt.Builder(L)
n = b.create_network(0)
p = trt.OnnxParser(n, L)
assert p.parse_from_file("right.onnx")
c = b.create_builder_config()
c.set_flag(trt.BuilderFlag.STRIP_PLAN)
c.set_flag(trt.BuilderFlag.REFIT)
plan = b.build_serialized_network(n, c)
e = trt.Runtime(L).deserialize_cuda_engine(plan)
rf = trt.Refitter(e, L)
pr = trt.OnnxParserRefitter(rf, L)
assert pr.refit_from_bytes(right.SerializeToString())
assert rf.refit_cuda_engine()
np.testing.assert_allclose(infer(e, x), want, rtol=1e-4, atol=1e-5)
full = trt.Runtime(L).deserialize_cuda_engine(e.serialize())
np.testing.assert_allclose(infer(full, x), want, rtol=1e-4, atol=1e-5)
print("PASSED")
