"""TensorRT's own plugins that models name, beside plain NumPy."""

import math

import numpy as np
import pytest
from test_module import module
from test_tensorrt import Heard, trt

from onnx import TensorProto, helper, numpy_helper

KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT32, "l": TensorProto.INT64, "e": TensorProto.FLOAT16}


def run(operator, arrays, outputs, *, domain="TRT", constants=(), shapes=None, **attributes):
    """The results of one node. `outputs`: (name, kind) of each; arrays of `constants` become initializers."""
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [
        helper.make_tensor_value_info(name, KINDS[array.dtype.char], (shapes or {}).get(name, array.shape))
        for name, array in zip(names, arrays)
        if name not in constants
    ]
    graph = helper.make_graph(
        [helper.make_node(operator, names, [name for name, _ in outputs], domain=domain, **attributes)],
        "g",
        inputs,
        [helper.make_tensor_value_info(name, KINDS[kind], None) for name, kind in outputs],
        [numpy_helper.from_array(array, name) for name, array in zip(names, arrays) if name in constants],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    engine = module.build(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    got = engine(*[array for name, array in zip(names, arrays) if name not in constants])
    return got if isinstance(got, (tuple, list)) else [got]


def overlap(a, b, more=0.0):
    size = np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + more)
    area = [np.prod(np.maximum(0, box[2:] - box[:2] + more)) for box in (a, b)]
    return np.prod(size) / (sum(area) - np.prod(size))


def suppressed(boxes, scores, most, iou, least, *, agnostic=False, background=-1, candidates=None, more=0.0):
    """[(score, class, box)] of one image, by falling score: boxes [n, 1 or c, 4], scores [n, c]."""
    found = []
    groups = [range(scores.shape[1])] if agnostic else [[c] for c in range(scores.shape[1])]
    for group in groups:
        pairs = [(scores[n, c], c, n) for c in group for n in range(len(scores)) if c != background]
        pairs = sorted((p for p in pairs if p[0] > least), key=lambda p: -p[0])[:candidates]
        kept = []
        for score, c, n in pairs:
            box = boxes[n, min(c, boxes.shape[1] - 1)]
            if all(overlap(box, other, more) <= iou for *_, other in kept):
                kept.append((score, c, box))
        found += kept
    return sorted(found, key=lambda p: -p[0])[:most]


def detections(boxes, scores, most, pad, **how):
    total, out_boxes, out_scores = [], np.zeros((len(scores), most, 4), "f"), np.zeros((len(scores), most), "f")
    classes = np.full((len(scores), most), pad, "f")
    for image, (b, s) in enumerate(zip(boxes, scores)):
        kept = suppressed(b, s, most, **how)
        total.append([len(kept)])
        for k, (score, c, box) in enumerate(kept):
            out_scores[image, k], classes[image, k], out_boxes[image, k] = score, c, box
    return np.array(total, np.int32), out_boxes, out_scores, classes


def scene(batch=2, n=40, classes=3, per_class=1, seed=0):
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 0.7, (batch, n, per_class, 2))
    boxes = np.concatenate([corner, corner + random.uniform(0.05, 0.3, corner.shape)], -1).astype("f")
    scores = random.permutation(batch * n * classes).reshape(batch, n, classes).astype("f") / (batch * n * classes)
    return boxes, scores


EFFICIENT = [("num", "i"), ("boxes", "f"), ("scores", "f"), ("classes", "i")]


