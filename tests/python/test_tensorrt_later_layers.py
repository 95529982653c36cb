"""Layers that TensorRT 10 added: quantisation by blocks, with and without given scales, attention, rotary embeddings."""

import itertools

import numpy as np
import pytest
from test_tensorrt import Heard, trt
from test_tensorrt_network import RANDOM, f32, run

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def to_fp4(x):
    """The nearest of FP4's numbers, of which the even one where two are."""
    magnitude = np.minimum(np.abs(x), 6)[..., None]
    distance = np.abs(magnitude - FP4)
    nearest = np.argmin(distance + np.where(np.arange(8) % 2, 1e-9, 0), -1)
    return np.sign(x) * FP4[nearest]


def dequantized(network, layer, of_scales=None):
    """What the two results of a dynamic quantisation mean."""
    scale = layer.get_output(1)
    if of_scales is not None:
        scale = network.add_dequantize(scale, of_scales, trt.float32).get_output(0)
    return network.add_dequantize(layer.get_output(0), scale, trt.float32)


@pytest.mark.parametrize("axis", [0, 1])
def test_dynamic_quantisation_to_fp4(axis):
    x = f32(32, 48)
    x[:16, :16] = 0  # whose scale is 0

    def add(network, given):
        of_scales = network.add_constant((), np.float32(0.01)).get_output(0)
        layer = network.add_dynamic_quantize(given, axis, 16, trt.DataType.FP4, trt.DataType.FP8)
        layer.set_input(1, of_scales)
        assert layer.get_output(0).dtype == trt.DataType.FP4 and layer.get_output(1).dtype == trt.DataType.FP8
        assert layer.get_output(1).shape == ((2, 48) if axis == 0 else (32, 3))
        assert layer.block_shape == ((16, 1) if axis == 0 else (1, 16))
        return dequantized(network, layer, of_scales)

    y = run(add, x)
    blocks = np.moveaxis(x, axis, -1).reshape(-1, 16)
    got = np.moveaxis(y, axis, -1).reshape(-1, 16)
    scale = np.abs(blocks).max(-1, keepdims=True) / 6
    rounded = np.where(scale > 0, to_fp4(blocks / np.maximum(scale, 1e-30)) * scale, 0)
    # The scales themselves have three bits behind the point: what is rounded by them may come out beside.
    assert np.abs(got - blocks).max() <= np.abs(rounded - blocks).max() * 1.25 + 1e-6
    assert not y[:16, :16].any() or axis == 1


def test_dynamic_quantisation_to_fp8():
    x = 100 * f32(4, 64)

    def add(network, given):
        layer = network.add_dynamic_quantize_v2(given, trt.Dims((1, 32)), trt.DataType.FP8, trt.DataType.E8M0)
        assert (layer.axis, layer.block_size) == (1, 32) and layer.get_output(1).dtype == trt.DataType.E8M0
        with pytest.raises(ValueError, match="not along one axis"):
            layer.block_shape = (2, 2)
        return dequantized(network, layer)

    assert (np.abs(run(add, x) - x) <= np.abs(x) / 16 + 0.1).all()


def test_dynamic_quantisation_that_is_wrong():
    for arguments, match in (
        ((1, 16, trt.DataType.INT8, trt.DataType.FP8), "to FP4 or FP8"),
        ((1, 7, trt.DataType.FP4, trt.DataType.FP8), "blocks of 7 along axis 1"),
        ((0, 2, trt.DataType.FP4, trt.DataType.FP8), "one of the last two axes"),
    ):
        builder = trt.Builder(Heard())
        network = builder.create_network()
        layer = network.add_dynamic_quantize(
            network.add_input("x", trt.float32, (2, 3, 16)[arguments[0] == 1 :]), *arguments
        )
        network.mark_output(dequantized(network, layer).get_output(0))
        assert builder.build_serialized_network(network, builder.create_builder_config()) is None
        assert match in builder.logger.errors()[-1]


