"""A plugin of TensorRT 10's interface V3 in the manner of its samples: circular padding, from an ONNX node and by
add_plugin_v3(), with two tactics and a creator in the registry."""

import ctypes

import numpy as np
import tensorrt as trt
from cuda import cudart

from onnx import helper

L = trt.Logger(trt.Logger.WARNING)


def view(addr, desc):
    n = int(np.prod(tuple(desc.dims)))
    return np.ctypeslib.as_array(ctypes.cast(addr, ctypes.POINTER(ctypes.c_float)), (n,)).reshape(tuple(desc.dims))


class CircPad(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    def __init__(self, fc=None, phase=None):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuild.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.pads = []
        self.num_outputs = 1
        self.plugin_namespace = ""
        self.plugin_name = "CircPadPlugin"
        self.plugin_version = "1"
        self.tactic = None
        if fc is not None:
            assert fc[0].name == "pads"
            self.pads = np.asarray(fc[0].data).astype(np.int32)
        if phase is not None:
            self.phase = phase

    def get_capability_interface(self, type):
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        out = trt.DimsExprs(inputs[0])
        for i in range(len(self.pads) // 2):
            k = len(out) - i - 1
            out[k] = exprBuilder.operation(
                trt.DimensionOperation.SUM,
                inputs[0][k],
                exprBuilder.constant(int(self.pads[2 * i] + self.pads[2 * i + 1])),
            )
        return [out]

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection(
            [trt.PluginField("pads", np.asarray(self.pads, np.int32), trt.PluginFieldType.INT32)]
        )

    def configure_plugin(self, inp, out):
        pass

    def on_shape_change(self, inp, out):
        d = inp[0].dims
        self.x_shape = tuple(d)

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].desc.format == trt.TensorFormat.LINEAR and in_out[pos].desc.type == trt.DataType.FLOAT

    def get_valid_tactics(self):
        return [1, 2]

    def set_tactic(self, tactic):
        self.tactic = tactic

    def get_workspace_size(self, inp, out):
        return 0

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        x, y = view(inputs[0], input_desc[0]), view(outputs[0], output_desc[0])
        p = [(0, 0)] * x.ndim
        for i in range(len(self.pads) // 2):
            p[x.ndim - i - 1] = (int(self.pads[2 * i]), int(self.pads[2 * i + 1]))
        y[...] = np.pad(x, p, "wrap")

    def attach_to_context(self, context):
        return self.clone()

    def clone(self):
        c = CircPad()
        c.__dict__.update(self.__dict__)
        return c


class Creator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name = "CircPadPlugin"
        self.plugin_namespace = ""
        self.plugin_version = "1"
        self.field_names = trt.PluginFieldCollection([trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)])

    def create_plugin(self, name, fc, phase):
        return CircPad(fc, phase)


reg = trt.get_plugin_registry()
assert reg.register_creator(Creator(), "")
print(len(reg.all_creators) if hasattr(reg, "all_creators") else len(reg.plugin_creator_list))
x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
pads = [1, 2, 1, 1]
want = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 2)], "wrap")


def run(n, b):
    e = trt.Runtime(L).deserialize_cuda_engine(b.build_serialized_network(n, b.create_builder_config()))
    ctx = e.create_execution_context()
    o = np.zeros(want.shape, np.float32)
    d = [cudart.cudaMalloc(q.nbytes)[1] for q in (x, o)]
    cudart.cudaMemcpy(d[0], x.ctypes.data, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice)
    nm = [e.get_tensor_name(i) for i in range(2)]
    for k, dd in zip(nm, d):
        ctx.set_tensor_address(k, dd)
    ctx.set_input_shape(nm[0], x.shape)
    assert ctx.execute_async_v3(0)
    cudart.cudaMemcpy(o.ctypes.data, d[1], o.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
    return o


b = trt.Builder(L)
n = b.create_network(0)
p = trt.OnnxParser(n, L)
g = helper.make_graph(
    [helper.make_node("CircPadPlugin", ["X"], ["Y"], "pad", pads=pads, plugin_version="1")],
    "g",
    [helper.make_tensor_value_info("X", 1, ["n", 3, 4, 5])],
    [helper.make_tensor_value_info("Y", 1, None)],
)
assert p.parse(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()), [
    str(p.get_error(i)) for i in range(p.num_errors)
]
assert n.get_layer(0).type == trt.LayerType.PLUGIN_V3, n.get_layer(0).type
assert (run(n, b) == want).all()
b = trt.Builder(L)
n = b.create_network(0)
i = n.add_input("X", trt.float32, x.shape)
cr = reg.get_creator("CircPadPlugin", "1", "")
pl = cr.create_plugin(
    "pad",
    trt.PluginFieldCollection([trt.PluginField("pads", np.array(pads, np.int32), trt.PluginFieldType.INT32)]),
    trt.TensorRTPhase.BUILD,
)
layer = n.add_plugin_v3([i], [], pl)
layer.get_output(0).name = "Y"
n.mark_output(layer.get_output(0))
assert layer.plugin is pl
assert (run(n, b) == want).all()
assert reg.deregister_creator(cr)
print("PASSED")