@pytest.mark.parametrize("per_class", [1, 3])
@pytest.mark.parametrize("agnostic", [0, 1])
@pytest.mark.parametrize("background", [-1, 1])
def test_efficient_nms(per_class, agnostic, background):
    boxes, scores = scene(per_class=per_class, seed=per_class + 10 * agnostic)
    given = boxes[:, :, 0] if per_class == 1 else boxes
    got = run(
        "EfficientNMS_TRT",
        [given, scores],
        EFFICIENT,
        score_threshold=0.2,
        iou_threshold=0.3,
        max_output_boxes=12,
        class_agnostic=agnostic,
        background_class=background,
    )
    want = detections(boxes, scores, 12, 0, iou=0.3, least=0.2, agnostic=bool(agnostic), background=background)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_efficient_nms_of_centres_and_raw_scores_in_onnx_s_own_domain():
    boxes, scores = scene(batch=1, n=7)
    low, high = boxes[:, :, 0, :2], boxes[:, :, 0, 2:]
    centres = np.concatenate([(low + high) / 2, high - low], -1).astype("f")
    raw = np.log(scores.clip(1e-3, 0.999) / (1 - scores.clip(1e-3, 0.999))).astype("f")
    got = run(
        "EfficientNMS_TRT",
        [centres, raw],
        EFFICIENT,
        domain="",
        shapes={"x0": ["b", "n", 4], "x1": ["b", "n", 3]},
        score_threshold=0.1,
        iou_threshold=0.5,
        max_output_boxes=30,  # more than there are
        box_coding=1,
        score_activation=1,
        plugin_version="1",
    )
    want = detections(boxes, scores.clip(1e-3, 0.999), 30, 0, iou=0.5, least=0.1)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("per_class", [1, 3])
@pytest.mark.parametrize("coding", [0, 1])
@pytest.mark.parametrize("anchor_batch", [1, 2])
def test_efficient_nms_with_anchors(per_class, coding, anchor_batch):
    boxes, scores = scene(per_class=per_class, seed=3)
    anchors = scene(batch=anchor_batch, per_class=1, seed=4)[0]
    raw = boxes - anchors
    if coding == 1:
        sides = [np.concatenate([(x[..., :2] + x[..., 2:]) / 2, x[..., 2:] - x[..., :2]], -1) for x in (boxes, anchors)]
        centre, size = np.split(sides[1], 2, -1)
        raw = np.concatenate([(sides[0][..., :2] - centre) / size, np.log(sides[0][..., 2:] / size)], -1)
        anchors = sides[1]
    given = raw[:, :, 0] if per_class == 1 else raw
    arrays = [given.astype("f"), scores, anchors[:, :, 0].astype("f")]
    options = {"score_threshold": 0.2, "iou_threshold": 0.4, "max_output_boxes": 12, "box_coding": coding}
    got = run("EfficientNMS_TRT", arrays, EFFICIENT, **options)
    for a, b in zip(got, detections(boxes, scores, 12, 0, iou=0.4, least=0.2)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_anchors_of_other_sizes_are_refused():
    boxes, scores = scene(batch=1, n=4)
    with pytest.raises(module.Error, match="anchors of 2 axes: 3 are expected"):
        run("EfficientNMS_TRT", [boxes[:, :, 0], scores, boxes[0, :, 0]], EFFICIENT)


@pytest.mark.parametrize("normalized, clip", [(1, 1), (0, 0)])
def test_batched_nms(normalized, clip):
    boxes, scores = scene(seed=5, per_class=3)
    boxes = (boxes * (1 if normalized else 50) + (0.2 if clip else 0)).astype("f")
    got = run(
        "BatchedNMSDynamic_TRT",
        [boxes, scores],
        [("num", "i"), ("boxes", "f"), ("scores", "f"), ("classes", "f")],
        shareLocation=0,
        backgroundLabelId=-1,
        numClasses=3,
        topK=10,
        keepTopK=8,
        scoreThreshold=0.3,
        iouThreshold=0.4,
        isNormalized=normalized,
        clipBoxes=clip,
    )
    more = 0.0 if normalized else 1.0
    want = detections(boxes, scores, 8, -1, iou=0.4, least=0.3, candidates=10, more=more)
    if clip:
        want = (want[0], want[1].clip(0, 1), *want[2:])
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def regions():
    """Images, regions of them, the image of each, and what else a RoiAlign is told."""
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 3, 9, 11)).astype("f")
    low = random.uniform(0, 10, (5, 2))
    rois = np.concatenate([low, low + random.uniform(1, 9, low.shape)], -1).astype("f")
    index = np.array([0, 1, 1, 0, 1])
    sizes = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    return x, rois, index, sizes


@pytest.mark.parametrize("mode, onnx_mode", [(1, "avg"), (0, "max")])
@pytest.mark.parametrize("shift", [0, 1])
def test_roi_align(mode, onnx_mode, shift):
    x, rois, index, sizes = regions()
    got = run(
        "ROIAlign_TRT",
        [x, rois, index.astype(np.int32)],
        [("y", "f")],
        mode=mode,
        coordinate_transformation_mode=shift,
        **sizes,
    )
    transformation = "half_pixel" if shift else "output_half_pixel"
    want = run(
        "RoiAlign",
        [x, rois, index],
        [("y", "f")],
        domain="",
        mode=onnx_mode,
        coordinate_transformation_mode=transformation,
        **sizes,
    )
    np.testing.assert_array_equal(got[0], want[0])