@pytest.mark.parametrize("blocks", [(4, 1), (1, 8), (4, 8)])
def test_quantisation_by_blocks_of_given_scales(blocks):
    x = f32(8, 32)
    counts = (8 // blocks[0], 32 // blocks[1])
    scale = np.abs(x.reshape(counts[0], blocks[0], counts[1], blocks[1])).max((1, 3)).astype(np.float32) / 7

    def add(network, given, scales):
        steps = network.add_quantize(given, scales, trt.DataType.INT4)
        assert steps.get_output(0).dtype == trt.DataType.INT4
        return network.add_dequantize(steps.get_output(0), scales, trt.float32)

    wide = np.repeat(np.repeat(scale, blocks[0], 0), blocks[1], 1)
    np.testing.assert_allclose(run(add, x, scale), np.clip(np.round(x / wide), -8, 7) * wide, atol=1e-6)


def test_dequantisation_to_half_precision():
    steps = RANDOM.integers(-127, 127, (2, 3)).astype(np.int32)

    def add(network, given, scale):
        narrow = network.add_cast(given, trt.int8).get_output(0)
        layer = network.add_dequantize(narrow, scale, trt.float16)
        assert layer.get_output(0).dtype == trt.float16
        return network.add_cast(layer.get_output(0), trt.float32)

    np.testing.assert_allclose(run(add, steps, np.array(0.5, np.float32)), steps * 0.5)


@pytest.mark.parametrize(
    "causal, masked, norm", list(itertools.product([False, True], [None, "bool", "float"], ["SOFTMAX", "NONE"]))
)
def test_attention(causal, masked, norm):
    query, key, value = 0.3 * f32(2, 4, 5, 8), f32(2, 2, 7, 8), f32(2, 2, 7, 8)
    allowed = RANDOM.random((2, 4, 5, 7)) > 0.3
    allowed[..., 0] = True
    mask = {None: None, "bool": allowed, "float": f32(2, 1, 5, 7)}[masked]
    softmax = norm == "SOFTMAX"

    def add(network, q, k, v, m=None):
        made = network.add_attention(q, k, v, trt.AttentionNormalizationOp[norm], causal)
        assert made.causal == causal and made.num_inputs == 3
        if m is not None:
            made.mask = m
            assert made.mask is m and made.num_inputs == 4
        made.name = "attention"
        layer = network.get_layer(network.num_layers - 1)
        assert layer.name == "attention" and layer.attention is made
        return [made.get_output(0)]

    got = run(add, query, key, value, *([] if mask is None else [mask]))
    k, v = (np.repeat(array, 2, 1) for array in (key, value))
    scores = query @ k.transpose(0, 1, 3, 2)
    outside = -np.inf if softmax else 0
    if causal:
        scores = np.where(np.tril(np.ones((5, 7), bool)), scores, outside)
    if masked:
        scores = np.where(mask, scores, outside) if masked == "bool" else scores + mask
    if softmax:
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
    np.testing.assert_allclose(got, scores @ v, atol=1e-4)


def test_attention_whose_weights_are_rounded():
    query, key, value = f32(1, 2, 4, 8), f32(1, 2, 6, 8), f32(1, 2, 6, 8)

    def add(network, q, k, v):
        made = network.add_attention(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, False)
        made.normalization_quantize_scale = network.add_constant((), np.float32(1 / 127)).get_output(0)
        made.normalization_quantize_to_type = trt.int8
        return [made.get_output(0)]

    scores = np.exp(query @ key.transpose(0, 1, 3, 2))
    weights = np.round(scores / scores.sum(-1, keepdims=True) * 127) / 127
    np.testing.assert_allclose(run(add, query, key, value), weights @ value, atol=0.04)


@pytest.mark.parametrize("interleaved, turned", [(False, 0), (True, 0), (False, 4)])
def test_rotary_embeddings(interleaved, turned):
    x, angles = f32(2, 3, 4, 8), f32(2, 4, (turned or 8) // 2)

    def add(network, given, cosines, sines):
        return network.add_rotary_embedding(given, cosines, sines, interleaved, turned)

    got = run(add, x, np.cos(angles), np.sin(angles))
    head, rest = (x[..., :turned], x[..., turned:]) if turned else (x, x[..., :0])
    half = head.shape[-1] // 2
    a, b = (head[..., ::2], head[..., 1::2]) if interleaved else (head[..., :half], head[..., half:])
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    pair = [a * cosine - b * sine, a * sine + b * cosine]
    want = np.stack(pair, -1).reshape(head.shape) if interleaved else np.concatenate(pair, -1)
    np.testing.assert_allclose(got, np.concatenate([want, rest], -1), atol=1e-5)


def test_rotary_embeddings_by_positions():
    x, angles = f32(1, 2, 3, 4), f32(10, 2)
    positions = np.array([[7, 0, 3]], np.int64)

    def add(network, given, cosines, sines, where):
        layer = network.add_rotary_embedding(given, cosines, sines, False, 0)
        layer.set_input(3, where)
        return layer

    a, b = x[..., :2], x[..., 2:]
    cosine, sine = np.cos(angles)[positions][:, None], np.sin(angles)[positions][:, None]
    want = np.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)
    np.testing.assert_allclose(run(add, x, np.cos(angles), np.sin(angles), positions), want, atol=1e-5)
