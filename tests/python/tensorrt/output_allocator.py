"""Outputs whose sizes only running tells go into an allocator that grows; TensorRT 10, CUDA Python's new names."""

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

L = trt.Logger(trt.Logger.WARNING)


def chk(r):
    assert r[0] == cudart.cudaError_t.cudaSuccess, r
    return r[1] if len(r) == 2 else r[1:]


class OutputAllocator(trt.IOutputAllocator):
    def __init__(self):
        trt.IOutputAllocator.__init__(self)
        self.buffers = {}
        self.shapes = {}
        self.calls = 0

    def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
        self.calls += 1
        held = self.buffers.get(tensor_name)
        if held is None or held[1] < size:
            if held:
                chk(cudart.cudaFreeAsync(held[0], stream))
            self.buffers[tensor_name] = (chk(cudart.cudaMallocAsync(max(size, 1), stream)), size)
        assert self.buffers[tensor_name][0] % alignment == 0
        return self.buffers[tensor_name][0]

    def reallocate_output(self, tensor_name, memory, size, alignment):
        return self.reallocate_output_async(tensor_name, memory, size, alignment, 0)

    def notify_shape(self, tensor_name, shape):
        self.shapes[tensor_name] = tuple(shape)


b = trt.Builder(L)
n = b.create_network(0)
x = n.add_input("x", trt.float32, (-1, -1))
nz = n.add_non_zero(x)
nz.get_output(0).name = "where"
n.mark_output(nz.get_output(0))
g = n.add_shuffle(nz.get_output(0))
g.second_transpose = (1, 0)
ga = n.add_gather_v2(x, g.get_output(0), trt.GatherMode.ND)
ga.get_output(0).name = "values"
n.mark_output(ga.get_output(0))
bx = n.add_input("boxes", trt.float32, (1, 6, 4))
sc = n.add_input("scores", trt.float32, (1, 6, 2))
nms = n.add_nms(bx, sc, n.add_constant((), np.array(3, np.int32)).get_output(0))
nms.bounding_box_format = trt.BoundingBoxFormat.CENTER_SIZES
nms.topk_box_limit = 100
nms.set_input(3, n.add_constant((), np.array(0.5, np.float32)).get_output(0))
nms.set_input(4, n.add_constant((), np.array(0.1, np.float32)).get_output(0))
for i, m in enumerate(("selected", "count")):
    nms.get_output(i).name = m
    n.mark_output(nms.get_output(i))
c = b.create_builder_config()
p = b.create_optimization_profile()
p.set_shape("x", (1, 1), (4, 8), (16, 32))
c.add_optimization_profile(p)
e = trt.Runtime(L).deserialize_cuda_engine(b.build_serialized_network(n, c))
assert tuple(e.get_tensor_shape("where"))[0] == 2 and tuple(e.get_tensor_shape("where"))[1] == -1
ctx = e.create_execution_context()
al = OutputAllocator()
st = chk(cudart.cudaStreamCreate())
for name in ("where", "values", "selected", "count"):
    assert ctx.set_output_allocator(name, al) and ctx.get_output_allocator(name) is al
rng = np.random.default_rng(0)
boxes = rng.random((1, 6, 4), np.float32)
boxes[0, 1] = boxes[0, 0]
scores = rng.random((1, 6, 2), np.float32)


def up(a):
    d = chk(cudart.cudaMalloc(max(a.nbytes, 1)))
    chk(cudart.cudaMemcpy(d, a.ctypes.data, a.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))
    return d


ctx.set_tensor_address("boxes", up(boxes))
ctx.set_tensor_address("scores", up(scores))
for shape in ((4, 8), (16, 32), (1, 1), (2, 2)):
    h = (rng.random(shape) * (rng.random(shape) > 0.5)).astype(np.float32)
    if shape == (2, 2):
        h[:] = 0
    ctx.set_input_shape("x", shape)
    ctx.set_tensor_address("x", up(h))
    assert ctx.infer_shapes() == []
    assert ctx.execute_async_v3(st)
    assert cudart.cudaStreamSynchronize(st)[0] == 0
    want = np.stack(np.nonzero(h)).astype(np.int32)
    assert al.shapes["where"] == want.shape, (al.shapes, want.shape)
    got = np.empty(want.shape, np.int32)
    vals = np.empty(al.shapes["values"], np.float32)
    for buf, name in ((got, "where"), (vals, "values")):
        if buf.nbytes:
            cudart.cudaMemcpy(
                buf.ctypes.data, al.buffers[name][0], buf.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
            )
    assert (got == want).all() and (vals == h[tuple(want)]).all()
    num = np.empty((), np.int32)
    cudart.cudaMemcpy(num.ctypes.data, al.buffers["count"][0], 4, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
    assert al.shapes["selected"] == (int(num), 3), (al.shapes, num)
print(ctx.get_max_output_size("where"), e.get_tensor_dtype("where"))
print("PASSED")