def deformable(value, sizes, begins, places, weights):
    """By its definition: bilinear samples of zero-padded images, weighed."""
    batch, queries, heads, levels, points, _ = places.shape
    out = np.zeros((batch, queries, heads, value.shape[3]))
    for b, q, h, level, p in np.ndindex(batch, queries, heads, levels, points):
        height, width = sizes[level]
        image = value[b, begins[level] : begins[level] + height * width, h].reshape(height, width, -1)
        x, y = places[b, q, h, level, p].astype(np.float64) * (width, height) - 0.5
        for dy in (0, 1):
            for dx in (0, 1):
                row, column = int(np.floor(y)) + dy, int(np.floor(x)) + dx
                if 0 <= row < height and 0 <= column < width:
                    weight = (1 - abs(y - row)) * (1 - abs(x - column))
                    out[b, q, h] += weights[b, q, h, level, p] * weight * image[row, column]
    return out


def test_deformable_attention():
    random = np.random.default_rng(4)
    sizes = np.array([[5, 7], [3, 4], [1, 1]])
    begins = np.concatenate([[0], np.cumsum(np.prod(sizes, 1))[:-1]])
    value = random.standard_normal((2, int(np.prod(sizes, 1).sum()), 3, 6)).astype("f")
    places = random.uniform(-0.2, 1.2, (2, 4, 3, 3, 2, 2)).astype("f")
    weights = random.uniform(0, 1, (2, 4, 3, 3, 2)).astype("f")
    got = run(
        "MultiscaleDeformableAttnPlugin_TRT",
        [value, sizes.astype(np.int32), begins.astype(np.int32), places, weights],
        [("y", "f")],
        constants=("x1", "x2"),
    )
    np.testing.assert_allclose(got[0], deformable(value, sizes, begins, places, weights), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("relu, alpha", [(0, 0.5), (1, 0.0), (1, 0.25)])
def test_instance_normalization(relu, alpha):
    random = np.random.default_rng(6)
    x, scale, bias = (
        random.standard_normal((2, 3, 4, 5)).astype("f"),
        np.array([1, 2, 3], "f"),
        np.array([0, 1, 2], "f"),
    )
    got = run("InstanceNormalization_TRT", [x, scale, bias], [("y", "f")], epsilon=1e-3, relu=relu, alpha=alpha)
    mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    want = (x - mean) / np.sqrt(variance + 1e-3) * scale[:, None, None] + bias[:, None, None]
    want = np.where(want < 0, alpha * want, want) if relu else want
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-5)


# ---- Blocks of diffusion models, and small ones ----


def erf(x):
    return np.vectorize(math.erf)(x)


def normalized(x, groups, epsilon, scale, bias):
    parts = x.reshape(len(x), groups, -1).astype("d")
    parts = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + epsilon)
    shape = (-1, *[1] * (x.ndim - 2))
    return parts.reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape)


@pytest.mark.parametrize("domain", ["TRT", ""])
@pytest.mark.parametrize("swish", [0, 1])
@pytest.mark.parametrize("kind", ["f", "e"])
def test_group_norm_of_diffusion_models(domain, swish, kind):
    """32 groups; scale and bias are f32 whatever the image is."""
    random = np.random.default_rng(7)
    x = random.standard_normal((2, 64, 3, 5)).astype(kind)
    scale, bias = random.standard_normal((2, 64)).astype("f")
    options = {"epsilon": 1e-3, "bSwish": swish, "domain": domain}
    got = run("GroupNorm", [x, scale, bias], [("y", kind)], constants=("x1", "x2"), **options)
    want = normalized(x, 32, 1e-3, scale, bias)
    want = want / (1 + np.exp(-want)) if swish else want
    np.testing.assert_allclose(got[0], want, rtol=2e-2 if kind == "e" else 1e-4, atol=1e-2 if kind == "e" else 1e-5)


