"""An encoder like BEiT's as ONNX, with seeded weights and the relative position bias as PyTorch's exporter spells it.

Patches of 16 × 16, a class token, pre-norm layers whose attention adds a bias by relative position. Each layer makes its
table of positions anew: a grid out of Shape and Range, seven ScatterND for seven assignments to parts of it, Concat for
their indices, ReduceSum over both axes, and a Gather from the layer's biases, which are resized where an image is not of
the size that they were trained for. Nothing of this depends on the pixels.

  inputs   pixel_values f32 [batch, 3, height, width], both sizes multiples of 16
  outputs  hidden f32 [batch, 1 + height/16 · width/16, 192]
"""

import numpy as np
from minilm import GraphWriter

import onnx
from onnx import TensorProto, helper, numpy_helper

PATCH, WIDTH, HEADS, TRAINED = 16, 192, 3, 14  # TRAINED: rows and columns of patches that the biases are for


class Writer(GraphWriter):
    """Names values by itself."""

    def __init__(self, seed):
        super().__init__()
        self.random = np.random.default_rng(seed)

    def __call__(self, kind, *inputs, **attributes):
        return self.op(kind, list(inputs), f"{kind.lower()}_{len(self.nodes)}", **attributes)

    def number(self, value):
        name = f"i64_{value}"
        self.initializers.setdefault(name, numpy_helper.from_array(np.array(value, np.int64), name))
        return name

    def numbers(self, *values):
        return self.constant("i64s_" + "_".join(map(str, values)), np.array(values, np.int64))

    def weight(self, *shape, scale=None):
        array = self.random.standard_normal(shape) * (scale or 1 / np.sqrt(shape[0]))
        return self.constant(f"weight_{len(self.initializers)}", array.astype(np.float32))

    def vector(self, *numbers):
        """i64 [n] of scalars."""
        return self("Concat", *(self("Unsqueeze", n, self.numbers(0)) for n in numbers), axis=0)

    def range(self, start, stop):
        return self("Range", start, stop, self.number(1))


def assign(w, target, places, values):
    """target[places] = values, where each of the places is an i64 vector: what the exporter makes of an assignment."""
    shape = w("Shape", values)
    columns = []
    for axis, place in enumerate(places):
        dims = [1] * len(places)
        dims[axis] = -1
        placed = w("Expand", w("Reshape", place, w.numbers(*dims)), shape)
        columns.append(w("Unsqueeze", placed, w.numbers(-1)))
    return w("ScatterND", target, w("Concat", *columns, axis=-1), values)


def position_index(w, rows, columns):
    """i64 [1 + rows · columns, the same]: which bias goes with two tokens."""
    zero, one = w.number(0), w.number(1)
    area = w("Mul", rows, columns)
    both = w.vector(rows, columns)
    down = w("Expand", w("Unsqueeze", w.range(zero, rows), w.numbers(1)), both)
    across = w("Expand", w("Unsqueeze", w.range(zero, columns), w.numbers(0)), both)
    grid = w("Concat", *(w("Unsqueeze", part, w.numbers(0)) for part in (down, across)), axis=0)
    flat = w("Reshape", grid, w.numbers(2, -1))
    apart = w("Sub", w("Unsqueeze", flat, w.numbers(2)), w("Unsqueeze", flat, w.numbers(1)))
    apart = w("Transpose", apart, perm=[1, 2, 0])

    tokens = w.range(zero, area)
    span = w("Sub", w("Mul", columns, w.number(2)), one)
    for kind, axis, by in (("Add", 0, w("Sub", rows, one)), ("Add", 1, w("Sub", columns, one)), ("Mul", 0, span)):
        changed = w(kind, w("Gather", apart, w.numbers(axis), axis=2), by)
        apart = assign(w, apart, (tokens, tokens, w.numbers(axis)), changed)
    sums = w("ReduceSum", apart, w.numbers(-1), keepdims=0)

    distances = w("Mul", w("Sub", w("Mul", rows, w.number(2)), one), span)  # and behind them three for the class token
    all_tokens = w("Add", area, one)
    index = w(
        "ConstantOfShape", w.vector(all_tokens, all_tokens), value=helper.make_tensor("z", TensorProto.INT64, [1], [0])
    )
    inner, outer = w.range(one, all_tokens), w.range(zero, all_tokens)
    index = assign(w, index, (inner, inner), sums)
    row = w("Expand", distances, w.vector(one, all_tokens))
    index = assign(w, index, (w.numbers(0), outer), row)
    column = w("Expand", w("Add", distances, one), w.vector(all_tokens, one))
    index = assign(w, index, (outer, w.numbers(0)), column)
    corner = w("Expand", w("Add", distances, w.number(2)), w.vector(one, one))
    return assign(w, index, (w.numbers(0), w.numbers(0)), corner)


