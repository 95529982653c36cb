"""Whisper's encoder as a network: from sounds to the keys and values that its decoder's layers see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from camshaft._errors import InvalidModelError
from camshaft._values import Value
from camshaft.llm._caches import CROSS, Caches
from camshaft.llm._decoder import Decoder, Layer
from camshaft.llm._families import WHISPER_ENCODER, has_bias
from camshaft.llm._fields import Fields, read_json
from camshaft.llm._layers import Parts
from camshaft.llm._log_mel import LogMel, log_mel, read_log_mel

PREPROCESSOR = "preprocessor_config.json"
_KERNEL = 3  # frames that a convolution reads


@dataclass(frozen=True)
class SpeechEncoder:
    """stack: its layers, which are made as a decoder's are; max_length is the number of its states."""

    stack: Decoder
    features: LogMel


def encoder_of(config: Fields, folder: Path) -> SpeechEncoder:
    width = config.integer("d_model")
    heads = config.integer("encoder_attention_heads", high=1 << 14)
    if width % heads != 0:
        config.wrong(("encoder_attention_heads",), f"a divisor of d_model ({width})", heads)
    positions = config.integer("max_source_positions", high=1 << 16)
    layer = Layer(window=0, scale=(width // heads) ** -0.5, rope=None)
    stack = Decoder(
        model_type=config.text("model_type"),
        family=WHISPER_ENCODER,
        biased=frozenset(role for role in WHISPER_ENCODER.biases if has_bias(WHISPER_ENCODER, role, config)),
        layers=(layer,) * config.integer("encoder_layers", high=1 << 12),
        width=width,
        embedding_width=width,
        mlp_width=config.integer("encoder_ffn_dim", high=1 << 24),
        heads=heads,
        kv_heads=heads,
        head_size=width // heads,
        vocabulary=0,
        max_length=positions,
        learned_positions=positions,
        activation=config.text("activation_function", default="gelu"),
        epsilon=1e-5,
        softcap=0.0,
        logits_softcap=0.0,
        tied=False,
    )
    path = folder / PREPROCESSOR
    features = read_log_mel(
        Fields(read_json(path) if path.is_file() else {}, str(path)), config.integer("num_mel_bins", high=1 << 10)
    )
    if features.samples != 2 * features.hop * positions:
        raise InvalidModelError(
            f"{path}: sounds of {features.samples} samples have {features.samples // (2 * features.hop)} states, and "
            f"'max_source_positions' of {config.where} is {positions}"
        )
    return SpeechEncoder(stack, features)


def add_encoder(parts: Parts, of_decoder: Parts, encoder: SpeechEncoder, caches: Caches) -> None:
    """parts: the encoder's; of_decoder: parts of the same network with the decoder's weights."""
    net, stack = parts.net, parts.decoder
    sound = net.input("audio", "f32", ["batch", "samples"])
    table = net.input("block_table", "i32", ["batch", "table_width"])
    inputs = [caches.inputs(net, CROSS, CROSS + "blocks", i) for i in range(len(of_decoder.decoder.layers))]

    x = _states_of(parts, log_mel(net, sound, encoder.features))
    shape = net.Shape(x)
    batch, length = net.Gather(shape, 0), net.Gather(shape, 1)
    x = net.Reshape(x, [-1, stack.width])
    for index in range(len(stack.layers)):
        x = x + _attention(parts, parts.norm(x, "attention_norm", index, stack.width), index, shape)
        x = x + parts.mlp(parts.norm(x, "mlp_norm", index, stack.width), index)
    x = parts.norm(x, "final_norm", None, stack.width)

    add_cross_keys(of_decoder, x, inputs, _slots(parts, table, length, caches.block_size), caches)
    net.output(net.Expand(length, net.Unsqueeze(batch, [0])), CROSS + "seqlens")


def _states_of(parts: Parts, features: Value) -> Value:
    """[batch, bins, frames] -> [batch, frames / 2, width]: two convolutions, the second of every other frame, and where each
    state is."""
    net, stack, weights = parts.net, parts.decoder, parts.weights
    x = features
    bins = features.shape[1] if features.shape is not None else None
    for role, inputs, stride in (("embedding", bins, 1), ("conv2", stack.width, 2)):
        kernel = weights.f32(weights.name(role), (stack.width, int(inputs or 0), _KERNEL))
        bias = weights.f32(weights.name(role, kind="bias"), (stack.width,))
        x = parts.activation(net.Conv(x, kernel, bias, pads=[1, 1], strides=[stride]))
    x = net.Transpose(x, perm=[0, 2, 1])
    table = net.constant(weights.f32(weights.name("positions"), (stack.learned_positions, stack.width)))
    return x + net.Slice(table, [0], net.Slice(net.Shape(x), [1], [2]), [0])


def _attention(parts: Parts, x: Value, index: int, shape: Value) -> Value:
    """All states of a sound see each other. shape: of the states."""
    net, stack = parts.net, parts.decoder
    own = stack.heads * stack.head_size
    heads = [net.Reshape(parts.linear(x, role, index, stack.width, own), shape) for role in ("q", "k", "v")]
    y = net.Attention(
        *heads, q_num_heads=stack.heads, kv_num_heads=stack.heads, scale=stack.layers[index].scale, outputs=1
    )
    return parts.linear(net.Reshape(y, [-1, own]), "o", index, own, stack.width)


def _slots(parts: Parts, table: Value, length: Value, block_size: int) -> Value:
    """i64 [batch · length]: where each state's keys and values go, counted over the positions of all blocks."""
    import numpy

    net = parts.net
    places = net.Range(numpy.int64(0), length, numpy.int64(1))
    blocks = net.Cast(net.Gather(table, net.Div(places, block_size), axis=1), to="i64")
    return net.Reshape(blocks * block_size + net.Mod(places, block_size), [-1])


def add_cross_keys(
    of_decoder: Parts, states: Value, inputs: Sequence[tuple[Value, ...]], slots: Value, caches: Caches
) -> None:
    """Outputs with the keys and values that the decoder's layers see of states [count, width], in the caches `inputs`."""
    net, decoder = of_decoder.net, of_decoder.decoder
    for index, given in enumerate(inputs):
        rows = [
            net.Reshape(
                of_decoder.linear(states, role, index, decoder.width, decoder.kv_heads * decoder.head_size),
                [-1, decoder.kv_heads, decoder.head_size],
            )
            for role in ("cross_k", "cross_v")
        ]
        for kind, value in zip(caches.kinds, _stored(of_decoder, given, rows, slots)):
            net.output(value, f"{CROSS}{kind}_out.{index}")


def _stored(parts: Parts, caches: tuple[Value, ...], rows: list[Value], slots: Value) -> tuple[Value, ...]:
    """The caches with the keys and the values of `rows`."""
    ours: Any = parts.net.domain("camshaft")
    if len(caches) == 2:
        return tuple(ours.PagedStore(cache, each, slots) for cache, each in zip(caches, rows))
    (keys, key_scales), (values, value_scales) = (
        ours.PagedQuantize(cache, scales, each, slots) for cache, scales, each in zip(caches[:2], caches[2:], rows)
    )
    return keys, values, key_scales, value_scales