def test_group_normalization_plugin():
    random = np.random.default_rng(8)
    x, (scale, bias) = random.standard_normal((2, 6, 4, 3)).astype("f"), random.standard_normal((2, 6)).astype("f")
    got = run("GroupNormalizationPlugin", [x, scale, bias], [("y", "f")], domain="", eps=1e-2, num_groups=3)
    np.testing.assert_allclose(got[0], normalized(x, 3, 1e-2, scale, bias), rtol=1e-4, atol=1e-5)


def test_layer_norm_of_diffusion_models():
    random = np.random.default_rng(9)
    x, (scale, bias) = random.standard_normal((2, 7, 10)).astype("f"), random.standard_normal((2, 10)).astype("f")
    got = run("LayerNorm", [x, scale, bias], [("y", "f")], domain="", epsilon=1e-3, axis=-1)
    want = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-3) * scale + bias
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-5)


def test_split_gelu():
    x = np.random.default_rng(10).standard_normal((2, 3, 12)).astype("f")
    got = run("SplitGeLU", [x], [("y", "f")], domain="", shapes={"x0": ["n", "s", 12]})
    left, right = x[..., :6], x[..., 6:]
    np.testing.assert_allclose(got[0], left * 0.5 * right * (1 + erf(right / np.sqrt(2))), rtol=1e-4, atol=1e-5)


def test_a_sequence_becomes_an_image():
    random = np.random.default_rng(11)
    x, more = random.standard_normal((2, 2, 12, 8)).astype("f")
    bias, image = random.standard_normal(8).astype("f"), np.zeros((2, 8, 3, 4), "f")
    got = run("SeqLen2Spatial", [x, bias, more, image], [("y", "f")], domain="")
    np.testing.assert_allclose(
        got[0], (x + bias + more).reshape(2, 3, 4, 8).transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6
    )


def attended(query, key, value):
    scores = np.einsum("nqhd,nkhd->nhqk", query.astype("d"), key) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("nhqk,nkhd->nqhd", weights / weights.sum(-1, keepdims=True), value)


@pytest.mark.parametrize("is_flat", [False, True])
def test_attention_of_diffusion_models(is_flat):
    random = np.random.default_rng(12)
    qkv = random.standard_normal((2, 9, 4, 3, 8)).astype("f")
    got = run("fMHA_V2", [qkv], [("y", "f")], domain="", shapes={"x0": ["n", "s", 4, 3, 8]})
    np.testing.assert_allclose(got[0], attended(*np.moveaxis(qkv, 3, 0)), rtol=1e-4, atol=1e-5)
    query, kv = random.standard_normal((2, 9, 4, 8)).astype("f"), random.standard_normal((2, 7, 4, 2, 8)).astype("f")
    given = query.reshape(2, 9, 32) if is_flat else query
    got = run("fMHCA", [given, kv], [("y", "f")], domain="")
    np.testing.assert_allclose(got[0], attended(query, *np.moveaxis(kv, 3, 0)), rtol=1e-4, atol=1e-5)


def test_resizing_and_activations():
    x = np.random.default_rng(13).standard_normal((2, 3, 4, 5)).astype("f")
    got = run("ResizeNearest_TRT", [x], [("y", "f")], shapes={"x0": ["n", 3, "h", "w"]}, scale=2.0)
    np.testing.assert_array_equal(got[0], x.repeat(2, axis=2).repeat(2, axis=3))
    got = run("LReLU_TRT", [x], [("y", "f")], negSlope=0.25)
    np.testing.assert_allclose(got[0], np.where(x < 0, np.float32(0.25) * x, x), rtol=1e-6)
    got = run("Clip_TRT", [x], [("y", "f")], clipMin=-0.5, clipMax=1.0)
    np.testing.assert_array_equal(got[0], np.clip(x, np.float32(-0.5), np.float32(1)))


@pytest.mark.parametrize(
    "operator, arrays, attributes, what",
    [
        ("ResizeNearest_TRT", [np.ones((1, 1, 2, 2), "f")], {"scale": 1.5}, "a scale of 1.5; whole numbers are"),
        ("fMHA_V2", [np.ones((1, 2, 4, 2, 8), "f")], {}, "axis 3 has 2 elements, 3 are expected"),
        ("fMHCA", [np.ones((1, 2), "f"), np.ones((1, 2, 4, 2, 8), "f")], {}, "input 0 has 2 axes"),
        ("SeqLen2Spatial", [np.ones((1, 4, 2), "f")] * 4, {}, "input 3 has 3 axes, 4 are expected"),
    ],
)
def test_blocks_that_are_refused(operator, arrays, attributes, what):
    with pytest.raises(module.Error, match=what):
        run(operator, arrays, [("y", "f")], **attributes)


