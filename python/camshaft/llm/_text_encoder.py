"""T5's encoder as a network: from prompts to the keys and values that its decoder's layers see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from camshaft._errors import InvalidArgumentError
from camshaft._values import Value
from camshaft.llm._caches import CROSS, Caches
from camshaft.llm._decoder import Decoder
from camshaft.llm._families import T5_ENCODER
from camshaft.llm._fields import Fields
from camshaft.llm._layers import Parts
from camshaft.llm._speech_encoder import add_cross_keys

if TYPE_CHECKING:
    from camshaft._types import Profile

MOST_TOKENS = 1 << 16  #: of a run, of one prompt or of many


def text_encoder_of(config: Fields, decoder: Decoder) -> Decoder:
    assert T5_ENCODER.variant is not None
    if decoder.max_length > MOST_TOKENS:
        raise InvalidArgumentError(
            f"max_length is {decoder.max_length}: an encoder reads {MOST_TOKENS} tokens at most; give --max-length"
        )
    count = config.integer("num_layers", high=1 << 12)
    family = T5_ENCODER.variant(T5_ENCODER, config)
    return replace(decoder, family=family, layers=(decoder.layers[0],) * count, cross_keys=0)


def add_text_encoder(parts: Parts, of_decoder: Parts, caches: Caches) -> None:
    """Of prompts that lie one behind the other. parts: the encoder's; of_decoder: parts of the same network with the
    decoder's weights. slots: where the keys of each token go, counted over the positions of all blocks."""
    net, stack = parts.net, parts.decoder
    ids = net.input("input_ids", "i32", ["tokens"])
    starts = net.input("cumulative_sequence_length", "i32", ["boundaries"])
    slots = net.input("slots", "i32", ["tokens"])
    inputs = [caches.inputs(net, CROSS, CROSS + "blocks", i) for i in range(len(of_decoder.decoder.layers))]
    bias, places = parts.relative_bias(), _places(parts, starts)
    x, _ = parts.embedding(ids, stack.width)
    for index in range(len(stack.layers)):
        read = parts.norm(x, "attention_norm", index, stack.width)
        x = x + _attention(parts, read, index, places, bias)
        x = x + parts.mlp(parts.norm(x, "mlp_norm", index, stack.width), index)
    add_cross_keys(of_decoder, parts.norm(x, "final_norm", None, stack.width), inputs, slots, caches)


def _places(parts: Parts, starts: Value) -> tuple[Value, Value, Value]:
    """Where sequences begin, their lengths, and a block table of them: each token is a block of its own."""
    import numpy

    net = parts.net
    count = net.Shape(starts) - 1
    first = net.Slice(starts, [0], count, [0])
    lengths = net.Slice(starts, [1], count + 1, [0]) - first
    return starts, lengths, net.Unsqueeze(first, [1]) + numpy.arange(parts.decoder.max_length, dtype=numpy.int32)


def _attention(parts: Parts, x: Value, index: int, places: tuple[Value, Value, Value], bias: Value | None) -> Value:
    """All tokens of a prompt see each other."""
    net, stack = parts.net, parts.decoder
    own = stack.heads * stack.head_size
    query, key, value = (parts.narrowed(parts.linear(x, role, index, stack.width, own)) for role in ("q", "k", "v"))
    keys, values = (net.Reshape(each, [-1, 1, stack.heads, stack.head_size]) for each in (key, value))
    y = net.domain("camshaft").PagedCrossAttention(
        query,
        keys,
        values,
        *places,
        None,
        None,
        bias,
        num_heads=stack.heads,
        kv_num_heads=stack.heads,
        scale=stack.layers[index].scale,
    )
    return parts.linear(parts.widened(y), "o", index, own, stack.width)


def sample_prompts(
    encoder: Decoder, caches: Caches, seed: int = 1, lengths: Sequence[int] = (7, 1, 12)
) -> dict[str, Any]:
    """Inputs to verify an encoder on: prompts whose keys go to blocks in any order."""
    import numpy

    random = numpy.random.default_rng(seed)
    counts = numpy.minimum(numpy.asarray(lengths), encoder.max_length)
    widths = [caches.blocks_for(int(count)) for count in counts]
    blocks = random.permutation(1 + sum(widths))[: sum(widths)]
    slots = [
        blocks[sum(widths[:place]) :][numpy.arange(count) // caches.block_size] * caches.block_size
        + numpy.arange(count) % caches.block_size
        for place, count in enumerate(counts)
    ]
    made: dict[str, Any] = {
        "input_ids": random.integers(0, encoder.vocabulary, int(counts.sum())).astype(numpy.int32),
        "cumulative_sequence_length": numpy.concatenate([[0], numpy.cumsum(counts)]).astype(numpy.int32),
        "slots": numpy.concatenate(slots).astype(numpy.int32),
    }
    return made | caches.samples(CROSS, 1 + sum(widths), random)


def prompts_profile() -> Profile:
    """A prompt of some sentences most often."""
    return {
        "input_ids": ((1,), (64,), (MOST_TOKENS,)),
        "cumulative_sequence_length": ((2,), (2,), (MOST_TOKENS + 1,)),
    }
