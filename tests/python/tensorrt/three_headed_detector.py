"""A detector in the manner of the samples: three heads, their helper classes for host and device memory, decoding and
suppression in NumPy on what comes back."""

import ctypes
from typing import Optional, Union

import numpy as np
import onnxruntime as ort
import tensorrt as trt
from cuda import cuda, cudart

import onnx
from onnx import helper, numpy_helper


def check_cuda_err(err):
    if isinstance(err, cuda.CUresult):
        if err != cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError("Cuda Error: {}".format(err))
    if isinstance(err, cudart.cudaError_t):
        if err != cudart.cudaError_t.cudaSuccess:
            raise RuntimeError("Cuda Runtime Error: {}".format(err))
    else:
        raise RuntimeError("Unknown error type: {}".format(err))


def cuda_call(call):
    err, res = call[0], call[1:]
    check_cuda_err(err)
    if len(res) == 1:
        res = res[0]
    return res


class HostDeviceMem:
    def __init__(self, size: int, dtype: Optional[np.dtype] = None):
        dtype = dtype or np.dtype(np.uint8)
        nbytes = size * dtype.itemsize
        host_mem = cuda_call(cudart.cudaMallocHost(nbytes))
        pointer_type = ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype))
        self._host = np.ctypeslib.as_array(ctypes.cast(host_mem, pointer_type), (size,))
        self._device = cuda_call(cudart.cudaMalloc(nbytes))
        self._nbytes = nbytes

    @property
    def host(self) -> np.ndarray:
        return self._host

    @host.setter
    def host(self, data: Union[np.ndarray, bytes]):
        if isinstance(data, np.ndarray):
            if data.size > self.host.size:
                raise ValueError("Tried to fit an array of size {data.size} into host memory of size {self.host.size}")
            np.copyto(self.host[: data.size], data.flat, casting="safe")
        else:
            assert self.host.dtype == np.uint8
            self.host[: self.nbytes] = np.frombuffer(data, dtype=np.uint8)

    @property
    def device(self):
        return self._device

    @property
    def nbytes(self):
        return self._nbytes

    def __str__(self):
        return f"Host:\n{self.host}\nDevice:\n{self.device}\nSize:\n{self.nbytes}\n"

    def free(self):
        cuda_call(cudart.cudaFree(self.device))
        cuda_call(cudart.cudaFreeHost(self.host.ctypes.data))


def allocate_buffers(engine: trt.ICudaEngine, profile_idx: Optional[int] = None):
    inputs, outputs, bindings = [], [], []
    stream = cuda_call(cudart.cudaStreamCreate())
    tensor_names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    for binding in tensor_names:
        shape = (
            engine.get_tensor_shape(binding)
            if profile_idx is None
            else engine.get_tensor_profile_shape(binding, profile_idx)[-1]
        )
        shape_valid = np.all([s >= 0 for s in shape])
        if not shape_valid and profile_idx is None:
            raise ValueError(f"Binding {binding} has dynamic shape, but no profile was specified.")
        size = trt.volume(shape)
        trt_type = engine.get_tensor_dtype(binding)
        try:
            dtype = np.dtype(trt.nptype(trt_type))
            bindingMemory = HostDeviceMem(size, dtype)
        except TypeError:
            size = int(size * trt_type.itemsize)
            bindingMemory = HostDeviceMem(size)
        bindings.append(int(bindingMemory.device))
        if engine.get_tensor_mode(binding) == trt.TensorIOMode.INPUT:
            inputs.append(bindingMemory)
        else:
            outputs.append(bindingMemory)
    return inputs, outputs, bindings, stream


def do_inference(context, engine, bindings, inputs, outputs, stream):
    def execute_async_func():
        context.execute_async_v3(stream_handle=stream)

    num_io = engine.num_io_tensors
    for i in range(num_io):
        context.set_tensor_address(engine.get_tensor_name(i), bindings[i])
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    [cuda_call(cudart.cudaMemcpyAsync(inp.device, inp.host, inp.nbytes, kind, stream)) for inp in inputs]
    execute_async_func()
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    [cuda_call(cudart.cudaMemcpyAsync(out.host, out.device, out.nbytes, kind, stream)) for out in outputs]
    cuda_call(cudart.cudaStreamSynchronize(stream))
    return [out.host for out in outputs]