def test_plugins_of_tensorrt_are_in_the_registry():
    """As programs put EfficientNMS_TRT behind a detector: out of the registry, with fields."""
    registry = trt.get_plugin_registry()
    assert {creator.name for creator in registry.plugin_creator_list} >= {"EfficientNMS_TRT", "ROIAlign_TRT"}
    creator = registry.get_plugin_creator("EfficientNMS_TRT", "1", "")
    fields = trt.PluginFieldCollection(
        [
            trt.PluginField("background_class", np.array([-1], np.int32), trt.PluginFieldType.INT32),
            trt.PluginField("max_output_boxes", np.array([5], np.int32), trt.PluginFieldType.INT32),
            trt.PluginField("score_threshold", np.array([0.25], np.float32), trt.PluginFieldType.FLOAT32),
            trt.PluginField("iou_threshold", np.array([0.5], np.float32), trt.PluginFieldType.FLOAT32),
        ]
    )
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 7, 7], [8, 8, 9, 9]]], np.float32)
    scores = np.array([[[0.9], [0.8], [0.7], [0.1]]], np.float32)
    builder = trt.Builder(Heard())
    network = builder.create_network()
    operands = [
        network.add_input("boxes", trt.float32, boxes.shape),
        network.add_input("scores", trt.float32, (1, 4, 1)),
    ]
    layer = network.add_plugin_v2(operands, creator.create_plugin("nms", fields))
    assert layer.type == trt.LayerType.PLUGIN_V2 and layer.num_outputs == 4 and layer.plugin.plugin_type == creator.name
    assert layer.get_output(1).shape == (1, 5, 4) and layer.get_output(0).dtype == trt.int32
    for k, name in enumerate(("count", "kept", "best", "classes")):
        layer.get_output(k).name = name
        network.mark_output(layer.get_output(k))
    engine = builder.build_engine(network, builder.create_builder_config())
    made = {
        name: np.zeros(tuple(engine.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
        for name in engine
    }
    made["boxes"][...], made["scores"][...] = boxes, scores
    assert engine.create_execution_context().execute_v2([array.ctypes.data for array in made.values()])
    assert made["count"].tolist() == [[2]] and np.allclose(made["best"][0], [0.9, 0.7, 0, 0, 0])
    assert np.allclose(made["kept"][0, :2], boxes[0, [0, 2]])
    with pytest.raises(ValueError, match="no field 'threshold', but max_output_boxes"):
        creator.create_plugin("nms", [trt.PluginField("threshold", np.array([1], np.int32), trt.PluginFieldType.INT32)])
    assert registry.get_plugin_creator("EfficientNMS_TRT", "2", "") is None


def test_a_field_of_several_numbers():
    creator = trt.get_plugin_registry().get_plugin_creator("PyramidROIAlign_TRT", "1", "")
    sizes = {"x": (1, 2, 4), "a": (1, 3, 32, 32), "b": (1, 3, 16, 16), "c": (1, 3, 8, 8), "d": (1, 3, 4, 4)}
    builder = trt.Builder(Heard())
    network = builder.create_network()
    operands = [network.add_input(name, trt.float32, size) for name, size in sizes.items()]
    fields = [
        trt.PluginField("image_size", np.array([128, 128], np.int32), trt.PluginFieldType.INT32),
        trt.PluginField("pooled_size", np.array([2], np.int32), trt.PluginFieldType.INT32),
    ]
    layer = network.add_plugin_v2(operands, creator.create_plugin("pool", fields))
    assert layer.get_output(0).shape == (1, 2, 3, 2, 2)
    network.mark_output(layer.get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config())
    with pytest.raises(ValueError, match="has 1 numbers, not 2"):
        creator.create_plugin(
            "pool", [trt.PluginField("image_size", np.array([1], np.int32), trt.PluginFieldType.INT32)]
        )
