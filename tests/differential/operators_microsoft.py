"""How to use fused operators of com.microsoft, and others of the standard that are like them. See table.py."""

import numpy as np
from graph_builder import ELEMENT_TYPE, Rejected
from operators_contraction import image, window
from table import operator

from onnx import helper

MICROSOFT = "com.microsoft"
ACTIVATIONS = ({"activation": "Relu"}, {"activation": "Tanh"}, {"activation": "Sigmoid"},
               {"activation": "LeakyRelu", "activation_params": [0.1]},
               {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]})  # fmt: skip


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(b, op):
    x = image(b, "Conv", types=("f32",), ranks=(4,))
    if x.is_empty():
        raise Rejected("no elements")
    kernel, outputs = b.pick(([1, 1], [3, 3])), b.number(1, 6)
    inputs = [x, b.fresh("f32", [outputs, x.dims[1], *kernel], -1, 1, constant=1)]
    if b.chance(0.7):
        inputs.append(b.fresh("f32", [outputs], constant=1))
    b.emit(op, inputs, domain=MICROSOFT, **window(b, x, kernel), **b.pick(ACTIVATIONS))


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(b, op):
    x = b.value(("f32",), ranks=(2,), where=lambda v: v.dims[1] is not None and not v.is_empty())
    n = b.number(1, 8)
    inputs = [x, b.fresh("f32", [x.dims[1], n], constant=0.9)]
    if b.chance(0.6):
        inputs.append(b.fresh("f32", [n], constant=0.9))
    b.emit(op, inputs, domain=MICROSOFT, **b.pick(ACTIVATIONS[:3]))


@operator("TransposeMatMul", domain=MICROSOFT)
def transpose_matmul(b, op):
    x = b.value(("f32",), ranks=(2, 3), where=lambda v: None not in v.dims and not v.is_empty())
    y = b.fresh("f32", [*x.dims[:-2], b.number(1, 6), x.dims[-1]])
    b.emit(op, [x, y], domain=MICROSOFT, transB=1, alpha=b.pick((None, 0.5)))


def hidden(b, heads, size):
    width = heads * size
    return b.value(("f32",), ranks=(3,), dims=lambda: [b.dim() or 1, b.dim() or 1, width],
                   where=lambda v: v.dims[2] == width and None not in v.dims and not v.is_empty()
                   and v.within(-20, 20))  # fmt: skip


@operator("Attention", domain=MICROSOFT)
def microsoft_attention(b, op):
    heads, size = b.pick((1, 2, 4)), b.pick((2, 4, 8))
    x = hidden(b, heads, size)
    width = heads * size
    inputs = [x, b.fresh("f32", [width, 3 * width], -0.5, 0.5, constant=1), b.fresh("f32", [3 * width], constant=1)]
    b.emit(op, inputs, domain=MICROSOFT, num_heads=heads, unidirectional=b.pick((None, 0, 1)))


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(b, op):
    heads, size = b.pick((1, 2, 4)), b.pick((2, 4, 8))
    x = hidden(b, heads, size)
    memory = [x.dims[0], b.number(1, 5), heads * size]
    inputs = [x, b.fresh("f32", memory), b.fresh("f32", memory)]
    if b.chance(0.4):
        inputs.append(b.fresh("f32", [3 * heads * size], constant=0.9))
    b.emit(op, inputs, domain=MICROSOFT, num_heads=heads, scale=b.pick((None, 0.25)))


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(b, op):
    heads, size, batch, length = b.pick((2, 4)), 8, b.number(1, 2), b.number(2, 5)
    kv_heads = b.pick((1, 2))
    query = b.fresh("f32", [batch, length, heads * size], constant=0.1)
    key, value = (b.fresh("f32", [batch, length, kv_heads * size], constant=0.1) for _ in range(2))
    lengths = b.constant(np.full(batch, length - 1, np.int32))
    total = b.constant(np.array(length, np.int32))
    b.emit(op, [query, key, value, None, None, lengths, total], outputs=3, domain=MICROSOFT, num_heads=heads,
           kv_num_heads=kv_heads, scale=b.pick((None, 0.25)))  # fmt: skip


