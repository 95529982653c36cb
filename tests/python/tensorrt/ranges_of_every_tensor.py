"""int8 by ranges that a program sets for every tensor, with a precision that is obeyed; the inspector says so."""

import numpy as np
import onnxruntime as ort
import tensorrt as trt
from cuda import cudart

import onnx

L = trt.Logger(trt.Logger.WARNING)
m = onnx.load("model.onnx")
for nd in m.graph.node[:-1]:
    m.graph.output.append(onnx.helper.make_tensor_value_info(nd.output[0], 1, None))
s = ort.InferenceSession(m.SerializeToString())
x = np.random.default_rng(0).standard_normal((8, 3, 32, 32)).astype(np.float32)
vals = dict(zip([o.name for o in s.get_outputs()], s.run(None, {"x": x})))
vals["x"] = x
ranges = {k: float(np.abs(v).max()) for k, v in vals.items()}
b = trt.Builder(L)
n = b.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
p = trt.OnnxParser(n, L)
assert p.parse_from_file("model.onnx")
c = b.create_builder_config()
c.set_flag(trt.BuilderFlag.INT8)
c.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
c.int8_calibrator = None
assert b.platform_has_fast_int8
for i in range(n.num_inputs):
    t = n.get_input(i)
    assert t.set_dynamic_range(-ranges[t.name], ranges[t.name])
for i in range(n.num_layers):
    layer = n.get_layer(i)
    if layer.type == trt.LayerType.CONVOLUTION:
        layer.precision = trt.int8
    for j in range(layer.num_outputs):
        t = layer.get_output(j)
        if t.name in ranges:
            t.set_dynamic_range(-ranges[t.name], ranges[t.name])
            assert t.dynamic_range is not None
pr = b.create_optimization_profile()
pr.set_shape("x", (1, 3, 32, 32), (8, 3, 32, 32), (8, 3, 32, 32))
c.add_optimization_profile(pr)
c.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
e = b.build_engine_with_config(n, c)
assert e
insp = e.create_engine_inspector()
info = insp.get_engine_information(trt.LayerInformationFormat.JSON)
assert "int8" in info.lower(), info[:2000]
ctx = e.create_execution_context()
ctx.set_input_shape("x", x.shape)
o = np.empty((8, 10), np.float32)
d = [cudart.cudaMalloc(a.nbytes)[1] for a in (x, o)]
cudart.cudaMemcpy(d[0], x.ctypes.data, x.nbytes, 1 and cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
assert ctx.execute_v2(d)
cudart.cudaMemcpy(o.ctypes.data, d[1], o.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
err = np.abs(o - vals["y"]).max() / np.abs(vals["y"]).max()
print("error", err)
assert 0 < err < 0.1
print("PASSED")
