"""A network of loops, conditionals, fills, gathers, scatters, einsum, ragged softmax and quantised steps, each
result held to NumPy's."""

import numpy as np
import tensorrt as trt
from cuda import cudart

L = trt.Logger(trt.Logger.WARNING)
b = trt.Builder(L)
n = b.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


def K(a):
    return n.add_constant(np.shape(a), trt.Weights(np.ascontiguousarray(a))).get_output(0)


r = np.random.default_rng(0)


def f(*s):
    return r.standard_normal(s).astype(np.float32)


A, B, X = f(2, 3, 4), f(2, 4, 5), f(4, 6)
outs, want, tols = [], [], []


def out(t, w, tol=1e-5):
    tols.append(tol)
    t.name = f"o{len(outs)}"
    n.mark_output(t)
    outs.append(t.name)
    want.append(np.asarray(w))


a = n.add_input("a", trt.float32, A.shape)
bb = n.add_input("b", trt.float32, B.shape)
x = n.add_input("x", trt.float32, X.shape)
out(n.add_einsum([a, bb], "bij,bjk->bik").get_output(0), np.einsum("bij,bjk->bik", A, B))
out(n.add_einsum([a], "bij->ji").get_output(0), np.einsum("bij->ji", A))
idx = np.array([[3, 0], [1, 1]], np.int32)
out(n.add_gather(x, K(idx), 0).get_output(0), X[idx])
g = n.add_gather_v2(x, K(np.array([[0, 5, 2], [1, 1, 1], [3, 0, 0], [2, 2, 4]], np.int32)), trt.GatherMode.ELEMENT)
g.axis = 1
out(g.get_output(0), np.take_along_axis(X, np.array([[0, 5, 2], [1, 1, 1], [3, 0, 0], [2, 2, 4]]), 1))
g = n.add_gather_v2(x, K(np.array([[0, 5], [3, 1]], np.int32)), trt.GatherMode.ND)
out(g.get_output(0), X[[0, 3], [5, 1]])
g = n.add_gather_v2(a, K(np.array([[0], [2]], np.int32)), trt.GatherMode.DEFAULT)
g.axis = 1
g.num_elementwise_dims = 1
out(g.get_output(0), np.stack([A[0, [0]], A[1, [2]]]))
U = f(2, 6)
s = n.add_scatter(x, K(np.array([[3], [1]], np.int32)), K(U), trt.ScatterMode.ND)
w = X.copy()
w[[3, 1]] = U
out(s.get_output(0), w)
s = n.add_scatter(x, K(np.array([[0, 1, 2, 3, 0, 1]], np.int32)), K(f(1, 6) * 0 + 7), trt.ScatterMode.ELEMENT)
s.axis = 0
w = X.copy()
np.put_along_axis(w, np.array([[0, 1, 2, 3, 0, 1]]), 7, 0)
out(s.get_output(0), w)
fl = n.add_fill(trt.Dims([3, 4]), trt.FillOperation.LINSPACE, trt.float32)
fl.set_input(1, K(np.array(1, np.float32)))
fl.set_input(2, K(np.array([10, 0.5], np.float32)))
out(fl.get_output(0), 1 + 10 * np.arange(3)[:, None] + 0.5 * np.arange(4))
fl = n.add_fill((5,), trt.FillOperation.LINSPACE)
fl.alpha, fl.beta = 2.0, 3.0
out(fl.get_output(0), 2 + 3.0 * np.arange(5))
fl = n.add_fill((64, 64), trt.FillOperation.RANDOM_UNIFORM)
fl.alpha, fl.beta = -1.0, 1.0
mean = n.add_reduce(fl.get_output(0), trt.ReduceOperation.AVG, 3, True)
rnd = mean.get_output(0)
rnd.name = "rnd"
n.mark_output(rnd)
q = n.add_quantize(x, K(np.array(0.05, np.float32)))
d = n.add_dequantize(q.get_output(0), K(np.array(0.05, np.float32)))
out(d.get_output(0), np.clip(np.rint(X / np.float32(0.05)), -128, 127) * np.float32(0.05))
t = n.add_topk(x, trt.TopKOperation.MAX, 2, 1 << 1)
out(t.get_output(0), -np.sort(-X, 1)[:, :2])
out(t.get_output(1), np.argsort(-X, 1, kind="stable")[:, :2])
c = n.add_cast(x, trt.float16)
out(n.add_cast(c.get_output(0), trt.float32).get_output(0), X.astype(np.float16).astype(np.float32), 1e-3)
sel = n.add_select(
    n.add_elementwise(x, K(np.zeros((1, 1), np.float32)), trt.ElementWiseOperation.GREATER).get_output(0),
    x,
    n.add_unary(x, trt.UnaryOperation.NEG).get_output(0),
)
out(sel.get_output(0), np.abs(X))
oh = n.add_one_hot(K(np.array([0, 2, 1], np.int32)), K(np.array([0, 1], np.float32)), K(np.array(3, np.int32)), -1)
out(oh.get_output(0), np.eye(3)[[0, 2, 1]])
# a loop of four trips: carries s = s * 0.5 + row, and concatenates
lp = n.add_loop()
lp.add_trip_limit(K(np.array(4, np.int32)), trt.TripLimit.COUNT)
it = lp.add_iterator(x, 0)
rec = lp.add_recurrence(K(np.zeros(6, np.float32)))
half = n.add_elementwise(rec.get_output(0), K(np.full(6, 0.5, np.float32)), trt.ElementWiseOperation.PROD)
nxt = n.add_elementwise(half.get_output(0), it.get_output(0), trt.ElementWiseOperation.SUM)
rec.set_input(1, nxt.get_output(0))
last = lp.add_loop_output(rec.get_output(0), trt.LoopOutput.LAST_VALUE)
cat = lp.add_loop_output(nxt.get_output(0), trt.LoopOutput.CONCATENATE, 0)
cat.set_input(1, K(np.array(4, np.int32)))
S = np.zeros(6, np.float32)
al = []
for row in X:
    S = S * np.float32(0.5) + row
    al.append(S)
