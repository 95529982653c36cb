"""The parts of a decoder or an encoder, as nodes of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

from camshaft._errors import InvalidArgumentError, UnsupportedError
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._blocks import BLOCK, Blocks
from camshaft.llm._decoder import Decoder, Layer
from camshaft.llm._lora import Sizes
from camshaft.llm._ranks import Ranks
from camshaft.llm._rope import Rope
from camshaft.llm._weights import Weights

if TYPE_CHECKING:
    import numpy

    from camshaft.llm._lora_inputs import LoraInputs

    Array = numpy.ndarray[Any, Any]

# What a tied head is: the table of embeddings, or its blocks.
Head = Union[Value, Blocks]
WeightType = Literal["f32", "f16", "bf16", "int8", "int4", "stored"]
ActivationType = Literal["f32", "int8"]
ACTIVATION_TYPES = ("f32", "int8")
WEIGHT_TYPES = ("f32", "f16", "bf16", "int8", "int4", "stored")
_BITS = {"int8": 8, "int4": 4}
_FLOATS = ("f32", "f16", "bf16")
_INT8_LEVEL = 4  # MatMulNBits' accuracy_level that allows bytes
_FEW_OUTPUTS = ("router", "shared_weight")  # which every rank computes itself
_NARROW = {"F16": "f16", "BF16": "bf16"}


@dataclass(frozen=True)
class Step:
    """What all layers read of a step: see camshaft.llm.network. past and table: of decoders; offsets: of encoders."""

    starts: Value
    angles: dict[Rope, tuple[Value, Value]]  # cosines and sines, [1, tokens, rotated / 2]
    past: Value | None = None
    table: Value | None = None
    offsets: Value | None = None  # [sequences, longest], of which only the sizes count
    cross_lengths: Value | None = None
    cross_table: Value | None = None
    bias: Value | None = None  # of scores by distance


class Parts:
    """Adds the parts of a model to a network. Activations are f32 [tokens, …]. heads_type: of the queries, keys and values
    of encoders. ranks: which of several ranks it is of, with whose weights."""

    def __init__(
        self,
        net: Network,
        decoder: Decoder,
        weights: Weights,
        weight_type: WeightType,
        activations: ActivationType,
        heads_type: str = "f32",
        ranks: Ranks = Ranks(),
    ) -> None:
        self.net = net
        self.decoder = decoder
        self.ranks = ranks
        self._own = ranks.decoder_of(decoder)  # with this rank's heads
        self.weights = weights
        self._type = weight_type
        self._activations = activations
        self._heads_type = heads_type
        self.loras: LoraInputs | None = None  #: where adapters may update products

    def embedding(self, ids: Value, width: int) -> tuple[Value, Head]:
        """The rows of the table, and the table as the head takes it. A rank has its columns of the table."""
        net, shape = self.net, (self.decoder.vocabulary, width)
        name, own = self.weights.name("embedding"), self.ranks.own(width)
        if self._type in _BITS and width % BLOCK == 0:
            # Of 8 bits with int4, too: errors of these rows reach everything, and those of a tied head every logit.
            made = self.weights.in_blocks(name, shape, 8, False)
            # Blocks stay whole: where ranks cannot share them out each has all.
            shares = width % (BLOCK * self.ranks.size) == 0
            part = made.in_columns(own) if own is not None and shares else made
            codes = part.codes.reshape(len(part.codes), -1)
            x = net.microsoft.GatherBlockQuantized(codes, ids, part.scales, bits=8, block_size=BLOCK)
            return (self.ranks.gathered(net, x, width) if shares else x), made
        stored = self._stored_constant(name, shape)
        table = net.constant(stored if own is None else stored[:, own])
        quantised = self.weights.blocks(name, shape) if self._type == "stored" else None
        x = self.ranks.gathered(net, self.widened(net.Gather(table, ids)), width)
        return x, table if quantised is None else quantised

    def positions(self, positions: Value) -> Value:
        offset, decoder = self.decoder.family.position_offset, self.decoder
        shape = (decoder.learned_positions + offset, decoder.width)
        table = self._constant(self.weights.name("positions"), shape)
        moved = positions + offset if offset else positions
        return self.widened(self.net.Gather(table, moved))

    def first_token_type(self) -> Value:
        """The row of the first of two texts, which all tokens are of: [width]."""
        decoder = self.decoder
        table = self.weights.f32(self.weights.name("token_types"), (decoder.token_types, decoder.width))
        return self.net.constant(table[0])

    def relative_bias(self) -> Value | None:
        """[heads, 2 · reach + 1] of keys from `reach` in front of a token to as many behind it, by T5's buckets: half of a
        direction's are of single distances, the others of ranges that grow to max_distance."""
        import numpy

        d = self.decoder
        if d.relative_bias is None:
            return None
        reach = d.relative_bias.max_distance
        distance = numpy.arange(-reach, reach + 1)
        buckets, first = d.relative_bias.buckets, numpy.zeros_like(distance)
        if d.family.causal:
            distance = -numpy.minimum(distance, 0)
        else:
            buckets //= 2
            first, distance = numpy.where(distance > 0, buckets, 0), numpy.abs(distance)
        exact = buckets // 2
        # In fp32, as in Transformers: some distances lie between two buckets.
        ratio = numpy.log(numpy.maximum(distance, 1).astype(numpy.float32) / numpy.float32(exact))
        ranges = ratio / numpy.float32(math.log(reach / exact)) * numpy.float32(buckets - exact)
        far = numpy.minimum(exact + ranges.astype(numpy.int64), buckets - 1)
        table = self.weights.f32(self.weights.name("relative_bias"), (d.relative_bias.buckets, d.heads))
        rows = table[first + numpy.where(distance < exact, distance, far)]
        return self.net.constant(numpy.ascontiguousarray(rows.T))

    def angles(self, rope: Rope, positions: Value) -> tuple[Value, Value]:
        """Computed from the positions in each step, once for all layers: tables of 131,072 positions would take 64 MB.
        positions: [tokens], or [tokens, axes] where the frequencies are in sections."""
        net = self.net
        at = net.Cast(positions, to="f32")
        at = net.Gather(at, rope.axes(), axis=1) if rope.sections else net.Unsqueeze(at, [-1])
        frequencies: Any = rope.frequencies().reshape(1, -1)
        if rope.kind == "dynamic":
            # Transformers' base for a sequence that ends with the token: what it has in decoding, token by token.
            length = net.Max(at + 1.0, float(rope.original_length))
            growth = rope.factor / rope.original_length * length - (rope.factor - 1)
            exponents = self._exponents(rope)
            frequencies = frequencies * net.Pow(growth, exponents)
        turned = net.Unsqueeze(at * frequencies, [0])
        cosines, sines = net.Cos(turned), net.Sin(turned)
        if rope.attention_factor != 1:
            cosines, sines = cosines * rope.attention_factor, sines * rope.attention_factor
        return cosines, sines

    @staticmethod
    def _exponents(rope: Rope) -> Array:
        """How often a frequency is divided by the growth of the base, θ' = θ · growth^(n / (n - 2))."""
        import numpy

        n = rope.rotated
        if n < 4:
            raise UnsupportedError(f"dynamic RoPE of {n} elements of a head")
        return (-numpy.arange(0, n, 2, dtype=numpy.float32) / (n - 2)).reshape(1, -1)

    def norm(self, x: Value, role: str, layer: int | None, width: int) -> Value:
        family, net = self.decoder.family, self.net
        scale = self.weights.f32(self.weights.name(role, layer), (width,))
        if family.norm_offset:
            scale = scale + scale.dtype.type(family.norm_offset)
        if family.norm == "rms":
            return net.RMSNormalization(x, scale, axis=-1, epsilon=self.decoder.epsilon)
        bias = self.weights.f32(self.weights.name(role, layer, "bias"), (width,))
        return net.LayerNormalization(x, scale, bias, axis=-1, epsilon=self.decoder.epsilon)

    def linear(
        self,
        x: Value,
        role: str,
        layer: int | None,
        inputs: int,
        outputs: int,
        expert: int | None = None,
        lora_ids: Value | None = None,
    ) -> Value:
        """x · weightsᵀ + bias, all of it on every rank, and what adapters add. lora_ids: of the rows of x, where these are other
        ones than the tokens."""
        if role in _FEW_OUTPUTS:
            return self._own_linear(x, role, layer, inputs, outputs, None, expert, lora_ids)
        y = self._own_linear(x, role, layer, inputs, outputs, self.ranks.own(outputs), expert, lora_ids)
        return self.ranks.gathered(self.net, y, outputs)

    def linear_of_parts(
        self,
        x: Value,
        role: str,
        layer: int,
        inputs: int,
        outputs: int,
        expert: int | None = None,
        lora_ids: Value | None = None,
    ) -> Value:
        """The same where each rank has its own part of x."""
        ranks = self.ranks
        if self._type not in _FLOATS or not ranks.cuts_inputs(inputs):
            x = ranks.gathered(self.net, x, inputs)
            return self.linear(x, role, layer, inputs, outputs, expert, lora_ids=lora_ids)
        y = ranks.summed(self.net, self._float_product(x, role, layer, (inputs, outputs), expert, ranks.own(inputs)))
        bias = self._bias(role, layer, outputs, expert)
        return y if bias is None else y + bias

    def _own_linear(
        self,
        x: Value,
        role: str,
        layer: int | None,
        inputs: int,
        outputs: int,
        rows: Array | None,
        expert: int | None = None,
        lora_ids: Value | None = None,
    ) -> Value:
        """rows: which outputs, in which order; all without them."""
        y = self._product(x, role, layer, inputs, outputs, expert, rows)
        return self._adapted(y, x, role, layer, Sizes(inputs, outputs, rows), expert, lora_ids)

    def _adapted(
        self,
        y: Value,
        x: Value,
        role: str,
        layer: int | None,
        sizes: Sizes,
        expert: int | None = None,
        lora_ids: Value | None = None,
    ) -> Value:
        if self.loras is None:
            return y
        ids = self.loras.ids if lora_ids is None else lora_ids
        return self.loras.update(y, x, self.weights.module(role, layer, expert), role, sizes, ids)

    def _product(
        self,
        x: Value,
        role: str,
        layer: int | None,
        inputs: int,
        outputs: int,
        expert: int | None,
        rows: Array | None,
    ) -> Value:
        transposed = self.decoder.family.transposed and role != "head"
        shape = (inputs, outputs) if transposed else (outputs, inputs)
        name = self.weights.name(role, layer, expert=expert)
        bias = self._bias(role, layer, outputs, expert)
        bias = bias if bias is None or rows is None else bias[rows]
        made = None
        if self._type in _BITS:
            # A router's choice turns on small differences, and its weights are few.
            bits = 8 if role in ("head", "router") else _BITS[self._type]
            made = self.weights.in_blocks(name, shape, bits, transposed)
        elif self._type == "stored":
            made = self.weights.blocks(name, shape)
        if made is not None:
            # A router's choice turns on small differences here, too.
            exact = role == "router"
            return self.block_product(x, made if rows is None else made.rows(rows), inputs, bias, exact=exact)
        stored = self._stored(name, shape)
        if rows is not None:
            stored = stored[:, rows] if transposed else stored[rows]
        return self.net.Gemm(x, self.widened(self.net.constant(stored)), bias, transB=int(not transposed))

    def _bias(self, role: str, layer: int | None, outputs: int, expert: int | None) -> Array | None:
        if role not in self.decoder.biased or expert is not None:
            return None
        return self.weights.f32(self.weights.name(role, layer, "bias"), (outputs,))

    def _float_product(
        self, x: Value, role: str, layer: int, sizes: tuple[int, int], expert: int | None, columns: Array | None
    ) -> Value:
        """columns: which inputs, those that x has."""
        transposed = self.decoder.family.transposed
        stored = self._stored(self.weights.name(role, layer, expert=expert), sizes if transposed else sizes[::-1])
        stored = stored[columns] if transposed else stored[:, columns]
        return self.net.Gemm(x, self.widened(self.net.constant(stored)), None, transB=int(not transposed))

    def tied_head(self, x: Value, head: Head) -> Value:
        """x · the table of embeddings."""
        net, d = self.net, self.decoder
        rows = self.ranks.own(d.vocabulary)
        if isinstance(head, Value):
            if rows is not None:
                head = net.constant(self._stored_constant(self.weights.name("embedding"), self._table_shape)[rows])
            y = net.Gemm(x, head if head.dtype == "f32" else net.Cast(head, to="f32"), transB=1)
        else:
            y = self.block_product(x, head if rows is None else head.rows(rows), d.embedding_width, None)
        y = self.ranks.gathered(net, y, d.vocabulary)
        return self._adapted(y, x, "head", None, Sizes(d.embedding_width, d.vocabulary), lora_ids=self.ids_of_rows())

    def ids_of_rows(self) -> Value | None:
        """The adapters of the rows whose logits are computed."""
        return None if self.loras is None else self.loras.ids_of_rows()

    def block_product(
        self, x: Value, weights: Blocks, inputs: int, bias: Array | None, *, exact: bool = False
    ) -> Value:
        """exact: x is not rounded to bytes."""
        zeros = None if weights.zeros is None else weights.zeros.reshape(-1)
        if weights.columns is not None:
            x = self.net.Gather(x, weights.columns, axis=-1)
        return self.net.microsoft.MatMulNBits(
            x,
            weights.codes,
            weights.scales.reshape(-1),
            zeros,
            bias=bias,
            K=inputs,
            N=len(weights.codes),
            bits=weights.bits,
            block_size=weights.size,
            accuracy_level=_INT8_LEVEL if self._activations == "int8" and not exact else 0,
        )

    def _stored(self, name: str, shape: tuple[int, ...]) -> Array:
        kind = _NARROW.get(self.weights.dtype(name), "f32") if self._type == "stored" else self._type
        if kind in ("f16", "bf16"):
            return self.weights.narrow(name, shape, kind)
        return self.weights.f32(name, shape)

    def _constant(self, name: str, shape: tuple[int, ...]) -> Value:
        """A table: in f16 where products are of few bits."""
        return self.net.constant(self._stored_constant(name, shape))

    def _stored_constant(self, name: str, shape: tuple[int, ...]) -> Array:
        if self._type in _BITS or self.weights.blocks(name, shape) is not None:
            return self.weights.narrow(name, shape, "f16")
        return self._stored(name, shape)

    @property
    def _table_shape(self) -> tuple[int, int]:
        return (self.decoder.vocabulary, self.decoder.embedding_width)

    def widened(self, x: Value) -> Value:
        return x if x.dtype == "f32" else self.net.Cast(x, to="f32")

    def narrowed(self, x: Value) -> Value:
        """Queries, keys and values as encoders multiply them."""
        return x if self._heads_type == "f32" else self.net.Cast(x, to=self._heads_type)

    def activation(self, x: Value) -> Value:
        net, name = self.net, self.decoder.activation
        if name in ("silu", "swish", "swiglu"):
            return net.Swish(x)
        if name in ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"):
            return net.Gelu(x, approximate="tanh")
        if name in ("gelu", "gelu_python"):
            return net.Gelu(x)
        if name == "quick_gelu":
            return net.Swish(x, alpha=1.702)
        if name == "relu":
            return net.Relu(x)
        if name == "relu2":
            return net.Pow(net.Relu(x), 2.0)
        raise UnsupportedError(
            f"activation '{name}' of {self.decoder.model_type}; silu, gelu, gelu_new, quick_gelu, relu and relu2 are known"
        )

    def mlp(self, x: Value, layer: int) -> Value:
        names, width, inner = self.decoder.family.names, self.decoder.width, self.decoder.mlp_width
        own = self.ranks.own(inner)
        if "gate_up" in names:
            rows = None if own is None else _joined_rows(own, own + inner)
            each = inner if own is None else len(own)
            gate, up = self.net.Split(
                self._own_linear(x, "gate_up", layer, width, 2 * inner, rows), [each, each], axis=-1
            )
            h = self.activation(gate) * up
        elif "gate" in names:
            h = self.gated(x, "", layer, inner)
        else:
            h = self.activation(self._own_linear(x, "up", layer, width, inner, own))
        return self.linear_of_parts(h, "down", layer, inner, width)

    def gated(
        self,
        x: Value,
        prefix: str,
        layer: int,
        inner: int,
        expert: int | None = None,
        lora_ids: Value | None = None,
    ) -> Value:
        """The inner activations of an MLP with a gate that are this rank's."""
        width, own = self.decoder.width, self.ranks.own(inner)
        gate, up = (
            self._own_linear(x, prefix + role, layer, width, inner, own, expert, lora_ids) for role in ("gate", "up")
        )
        return self.activation(gate) * up

    def attention(
        self, x: Value, index: int, layer: Layer, step: Step, caches: tuple[Value, ...]
    ) -> tuple[Value, tuple[Value, ...]]:
        """The result, and the caches with what is new."""
        d = self._own
        query, key, value = self._heads(x, index)
        query, key = self._head_norm(query, "q_norm", index, d.heads), self._head_norm(key, "k_norm", index, d.kv_heads)
        if layer.rope is not None:
            query = self._rotated(query, step.angles[layer.rope], layer.rope, d.heads)
            key = self._rotated(key, step.angles[layer.rope], layer.rope, d.kv_heads)
        y, *new = self._paged(query, key, value, layer, step, caches)
        all_heads = self.decoder.heads * d.head_size
        return self.linear_of_parts(y, "o", index, all_heads, d.width), tuple(new)

    def _paged(
        self, query: Value, key: Value, value: Value, layer: Layer, step: Step, caches: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        if not self.decoder.family.causal:
            return (self._packed(query, key, value, layer, step),)
        # Of caches with scales, and scores with a bias, there is an operator of our own.
        is_own = len(caches) > 2 or step.bias is not None
        operators: Any = self.net.domain("camshaft") if is_own else self.net.microsoft
        made: tuple[Value, ...] = operators.PagedAttention(
            query,
            key,
            value,
            *caches,
            *((None, None) if is_own and len(caches) == 2 else ()),
            step.starts,
            step.past,
            step.table,
            *(() if step.bias is None else (step.bias,)),
            num_heads=self._own.heads,
            kv_num_heads=self._own.kv_heads,
            scale=layer.scale,
            softcap=self.decoder.softcap,
            local_window_size=layer.window or -1,
            outputs=1 + len(caches),
        )
        return made

    def cross_attention(self, x: Value, index: int, step: Step, caches: tuple[Value, ...]) -> Value:
        """Over all keys of an encoder that a token's sequence has; caches: of keys, of values, and their scales."""
        d = self.decoder
        query = self.linear(x, "cross_q", index, d.width, d.heads * d.head_size)
        y = self.net.domain("camshaft").PagedCrossAttention(
            query,
            *caches[:2],
            step.starts,
            step.cross_lengths,
            step.cross_table,
            *caches[2:],
            num_heads=d.heads,
            kv_num_heads=d.kv_heads,
            scale=d.layers[index].scale,
        )
        return self.linear(y, "cross_o", index, d.heads * d.head_size, d.width)

    def _packed(self, query: Value, key: Value, value: Value, layer: Layer, step: Step) -> Value:
        """Of tokens that all see each other, and keep nothing for later steps."""
        query, key, value = (self.narrowed(x) for x in (query, key, value))
        made: Value = self.net.microsoft.PackedMultiHeadAttention(
            query,
            self._for_all_heads(key),
            self._for_all_heads(value),
            None,
            step.offsets,
            step.starts,
            num_heads=self.decoder.heads,
            scale=layer.scale,
        )
        return self.widened(made)

    def _for_all_heads(self, x: Value) -> Value:
        """Keys or values that several heads share, once for each."""
        d = self.decoder
        if d.kv_heads == d.heads:
            return x
        shared = d.heads // d.kv_heads
        apart = self.net.Reshape(x, [0, d.kv_heads, 1, d.head_size])
        return self.net.Reshape(self.net.Concat(*[apart] * shared, axis=2), [0, d.heads * d.head_size])

    def _heads(self, x: Value, index: int) -> tuple[Value, Value, Value]:
        """Queries, keys and values: [tokens, heads · size]."""
        d, own = self.decoder, self._own
        whole, shared = d.heads * d.head_size, d.kv_heads * d.head_size
        of_query, of_key = own.heads * d.head_size, own.kv_heads * d.head_size
        first_query, first_key = self.ranks.rank * of_query, self.ranks.first_key_head(d) * d.head_size
        if "qkv" not in d.family.names:
            query, key, value = (
                self._own_linear(x, role, index, d.width, size, _range_of(first, count, size))
                for role, size, first, count in (
                    ("q", whole, first_query, of_query),
                    ("k", shared, first_key, of_key),
                    ("v", shared, first_key, of_key),
                )
            )
            return query, key, value
        rows = None
        if d.family.qkv == "grouped" and d.kv_heads > 1:
            rows = stacked_rows(d.heads, d.kv_heads, d.head_size)
        if self.ranks.size > 1:
            firsts = ((first_query, of_query), (whole + first_key, of_key), (whole + shared + first_key, of_key))
            chosen = _joined_rows(*(_range_of(first, count) for first, count in firsts))
            rows = chosen if rows is None else rows[chosen]
        all_heads = self._own_linear(x, "qkv", index, d.width, whole + 2 * shared, rows)
        query, key, value = self.net.Split(all_heads, [of_query, of_key, of_key], axis=-1)
        return query, key, value

    def _head_norm(self, x: Value, role: str, layer: int, heads: int) -> Value:
        if role not in self.decoder.family.names:
            return x
        size = self.decoder.head_size
        apart = self.net.Reshape(x, [0, heads, size])
        return self.net.Reshape(self.norm(apart, role, layer, size), [0, heads * size])

    def _rotated(self, x: Value, angles: tuple[Value, Value], rope: Rope, heads: int) -> Value:
        rotated = rope.rotated if rope.rotated != self.decoder.head_size else 0
        y = self.net.RotaryEmbedding(self.net.Unsqueeze(x, [0]), *angles, num_heads=heads, rotary_embedding_dim=rotated)
        return self.net.Squeeze(y, [0])


def _range_of(first: int, count: int, size: int | None = None) -> Any:
    """Rows; None where these are all of `size`."""
    import numpy

    return None if count == size else numpy.arange(first, first + count)


def _joined_rows(*rows: Any) -> Array:
    import numpy

    return numpy.concatenate(rows)


def stacked_rows(heads: int, kv_heads: int, head_size: int) -> Array:
    """The order that makes all queries, all keys and all values of what is grouped by key heads."""
    import numpy

    shared = heads // kv_heads
    places = numpy.arange((heads + 2 * kv_heads) * head_size).reshape(kv_heads, shared + 2, head_size)
    return numpy.concatenate(
        [part.reshape(-1) for part in (places[:, :shared], places[:, shared], places[:, shared + 1])]
    )


def check_activation_type(name: str) -> ActivationType:
    if name not in ACTIVATION_TYPES:
        raise InvalidArgumentError(f"activations is {name!r}; {' and '.join(ACTIVATION_TYPES)} are possible")
    return name  # type: ignore[return-value]


def check_weight_type(name: str) -> WeightType:
    if name not in WEIGHT_TYPES:
        raise InvalidArgumentError(f"weights is {name!r}; {', '.join(WEIGHT_TYPES)} are possible")
    return name  # type: ignore[return-value]
