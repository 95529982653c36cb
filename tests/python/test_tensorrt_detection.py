"""Plugins of TensorRT and MMDeploy that detectors and DeBERTa name, beside plain NumPy."""

import numpy as np
import pytest
from test_tensorrt_operators import deformable, regions, run, scene, suppressed


@pytest.mark.parametrize("least", [0.3, 0.9, 2.0])
@pytest.mark.parametrize("centres", [0, 1])
@pytest.mark.parametrize("domain", ["TRT", "", "trt.plugins"])
def test_efficient_nms_of_onnx(least, centres, domain):
    """As many rows for each image as for a class; the last one is repeated."""
    boxes, scores = scene(seed=9)
    given = boxes
    if centres:
        low, high = boxes[..., :2], boxes[..., 2:]
        given = np.concatenate([(low + high) / 2, high - low], -1).astype("f")
    most = 6
    got = run(
        "EfficientNMS_ONNX_TRT",
        [given.reshape(2, -1, 4), scores],
        [("indices", "i")],
        domain=domain,
        max_output_boxes_per_class=most,
        iou_threshold=0.4,
        score_threshold=least,
        center_point_box=centres,
    )[0]
    want = []
    for image in range(len(scores)):
        numbered = [(image, c, int(np.flatnonzero(scores[image, :, c] == score)[0]))
                    for score, c, _ in suppressed(boxes[image].reshape(-1, 1, 4), scores[image], most, 0.4, least)]  # fmt: skip
        want += numbered
    want += [want[-1] if want else (-1, -1, -1)] * (2 * most - len(want))
    np.testing.assert_array_equal(got, want)


def bilinear(image, y, x):
    """Of [c, h, w], at a place that is moved into it."""
    height, width = image.shape[1:]
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    row, column = int(y), int(x)
    below, right = min(row + 1, height - 1), min(column + 1, width - 1)
    dy, dx = y - row, x - column
    top = image[:, row, column] * (1 - dx) + image[:, row, right] * dx
    return top * (1 - dy) + (image[:, below, column] * (1 - dx) + image[:, below, right] * dx) * dy


def pyramid(rois, images, size, pooled, *, transform=2, samples=0, absolute=1, swap=0, plusone=0, scale=224):
    """By the plugin's description."""
    out = np.zeros((*rois.shape[:2], images[0].shape[1], pooled, pooled))
    for n, r in np.ndindex(rois.shape[:2]):
        a, b, c, d = rois[n, r].astype(np.float64)
        (x1, x2), (y1, y2) = sorted((a, c)), sorted((b, d))
        if swap:
            x1, x2, y1, y2 = y1, y2, x1, x2
        if absolute:
            x1, x2, y1, y2 = x1 / size[1], x2 / size[1], y1 / size[0], y2 / size[0]
        x1, x2, y1, y2 = (min(max(value, 0), 1) for value in (x1, x2, y1, y2))
        area = (y2 - y1 + plusone / size[0]) * (x2 - x1 + plusone / size[1])
        side = np.sqrt(area * size[0] * size[1])
        image = images[sum(side > limit for limit in (scale / 2, scale, 2 * scale))][n]
        for i, j in np.ndindex(pooled, pooled):
            places = []
            for low, high, extent, bin in ((y1, y2, image.shape[1], i), (x1, x2, image.shape[2], j)):
                pixels = extent - 1 if transform < 0 else extent
                begin, end = (
                    (low * pixels, high * pixels) if transform < 2 else (low * pixels - 0.5, high * pixels - 0.5)
                )
                step = (end - begin) / (pooled - 1 if transform < 0 else pooled)
                count = samples or max(1, int(np.ceil((end - begin) / pooled)))
                offset = 0.5 if transform > 0 else 0
                places.append([begin + step * bin + step * (k + offset) / count for k in range(count)])
            values = [bilinear(image, y, x) for y in places[0] for x in places[1]]
            out[n, r, :, i, j] = np.mean(values, 0)
    return out


