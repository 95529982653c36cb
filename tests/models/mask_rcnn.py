"""A small Mask R-CNN as ONNX, with seeded weights and the operators that TorchVision's spells as it is exported.

The parts of the large one: a backbone, a feature pyramid, a region proposal network on five levels (anchors out of the
image's size, TopK of each level, boxes, NonMaxSuppression), RoiAlign on the level that a box's size asks for (Equal,
NonZero, Gather, RoiAlign and ScatterElements into the result), heads for boxes and masks, and a Loop that pastes each mask
into the image. How many proposals, boxes and masks there are only running tells.

  inputs   image f32 [3, height, width], of any size
  outputs  boxes f32 [n, 4] (x0, y0, x1, y1 in pixels), labels i64 [n], scores f32 [n] (falling),
           masks f32 [n, 1, height, width]
"""

import math

import numpy as np
from beit import Writer

import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 5  # the first is the background
CHANNELS = 32  # of each level of the pyramid
STRIDES = (4, 8, 16, 32, 64)
ANCHORS = (16, 32, 64, 128, 256)  # their sides; three shapes each
SHAPES = (0.5, 1.0, 2.0)  # height by width
PROPOSALS_OF_A_LEVEL, PROPOSALS, DETECTIONS = 200, 60, 20
CANONICAL = 16  # a box of this side is pooled from the third level
LARGEST_STEP = math.log(1000 / 16)  # of the logarithm of a box's side
POOLED, POOLED_MASK = 5, 8


