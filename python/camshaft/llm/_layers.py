"""The parts of a decoder or an encoder, as nodes of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

from camshaft._errors import InvalidArgumentError, UnsupportedError
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._blocks import BLOCK, Blocks
from camshaft.llm._decoder import Decoder, Layer
from camshaft.llm._lora import Sizes
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
_INT8_LEVEL = 4  # MatMulNBits' accuracy_level that allows bytes
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


class Parts:
    """Adds the parts of a model to a network. Activations are f32 [tokens, …]. heads_type: of the queries, keys and values
    of encoders."""

    def __init__(
        self,
        net: Network,
        decoder: Decoder,
        weights: Weights,
        weight_type: WeightType,
        activations: ActivationType,
        heads_type: str = "f32",
    ) -> None:
        self.net = net
        self.decoder = decoder
        self.weights = weights
        self._type = weight_type
        self._activations = activations
        self._heads_type = heads_type
        self.loras: LoraInputs | None = None  #: where adapters may update products

    def embedding(self, ids: Value, width: int) -> tuple[Value, Head]:
        """The rows of the table, and the table as the head takes it."""
        net, shape = self.net, (self.decoder.vocabulary, width)
        name = self.weights.name("embedding")
        if self._type in _BITS and width % BLOCK == 0:
            # Of 8 bits with int4, too: errors of these rows reach everything, and those of a tied head every logit.
            made = self.weights.in_blocks(name, shape, 8, False)
            table = made.codes.reshape(shape)
            return net.microsoft.GatherBlockQuantized(table, ids, made.scales, bits=8, block_size=BLOCK), made
        stored = self._constant(name, shape)
        quantised = self.weights.blocks(name, shape) if self._type == "stored" else None
        return self._widened(net.Gather(stored, ids)), stored if quantised is None else quantised

    def positions(self, positions: Value) -> Value:
        offset, decoder = self.decoder.family.position_offset, self.decoder
        shape = (decoder.learned_positions + offset, decoder.width)
        table = self._constant(self.weights.name("positions"), shape)
        moved = positions + offset if offset else positions
        return self._widened(self.net.Gather(table, moved))

    def first_token_type(self) -> Value:
        """The row of the first of two texts, which all tokens are of: [width]."""
        decoder = self.decoder
        table = self.weights.f32(self.weights.name("token_types"), (decoder.token_types, decoder.width))
        return self.net.constant(table[0])

    def angles(self, rope: Rope, positions: Value) -> tuple[Value, Value]:
        """Computed from the positions in each step, once for all layers: tables of 131,072 positions would take 64 MB."""
        net = self.net
        at = net.Unsqueeze(net.Cast(positions, to="f32"), [-1])
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
        rows: Array | None = None,
        lora_ids: Value | None = None,
    ) -> Value:
        """x · weightsᵀ + bias, and what adapters add. rows: the order that the outputs are to have. lora_ids: of the rows of
        x, where these are other ones than the tokens."""
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
        bias = None
        if role in self.decoder.biased and expert is None:
            bias = self.weights.f32(self.weights.name(role, layer, "bias"), (outputs,))
            bias = bias if rows is None else bias[rows]
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
        return self.net.Gemm(x, self._widened(self.net.constant(stored)), bias, transB=int(not transposed))

    def tied_head(self, x: Value, head: Head) -> Value:
        """The logits of rows, by the table of embeddings."""
        d, net = self.decoder, self.net
        if isinstance(head, Value):
            logits = net.Gemm(x, head if head.dtype == "f32" else net.Cast(head, to="f32"), transB=1)
        else:
            logits = self.block_product(x, head, d.embedding_width, None)
        return self._adapted(
            logits, x, "head", None, Sizes(d.embedding_width, d.vocabulary), lora_ids=self.ids_of_rows()
        )

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
        if self._type in _BITS or self.weights.blocks(name, shape) is not None:
            return self.net.constant(self.weights.narrow(name, shape, "f16"))
        return self.net.constant(self._stored(name, shape))

    def _widened(self, x: Value) -> Value:
        return x if x.dtype == "f32" else self.net.Cast(x, to="f32")

    def activation(self, x: Value) -> Value:
        net, name = self.net, self.decoder.activation
        if name in ("silu", "swish", "swiglu"):
            return net.Swish(x)
        if name in ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"):
            return net.Gelu(x, approximate="tanh")
        if name in ("gelu", "gelu_python"):
            return net.Gelu(x)
        if name == "relu":
            return net.Relu(x)
        if name == "relu2":
            return net.Pow(net.Relu(x), 2.0)
        raise UnsupportedError(
            f"activation '{name}' of {self.decoder.model_type}; silu, gelu, gelu_new, relu and relu2 are known"
        )

    def mlp(self, x: Value, layer: int) -> Value:
        names, width, inner = self.decoder.family.names, self.decoder.width, self.decoder.mlp_width
        if "gate_up" in names:
            gate, up = self.net.Split(self.linear(x, "gate_up", layer, width, 2 * inner), [inner, inner], axis=-1)
            h = self.activation(gate) * up
        elif "gate" in names:
            h = self.activation(self.linear(x, "gate", layer, width, inner)) * self.linear(x, "up", layer, width, inner)
        else:
            h = self.activation(self.linear(x, "up", layer, width, inner))
        return self.linear(h, "down", layer, inner, width)

    def attention(
        self, x: Value, index: int, layer: Layer, step: Step, caches: tuple[Value, ...]
    ) -> tuple[Value, tuple[Value, ...]]:
        """The result, and the caches with what is new."""
        d = self.decoder
        query, key, value = self._heads(x, index)
        query, key = self._head_norm(query, "q_norm", index, d.heads), self._head_norm(key, "k_norm", index, d.kv_heads)
        if layer.rope is not None:
            query = self._rotated(query, step.angles[layer.rope], layer.rope, d.heads)
            key = self._rotated(key, step.angles[layer.rope], layer.rope, d.kv_heads)
        y, *new = self._paged(query, key, value, layer, step, caches)
        return self.linear(y, "o", index, d.heads * d.head_size, d.width), tuple(new)

    def _paged(
        self, query: Value, key: Value, value: Value, layer: Layer, step: Step, caches: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        if not self.decoder.family.causal:
            return (self._packed(query, key, value, layer, step),)
        # Of caches with scales there is an operator of our own.
        operators: Any = self.net.domain("camshaft") if len(caches) > 2 else self.net.microsoft
        made: tuple[Value, ...] = operators.PagedAttention(
            query,
            key,
            value,
            *caches,
            step.starts,
            step.past,
            step.table,
            num_heads=self.decoder.heads,
            kv_num_heads=self.decoder.kv_heads,
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
        if self._heads_type != "f32":
            query, key, value = (self.net.Cast(x, to=self._heads_type) for x in (query, key, value))
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
        return self._widened(made)

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
        d = self.decoder
        own, shared = d.heads * d.head_size, d.kv_heads * d.head_size
        if "qkv" not in d.family.names:
            query, key, value = (
                self.linear(x, role, index, d.width, size) for role, size in (("q", own), ("k", shared), ("v", shared))
            )
            return query, key, value
        rows = None
        if d.family.qkv == "grouped" and d.kv_heads > 1:
            rows = stacked_rows(d.heads, d.kv_heads, d.head_size)
        all_heads = self.linear(x, "qkv", index, d.width, own + 2 * shared, rows=rows)
        query, key, value = self.net.Split(all_heads, [own, shared, shared], axis=-1)
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
