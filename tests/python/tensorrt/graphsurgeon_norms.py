"""In the manner of samples that rewrite a model first: the norms that an exporter spelled out become one node by
onnx-graphsurgeon, and Upsample Resize; then a profile, a stream, CUDA Python's memory."""

import sys

import numpy as np
import onnx_graphsurgeon as gs
import onnxruntime as ort
import tensorrt as trt
from cuda import cudart

import onnx

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)


def cuda_call(call):
    err, res = call[0], call[1:]
    if isinstance(err, cudart.cudaError_t) and err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError("Cuda Error: {}".format(err))
    return res[0] if len(res) == 1 else res


def make(path):
    rng = np.random.default_rng(0)
    x = gs.Variable("input", np.float32, ("N", 3, 32, 64))
    w = gs.Constant("w", rng.standard_normal((16, 3, 3, 3)).astype(np.float32) * 0.2)
    c = gs.Variable("c")
    nodes = [
        gs.Node(
            "Pad",
            inputs=[x, gs.Constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))],
            outputs=[gs.Variable("pd")],
            attrs={"mode": "reflect"},
        )
    ]
    nodes.append(gs.Node("Conv", "conv", inputs=[nodes[-1].outputs[0], w], outputs=[c]))
    rs = gs.Variable("rs")
    inn = gs.Variable("inn")
    back = gs.Variable("back")
    sh = gs.Variable("sh")
    mu = gs.Variable("mu")
    ad = gs.Variable("ad")
    el = gs.Variable("el")
    nodes += [
        gs.Node("Reshape", "Reshape_0", inputs=[c, gs.Constant("s4", np.array([0, 4, -1], np.int64))], outputs=[rs]),
        gs.Node(
            "InstanceNormalization",
            "in_0",
            attrs={"epsilon": 1e-5},
            inputs=[rs, gs.Constant("ones", np.ones(4, np.float32)), gs.Constant("zeros", np.zeros(4, np.float32))],
            outputs=[inn],
        ),
        gs.Node("Shape", inputs=[c], outputs=[sh]),
        gs.Node("Reshape", "Reshape_1", inputs=[inn, sh], outputs=[back]),
        gs.Node(
            "Mul",
            "mul_0",
            inputs=[back, gs.Constant("gamma", rng.standard_normal((16, 1, 1)).astype(np.float32))],
            outputs=[mu],
        ),
        gs.Node(
            "Add",
            "add_0",
            inputs=[mu, gs.Constant("beta", rng.standard_normal((16, 1, 1)).astype(np.float32))],
            outputs=[ad],
        ),
        gs.Node("Elu", inputs=[ad], outputs=[el]),
    ]
    up = gs.Variable("up")
    nodes.append(
        gs.Node(
            "Upsample",
            "ups",
            attrs={"mode": "nearest"},
            inputs=[el, gs.Constant("sc", np.array([1, 1, 2, 2], np.float32))],
            outputs=[up],
        )
    )
    up.dtype = np.float32
    up.shape = ("N", 16, 64, 128)
    g = gs.Graph(nodes=nodes, inputs=[x], outputs=[up], opset=9)
    # opset-9 Pad has attributes
    nodes[0].attrs["pads"] = [0, 0, 1, 1, 0, 0, 1, 1]
    nodes[0].inputs = [x]
    m = gs.export_onnx(g.cleanup().toposort())
    m.ir_version = 8
    onnx.save(m, path)


make("packnet.onnx")
graph = gs.import_onnx(onnx.load("packnet.onnx"))
for node in graph.nodes:
    if node.op == "InstanceNormalization":
        add = node.o().o().o()
        assert add.op == "Add", add.op
        gamma = gs.Constant("g", next(n for n in graph.nodes if n.name == "mul_0").inputs[1].values.reshape(-1))
        beta = gs.Constant("b", add.inputs[1].values.reshape(-1))
        conv_out = node.i().inputs[0]
        conv_out.outputs.clear()
        graph.layer(
            op="GroupNormalization",
            name="gn",
            attrs={"epsilon": 1e-5, "num_groups": 4},
            inputs=[conv_out, gamma, beta],
            outputs=[add.outputs[0]],
        )
        for n in graph.nodes:
            if n.name == "add_0":
                n.outputs.clear()
graph.opset = 21
graph.import_domains = None
for n in graph.nodes:
    if n.op == "Upsample":
        n.op = "Resize"
        n.inputs = [n.inputs[0], gs.Variable(""), n.inputs[1]]
        n.attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if n.op == "Pad":
        n.inputs = [n.inputs[0], gs.Constant("pads", np.array(n.attrs.pop("pads"), np.int64))]
graph.cleanup().toposort()
m = gs.export_onnx(graph)
m.ir_version = 10
onnx.save(m, "packnet_gs.onnx")

builder = trt.Builder(TRT_LOGGER)
network = builder.create_network(0)
parser = trt.OnnxParser(network, TRT_LOGGER)
config = builder.create_builder_config()
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
with open("packnet_gs.onnx", "rb") as f:
    if not parser.parse(f.read()):
        for e in range(parser.num_errors):
            print(parser.get_error(e))
        sys.exit(1)
profile = builder.create_optimization_profile()
profile.set_shape("input", (1, 3, 32, 64), (2, 3, 32, 64), (4, 3, 32, 64))
config.add_optimization_profile(profile)
engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(builder.build_serialized_network(network, config))
context = engine.create_execution_context()
x = np.random.default_rng(1).standard_normal((2, 3, 32, 64)).astype(np.float32)
assert context.set_input_shape("input", x.shape)
out = np.empty(tuple(context.get_tensor_shape(network.get_output(0).name)), np.float32)
d_in, d_out = cuda_call(cudart.cudaMalloc(x.nbytes)), cuda_call(cudart.cudaMalloc(out.nbytes))
stream = cuda_call(cudart.cudaStreamCreate())
context.set_tensor_address("input", d_in)
context.set_tensor_address(network.get_output(0).name, d_out)
cuda_call(cudart.cudaMemcpyAsync(d_in, x.ctypes.data, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream))
assert context.execute_async_v3(stream)
cuda_call(
    cudart.cudaMemcpyAsync(out.ctypes.data, d_out, out.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream)
)
cuda_call(cudart.cudaStreamSynchronize(stream))
want = ort.InferenceSession("packnet.onnx").run(None, {"input": x})[0]
np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-4)
attr = cuda_call(cudart.cudaPointerGetAttributes(d_in))
assert attr.type == cudart.cudaMemoryType.cudaMemoryTypeDevice, attr.type
print("PASSED")
