"""Debug tensors of TensorRT 10: marked in the network, given to a listener, switched on and off by context."""

import ctypes

import numpy as np
import tensorrt as trt
from cuda import cudart

L = trt.Logger(trt.Logger.WARNING)


class Listener(trt.IDebugListener):
    def __init__(self):
        trt.IDebugListener.__init__(self)
        self.seen = {}

    def process_debug_tensor(self, addr, location, type, shape, name, stream):
        n = trt.volume(shape)
        host = np.empty(n, trt.nptype(type))
        if location == trt.TensorLocation.DEVICE:
            assert (
                cudart.cudaMemcpyAsync(
                    host.ctypes.data, addr, host.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream
                )[0]
                == 0
            )
            cudart.cudaStreamSynchronize(stream)
        else:
            ctypes.memmove(host.ctypes.data, addr, host.nbytes)
        self.seen[name] = host.reshape(tuple(shape))
        return True


b = trt.Builder(L)
n = b.create_network(0)
x = n.add_input("x", trt.float32, (-1, 4))
a = n.add_activation(x, trt.ActivationType.RELU).get_output(0)
a.name = "after_relu"
s = n.add_elementwise(
    a, n.add_constant((1, 4), np.full((1, 4), 2, np.float32)).get_output(0), trt.ElementWiseOperation.PROD
).get_output(0)
s.name = "scaled"
u = n.add_unary(s, trt.UnaryOperation.SQRT)
y = u.get_output(0)
y.name = "y"
n.mark_output(y)
assert n.mark_debug(a) and n.mark_debug(s) and n.is_debug_tensor(a)
assert n.unmark_debug(s) and not n.is_debug_tensor(s) and n.mark_debug(s)
c = b.create_builder_config()
p = b.create_optimization_profile()
p.set_shape("x", (1, 4), (2, 4), (4, 4))
c.add_optimization_profile(p)
plan = b.build_serialized_network(n, c)
e = trt.Runtime(L).deserialize_cuda_engine(plan)
assert e.is_debug_tensor("after_relu") and not e.is_debug_tensor("y")
assert e.num_io_tensors == 2
ctx = e.create_execution_context()
ls = Listener()
assert ctx.set_debug_listener(ls) and ctx.get_debug_listener() is ls
h = np.array([[-1, 2, 3, 4], [8, 8, -8, 0]], np.float32)
o = np.empty_like(h)
di, do = cudart.cudaMalloc(h.nbytes)[1], cudart.cudaMalloc(o.nbytes)[1]
st = cudart.cudaStreamCreate()[1]
cudart.cudaMemcpy(di, h.ctypes.data, h.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
ctx.set_input_shape("x", (2, 4))
ctx.set_tensor_address("x", di)
ctx.set_tensor_address("y", do)
assert ctx.execute_async_v3(st)
assert not ls.seen, ls.seen  # states are off at first
assert ctx.set_tensor_debug_state("after_relu", True) and ctx.get_debug_state("after_relu")
assert ctx.execute_async_v3(st)
assert list(ls.seen) == ["after_relu"]
np.testing.assert_array_equal(ls.seen["after_relu"], np.maximum(h, 0))
ls.seen.clear()
ctx.set_all_tensors_debug_state(True)
assert ctx.execute_async_v3(st)
np.testing.assert_array_equal(ls.seen["scaled"], np.maximum(h, 0) * 2)
cudart.cudaMemcpy(o.ctypes.data, do, o.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
np.testing.assert_allclose(o, np.sqrt(np.maximum(h, 0) * 2), rtol=1e-6)
ctx.set_all_tensors_debug_state(False)
ls.seen.clear()
assert ctx.execute_async_v3(st) and not ls.seen
print("PASSED")
