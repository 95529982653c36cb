"""How to use operators on images, boxes and signals, and losses. See table.py."""

import numpy as np
from graph_builder import ELEMENT_TYPE, Rejected
from operators_contraction import image
from table import operator


@operator("GridSample")
def grid_sample(b, op):
    x = image(b, op, types=("f32", "f32", "f64"), ranks=(4,) if b.opset < 20 or b.chance(0.7) else (5,))
    if x.is_empty() or x.dims[0] is None:
        raise Rejected("no elements")
    modes = ("bilinear", "nearest", "bicubic") if b.opset < 20 else ("linear", "nearest", "cubic")
    mode = b.pick((None, *modes))
    if x.rank == 5 and mode in ("bicubic", "cubic"):
        mode = None
    dims = [x.dims[0], *(b.number(1, 6) for _ in range(x.rank - 2)), x.rank - 2]
    if mode == "nearest":  # not near the middle between two elements, nor near an edge
        sizes = [x.shape[i] for i in range(x.rank - 1, 1, -1)]
        if not all(isinstance(d, int) for d in x.dims[2:]):
            raise Rejected("near a jump")

        def positions(k):
            shape = b.concrete(dims, k)
            parts = [(2 * (b.rng.integers(0, n, shape[:-1]) + b.rng.uniform(-0.3, 0.3, shape[:-1])) + 1) / n - 1
                     for n in sizes]  # fmt: skip
            return np.stack(parts, -1).astype(np.float32 if x.dtype == "f32" else np.float64)

        grid = b.given(positions, dims)
        b.emit(op, [x, grid], exact=True, mode=mode, padding_mode=b.pick((None, "border")), align_corners=0)
        return
    grid = b.fresh(x.dtype, dims, -1.3, 1.3)
    b.emit(op, [x, grid], mode=mode, padding_mode=b.pick((None, "zeros", "border", "reflection")),
           align_corners=b.pick((None, 0, 1)))  # fmt: skip


@operator("RoiAlign")
def roi_align(b, op):
    x = image(b, op, types=("f32", "f64"), ranks=(4,))
    if x.is_empty():
        raise Rejected("no elements")
    count = b.number(1, 4)
    corners = b.rng.uniform(0, 3, (count, 2))
    boxes = np.concatenate([corners, corners + b.rng.uniform(1, 4, (count, 2))], 1)
    rois = b.constant(boxes.astype(np.float32 if x.dtype == "f32" else np.float64))
    indices = b.constant(b.rng.integers(0, x.min_size(0), count))
    # The maximum in ONNX Runtime is of weighted corners, not of samples.
    extra = (
        {"coordinate_transformation_mode": b.pick((None, "half_pixel", "output_half_pixel"))} if b.opset >= 16 else {}
    )
    b.emit(op, [x, rois, indices], output_height=b.number(1, 3), output_width=b.number(1, 3),
           sampling_ratio=b.pick((0, 1, 2)), spatial_scale=b.pick((1.0, 0.5)), **extra)  # fmt: skip


@operator("NonMaxSuppression")
def non_max_suppression(b, op):
    batch, classes, count = b.number(1, 2), b.number(1, 3), b.number(1, 10)
    corners = b.rng.uniform(0, 4, (batch, count, 2))
    boxes = np.concatenate([corners, corners + b.rng.uniform(1, 4, (batch, count, 2))], 2).astype(np.float32)
    scores = b.rng.permutation(batch * classes * count).reshape(batch, classes, count) / 100
    inputs = [b.given(lambda k: boxes, list(boxes.shape)),
              b.given(lambda k: scores.astype(np.float32), [batch, classes, count])]  # fmt: skip
    inputs.append(b.constant(np.array([b.number(1, 6)])))
    inputs.append(b.constant(np.array([b.pick((0.1, 0.35, 0.6))], np.float32)))
    if b.chance(0.5):
        inputs.append(b.constant(np.array([0.035], np.float32)))
    b.emit(op, inputs, exact=True, center_point_box=b.pick((None, 0, 1)))