def make(path):
    r = np.random.default_rng(0)
    inits = []
    nodes = []

    def conv(x, ci, co, s, name, k=3, act=True):
        inits.append(
            numpy_helper.from_array(
                (r.standard_normal((co, ci, k, k)) / np.sqrt(ci * k * k)).astype(np.float32), name + "_w"
            )
        )
        inits.append(numpy_helper.from_array(r.standard_normal(co).astype(np.float32) * 0.1, name + "_b"))
        nodes.append(
            helper.make_node("Conv", [x, name + "_w", name + "_b"], [name], name, strides=[s, s], pads=[k // 2] * 4)
        )
        if not act:
            return name
        for s_, v in (("_g", np.ones(co)), ("_be", np.zeros(co)), ("_m", np.zeros(co)), ("_v", np.ones(co))):
            inits.append(numpy_helper.from_array(v.astype(np.float32), name + s_))
        nodes.append(
            helper.make_node(
                "BatchNormalization",
                [name, name + "_g", name + "_be", name + "_m", name + "_v"],
                [name + "_bn"],
                name + "_bn",
            )
        )
        nodes.append(helper.make_node("LeakyRelu", [name + "_bn"], [name + "_lrelu"], name + "_lrelu", alpha=0.1))
        return name + "_lrelu"

    x = "000_net"
    for i, (ci, co) in enumerate([(3, 16), (16, 32), (32, 64)]):
        x = conv(x, ci, co, 2, f"c{i}")
    a = x
    b = conv(a, 64, 64, 2, "c3")
    c = conv(b, 64, 64, 2, "c4")
    outs = [conv(c, 64, 255, 1, "082_convolutional", 1, False)]
    inits.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    nodes.append(
        helper.make_node(
            "Resize",
            [c, "", "scales"],
            ["up"],
            "up",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    )
    nodes.append(helper.make_node("Concat", ["up", b], ["cat"], "route", axis=1))
    outs += [
        conv("cat", 128, 255, 1, "094_convolutional", 1, False),
        conv(a, 64, 255, 1, "106_convolutional", 1, False),
    ]
    onnx.save(
        helper.make_model(
            helper.make_graph(
                nodes,
                "YOLOv3-608",
                [helper.make_tensor_value_info("000_net", 1, [1, 3, 160, 160])],
                [helper.make_tensor_value_info(o, 1, None) for o in outs],
                inits,
            ),
            opset_imports=[helper.make_opsetid("", 13)],
            ir_version=8,
        ),
        path,
    )


class PostprocessYOLO:  # noqa
    masks = [(6, 7, 8), (3, 4, 5), (0, 1, 2)]
    anchors = [(10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326)]

    def process(self, outs, thr=0.35, nms=0.5):
        bs, cs, ss = [], [], []
        for o, m in zip(outs, self.masks):
            o = np.transpose(o, [0, 2, 3, 1])
            h, w = o.shape[1:3]
            o = o.reshape(h, w, 3, 85)

            def sig(v):
                return 1 / (1 + np.exp(-v))

            conf, prob = sig(o[..., 4:5]), sig(o[..., 5:])
            an = np.array([self.anchors[k] for k in m]).reshape(1, 1, 3, 2)
            col = np.tile(np.arange(w), h).reshape(h, w)
            row = np.repeat(np.arange(h), w).reshape(h, w)
            xy = (sig(o[..., :2]) + np.stack([col, row], -1)[:, :, None]) / (w, h)
            wh = np.exp(o[..., 2:4]) * an / 160
            s = conf * prob
            c = s.argmax(-1)
            s = s.max(-1)
            pos = np.where(s >= thr)
            bs.append(np.concatenate([xy - wh / 2, wh], -1)[pos])
            cs.append(c[pos])
            ss.append(s[pos])
        bs, cs, ss = map(np.concatenate, (bs, cs, ss))
        keep = []
        order = ss.argsort()[::-1]
        while order.size:
            i = order[0]
            keep.append(i)
            x1, y1 = np.maximum(bs[i, :2], bs[order[1:], :2]).T
            x2, y2 = np.minimum(bs[i, :2] + bs[i, 2:], bs[order[1:], :2] + bs[order[1:], 2:]).T
            inter = np.maximum(0, x2 - x1) * np.maximum(0, y2 - y1)
            ar = bs[:, 2] * bs[:, 3]
            order = order[1:][inter / (ar[i] + ar[order[1:]] - inter) <= nms]
        return bs[keep], cs[keep], ss[keep]


TRT_LOGGER = trt.Logger()
make("yolov3.onnx")
with (
    trt.Builder(TRT_LOGGER) as builder,
    builder.create_network(0) as network,
    builder.create_builder_config() as config,
    trt.OnnxParser(network, TRT_LOGGER) as parser,
    trt.Runtime(TRT_LOGGER) as runtime,
):
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)
    with open("yolov3.onnx", "rb") as model:
        if not parser.parse(model.read()):
            for e in range(parser.num_errors):
                print(parser.get_error(e))
            raise SystemExit(1)
    network.get_input(0).shape = [1, 3, 160, 160]
    plan = builder.build_serialized_network(network, config)
    engine = runtime.deserialize_cuda_engine(plan)
    with open("yolov3.trt", "wb") as f:
        f.write(plan)
with open("yolov3.trt", "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
    engine = runtime.deserialize_cuda_engine(f.read())
output_shapes = [(1, 255, 5, 5), (1, 255, 10, 10), (1, 255, 20, 20)]
with engine.create_execution_context() as context:
    inputs, outputs, bindings, stream = allocate_buffers(engine)
    image = np.random.default_rng(3).random((1, 3, 160, 160), np.float32)
    inputs[0].host = image
    trt_outputs = do_inference(context, engine=engine, bindings=bindings, inputs=inputs, outputs=outputs, stream=stream)
trt_outputs = [o.reshape(s) for o, s in zip(trt_outputs, output_shapes)]
boxes, classes, scores = PostprocessYOLO().process(trt_outputs)
want = PostprocessYOLO().process(ort.InferenceSession("yolov3.onnx").run(None, {"000_net": image}))
assert len(boxes) == len(want[0]) > 0, (len(boxes), len(want[0]))
np.testing.assert_allclose(boxes, want[0], rtol=1e-3, atol=1e-3)
assert (classes == want[1]).all()
for m in inputs + outputs:
    m.free()
cuda_call(cudart.cudaStreamDestroy(stream))
print("PASSED", len(boxes))
