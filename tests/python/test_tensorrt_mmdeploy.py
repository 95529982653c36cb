"""Operators of MMDeploy that its models for TensorRT name, beside plain NumPy."""

import math

import numpy as np
import pytest
from test_tensorrt_operators import run

RANDOM = np.random.default_rng(7)


def f32(*shape):
    return RANDOM.standard_normal(shape).astype("f")


@pytest.mark.parametrize("domain", ["mmdeploy", "mmcv"])
def test_grid_priors(domain):
    anchors = f32(3, 4)
    arrays = [anchors, np.zeros(5, np.int64), np.zeros(2, np.int64)]
    got = run("GridPriorsTRT", arrays, [("y", "f")], domain=domain, shapes={"x1": ["h"], "x2": ["w"]},
              stride_h=16, stride_w=8)[0]  # fmt: skip
    want = [anchors[a] + [8 * x, 16 * y, 8 * x, 16 * y] for y in range(5) for x in range(2) for a in range(3)]
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("mask", [None, (4, 7), (2, 4, 7)])
def test_attention(mask):
    arrays = [f32(2, 4, 6), f32(2, 7, 6), f32(2, 7, 6), *([] if mask is None else [f32(*mask)])]
    query, key, value = arrays[:3]
    outputs = [("y", "f"), ("p", "f")]
    got = run("ScaledDotProductAttentionTRT", arrays, outputs, domain="mmdeploy")
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(6) + (0 if mask is None else arrays[3])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(got[1], weights, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[0], weights @ value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("factors", [(2.0, 3.0), (1.0, 2.0), (1.5, 1.4)])
def test_bicubic_interpolation(factors, aligned):
    x = f32(2, 3, 5, 7)
    got = run("TRTBicubicInterpolate", [x], [("y", "f")], domain="mmdeploy", scale_factor=factors,
              align_corners=aligned)[0]  # fmt: skip
    sizes = [int(size * factor) for size, factor in zip(x.shape[2:], factors)]

    def matrix(size, to):
        rows, a = np.zeros((to, size)), -0.75
        for i in range(to):
            at = i * (size - 1) / (to - 1) if aligned else (i + 0.5) * size / to - 0.5
            for tap in range(math.floor(at) - 1, math.floor(at) + 3):
                d = abs(at - tap)
                near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                rows[i, min(max(tap, 0), size - 1)] += near if d <= 1 else far
        return rows

    down, across = (matrix(size, to) for size, to in zip(x.shape[2:], sizes))
    np.testing.assert_allclose(got, np.einsum("yh,xw,nchw->ncyx", down, across, x), rtol=1e-3, atol=1e-4)


def sampled(image, y, x):
    """Of [c, h, w], zero a pixel beyond it."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    row, column = int(y), int(x)
    below, right = min(row + 1, height - 1), min(column + 1, width - 1)
    dy, dx = y - row, x - column
    top = image[:, row, column] * (1 - dx) + image[:, row, right] * dx
    return top * (1 - dy) + (image[:, below, column] * (1 - dx) + image[:, below, right] * dx) * dy


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("more", [-1.0, 1.5])
def test_regions_of_several_levels(aligned, more):
    images = [f32(2, 3, 32 >> level, 40 >> level) for level in range(3)]
    strides = [4.0, 8.0, 16.0]
    corners = RANDOM.uniform(0, 60, (9, 2))
    sizes = np.array([[3, 4], [20, 17], [55, 57], [57, 56], [70, 60], [110, 114], [113, 112], [120, 90], [9, 90]])
    rois = np.concatenate([RANDOM.integers(0, 2, (9, 1)), corners, corners + sizes], 1).astype("f")
    attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "featmap_strides": strides}
    got = run("MMCVMultiLevelRoiAlign", [rois, *images], [("y", "f")], domain="mmdeploy", finest_scale=56, pool_mode=1,
              roi_scale_factor=more, aligned=aligned, **attributes)[0]  # fmt: skip
    want = np.zeros((9, 3, 2, 3))
    for r, (image, x1, y1, x2, y2) in enumerate(rois.astype(np.float64)):
        level = min(max(math.floor(math.log2(math.sqrt((x2 - x1) * (y2 - y1)) / 56 + 1e-6)), 0), 2)
        if more > 0:
            cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
            half_w, half_h = ((x2 - x1 + 1) * more - 1) / 2, ((y2 - y1 + 1) * more - 1) / 2
            x1, x2, y1, y2 = cx - half_w, cx + half_w, cy - half_h, cy + half_h
        x1, y1, x2, y2 = (value / strides[level] - 0.5 * aligned for value in (x1, y1, x2, y2))
        least = 0.0 if aligned else 1.0
        bin_w, bin_h = max(x2 - x1, least) / 3, max(y2 - y1, least) / 2
        for ph, pw in np.ndindex(2, 3):
            samples = [
                sampled(images[level][int(image)], y1 + (ph + (i + 0.5) / 2) * bin_h, x1 + (pw + (j + 0.5) / 2) * bin_w)
                for i, j in np.ndindex(2, 2)
            ]
            want[r, :, ph, pw] = np.mean(samples, 0)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("aligned, clockwise, more", [(0, 0, -1.0), (1, 1, 1.5)])
def test_turned_regions_of_several_levels(aligned, clockwise, more):
    images = [f32(2, 3, 32 >> level, 40 >> level) for level in range(3)]
    strides = [4.0, 8.0, 16.0]
    sizes = np.array([[0.5, 2], [20, 17], [55, 57], [57, 56], [70, 60], [110, 114], [113, 112], [120, 90], [9, 90]])
    image, angles = RANDOM.integers(0, 2, (9, 1)), RANDOM.uniform(-3, 3, (9, 1))
    rois = np.concatenate([image, RANDOM.uniform(0, 120, (9, 2)), sizes, angles], 1).astype("f")
    attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "featmap_strides": strides}
    got = run("MMCVMultiLevelRotatedRoiAlign", [rois, *images], [("y", "f")], domain="mmdeploy", finest_scale=56,
              clockwise=clockwise, roi_scale_factor=more, aligned=aligned, **attributes)[0]  # fmt: skip
    want = np.zeros((9, 3, 2, 3))
    for r, (image, cx, cy, width, height, angle) in enumerate(rois.astype(np.float64)):
        level = min(max(math.floor(math.log2(math.sqrt(width * height) / 56 + 1e-6)), 0), 2)
        cx, cy = (value / strides[level] - 0.5 * aligned for value in (cx, cy))
        width, height = (max(value * abs(more) ** (more > 0) / strides[level], 1) for value in (width, height))
        cos, sin = math.cos(angle), math.sin(-angle if clockwise else angle)
        for ph, pw in np.ndindex(2, 3):
            samples = []
            for i, j in np.ndindex(2, 2):
                y, x = height * ((ph + (i + 0.5) / 2) / 2 - 0.5), width * ((pw + (j + 0.5) / 2) / 3 - 0.5)
                samples.append(sampled(images[level][int(image)], y * cos - x * sin + cy, y * sin + x * cos + cx))
            want[r, :, ph, pw] = np.mean(samples, 0)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def overlap(a, b, step=700):
    """Of two turned boxes, by counting points of a grid."""
    low = min(min(a[:2] - a[2:4]), min(b[:2] - b[2:4]))
    high = max(max(a[:2] + a[2:4]), max(b[:2] + b[2:4]))
    axis = np.linspace(low, high, step)
    y, x = np.meshgrid(axis, axis, indexing="ij")

    def inside(box):
        dx, dy, cos, sin = x - box[0], y - box[1], math.cos(box[4]), math.sin(box[4])
        return (abs(dx * cos + dy * sin) <= box[2] / 2) & (abs(dy * cos - dx * sin) <= box[3] / 2)

    one, two = inside(a), inside(b)
    return (one & two).sum() / max((one | two).sum(), 1)


@pytest.mark.parametrize("operator", ["TRTBatchedRotatedNMS", "TRTBatchedBEVNMS"])
@pytest.mark.parametrize("shared", [True, False])
def test_suppression_of_turned_boxes(operator, shared):
    n, classes, most, random = 14, 2, 7, np.random.default_rng(2)
    centres = random.uniform(0, 25, (2, n, 1 if shared else classes, 2))
    sizes, angles = random.uniform(4, 16, centres.shape), random.uniform(-3, 3, (*centres.shape[:3], 1))
    boxes = np.concatenate([centres, sizes, angles], -1).astype("f")
    scores = random.permutation(2 * n * classes).reshape(2, n, 1, classes).astype("f") / 100
    names = {
        "keepTopK": most,
        "topK": 20,
        "scoreThreshold": 0.2,
        "iouThreshold": 0.3,
        "isNormalized": 0,
        "clipBoxes": 0,
    }
    if operator == "TRTBatchedBEVNMS":  # the same by its newer names, and with the places of the boxes
        names = {"keep_topk": most, "topk": 20, "score_threshold": 0.2, "iou_threshold": 0.3, "clip_boxes": 0}
        names["return_index"] = 1
    outputs = [("dets", "f"), ("labels", "i"), *([("index", "i")] if "return_index" in names else [])]
    dets, labels, *index = run(operator, [boxes, scores if operator == "TRTBatchedRotatedNMS" else scores[:, :, 0]],
                               outputs, domain="mmdeploy", num_classes=classes, background_label_id=-1, **names)  # fmt: skip
    unsure = 0
    for image in range(2):
        found = []
        for c in range(classes):
            order = sorted(range(n), key=lambda i: -scores[image, i, 0, c])[:20]
            kept = []
            for i in order:
                if scores[image, i, 0, c] <= 0.2:
                    continue
                box = boxes[image, i, 0 if shared else c].astype(np.float64)
                with_others = [overlap(box, other) for _, _, other, _ in kept]
                unsure += any(abs(share - 0.3) < 0.004 for share in with_others)
                if all(share <= 0.3 for share in with_others):
                    kept.append((scores[image, i, 0, c], c, box, i))
            found += kept
        found = sorted(found, key=lambda item: -item[0])[:most]
        want = np.zeros((most, 6))
        for i, (score, _, box, _) in enumerate(found):
            want[i] = [*box, score]
        if not unsure:
            np.testing.assert_allclose(dets[image], want, rtol=1e-6)
            np.testing.assert_array_equal(labels[image], [c for _, c, _, _ in found] + [-1] * (most - len(found)))
            places = [i if shared else c * n + i for _, c, _, i in found] + [-1] * (most - len(found))
            for array in index:
                np.testing.assert_array_equal(array[image], places)
    assert unsure == 0, "take another seed"


def test_what_is_refused():
    boxes, scores = f32(1, 5, 1, 4), f32(1, 5, 1, 2)
    with pytest.raises(Exception, match="boxes of 4 numbers: 5 are expected"):
        run("TRTBatchedRotatedNMS", [boxes, scores], [("dets", "f"), ("labels", "i")], domain="mmdeploy", keepTopK=3)
    with pytest.raises(Exception, match="pool_mode 0"):
        run("MMCVMultiLevelRoiAlign", [f32(2, 5), f32(1, 3, 8, 8)], [("y", "f")], domain="mmdeploy",
            featmap_strides=[4.0])  # fmt: skip
