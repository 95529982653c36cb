"""Three profiles, a context and a stream in each of four threads, over one engine and PyCUDA's contexts."""

import threading

import numpy as np
import onnxruntime as ort
import pycuda.driver as cuda
import tensorrt as trt

cuda.init()
CTX = cuda.Device(0).make_context()
L = trt.Logger(trt.Logger.WARNING)
b = trt.Builder(L)
n = b.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
p = trt.OnnxParser(n, L)
assert p.parse_from_file("model.onnx")
c = b.create_builder_config()
for lo, op, hi in ((1, 1, 1), (1, 4, 8), (8, 16, 32)):
    pr = b.create_optimization_profile()
    pr.set_shape(n.get_input(0).name, (lo, 3, 32, 32), (op, 3, 32, 32), (hi, 3, 32, 32))
    assert c.add_optimization_profile(pr) >= 0
e = trt.Runtime(L).deserialize_cuda_engine(b.build_serialized_network(n, c))
assert e.num_optimization_profiles == 3
print([[tuple(s) for s in e.get_tensor_profile_shape("x", i)] for i in range(3)])
sess = ort.InferenceSession("model.onnx")
errs = []


def work(k, batch):
    CTX.push()
    try:
        st = cuda.Stream()
        ctx = e.create_execution_context()
        assert ctx.set_optimization_profile_async(k, st.handle)
        assert ctx.active_optimization_profile == k
        for rep in range(20):
            x = np.random.default_rng(rep).standard_normal((batch, 3, 32, 32)).astype(np.float32)
            o = cuda.pagelocked_empty((batch, 10), np.float32)
            di, do = cuda.mem_alloc(x.nbytes), cuda.mem_alloc(o.nbytes)
            assert ctx.set_input_shape("x", x.shape)
            assert ctx.all_binding_shapes_specified
            ctx.set_tensor_address("x", int(di))
            ctx.set_tensor_address("y", int(do))
            cuda.memcpy_htod_async(di, x, st)
            assert ctx.execute_async_v3(st.handle)
            cuda.memcpy_dtoh_async(o, do, st)
            st.synchronize()
            np.testing.assert_allclose(o, sess.run(None, {"x": x})[0], rtol=1e-3, atol=1e-4)
    except BaseException as err:
        errs.append(err)
        raise
    finally:
        cuda.Context.pop()


ts = [threading.Thread(target=work, args=a) for a in ((0, 1), (1, 5), (2, 9), (1, 8))]
[t.start() for t in ts]
[t.join() for t in ts]
assert not errs, errs
ctx = e.create_execution_context()
assert ctx.set_optimization_profile_async(0, 0)
assert not ctx.set_input_shape("x", (64, 3, 32, 32))
assert not ctx.set_optimization_profile_async(7, 0)
CTX.pop()
print("PASSED")