@operator("RotaryEmbedding", domain=MICROSOFT)
def microsoft_rotary(b, op):
    heads, size = b.pick((1, 2)), b.pick((4, 8))
    x = hidden(b, heads, size)
    if any(a.shape[1] > 9 for a in x.arrays):
        raise Rejected("too long")
    caches = [b.fresh("f32", [18, size // 2], constant=0.9) for _ in range(2)]
    b.emit(op, [x, b.ints([b.number(0, 8)]), *caches], domain=MICROSOFT, interleaved=b.pick((None, 0, 1)),
           num_heads=heads, rotary_embedding_dim=0)  # fmt: skip


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(b, op):
    batch, length, width = b.dim() or 1, b.number(1, 6), b.pick((4, 8))
    ids = b.fresh("i32", [batch, length], 0, 10, constant=0)
    segments = b.fresh("i32", [batch, length], 0, 1, constant=0) if b.chance(0.6) else None
    tables = [b.fresh("f32", [rows, width], constant=1) for rows in (11, 6)]
    types = b.fresh("f32", [2, width], constant=1) if segments else None
    b.emit(op, [ids, segments, *tables, types, b.fresh("f32", [width], 0.5, 2, constant=1),
                b.fresh("f32", [width], constant=1)], outputs=[True, False], domain=MICROSOFT, epsilon=1e-3)  # fmt: skip


@operator("CDist", domain=MICROSOFT)
def cdist(b, op):
    dtype, width = b.pick(("f32", "f64")), b.number(1, 5)
    x, y = (b.fresh(dtype, [b.number(1, 6), width], constant=0.2) for _ in range(2))
    b.emit(op, [x, y], domain=MICROSOFT, metric=b.pick(("sqeuclidean", "euclidean")))


@operator("ExpandDims", domain=MICROSOFT)
def expand_dims(b, op):
    x = b.value(("f32", "i64"), ranks=(1, 2, 3))
    axis = b.constant(np.array(b.number(0, x.rank), np.int32))
    b.emit(op, [x, axis], domain=MICROSOFT, exact=True)


@operator("Trilu", domain=MICROSOFT)
def microsoft_trilu(b, op):
    b.emit(op, [b.value(("f32", "i64"), ranks=(2, 3))], domain=MICROSOFT, exact=True, upper=b.pick((None, 0, 1)))


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(b, op):
    # The step is a power of two when the range is 255 times one: nothing lies between two steps.
    k, n = b.number(2, 8), b.number(1, 6)
    array = b.rng.integers(-128, 128, (b.number(1, 4), k)).astype(np.float32) / 16
    array[0, :2] = (-128 / 16, 127 / 16)
    x = b.given(lambda s: array, list(array.shape))
    # Without VNNI ONNX Runtime adds two products in 16 bits, where more than 2 * 255 * 64 saturates.
    weights = b.constant(b.rng.integers(-64, 65, (k, n)).astype(np.int8))
    inputs = [x, weights, b.constant(b.rng.choice((0.125, 0.25), b.pick(([], [n]))).astype(np.float32))]
    b.emit(op, inputs, domain=MICROSOFT)


@operator("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(b, op):
    x = b.value(("u8", "i8"), ranks=(4,), where=lambda v: not v.is_empty() and v.min_size(1) > 1 and v.min_size(2) > 1)
    b.emit(op, [x], domain=MICROSOFT, exact=True, kernel_shape=[2, 2], strides=b.pick(([1, 1], [2, 2])))


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(b, op):
    x = b.value(("u8", "i8"), ranks=(1, 2, 3))
    y = b.partner(x)
    one, zero = b.constant(np.float32(0.5)), b.constant(np.zeros([], x.arrays[0].dtype))
    values = b.emit(op, [b.fresh("bool", b.partner_dims(x)), x, one, zero, y, one, zero, one, zero], domain=MICROSOFT,
                    exact=True)  # fmt: skip
    values.slack = 1
    b.hide(values)


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(b, op):
    x = b.value(("f32",), ranks=(2, 3), where=lambda v: isinstance(v.dims[-1], int) and not v.is_empty())
    b.emit(op, [x, b.fresh("f32", [x.dims[-1]], 0.5, 2, constant=1)], axis=-1, epsilon=b.pick((1e-5, 1e-3)))


@operator("DeformConv")
def deform_conv(b, op):
    n, c, size, outputs = b.number(1, 2), b.number(1, 3), b.number(4, 6), b.number(1, 3)
    kernel = b.pick((1, 2, 3))
    out = size - kernel + 1
    x = b.fresh("f32", [n, c, size, size], constant=0.1)
    weights = b.fresh("f32", [outputs, c, kernel, kernel], constant=1)
    offset = b.fresh("f32", [n, 2 * kernel * kernel, out, out], -1.4, 1.4, constant=0.1)
    inputs = [x, weights, offset]
    if b.chance(0.5):
        inputs.append(b.fresh("f32", [outputs], constant=1))
        if b.chance(0.5):
            inputs.append(b.fresh("f32", [n, kernel * kernel, out, out], 0, 1))
    b.emit(op, inputs, kernel_shape=[kernel, kernel])


@operator("MaxRoiPool")
def max_roi_pool(b, op):
    x = image(b, op, types=("f32",), ranks=(4,))
    if x.is_empty():
        raise Rejected("no elements")
    count = b.number(1, 3)
    corners = b.rng.integers(0, 3, (count, 2))
    boxes = np.concatenate([b.rng.integers(0, x.min_size(0), (count, 1)), corners,
                            corners + b.rng.integers(0, 3, (count, 2))], 1)  # fmt: skip
    b.emit(op, [x, b.constant(boxes.astype(np.float32))], exact=True, pooled_shape=[b.number(1, 3), b.number(1, 3)])


@operator("Scan")
def scan(b, op):
    if b.opset < 9 or b.parent:
        raise Rejected("control flow")
    x = b.value(("f32",), ranks=(2, 3), where=lambda v: not v.is_empty() and None not in v.dims and v.within(-20, 20))
    state = b.fresh("f32", x.dims[1:])
    names = [b.name() for _ in range(6)]
    went_in, element, mixed, went_out, scanned, _ = names
    nodes = [
        helper.make_node(b.pick(("Add", "Mul")), [went_in, element], [mixed]),
        helper.make_node("Tanh", [mixed], [went_out]),
        helper.make_node(b.pick(("Exp", "Neg")), [went_out], [scanned]),
    ]

    def info(name):
        return helper.make_tensor_value_info(name, ELEMENT_TYPE["f32"], [None] * (x.rank - 1))

    body = helper.make_graph(nodes, "body", [info(went_in), info(element)], [info(went_out), info(scanned)])
    directions = {"scan_input_directions": [b.number(0, 1)], "scan_output_directions": [b.number(0, 1)]}
    made = b.emit(op, [state, x], outputs=2, body=body, num_scan_inputs=1, **directions)
    for v in made:
        v.depth += 3 * x.shape[0]