@operator("CenterCropPad")
def center_crop_pad(b, op):
    x = b.value(b.types(op), ranks=(1, 2, 3, 4), special=True)
    axes = [int(i) for i in b.rng.choice(x.rank, b.number(1, x.rank), replace=False)] if b.chance(0.6) else None
    count = len(axes) if axes else x.rank
    b.emit(op, [x, b.ints([b.number(1, 9) for _ in range(count)])], exact=True, axes=axes)


@operator("Col2Im")
def col2im(b, op):
    block = [b.number(1, 3), b.number(1, 3)]
    size = [b.number(3, 6), b.number(3, 6)]
    positions = (size[0] - block[0] + 1) * (size[1] - block[1] + 1)
    channels = b.number(1, 3)
    x = b.fresh("f32", [b.dim(), channels * block[0] * block[1], positions], constant=0.1)
    b.emit(op, [x, b.ints(size), b.ints(block)])


@operator("DFT")
def dft(b, op):
    parts = b.pick((1, 2))
    x = b.value(("f32", "f64"), ranks=(2, 3, 4), dims=lambda: [*b.dims(b.number(1, 3)), parts],
                where=lambda v: v.dims[-1] in (1, 2) and not v.is_empty() and v.within(-50, 50))  # fmt: skip
    inverse, onesided = b.pick((None, 0, 1)), None
    if not inverse and x.dims[-1] == 1:
        onesided = b.pick((None, 0, 1))
    axis = b.number(1 if x.rank > 2 else 0, x.rank - 2)
    if b.opset < 20:
        b.emit(op, [x], inverse=inverse, onesided=onesided, axis=max(axis, 0))
        return
    length = b.ints(b.number(1, 9)) if b.chance(0.3) else None
    b.emit(op, [x, length, b.ints(b.pick((axis, axis - x.rank)))], inverse=inverse, onesided=onesided)


@operator("STFT")
def stft(b, op):
    length, step = b.pick((4, 8, 6)), b.number(1, 4)
    x = b.fresh("f32", [b.number(1, 3), b.number(10, 24), 1], constant=0.2)
    window = b.fresh("f32", [length], 0, 1, constant=1) if b.chance(0.6) else None
    inputs = [x, b.constant(np.array(step)), window]
    if window is None or b.chance(0.5):
        inputs.append(b.constant(np.array(length)))
    b.emit(op, inputs, onesided=b.pick((None, 0, 1)))


@operator("HannWindow", "HammingWindow", "BlackmanWindow")
def window(b, op):
    size = np.array(b.number(5, 20), b.pick((np.int64, np.int32)))
    size = b.constant(size) if b.chance(0.6) else b.given(lambda k: size, [])
    dtype = b.pick((None, "f32", "f64"))
    made = b.emit(op, [size], periodic=b.pick((None, 0, 1)), output_datatype=ELEMENT_TYPE[dtype] if dtype else None)
    b.hide(made)  # its ends are sums that cancel


@operator("MelWeightMatrix")
def mel(b, op):
    numbers = [np.array(n) for n in (b.number(2, 8), 32, 8000)]
    edges = [np.array(e, np.float32) for e in (0.0, 4000.0)]
    b.emit(op, [b.constant(n) for n in numbers + edges])


@operator("Det")
def det(b, op):
    n = b.number(1, 4)
    x = b.value(("f32",), ranks=(2, 3, 4), dims=lambda: [*b.dims(b.number(0, 2)), n, n],
                where=lambda v: isinstance(v.dims[-1], int) and v.dims[-1] == v.dims[-2] and 0 < v.dims[-1] < 6
                and v.within(-10, 10))  # fmt: skip
    b.emit(op, [x])


@operator("AffineGrid")
def affine_grid(b, op):
    n, spatial = b.number(1, 3), b.pick((2, 2, 3))
    theta = b.fresh(b.pick(("f32", "f64")), [n, spatial, spatial + 1])
    align = b.pick((None, 0, 1))
    smallest = 2 if align else 1  # a single position: known_differences.md
    size = b.ints([n, 3, *(b.number(smallest, 5) for _ in range(spatial))])
    b.emit(op, [theta, size], align_corners=align)