def position_bias(w, rows, columns):
    """f32 [heads, tokens, tokens]"""
    side = 2 * TRAINED - 1
    table = w.weight(side * side + 3, HEADS, scale=1)
    image = w("Slice", table, w.numbers(0), w.numbers(side * side), w.numbers(0))
    image = w("Transpose", w("Reshape", image, w.numbers(1, side, side, HEADS)), perm=[0, 3, 1, 2])
    sizes = [w("Sub", w("Mul", size, w.number(2)), w.number(1)) for size in (rows, columns)]
    sizes = w.vector(w.number(1), w.number(HEADS), *sizes)
    image = w("Resize", image, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    image = w("Reshape", w("Transpose", image, perm=[0, 2, 3, 1]), w.numbers(-1, HEADS))
    rest = w("Slice", table, w.numbers(side * side), w.numbers(side * side + 3), w.numbers(0))
    table = w("Concat", image, rest, axis=0)
    index = position_index(w, rows, columns)
    tokens = w("Unsqueeze", w("Add", w("Mul", rows, columns), w.number(1)), w.numbers(0))
    bias = w("Gather", table, w("Reshape", index, w.numbers(-1)), axis=0)
    bias = w("Reshape", bias, w("Concat", tokens, tokens, w.numbers(-1), axis=0))
    return w("Transpose", bias, perm=[2, 0, 1])


def linear(w, x, inputs, outputs):
    return w("Add", w("MatMul", x, w.weight(inputs, outputs)), w.weight(outputs, scale=0.1))


def norm(w, x):
    return w(
        "LayerNormalization", x, w.constant("ones", np.ones(WIDTH, np.float32)), w.weight(WIDTH, scale=0.1), axis=-1
    )


def layer(w, x, rows, columns):
    y = norm(w, x)

    def heads(order):
        split = w("Reshape", linear(w, y, WIDTH, WIDTH), w.numbers(0, 0, HEADS, WIDTH // HEADS))
        return w("Transpose", split, perm=order)

    query, key, value = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = w("Div", w("MatMul", query, key), w.constant("root", np.float32(np.sqrt(WIDTH // HEADS))))
    scores = w("Add", scores, w("Unsqueeze", position_bias(w, rows, columns), w.numbers(0)))
    mixed = w("Transpose", w("MatMul", w("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    mixed = w("Reshape", mixed, w.numbers(0, 0, WIDTH))
    x = w("Add", x, linear(w, mixed, WIDTH, WIDTH))
    y = w.gelu(linear(w, norm(w, x), WIDTH, 4 * WIDTH), f"gelu_{len(w.nodes)}")
    return w("Add", x, linear(w, y, 4 * WIDTH, WIDTH))


def model(layers=4):
    """The ModelProto (7 MB of weights inside)."""
    w = Writer(0)
    shape = w("Shape", "pixel_values")
    sizes = [w("Gather", shape, w.number(axis), axis=0) for axis in (0, 2, 3)]
    batch, rows, columns = sizes[0], *(w("Div", size, w.number(PATCH)) for size in sizes[1:])
    kernel = w.weight(WIDTH, 3, PATCH, PATCH, scale=1 / np.sqrt(3 * PATCH * PATCH))
    patches = w("Conv", "pixel_values", kernel, w.weight(WIDTH, scale=0.1), strides=[PATCH, PATCH])
    patches = w("Transpose", w("Reshape", patches, w.numbers(0, 0, -1)), perm=[0, 2, 1])
    token = w("Expand", w.weight(1, 1, WIDTH), w.vector(batch, w.number(1), w.number(WIDTH)))
    x = w("Concat", token, patches, axis=1)
    for _ in range(layers):
        x = layer(w, x, rows, columns)
    x = norm(w, x)
    w.op("Identity", [x], "hidden")

    def value(name, dims):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    graph = helper.make_graph(
        w.nodes,
        "BEiT",
        [value("pixel_values", ["batch", 3, "height", "width"])],
        [value("hidden", ["batch", None, WIDTH])],
        list(w.initializers.values()),
    )
    result = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="camshaft-tests"
    )
    onnx.checker.check_model(result, full_check=True)
    return result


def images(batch, height, width):
    rng = np.random.default_rng(batch * 1000 + height)
    return {"pixel_values": rng.standard_normal((batch, 3, height, width), dtype=np.float32)}
