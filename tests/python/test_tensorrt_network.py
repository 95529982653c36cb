"""The layers of TensorRT's network API, each against NumPy."""

import math

import numpy as np
import pytest
from test_tensorrt import Heard, trt

RANDOM = np.random.default_rng(7)


def f32(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def run(add, *arrays, shapes=None):
    """The results of a network: add(network, *inputs) gives its outputs, or a layer."""
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    kinds = {np.float32: trt.float32, np.int32: trt.int32, np.int64: trt.int64, np.bool_: trt.bool}
    inputs = [
        network.add_input(f"x{k}", kinds[array.dtype.type], (shapes or {}).get(k, array.shape))
        for k, array in enumerate(arrays)
    ]
    made = add(network, *inputs)
    tensors = made if isinstance(made, (list, tuple)) else [made.get_output(k) for k in range(made.num_outputs)]
    inferred = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
    for tensor in tensors:
        network.mark_output(tensor)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    assert engine is not None, logger.errors()
    context = engine.create_execution_context()
    for tensor, array in zip(inputs, arrays):
        context.set_input_shape(tensor.name, array.shape)
    results, allocators = [], {}
    for k, (tensor, (shape, dtype)) in enumerate(zip(tensors, inferred)):
        got = tuple(context.get_tensor_shape(tensor.name))
        assert all(-1 in (a, b) or a == b for a, b in zip(shape, got)) and len(shape) == len(got), (shape, got)
        assert dtype == engine.get_tensor_dtype(tensor.name)
        results.append(np.empty([max(size, 0) for size in got], trt.nptype(dtype)))
        if -1 in got:  # only running tells
            allocators[k] = Memory()
            context.set_output_allocator(tensor.name, allocators[k])
    held = [np.ascontiguousarray(array) for array in arrays]
    assert context.execute_v2([a.ctypes.data for a in (*held, *results)]), logger.errors()
    for k, memory in allocators.items():
        results[k] = memory.array(results[k].dtype)
    return results[0] if len(results) == 1 else results


class Memory(trt.IOutputAllocator if trt else object):
    """Keeps an output whose size only running tells."""

    def __init__(self):
        trt.IOutputAllocator.__init__(self)

    def reallocate_output(self, tensor_name, memory, size, alignment):
        self.bytes = np.empty(size, np.uint8)
        return self.bytes.ctypes.data

    def notify_shape(self, tensor_name, shape):
        self.shape = tuple(shape)

    def array(self, dtype):
        size = int(np.prod(self.shape)) * dtype.itemsize
        return self.bytes[:size].view(dtype).reshape(self.shape)


def close(got, want, tolerance=1e-5):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def convolved(x, w, strides, pads, dilations, groups):
    """A convolution of two axes, by its definition."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))).astype(np.float64)
    kh, kw = ((k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations))
    out = np.zeros((x.shape[0], w.shape[0], (x.shape[2] - kh) // strides[0] + 1, (x.shape[3] - kw) // strides[1] + 1))
    per = w.shape[0] // groups
    for n, o, i, j in np.ndindex(*out.shape):
        c = o // per * w.shape[1]
        y, z = i * strides[0], j * strides[1]
        window = x[n, c : c + w.shape[1], y : y + kh : dilations[0], z : z + kw : dilations[1]]
        out[n, o, i, j] = np.sum(window * w[o])
    return out


def test_convolution_takes_its_properties():
    x, w, b = f32(2, 4, 9, 8), f32(6, 2, 3, 2), f32(6)

    def add(network, x):
        layer = network.add_convolution_nd(x, 6, (3, 2), trt.Weights(w), b)
        layer.stride_nd, layer.dilation_nd, layer.num_groups = (2, 1), (1, 2), 2
        layer.pre_padding, layer.post_padding = (1, 0), (0, 1)
        assert layer.get_output(0).shape == (2, 6, 4, 7)
        return layer

    close(run(add, x), convolved(x, w, (2, 1), (1, 0, 0, 1), (1, 2), 2) + b[:, None, None], 1e-4)


def test_convolution_without_a_bias_and_with_computed_weights():
    x, w = f32(1, 3, 5, 5), f32(4, 3, 3, 3)

    def add(network, x, w):
        layer = network.add_convolution_nd(x, 4, (3, 3), trt.Weights(), trt.Weights())
        layer.set_input(1, w)
        layer.padding_nd = (1, 1)
        return layer

    close(run(add, x, w), convolved(x, w, (1, 1), (1, 1, 1, 1), (1, 1), 1), 1e-4)


def test_deconvolution_is_the_transpose_of_a_convolution():
    x, w = f32(1, 4, 3, 4), f32(4, 6, 2, 2)
    got = run(lambda network, x: _strided(network.add_deconvolution_nd(x, 6, (2, 2), w)), x)
    want = np.einsum("ncij,cokl->noikjl", x, w).reshape(1, 6, 6, 8)
    close(got, want, 1e-4)


def _strided(layer):
    layer.stride_nd = (2, 2)
    return layer


@pytest.mark.parametrize("kind", ["MAX", "AVERAGE", "MAX_AVERAGE_BLEND"])
def test_poolings(kind):
    x = f32(1, 2, 6, 6)

    def add(network, x):
        layer = network.add_pooling_nd(x, trt.PoolingType[kind], (2, 2))
        layer.stride_nd, layer.blend_factor = (2, 2), 0.25
        return layer

    windows = x.reshape(1, 2, 3, 2, 3, 2)
    most, mean = windows.max((3, 5)), windows.mean((3, 5))
    close(run(add, x), {"MAX": most, "AVERAGE": mean, "MAX_AVERAGE_BLEND": 0.75 * most + 0.25 * mean}[kind])


def test_pooling_rounds_up_and_counts_the_padding():
    x = f32(1, 1, 5, 5)

    def add(network, x):
        layer = network.add_pooling_nd(x, trt.PoolingType.AVERAGE, (2, 2))
        layer.stride_nd, layer.padding_nd = (2, 2), (1, 1)
        layer.average_count_excludes_padding = False
        return layer

    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[:, :, :6, :6]
    close(run(add, x), padded.reshape(1, 1, 3, 2, 3, 2).mean((3, 5)))


erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "RELU": lambda x, a, b: np.maximum(x, 0),
    "SIGMOID": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "TANH": lambda x, a, b: np.tanh(x),
    "LEAKY_RELU": lambda x, a, b: np.where(x < 0, a * x, x),
    "ELU": lambda x, a, b: np.where(x < 0, a * (np.exp(x) - 1), x),
    "SELU": lambda x, a, b: b * np.where(x > 0, x, a * np.exp(x) - a),
    "SOFTSIGN": lambda x, a, b: x / (1 + np.abs(x)),
    "SOFTPLUS": lambda x, a, b: a * np.log(np.exp(b * x) + 1),
    "CLIP": lambda x, a, b: np.clip(x, a, b),
    "HARD_SIGMOID": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "SCALED_TANH": lambda x, a, b: a * np.tanh(b * x),
    "THRESHOLDED_RELU": lambda x, a, b: np.where(x > a, x, 0),
    "GELU_ERF": lambda x, a, b: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "GELU_TANH": lambda x, a, b: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("kind", sorted(ACTIVATIONS))
def test_activations(kind):
    x = f32(3, 17)

    def add(network, x):
        layer = network.add_activation(x, trt.ActivationType[kind])
        layer.alpha, layer.beta = 0.3, 0.7
        return layer

    assert set(ACTIVATIONS) == set(trt.ActivationType.__members__)
    close(run(add, x), ACTIVATIONS[kind](x.astype(np.float64), 0.3, 0.7))


ELEMENTWISE = {
    "SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum, "SUB": np.subtract, "DIV": np.divide,
    "POW": np.power, "FLOOR_DIV": np.floor_divide, "EQUAL": np.equal, "GREATER": np.greater, "LESS": np.less,
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(ELEMENTWISE))
def test_elementwise(kind):
    a, b = np.abs(f32(2, 3, 5)) + 0.5, np.abs(f32(1, 3, 1)) + 0.5
    close(run(lambda n, a, b: n.add_elementwise(a, b, trt.ElementWiseOperation[kind]), a, b), ELEMENTWISE[kind](a, b))


def test_elementwise_of_integers_and_booleans():
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    got = run(lambda n, a, b: n.add_elementwise(a, b, trt.ElementWiseOperation.FLOOR_DIV), a, b)
    np.testing.assert_array_equal(got, a // b)
    p, q = np.array([True, True, False]), np.array([True, False, False])
    for kind, function in (("AND", np.logical_and), ("OR", np.logical_or), ("XOR", np.logical_xor)):
        got = run(lambda n, a, b: n.add_elementwise(a, b, trt.ElementWiseOperation[kind]), p, q)
        np.testing.assert_array_equal(got, function(p, q))


UNARY = {
    "EXP": np.exp, "LOG": np.log, "SQRT": np.sqrt, "RECIP": np.reciprocal, "ABS": np.abs, "NEG": np.negative,
    "SIN": np.sin, "COS": np.cos, "TAN": np.tan, "SINH": np.sinh, "COSH": np.cosh, "ASIN": np.arcsin,
    "ACOS": np.arccos, "ATAN": np.arctan, "ASINH": np.arcsinh, "ACOSH": np.arccosh,
    "ATANH": np.arctanh, "CEIL": np.ceil, "FLOOR": np.floor, "ERF": erf, "SIGN": np.sign, "ROUND": np.round,
    "ISINF": np.isinf, "ISNAN": np.isnan, "NOT": np.logical_not,
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(UNARY))
def test_unary(kind):
    assert set(UNARY) == set(trt.UnaryOperation.__members__)
    x = np.random.default_rng(3).uniform(0.1, 0.9, (4, 9)).astype(np.float32)
    if kind == "NOT":
        x = x > 0.5
    elif kind in ("ISINF", "ISNAN"):
        x[1, 1:4] = np.inf, -np.inf, np.nan
    elif kind == "ACOSH":
        x += 1

    def add(network, x):
        if kind == "ACOSH":  # of what verification feeds, too
            x = network.add_unary(x, trt.UnaryOperation.ABS).get_output(0)
            one = network.add_constant((1, 1), np.ones(1, np.float32)).get_output(0)
            x = network.add_elementwise(x, one, trt.ElementWiseOperation.MAX).get_output(0)
        return network.add_unary(x, trt.UnaryOperation[kind])

    close(run(add, x), UNARY[kind](x), 2e-5)


@pytest.mark.parametrize("kind", ["SUM", "PROD", "MAX", "MIN", "AVG"])
def test_reductions(kind):
    x = f32(2, 3, 4)
    function = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min, "AVG": np.mean}[kind]
    add = trt.ReduceOperation[kind]
    close(run(lambda n, x: n.add_reduce(x, add, (1 << 0) | (1 << 2), True), x), function(x, (0, 2), keepdims=True))
    close(run(lambda n, x: n.add_reduce(x, add, 1 << 1, False), x), function(x, 1))


def test_softmax_along_an_axis():
    x = f32(2, 3, 4)

    def add(network, x):
        layer = network.add_softmax(x)
        layer.axes = 1 << 2
        return layer

    powers = np.exp(x)
    close(run(add, x), powers / powers.sum(2, keepdims=True))


@pytest.mark.parametrize("op0", ["NONE", "TRANSPOSE"])
@pytest.mark.parametrize("op1", ["NONE", "TRANSPOSE"])
def test_products(op0, op1):
    a, b = f32(2, 3, 4), f32(2, 4, 5)

    def given(array, op):
        return np.ascontiguousarray(array.swapaxes(1, 2)) if op == "TRANSPOSE" else array

    got = run(
        lambda n, a, b: n.add_matrix_multiply(a, trt.MatrixOperation[op0], b, trt.MatrixOperation[op1]),
        given(a, op0),
        given(b, op1),
    )
    close(got, a @ b, 1e-4)


def test_products_with_vectors():
    a, v = f32(3, 4), f32(4)
    none, vector = trt.MatrixOperation.NONE, trt.MatrixOperation.VECTOR
    close(run(lambda n, a, v: n.add_matrix_multiply(a, none, v, vector), a, v), a @ v, 1e-4)
    u = f32(3)
    close(run(lambda n, u, a: n.add_matrix_multiply(u, vector, a, none), u, a), u @ a, 1e-4)


def test_einsum():
    a, b = f32(2, 3, 4), f32(2, 4, 5)
    close(run(lambda n, a, b: n.add_einsum([a, b], "bij,bjk->bik"), a, b), np.einsum("bij,bjk->bik", a, b), 1e-4)


def test_shuffle_of_transposes_and_a_reshape():
    x = f32(2, 3, 4)

    def add(network, x):
        layer = network.add_shuffle(x)
        layer.first_transpose, layer.reshape_dims, layer.second_transpose = (1, 0, 2), (0, -1), (1, 0)
        return layer

    close(run(add, x), x.transpose(1, 0, 2).reshape(3, -1).T)


def test_shuffle_to_a_shape_that_is_computed():
    x = f32(2, 6)

    def add(network, x):
        shape = network.add_constant((2,), np.array([3, 4], np.int32)).get_output(0)
        layer = network.add_shuffle(x)
        layer.set_input(1, shape)
        return layer

    close(run(add, x), x.reshape(3, 4))


@pytest.mark.parametrize(
    "start, shape, stride", [((1, 0), (2, 3), (1, 2)), ((3, 4), (4, 3), (-1, -2)), ((0, 1), (4, 1), (1, 1))]
)
def test_slices(start, shape, stride):
    x = f32(4, 6)
    want = x[np.ix_(*([s + k * d for k in range(n)] for s, n, d in zip(start, shape, stride)))]
    close(run(lambda n, x: n.add_slice(x, start, shape, stride), x), want)


@pytest.mark.parametrize("mode", ["FILL", "CLAMP", "REFLECT", "WRAP"])
def test_slices_beyond_the_bounds(mode):
    x = f32(4, 5)

    def add(network, x):
        layer = network.add_slice(x, (-1, -2), (6, 8), (1, 1))
        layer.mode = trt.SampleMode[mode]
        return layer

    names = {"FILL": "constant", "CLAMP": "edge", "REFLECT": "reflect", "WRAP": "wrap"}
    close(run(add, x), np.pad(x, ((1, 1), (2, 1)), names[mode]))


@pytest.mark.parametrize("mode", ["FILL", "CLAMP", "REFLECT", "WRAP"])
@pytest.mark.parametrize("stride", [1, 2, -1])
def test_slices_beyond_bounds_that_only_running_tells(mode, stride):
    x = f32(4, 5)
    start = (-1, -2) if stride > 0 else (4, 6)

    def add(network, x):
        layer = network.add_slice(x, start, (5, 6), (stride, stride))
        layer.mode = trt.SampleMode[mode]
        return layer

    names = {"FILL": "constant", "CLAMP": "edge", "REFLECT": "reflect", "WRAP": "wrap"}
    padded = np.pad(x, 20, names[mode])
    rows, columns = ([20 + first + k * stride for k in range(n)] for first, n in zip(start, (5, 6)))
    close(run(add, x, shapes={0: (-1, -1)}), padded[np.ix_(rows, columns)])


def test_slices_that_repeat_elements():
    """Strides of 0 are how programs for TensorRT broadcast, also by a stride that is computed."""
    x = f32(3, 1)

    def fixed(network, x):
        return network.add_slice(x, (0, 0), (3, 4), (1, 0))

    close(run(fixed, x), np.repeat(x, 4, 1))

    def computed(network, x, shape, stride):
        layer = network.add_slice(x, (0, 0), (0, 0), (0, 0))
        layer.set_input(2, shape)
        layer.set_input(3, stride)
        return layer

    shape, stride = np.array([2, 5], np.int32), np.array([1, 0], np.int32)
    close(run(computed, x, shape, stride), np.repeat(x[:2], 5, 1))


def test_steps_along_several_axes():
    def add(network, start, step):
        layer = network.add_fill((2, 3), trt.FillOperation.LINSPACE)
        layer.set_input(1, start)
        layer.set_input(2, step)
        return layer

    got = run(add, np.array(5, np.float32), np.array([10, 2], np.float32))
    close(got, 5 + 10 * np.arange(2)[:, None] + 2 * np.arange(3))


def test_fully_connected():
    x, w, b = f32(2, 3, 2, 2), f32(5, 12), f32(5)
    got = run(lambda n, x: n.add_fully_connected(x, 5, w, trt.Weights(b)), x)
    close(got, (x.reshape(2, 12) @ w.T + b)[:, :, None, None], 1e-4)


def test_slices_of_a_computed_size():
    x = f32(4, 6)

    def add(network, x):
        layer = network.add_slice(x, (0, 1), (0, 0), (1, 1))
        layer.set_input(2, network.add_constant((2,), np.array([2, 3], np.int32)).get_output(0))
        return layer

    close(run(add, x), x[0:2, 1:4])


def test_concatenation_and_padding():
    a, b = f32(1, 2, 3, 3), f32(1, 4, 3, 3)

    def add(network, a, b):
        joined = network.add_concatenation([a, b])
        joined.axis = 1
        return network.add_padding_nd(joined.get_output(0), (1, 0), (0, 2))

    close(run(add, a, b), np.pad(np.concatenate([a, b], 1), ((0, 0), (0, 0), (1, 0), (0, 2))))


def test_gathers_and_scatters():
    x = f32(3, 4, 5)
    indices = np.array([2, 0], np.int32)
    close(run(lambda n, x, i: n.add_gather(x, i, 1), x, indices), x[:, indices])
    points = np.array([[0, 1], [2, 3]], np.int32)
    close(run(lambda n, x, i: n.add_gather_v2(x, i, trt.GatherMode.ND), x, points), x[[0, 2], [1, 3]])
    table, at = f32(3, 4), np.array([[1, 0, 2, 2]], np.int32)
    close(
        run(lambda n, x, i: n.add_gather_v2(x, i, trt.GatherMode.ELEMENT), table, at), np.take_along_axis(table, at, 0)
    )
    updates = f32(2, 5)
    want = x.copy()
    want[[0, 2], [1, 3]] = updates
    got = run(lambda n, x, i, u: n.add_scatter(x, i, u, trt.ScatterMode.ND), x, points.astype(np.int64), updates)
    close(got, want)


def test_topk_and_one_hot():
    x = f32(2, 9)
    values, indices = run(lambda n, x: n.add_topk(x, trt.TopKOperation.MIN, 3, 1 << 1), x)
    close(values, np.sort(x, 1)[:, :3])
    np.testing.assert_array_equal(indices, np.argsort(x, 1)[:, :3])
    assert indices.dtype == np.int32

    def add(network, i):
        values = network.add_constant((2,), np.array([0, 1], np.float32)).get_output(0)
        depth = network.add_constant((), np.array(4, np.int32)).get_output(0)
        return network.add_one_hot(i, values, depth, -1)

    close(run(add, np.array([1, 3], np.int32)), np.eye(4, dtype=np.float32)[[1, 3]])


def test_scales_by_channel_and_for_all():
    x = np.abs(f32(2, 3, 4, 4)) + 1
    scale, shift, power = np.abs(f32(3)) + 0.5, f32(3) ** 2, np.full(3, 2, np.float32)
    got = run(lambda n, x: n.add_scale(x, trt.ScaleMode.CHANNEL, shift, scale, power), x)
    close(got, (x * scale[:, None, None] + shift[:, None, None]) ** 2, 1e-4)
    got = run(lambda n, x: n.add_scale(x, trt.ScaleMode.UNIFORM, trt.Weights(), np.float32([3]), trt.Weights()), x)
    close(got, 3 * x)


def test_normalisations():
    x, scale, bias = f32(2, 4, 3, 3), f32(1, 4, 1, 1), f32(1, 4, 1, 1)

    def normalised(x, axes):
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)

    got = run(lambda n, x, s, b: n.add_normalization(x, s, b, (1 << 2) | (1 << 3)), x, scale, bias)
    close(got, normalised(x, (2, 3)) * scale + bias, 1e-4)

    def grouped(network, x, s, b):
        layer = network.add_normalization(x, s, b, (1 << 2) | (1 << 3))
        layer.num_groups = 2
        return layer

    want = normalised(x.reshape(2, 2, -1), 2).reshape(x.shape) * scale + bias
    close(run(grouped, x, scale, bias), want, 1e-4)


def test_lrn_and_prelu():
    x = f32(1, 5, 2, 2)
    squares = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    close(run(lambda n, x: n.add_lrn(x, 3, 0.1, 0.75, 2.0), x), x / (2 + 0.1 / 3 * sums) ** 0.75, 1e-4)
    slopes = f32(1, 5, 1, 1)
    close(run(lambda n, x, s: n.add_parametric_relu(x, s), x, slopes), np.where(x < 0, slopes * x, x))


def test_resizes():
    x = f32(1, 2, 3, 3)

    def nearest(network, x):
        layer = network.add_resize(x)
        layer.shape = (1, 2, 6, 6)
        return layer

    close(run(nearest, x), x.repeat(2, 2).repeat(2, 3))

    def linear(network, x):
        layer = network.add_resize(x)
        layer.scales, layer.resize_mode = (1, 1, 2, 2), trt.InterpolationMode.LINEAR
        layer.coordinate_transformation = trt.ResizeCoordinateTransformation.ALIGN_CORNERS
        return layer

    places = np.linspace(0, 2, 6)
    rows = np.array([[np.interp(places, range(3), x[0, c, i]) for i in range(3)] for c in range(2)])
    want = np.array([[np.interp(places, range(3), rows[c, :, j]) for j in range(6)] for c in range(2)])
    close(run(linear, x), want.transpose(0, 2, 1)[None], 1e-4)


def test_fills_selects_and_casts():
    def add(network, p, a):
        steps = network.add_fill((5,), trt.FillOperation.LINSPACE)
        steps.alpha, steps.beta = 1.0, 0.5
        return network.add_select(p, steps.get_output(0), a)

    p, a = np.array([True, False, True, False, True]), f32(5)
    close(run(add, p, a), np.where(p, 1 + 0.5 * np.arange(5), a))
    got = run(lambda n, x: n.add_cast(x, trt.int32), np.float32([1.7, -1.7]))
    np.testing.assert_array_equal(got, [1, -1])

    def random(network, x):
        layer = network.add_fill((4000,), trt.FillOperation.RANDOM_UNIFORM)
        layer.alpha, layer.beta = 2.0, 3.0
        return network.add_elementwise(layer.get_output(0), x, trt.ElementWiseOperation.SUM)

    got = run(random, np.zeros(1, np.float32))
    assert 2 <= got.min() and got.max() <= 3 and abs(got.mean() - 2.5) < 0.05


def test_quantised_steps():
    x = np.linspace(-2, 2, 41).astype(np.float32)

    def add(network, x):
        scale = network.add_constant((), np.float32(0.1)).get_output(0)
        steps = network.add_quantize(x, scale).get_output(0)
        assert steps.dtype == trt.int8
        return network.add_dequantize(steps, scale)

    close(run(add, x), np.round(x / np.float32(0.1)) * np.float32(0.1))


def test_shapes_and_sizes_that_are_dynamic():
    x = f32(3, 4)

    def add(network, x):
        assert x.shape == (-1, 4)
        return network.add_shape(x)

    got = run(add, x, shapes={0: (-1, 4)})
    np.testing.assert_array_equal(got, [3, 4])


def test_cumulative_sums_and_reversed_sequences():
    x = f32(3, 4)

    def add(network, x):
        axis = network.add_constant((), np.array(1, np.int32)).get_output(0)
        return network.add_cumulative(x, axis, trt.CumulativeOperation.SUM, False, False)

    close(run(add, x), np.cumsum(x, 1))
    lengths = np.array([2, 3, 1], np.int64)
    want = np.stack([np.concatenate([x[n - 1 :: -1, k][:n], x[n:, k]]) for k, n in enumerate(lengths)], 1)
    close(run(lambda n, x, m: n.add_reverse_sequence(x, m), x[:, :3].copy(), lengths), want[:, :3])


def test_boxes_that_no_better_one_overlaps():
    boxes = np.float32([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]]])
    scores = np.float32([[[0.9], [0.8], [0.7]]])

    def add(network, boxes, scores):
        layer = network.add_nms(boxes, scores, network.add_constant((), np.array(2, np.int32)).get_output(0))
        layer.set_input(3, network.add_constant((), np.float32(0.5)).get_output(0))
        return [layer.get_output(1)]

    assert run(add, boxes, scores) == 2


def test_names_and_misuse():
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (2, 3))
    assert network.add_input("x", trt.float32, (1,)) is None and "already" in logger.errors()[-1]
    layer = network.add_identity(x)
    layer.name = "copy"
    layer.get_output(0).name = "y"
    with pytest.raises(ValueError, match="there is a tensor 'x' already"):
        layer.get_output(0).name = "x"
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "no outputs" in logger.errors()[-1]
    network.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    assert list(engine) == ["x", "y"] and engine.name == "Unnamed Network 0"
    bad = network.add_matrix_multiply(x, trt.MatrixOperation.NONE, x, trt.MatrixOperation.NONE)
    network.mark_output(bad.get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "MatMul" in logger.errors()[-1] or "matmul" in logger.errors()[-1]