@pytest.mark.parametrize(
    "how, attributes",
    [
        ({}, {}),
        ({"samples": 2, "transform": 1, "plusone": 1}, {}),
        ({"samples": 2, "transform": 0, "scale": 60}, {}),
        ({"samples": 1, "transform": -1, "absolute": 0, "swap": 1}, {}),
        ({"samples": 1, "transform": -1, "absolute": 0, "swap": 1, "scale": 158}, {"legacy": 1}),
    ],
)
def test_pyramid_roi_align(how, attributes):
    random = np.random.default_rng(3)
    size, pooled = (320, 256), 3
    images = [random.standard_normal((2, 3, size[0] // s, size[1] // s)).astype("f") for s in (4, 8, 16, 32)]
    sides = np.array([[8, 8], [60, 90], [130, 120], [250, 200], [250, 310], [0, 0]])
    low = random.uniform(0, 5, (2, len(sides), 2))
    rois = np.concatenate([low, low + sides], -1)
    if not how.get("absolute", 1):
        rois = rois / 320
    rois = rois.astype("f")
    names = {
        "transform": "roi_coords_transform",
        "samples": "sampling_ratio",
        "absolute": "roi_coords_absolute",
        "swap": "roi_coords_swap",
        "plusone": "roi_coords_plusone",
        "scale": "fpn_scale",
    }
    given = attributes or {names[key]: value for key, value in how.items()}
    got = run("PyramidROIAlign_TRT", [rois, *images], [("y", "f")], pooled_size=pooled, image_size=size, **given)[0]
    np.testing.assert_allclose(got, pyramid(rois, images, size, pooled, **how), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("span, relative, length", [(8, 16, 20), (4, 8, 3), (16, 40, 33)])
def test_disentangled_attention(span, relative, length):
    random = np.random.default_rng(8)
    content = random.standard_normal((3, length, length)).astype("f")
    to_position, from_position = random.standard_normal((2, 3, length, relative)).astype("f")
    got = run(
        "DisentangledAttention_TRT",
        [content, to_position, from_position],
        [("y", "f")],
        shapes={"x0": (3, "n", "n"), "x1": (3, "n", relative), "x2": (3, "n", relative)},
        span=span,
        factor=0.25,
    )[0]
    middle = span // 2
    want = np.zeros(content.shape)
    for j, k in np.ndindex(length, length):
        distance = j - k
        if abs(distance) > middle:
            steps = np.log(abs(distance) / middle) / np.log((relative - 1) / middle) * (middle - 1) * (1 - 1e-7)
            distance = int(np.sign(distance) * (np.ceil(steps) + middle))
        place = min(max(distance + span, 0), 2 * span - 1)
        want[:, j, k] = (content[:, j, k] + to_position[:, j, place] + from_position[:, k, place]) * 0.25
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("domain", ["mmdeploy", "mmcv"])
@pytest.mark.parametrize("modulated", [False, True])
def test_deformable_convolutions(domain, modulated):
    random = np.random.default_rng(1)
    groups, deform_groups, stride, padding, dilation = 2, 2, (2, 1), (1, 2), (1, 2)
    x = random.standard_normal((2, 4, 9, 8)).astype("f")
    weight = random.standard_normal((6, 2, 3, 2)).astype("f")
    rows = (9 + 2 * padding[0] - dilation[0] * 2 - 1) // stride[0] + 1
    columns = (8 + 2 * padding[1] - dilation[1] - 1) // stride[1] + 1
    offset = random.uniform(-2, 2, (2, deform_groups * 2 * 6, rows, columns)).astype("f")
    mask = random.uniform(0, 1, (2, deform_groups * 6, rows, columns)).astype("f")
    bias = random.standard_normal(6).astype("f")
    arrays = [x, offset, mask, weight, bias] if modulated else [x, offset, weight]
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    got = run(
        "MMCVModulatedDeformConv2d" if modulated else "MMCVDeformConv2d",
        arrays,
        [("y", "f")],
        domain=domain,
        deform_groups=deform_groups,
        **attributes,
    )[0]
    want = np.zeros((2, 6, rows, columns))
    for n, m, r, c in np.ndindex(want.shape):
        for ch in range(2):
            channel = (m // 3) * 2 + ch
            part = channel // 2  # of the groups of offsets
            for tap in range(6):
                dy, dx = offset[n, (part * 6 + tap) * 2 : (part * 6 + tap) * 2 + 2, r, c].astype(np.float64)
                y = r * stride[0] - padding[0] + tap // 2 * dilation[0] + dy
                at = c * stride[1] - padding[1] + tap % 2 * dilation[1] + dx
                value = 0.0
                for row in (int(np.floor(y)), int(np.floor(y)) + 1):
                    for column in (int(np.floor(at)), int(np.floor(at)) + 1):
                        if 0 <= row < 9 and 0 <= column < 8:
                            value += (1 - abs(y - row)) * (1 - abs(at - column)) * x[n, channel, row, column]
                scale = mask[n, part * 6 + tap, r, c] if modulated else 1
                want[n, m, r, c] += weight[m, ch, tap // 2, tap % 2] * scale * value
        want[n, m, r, c] += bias[m] if modulated else 0
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grid_sampler(mode, padding):
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 3, 5, 6)).astype("f")
    grid = random.uniform(-1.3, 1.3, (2, 4, 3, 2)).astype("f")
    got = run("grid_sampler", [x, grid], [("y", "f")], domain="mmdeploy", interpolation_mode=mode,
              padding_mode=padding, align_corners=1)  # fmt: skip
    names = ["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"]
    want = run("GridSample", [x, grid], [("y", "f")], domain="", mode=names[0][mode], padding_mode=names[1][padding],
               align_corners=1)  # fmt: skip
    np.testing.assert_array_equal(got[0], want[0])


@pytest.mark.parametrize("aligned", [0, 1])
def test_roi_align_of_mmcv(aligned):
    x, rois, index, sizes = regions()
    both = np.concatenate([index[:, None].astype("f"), rois], -1)
    got = run("MMCVRoiAlign", [x, both], [("y", "f")], domain="mmdeploy", mode="avg", aligned=aligned, **sizes)
    kind = "half_pixel" if aligned else "output_half_pixel"
    want = run("RoiAlign", [x, rois, index], [("y", "f")], domain="", coordinate_transformation_mode=kind, **sizes)
    np.testing.assert_array_equal(got[0], want[0])
    with pytest.raises(Exception, match="mode 'max'"):
        run("MMCVRoiAlign", [x, both], [("y", "f")], domain="mmdeploy", mode="max", aligned=aligned, **sizes)


@pytest.mark.parametrize("older", [False, True])
def test_batched_nms_of_mmdeploy(older):
    boxes, scores = scene(seed=5, per_class=3)
    boxes = (boxes * 50).astype("f")
    names = {
        "keep_topk": 8,
        "topk": 10,
        "score_threshold": 0.3,
        "iou_threshold": 0.4,
        "is_normalized": 0,
        "clip_boxes": 0,
    }
    if older:
        names = {
            "keepTopK": 8,
            "topK": 10,
            "scoreThreshold": 0.3,
            "iouThreshold": 0.4,
            "isNormalized": 0,
            "clipBoxes": 0,
        }
    given = scores[:, :, None] if older else scores
    outputs = [("dets", "f"), ("labels", "i")]
    dets, labels = run(
        "TRTBatchedNMS", [boxes, given], outputs, domain="mmdeploy", num_classes=3, background_label_id=-1, **names
    )
    for image in range(2):
        found = suppressed(boxes[image], scores[image], 8, 0.4, 0.3, candidates=10, more=1.0)
        want = np.zeros((8, 5))
        for i, (score, _, box) in enumerate(found):
            want[i] = [*box, score]
        np.testing.assert_allclose(dets[image], want, rtol=1e-6)
        np.testing.assert_array_equal(labels[image], [c for _, c, _ in found] + [-1] * (8 - len(found)))


def test_attention_norms_and_gathers_of_mmdeploy():
    random = np.random.default_rng(4)
    sizes = np.array([[5, 7], [3, 4]])
    begins = np.array([0, 35])
    value = random.standard_normal((2, 47, 3, 6)).astype("f")
    places = random.uniform(-0.2, 1.2, (2, 4, 3, 2, 2, 2)).astype("f")
    weights = random.uniform(0, 1, (2, 4, 3, 2, 2)).astype("f")
    arrays = [value, sizes, begins, places, weights]
    got = run("MMCVMultiScaleDeformableAttention", arrays, [("y", "f")], domain="mmdeploy", constants=("x1", "x2"))
    want = deformable(value, sizes, begins, places, weights).reshape(2, 4, 18)
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-5)

    x = random.standard_normal((2, 3, 4, 5)).astype("f")
    scale, bias = random.standard_normal((2, 3)).astype("f")
    for operator in ("TRTInstanceNormalization", "MMCVInstanceNormalization"):
        got = run(operator, [x, scale, bias], [("y", "f")], domain="mmdeploy", epsilon=1e-3)
        mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
        want = (x - mean) / np.sqrt(variance + 1e-3) * scale[:, None, None] + bias[:, None, None]
        np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-5)

    data, places = random.standard_normal((2, 9, 4)).astype("f"), random.integers(0, 9, (2, 5)).astype(np.int32)
    got = run("GatherTopk", [data, places], [("y", "f")], domain="mmdeploy")
    np.testing.assert_array_equal(got[0], np.take_along_axis(data, places[..., None].astype(int), 1))