out(last.get_output(0), S)
out(cat.get_output(0), np.stack(al))
cnd = n.add_if_conditional()
flag = n.add_input("flag", trt.bool, ())
cnd.set_condition(flag)
ci = cnd.add_input(x)
tr = n.add_activation(ci.get_output(0), trt.ActivationType.RELU)
fa = n.add_activation(ci.get_output(0), trt.ActivationType.TANH)
out(cnd.add_output(tr.get_output(0), fa.get_output(0)).get_output(0), np.tanh(X))
rg = n.add_ragged_softmax(x, K(np.array([[6], [3], [1], [2]], np.int32)))
w = np.zeros_like(X)
for i, k in enumerate((6, 3, 1, 2)):
    w[i, :k] = np.exp(X[i, :k]) / np.exp(X[i, :k]).sum()
out(rg.get_output(0), w)
out(
    n.add_cumulative(x, K(np.array(1, np.int32)), trt.CumulativeOperation.SUM, False, False).get_output(0),
    np.cumsum(X, 1),
)
rs = n.add_resize(n.add_shuffle(x).get_output(0))
rs.scales = [1, 2]
rs.resize_mode = trt.InterpolationMode.NEAREST
rs.coordinate_transformation = trt.ResizeCoordinateTransformation.ASYMMETRIC
rs.nearest_rounding = trt.ResizeRoundMode.FLOOR
out(rs.get_output(0), np.repeat(X, 2, 1))
for i in range(n.num_layers):
    str(n.get_layer(i).type), n.get_layer(i).name
plan = b.build_serialized_network(n, b.create_builder_config())
assert plan
e = trt.Runtime(L).deserialize_cuda_engine(plan)
ctx = e.create_execution_context()
bufs = {}
ins = {"a": A, "b": B, "x": X, "flag": np.array(False)}
for i in range(e.num_io_tensors):
    name = e.get_tensor_name(i)
    h = ins.get(name)
    sh = tuple(ctx.get_tensor_shape(name))
    if h is None:
        h = np.zeros(sh, trt.nptype(e.get_tensor_dtype(name)))
    dev = cudart.cudaMalloc(h.nbytes)[1]
    cudart.cudaMemcpy(dev, h.ctypes.data, h.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
    bufs[name] = (h, dev)
    ctx.set_tensor_address(name, dev)
assert ctx.execute_async_v3(0)
for h, dev in bufs.values():
    cudart.cudaMemcpy(h.ctypes.data, dev, h.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
for k, w, tol in zip(outs, want, tols):
    got = bufs[k][0]
    assert got.shape == w.shape, (k, got.shape, w.shape)
    np.testing.assert_allclose(got, w, rtol=10 * tol, atol=tol, err_msg=k)
assert abs(float(bufs["rnd"][0].ravel()[0])) < 0.1
print("PASSED", len(outs))
