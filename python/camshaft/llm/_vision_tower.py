"""Towers of vision as networks: from the patches of a picture to the rows that stand in for its placeholders.

CLIP: Radford et al., 2021; SigLIP: Zhai et al., 2023; LLaVA: Liu et al., 2023; Qwen2-VL: Wang et al., 2024; Qwen2.5-VL: Bai
et al., 2025."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from camshaft._values import Value
from camshaft.llm._fields import Fields
from camshaft.llm._layers import Parts, Step
from camshaft.llm._vision_config import VisionTower

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_COLOURS = 3


# Of CLIP, and of SigLIP, where a folder does not say.
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Normalization:
    """Of the bytes of a picture: x · scale − offset, by colours."""

    scale: tuple[float, ...]
    offset: tuple[float, ...]


def read_normalization(fields: Fields, tower: VisionTower) -> Normalization:
    """fields: of preprocessor_config.json."""
    is_siglip = tower.stack.model_type == "siglip_vision_model"
    mean, std = (_HALF, _HALF) if is_siglip else (_CLIP_MEAN, _CLIP_STD)
    factor = 1.0
    if fields.flag("do_rescale", default=True):
        factor = fields.number("rescale_factor", default=1 / 255, low=1e-9)
    if not fields.flag("do_normalize", default=True):
        return Normalization((factor,) * _COLOURS, (0.0,) * _COLOURS)
    if fields.has("image_mean"):
        mean = tuple(fields.numbers("image_mean", _COLOURS))  # type: ignore[assignment]
    if fields.has("image_std"):
        std = tuple(fields.numbers("image_std", _COLOURS))  # type: ignore[assignment]
    if min(std) <= 0:
        fields.wrong(("image_std",), "a list of positive numbers", list(std))
    return Normalization(tuple(factor / each for each in std), tuple(middle / each for middle, each in zip(mean, std)))


def add_llava_tower(parts: Parts, projector: Parts, tower: VisionTower, normalization: Normalization) -> None:
    """parts: the tower's; projector: of the same network, with the projector's weights. Pictures are of one size, or the first
    patches of one."""
    import numpy

    net, stack, weights = parts.net, parts.decoder, parts.weights
    patches = net.input("patches", "u8", ["images", "patches", tower.patch_size**2 * _COLOURS])
    order = net.input("order", "i32", ["rows"]) if tower.grid_pinpoints else None
    shape = net.Shape(patches)
    images, count = net.Gather(shape, [0]), net.Gather(shape, [1])
    bias = None
    if "embedding" in stack.biased:
        bias = weights.f32(weights.name("embedding", kind="bias"), (stack.width,))
    x = _patch_embeddings(parts, tower, patches, normalization, bias)
    states = count
    if "class" in stack.family.names:
        first = net.constant(weights.f32(weights.name("class", kind="class_embedding"), (stack.width,)))
        of_all = net.Expand(net.Reshape(first, [1, 1, -1]), net.Concat(images, [1, stack.width], axis=0))
        x = net.Concat(of_all, net.Reshape(x, net.Concat(images, count, [stack.width], axis=0)), axis=1)
        states = count + 1
    sizes = net.Concat(images, states, [stack.width], axis=0)
    table = net.constant(weights.f32(weights.name("positions"), (stack.learned_positions, stack.width)))
    x = net.Reshape(x, sizes) + net.Slice(table, [0], states, [0])
    x = net.Reshape(x, [-1, stack.width])
    if "embedding_norm" in stack.family.names:
        x = parts.norm(x, "embedding_norm", None, stack.width)
    beginnings = net.Range(numpy.int64(0), net.Squeeze((images + 1) * states, [0]), net.Squeeze(states, [0]))
    step = _step_over(parts, beginnings, states, {})
    results = [x]
    for index in range(len(stack.layers)):
        x = _layer(parts, x, index, step)
        results.append(x)
    features = [results[number] for number in tower.features]
    y = features[0] if len(features) == 1 else net.Concat(*features, axis=-1)
    width = stack.width * len(features)
    if "class" in stack.family.names and not tower.keeps_class:
        apart = net.Slice(net.Reshape(y, net.Concat(images, states, [width], axis=0)), [1], [1 << 30], [1])
        y = net.Reshape(apart, [-1, width])
    after = projector.decoder.width
    y = projector.activation(projector.linear(y, "embedding", None, width, after))
    y = projector.linear(y, "linear_2", None, after, after)
    if order is not None:
        newline = net.constant(_newline(projector, after))
        y = net.Gather(net.Concat(y, net.Reshape(newline, [1, after]), axis=0), order)
    net.output(y, "image_embeddings")


def add_qwen_tower(parts: Parts, tower: VisionTower, normalization: Normalization, width: int) -> None:
    """Of one picture of any size; width: the decoder's. Patches come by the squares of them that become rows, and with windows
    these by windows; `order` are the places of the picture's rows among them."""
    net, stack = parts.net, parts.decoder
    patches = net.input("patches", "u8", ["patches", tower.patch_size**2 * _COLOURS])
    positions = net.input("positions", "i32", ["patches", 2])
    starts = net.input("window_starts", "i32", ["boundaries"]) if tower.window else None
    order = net.input("order", "i32", ["rows"]) if tower.window else None
    count = net.Gather(net.Shape(patches), [0])
    x = _patch_embeddings(parts, tower, patches, normalization, None)
    angles = {layer.rope: parts.angles(layer.rope, positions) for layer in stack.layers[:1] if layer.rope is not None}
    whole = _step_over(parts, net.Concat([0], count, axis=0), count, angles)
    windows = whole if starts is None else _step_over(parts, starts, [tower.window**2], angles)
    for index in range(len(stack.layers)):
        sees_all = starts is None or index in tower.full_layers
        x = _layer(parts, x, index, whole if sees_all else windows)
    merged = stack.width * tower.merge_size**2
    y = net.Reshape(parts.norm(x, "merger_norm", None, stack.width), [-1, merged])
    y = net.Gelu(parts.linear(y, "merger_up", None, merged, merged))
    y = parts.linear(y, "merger_down", None, merged, width)
    net.output(y if order is None else net.Gather(y, order), "image_embeddings")