@operator("MaxUnpool")
def max_unpool(b, op):
    x = image(b, op, types=("f32",), ranks=(4,))
    if x.is_empty() or b.opset < 9 or any(n % 2 for a in x.arrays for n in a.shape[2:]):
        raise Rejected("odd sizes")
    pooled, indices = b.emit("MaxPool", [x], outputs=2, exact=True, kernel_shape=[2, 2], strides=[2, 2])
    b.emit(op, [pooled, indices], exact=True, kernel_shape=[2, 2], strides=[2, 2])


def labelled(b):
    """Scores [n, classes, ...] and a class for each."""
    x = b.value(("f32", "f64"), ranks=(2, 3, 4), where=lambda v: isinstance(v.dims[1], int) and v.dims[1] > 0
                and None not in v.dims and not v.is_empty() and v.within(-30, 30))  # fmt: skip
    labels = b.fresh(b.pick(("i64", "i32")), [x.dims[0], *x.dims[2:]], 0, x.dims[1] - 1, constant=0.2)
    return x, labels


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(b, op):
    x, labels = labelled(b)
    inputs = [x, labels]
    if b.chance(0.4):
        inputs.append(b.fresh(x.dtype, [x.dims[1]], 0.1, 2, constant=0.9))
    attributes = {"reduction": b.pick((None, "none", "sum", "mean"))}
    if b.chance(0.3) and x.dims[1] > 1 and not labels.is_constant and all(a.any() for a in labels.arrays):
        attributes["ignore_index"] = 0
    two = op == "SoftmaxCrossEntropyLoss" and b.chance(0.3)
    b.emit(op, inputs, outputs=2 if two else 1, **attributes)


@operator("TensorScatter")
def tensor_scatter(b, op):
    batch, length = b.number(1, 3), b.number(2, 6)
    cache = b.fresh("f32", [batch, 2, length, 3], constant=0.1)
    steps = b.number(1, length)
    update = b.fresh("f32", [batch, 2, steps, 3])
    b.emit(op, [cache, update, b.ints([b.number(0, length - steps) for _ in range(batch)])], exact=True)


@operator("RotaryEmbedding")
def rotary(b, op):
    heads, size, batch, length = b.number(1, 3), b.pick((2, 4, 8)), b.number(1, 2), b.number(1, 4)
    four = b.chance(0.5)
    x = b.fresh("f32", [batch, heads, length, size] if four else [batch, length, heads * size], constant=0.1)
    attributes = {"interleaved": b.pick((None, 0, 1))}
    if not four:
        attributes["num_heads"] = heads
    if b.chance(0.5):
        caches = [b.fresh("f32", [9, size // 2], constant=0.8) for _ in range(2)]
        b.emit(op, [x, *caches, b.fresh("i64", [batch, length], 0, 8)], **attributes)
    else:
        caches = [b.fresh("f32", [batch, length, size // 2], constant=0.8) for _ in range(2)]
        b.emit(op, [x, *caches], **attributes)


@operator("Attention")
def attention(b, op):
    batch, heads, size = b.dim(), b.pick((1, 2, 4)), b.pick((2, 4, 8))
    kv_heads = b.pick([h for h in (1, 2, 4) if heads % h == 0])
    length, memory = b.number(1, 5), b.number(1, 5)
    attributes = {"is_causal": b.pick((None, 0, 1)), "scale": b.pick((None, 0.5)), "softcap": b.pick((None, None, 2.0))}
    if b.chance(0.5):
        query = b.fresh("f32", [batch, heads, length, size], constant=0.1)
        key, value = (b.fresh("f32", [batch, kv_heads, memory, size], constant=0.1) for _ in range(2))
    else:
        query = b.fresh("f32", [batch, length, heads * size], constant=0.1)
        key, value = (b.fresh("f32", [batch, memory, kv_heads * size], constant=0.1) for _ in range(2))
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    inputs = [query, key, value]
    if b.chance(0.4):
        inputs.append(b.fresh("f32", b.pick(([length, memory], [1, 1, length, memory])), -3, 3))
    b.emit(op, inputs, **attributes)