class Model(Writer):
    """`prefix`: of all names, as those of a loop's body must be others than those around it."""

    def __init__(self, seed, prefix=""):
        super().__init__(seed)
        self.prefix = prefix

    def __call__(self, kind, *inputs, **attributes):
        return self.op(kind, list(inputs), f"{self.prefix}{kind.lower()}_{len(self.nodes)}", **attributes)

    def constant(self, name, array):  # scalars stay scalars
        name = self.prefix + name
        self.initializers.setdefault(name, numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def number(self, value):
        return self.constant(f"i64_{value}", np.array(value, np.int64))

    def kernel(self, *shape, scale):
        """Without a mean for each output: else what all channels and pixels have in common hides what differs."""
        array = scale * self.random.standard_normal(shape)
        array -= array.mean(axis=tuple(range(1, len(shape))), keepdims=True)
        return self.constant(f"kernel_{len(self.initializers)}", array.astype(np.float32))

    def i64(self, *values):
        return self.numbers(*values)

    def f32(self, value):
        return self.constant(f"f32_{value}", np.float32(value))

    def convolution(self, x, inputs, outputs, kernel=3, stride=1, relu=True, scale=1.0):
        deviation = scale * math.sqrt(2 / (inputs * kernel * kernel))
        weight, pad = self.kernel(outputs, inputs, kernel, kernel, scale=deviation), kernel // 2
        y = self("Conv", x, weight, self.weight(outputs, scale=0.05 * scale), strides=[stride] * 2, pads=[pad] * 4)
        return self("Relu", y) if relu else y

    def linear(self, x, inputs, outputs, scale=1.0):
        weight = self.kernel(outputs, inputs, scale=scale / math.sqrt(inputs))
        return self("Gemm", x, weight, self.weight(outputs, scale=0.05 * scale), transB=1)

    def size(self, x, axis):
        """i64 []"""
        return self("Gather", self("Shape", x), self.number(axis), axis=0)

    def lengths(self, x, *axes):
        """i64 [len(axes)]"""
        return self("Gather", self("Shape", x), self.i64(*axes), axis=0)

    def floating(self, x):
        return self("Cast", x, to=TensorProto.FLOAT)

    def at(self, x, index, axis=-1):
        """One column, without its axis."""
        return self("Gather", x, self.number(index), axis=axis)

    def where(self, condition):
        """i64 [n]: where the vector is true."""
        return self("Squeeze", self("NonZero", condition), self.i64(0))

    def stack(self, columns, axis=-1):
        return self("Concat", *(self("Unsqueeze", c, self.i64(axis)) for c in columns), axis=axis)

    def first(self, x, count):
        """The first so many rows, if there are as many."""
        return self("Slice", x, self.i64(0), self.i64(count), self.i64(0))

    def sides(self, boxes):
        """Widths and heights."""
        corners = [self.at(boxes, i) for i in range(4)]
        return self("Sub", corners[2], corners[0]), self("Sub", corners[3], corners[1])


def backbone(w, x):
    """Levels of strides 4, 8, 16 and 32."""
    x = w.convolution(x, 3, 16, kernel=7, stride=2)
    x = w("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    levels, inputs = [], 16
    for number, outputs in enumerate((16, 32, 48, 64)):
        y = w.convolution(x, inputs, outputs, stride=1 if number == 0 else 2)
        y = w.convolution(y, outputs, outputs, relu=False)
        way = w.convolution(x, inputs, outputs, kernel=1, stride=1 if number == 0 else 2, relu=False)
        x, inputs = w("Relu", w("Add", y, way)), outputs
        levels.append(x)
    return levels


def pyramid(w, levels):
    """Those levels with CHANNELS each, and one of stride 64."""
    sides = [w.convolution(x, c, CHANNELS, kernel=1, relu=False, scale=0.6) for x, c in zip(levels, (16, 32, 48, 64))]
    inner, results = sides[-1], [w.convolution(sides[-1], CHANNELS, CHANNELS, relu=False, scale=0.7)]
    for side in reversed(sides[:-1]):
        sizes = w("Concat", w.lengths(inner, 0, 1), w.lengths(side, 2, 3), axis=0)
        above = w("Resize", inner, "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")  # fmt: skip
        inner = w("Add", side, above)
        results.insert(0, w.convolution(inner, CHANNELS, CHANNELS, relu=False, scale=0.7))
    return [*results, w("MaxPool", results[-1], kernel_shape=[1, 1], strides=[2, 2])]


def anchors(w, feature, stride, side):
    """f32 [height · width · 3, 4] of a level."""
    shapes = [(side * math.sqrt(1 / s), side * math.sqrt(s)) for s in SHAPES]
    cells = np.round(np.array([[-x / 2, -y / 2, x / 2, y / 2] for x, y in shapes])).astype(np.float32)
    ways = [w("Mul", w.range(w.number(0), w.size(feature, axis)), w.number(stride)) for axis in (2, 3)]
    both = w.vector(w.size(feature, 2), w.size(feature, 3))
    y = w("Reshape", w("Expand", w("Unsqueeze", ways[0], w.i64(1)), both), w.i64(-1))
    x = w("Reshape", w("Expand", w("Unsqueeze", ways[1], w.i64(0)), both), w.i64(-1))
    shifts = w.floating(w.stack([x, y, x, y], axis=1))
    moved = w("Add", w("Unsqueeze", shifts, w.i64(1)), w.constant(f"cells_{side}", cells[None]))
    return w("Reshape", moved, w.i64(-1, 4))


def decoded(w, boxes, deltas, weights):
    """Boxes [n, 4] moved by deltas [n, 4]."""
    width, height = w.sides(boxes)
    half = w.f32(0.5)
    centre = [w("Add", w.at(boxes, i), w("Mul", half, side)) for i, side in enumerate((width, height))]
    dx, dy, dw, dh = (w("Div", w.at(deltas, i), w.f32(weight)) for i, weight in enumerate(weights))
    dw, dh = (w("Clip", d, "", w.f32(LARGEST_STEP)) for d in (dw, dh))
    x = w("Add", w("Mul", dx, width), centre[0])
    y = w("Add", w("Mul", dy, height), centre[1])
    half_width = w("Mul", half, w("Mul", w("Exp", dw), width))
    half_height = w("Mul", half, w("Mul", w("Exp", dh), height))
    return w.stack(
        [w("Sub", x, half_width), w("Sub", y, half_height), w("Add", x, half_width), w("Add", y, half_height)]
    )


def clipped(w, boxes, height, width):
    x, y = w("Gather", boxes, w.i64(0, 2), axis=-1), w("Gather", boxes, w.i64(1, 3), axis=-1)
    x, y = (w("Min", w("Max", v, w.f32(0.0)), w.floating(size)) for v, size in ((x, width), (y, height)))
    return w("Reshape", w.stack([x, y]), w.i64(-1, 4))


def large_enough(w, boxes, least):
    width, height = w.sides(boxes)
    both = w("And", w("GreaterOrEqual", width, w.f32(least)), w("GreaterOrEqual", height, w.f32(least)))
    return w.where(both)


def without_overlaps(w, boxes, scores, groups, threshold):
    """i64 [n]: boxes that are kept, by falling scores; those of other groups (i64) do not touch each other."""
    beyond = w("Add", w("ReduceMax", boxes, keepdims=0), w.f32(1.0))
    apart = w("Add", boxes, w("Unsqueeze", w("Mul", w.floating(groups), beyond), w.i64(1)))
    chosen = w("NonMaxSuppression", w("Unsqueeze", apart, w.i64(0)), w("Unsqueeze", scores, w.i64(0, 1)),
               w.i64(2**31 - 1), w.constant(f"overlap_{threshold}", np.float32([threshold])))  # fmt: skip
    return w.at(chosen, 2, axis=1)


def proposals(w, levels, height, width):
    """f32 [n, 4], n up to PROPOSALS."""
    weight = w.kernel(CHANNELS, CHANNELS, 3, 3, scale=math.sqrt(2 / (9 * CHANNELS)))
    scoring = w.kernel(len(SHAPES), CHANNELS, 1, 1, scale=1 / math.sqrt(CHANNELS))
    moving = w.kernel(4 * len(SHAPES), CHANNELS, 1, 1, scale=0.3 / math.sqrt(CHANNELS))
    boxes, scores, numbers = [], [], []
    for number, (x, stride, side) in enumerate(zip(levels, STRIDES, ANCHORS)):
        hidden = w("Relu", w("Conv", x, weight, pads=[1, 1, 1, 1]))
        score = w("Reshape", w("Transpose", w("Conv", hidden, scoring), perm=[0, 2, 3, 1]), w.i64(-1))
        delta = w("Reshape", w("Transpose", w("Conv", hidden, moving), perm=[0, 2, 3, 1]), w.i64(-1, 4))
        count = w("Min", w("Shape", score), w.i64(PROPOSALS_OF_A_LEVEL))
        best, places = f"best_{number}", f"places_{number}"
        w.nodes.append(helper.make_node("TopK", [score, count], [best, places], name=best, axis=0))
        anchor = w("Gather", anchors(w, x, stride, side), places, axis=0)
        boxes.append(decoded(w, anchor, w("Gather", delta, places, axis=0), (1.0, 1.0, 1.0, 1.0)))
        scores.append(best)
        numbers.append(w("Expand", w.i64(number), count))
    boxes, scores, numbers = (w("Concat", *parts, axis=0) for parts in (boxes, scores, numbers))
    boxes, scores = clipped(w, boxes, height, width), w("Sigmoid", scores)
    kept = large_enough(w, boxes, 1.0)
    boxes, scores, numbers = (w("Gather", v, kept, axis=0) for v in (boxes, scores, numbers))
    kept = w.first(without_overlaps(w, boxes, scores, numbers, 0.7), PROPOSALS)
    return w("Gather", boxes, kept, axis=0)


def pooled(w, levels, boxes, size):
    """f32 [n, CHANNELS, size, size]: each box from the level that its size asks for."""
    width, height = w.sides(boxes)
    side = w("Sqrt", w("Mul", width, height))
    # The logarithm of base 2, as the exporter spells it.
    octave = w("Div", w("Log", w("Div", side, w.f32(CANONICAL))), w.f32(math.log(2)))
    wanted = w("Floor", w("Add", w("Add", w.f32(2.0), octave), w.f32(1e-6)))
    wanted = w("Cast", w("Clip", wanted, w.f32(0.0), w.f32(3.0)), to=TensorProto.INT64)
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [1], [0])
    shape = w("Concat", w.lengths(boxes, 0), w.i64(CHANNELS, size, size), axis=0)
    result = w("ConstantOfShape", shape, value=zero)
    for number in range(4):
        places = w.where(w("Equal", wanted, w.number(number)))
        of_level = w("Gather", boxes, places, axis=0)
        images = w("ConstantOfShape", w("Shape", places), value=helper.make_tensor("0", TensorProto.INT64, [1], [0]))
        part = w("RoiAlign", levels[number], of_level, images, output_height=size, output_width=size, sampling_ratio=2,
                 spatial_scale=1 / STRIDES[number], coordinate_transformation_mode="output_half_pixel")  # fmt: skip
        index = w("Expand", w("Reshape", places, w.i64(-1, 1, 1, 1)), w("Shape", part))
        result = w("ScatterElements", result, index, part, axis=0)
    return result


def detections(w, levels, found, height, width):
    """Boxes, labels and scores of up to DETECTIONS objects."""
    x = w("Flatten", pooled(w, levels, found, POOLED), axis=1)
    x = w("Relu", w.linear(x, CHANNELS * POOLED * POOLED, 64, scale=1.4))
    x = w("Relu", w.linear(x, 64, 64, scale=1.4))
    scores = w("Softmax", w.linear(x, 64, CLASSES, scale=2), axis=-1)
    deltas = w("Reshape", w.linear(x, 64, 4 * CLASSES), w.i64(-1, 4))
    each = w("Expand", w("Unsqueeze", found, w.i64(1)), w.i64(1, CLASSES, 1))
    boxes = decoded(w, w("Reshape", each, w.i64(-1, 4)), deltas, (10.0, 10.0, 5.0, 5.0))
    boxes = w("Reshape", clipped(w, boxes, height, width), w.i64(-1, CLASSES, 4))
    labels = w("Expand", w.constant("labels_of_all", np.arange(CLASSES)[None]), w("Shape", scores))
    rest = (w.i64(1), w.i64(CLASSES), w.i64(1))  # without the background
    boxes = w("Reshape", w("Slice", boxes, *rest), w.i64(-1, 4))
    scores, labels = (w("Reshape", w("Slice", v, *rest), w.i64(-1)) for v in (scores, labels))
    kept = w.where(w("Greater", scores, w.f32(0.05)))
    boxes, scores, labels = (w("Gather", v, kept, axis=0) for v in (boxes, scores, labels))
    kept = large_enough(w, boxes, 0.01)
    boxes, scores, labels = (w("Gather", v, kept, axis=0) for v in (boxes, scores, labels))
    kept = w.first(without_overlaps(w, boxes, scores, labels, 0.5), DETECTIONS)
    return tuple(w("Gather", v, kept, axis=0) for v in (boxes, labels, scores))


def masks(w, levels, boxes, labels):
    """f32 [n, 1, 2 · POOLED_MASK, 2 · POOLED_MASK] of each box's own class."""
    x = pooled(w, levels, boxes, POOLED_MASK)
    for _ in range(2):
        x = w.convolution(x, CHANNELS, CHANNELS)
    kernel = w.kernel(CHANNELS, CHANNELS, 2, 2, scale=math.sqrt(2 / CHANNELS))
    x = w("Relu", w("ConvTranspose", x, kernel, w.weight(CHANNELS, scale=0.05), strides=[2, 2]))
    x = w("Sigmoid", w.convolution(x, CHANNELS, CLASSES, kernel=1, relu=False))
    row = w.range(w.number(0), w.size(labels, 0))
    return w("Unsqueeze", w("GatherND", x, w.stack([row, labels])), w.i64(1))


def pasted(w, mask, boxes, height, width):
    """f32 [n, 1, height, width]: each mask where its box is, 0 elsewhere, one after the other in a Loop."""
    whole = w("Cast", boxes, to=TensorProto.INT64)
    body = Model(1, "paste_")
    number, one = body.number, body.number(1)
    box = body("Gather", whole, "index", axis=0)
    x0, y0, x1, y1 = (body.at(box, i) for i in range(4))
    wide, high = (body("Max", body("Add", body("Sub", b, a), one), one) for a, b in ((x0, x1), (y0, y1)))
    one_mask = body("Unsqueeze", body("Gather", mask, "index", axis=0), body.i64(0))
    resized = body("Resize", one_mask, "", "", body.vector(one, one, high, wide), mode="linear",
                   coordinate_transformation_mode="half_pixel")  # fmt: skip
    # A box's last pixel may lie behind the image's.
    right, bottom = (body("Min", body("Add", b, one), size) for b, size in ((x1, width), (y1, height)))
    resized = body("Slice", resized, body.i64(0, 0), body.vector(body("Sub", bottom, y0), body("Sub", right, x0)),
                   body.i64(2, 3))  # fmt: skip
    zero = number(0)
    pads = body.vector(zero, zero, y0, x0, zero, zero, body("Sub", height, bottom), body("Sub", width, right))
    body("Squeeze", body("Pad", resized, pads), body.i64(0))
    body.op("Identity", [body.nodes[-1].output[0]], "pasted_one")
    body.op("Identity", ["going_on"], "still_going_on")
    graph = helper.make_graph(
        body.nodes,
        "paste",
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, []),
            helper.make_tensor_value_info("going_on", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("still_going_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("pasted_one", TensorProto.FLOAT, [1, None, None]),
        ],
        list(body.initializers.values()),
    )
    return w("Loop", w.size(boxes, 0), w.constant("true", np.array(True)), body=graph)


def model():
    """The ModelProto (1 MB of weights inside)."""
    w = Model(0)
    height, width = w.size("image", 1), w.size("image", 2)
    whole = [w("Mul", w("Div", w("Add", size, w.number(31)), w.number(32)), w.number(32)) for size in (height, width)]
    zero = w.number(0)
    more = [w("Sub", a, b) for a, b in zip(whole, (height, width))]
    mean = w.constant("mean", np.float32([0.485, 0.456, 0.406]).reshape(3, 1, 1))
    deviation = w.constant("deviation", np.float32([0.229, 0.224, 0.225]).reshape(3, 1, 1))
    x = w("Pad", w("Div", w("Sub", "image", mean), deviation), w.vector(zero, zero, zero, zero, *more))
    levels = pyramid(w, backbone(w, w("Unsqueeze", x, w.i64(0))))
    found = proposals(w, levels, height, width)
    boxes, labels, scores = detections(w, levels, found, height, width)
    full = pasted(w, masks(w, levels, boxes, labels), boxes, height, width)
    for name, value in (("boxes", boxes), ("labels", labels), ("scores", scores), ("masks", full)):
        w.op("Identity", [value], name)

    def value(name, dims, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, dims)

    graph = helper.make_graph(
        w.nodes,
        "MaskRCNN",
        [value("image", [3, "height", "width"])],
        [
            value("boxes", ["n", 4]),
            value("labels", ["n"], TensorProto.INT64),
            value("scores", ["n"]),
            value("masks", ["n", 1, "height", "width"]),
        ],
        list(w.initializers.values()),
    )
    result = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8, producer_name="camshaft-tests"
    )
    onnx.checker.check_model(result, full_check=True)
    return result


def image(height, width):
    """Blurred blobs and noise, in [0, 1]."""
    rng = np.random.default_rng(height * 1000 + width)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    picture = 0.1 * rng.random((3, height, width), dtype=np.float32)
    for _ in range(6):
        cy, cx, r = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(0.05, 0.3) * min(height, width)
        inside = ((y - cy) ** 2 + (x - cx) ** 2 < r * r).astype(np.float32)
        picture += 0.5 * inside * rng.random((3, 1, 1), dtype=np.float32)
    return {"image": np.clip(picture, 0, 1).astype(np.float32)}