def _patch_embeddings(
    parts: Parts, tower: VisionTower, patches: Value, normalization: Normalization, bias: Array | None
) -> Value:
    """[patches of all pictures, width]. A patch's elements come by rows, columns and colours."""
    import numpy

    net, weights, width, side = parts.net, parts.weights, parts.decoder.width, tower.patch_size
    inner = side * side * _COLOURS
    times = [tower.temporal_patch_size] if tower.temporal_patch_size > 1 or tower.projector is None else []
    kernel = weights.f32(weights.name("embedding"), (width, _COLOURS, *times, side, side))
    if times:  # a picture is a film of the same one
        kernel = kernel.sum(axis=2, dtype=numpy.float32)
    kernel = numpy.ascontiguousarray(kernel.transpose(0, 2, 3, 1)).reshape(width, inner)
    scale, offset = (
        numpy.tile(numpy.asarray(values, numpy.float32), side * side)
        for values in (normalization.scale, normalization.offset)
    )
    x = net.Cast(net.Reshape(patches, [-1, inner]), to="f32") * scale - offset
    return net.Gemm(x, kernel, bias, transB=1)


def _step_over(parts: Parts, starts: Any, longest: Any, angles: Any) -> Step:
    """starts: where the states of each that see each other begin, and the end; longest: i64 [1], the most of one."""
    import numpy

    net = parts.net
    starts = net.Reshape(net.Cast(starts, to="i32"), [-1])
    sizes = net.Concat(net.Shape(starts) - 1, longest, axis=0)
    return Step(starts, angles, offsets=net.Expand(numpy.zeros((1, 1), numpy.int32), sizes))


def _layer(parts: Parts, x: Value, index: int, step: Step) -> Value:
    width = parts.decoder.width
    y, _ = parts.attention(parts.norm(x, "attention_norm", index, width), index, parts.decoder.layers[index], step, ())
    x = x + y
    return x + parts.mlp(parts.norm(x, "mlp_norm", index, width), index)


def _newline(projector: Parts, width: int) -> Array:
    """The row behind each row of a picture's tiles."""
    weights = projector.weights
    return weights.f32(weights.beside("image_newline"), (width,))
