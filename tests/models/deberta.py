"""Encoders like DeBERTa's as ONNX, with seeded weights and relative positions as PyTorch's exporter spells them.

The scores of a query and a key have two parts more than products of both: the query with an embedding of their distance,
and the key with another one. Each is a product with all embeddings, of which GatherElements takes one a distance; its
indices are ranges, subtracted, clamped and expanded to all heads, of which nothing depends on the tokens.

The first DeBERTa has as many embeddings as there are distances (twice the length), and one projection for query, key and
value. The third has 512, of which those beyond 128 stand for several distances each, by logarithms, and projects them
with the weights of queries and keys. Both hide masked keys before the softmax and once more behind it.

  inputs   input_ids i64 [batch, length], attention_mask i64 [batch, length] (1 keeps, 0 hides); length at most 512
  outputs  hidden f32 [batch, length, width]
"""

import numpy as np
from beit import Writer, linear

import onnx
from onnx import TensorProto, helper

TOKENS, MOST, BUCKETS = 1000, 512, 256
EPSILON = 1e-7


class Encoder(Writer):
    def __init__(self, width, heads, buckets):
        super().__init__(0)
        self.width, self.heads, self.head, self.buckets = width, heads, width // heads, buckets
        self.lowest = self.constant("lowest", np.float32(np.finfo(np.float32).min))

    def size(self, x, axis):
        return self("Gather", self("Shape", x), self.number(axis), axis=0)

    def norm(self, x):
        scale = self.constant("ones", np.ones(self.width, np.float32))
        return self("LayerNormalization", x, scale, self.weight(self.width, scale=0.1), axis=-1, epsilon=EPSILON)

    def embed(self):
        words = self("Gather", self.weight(TOKENS, self.width, scale=1), "input_ids", axis=0)
        kept = self("Cast", self("Unsqueeze", "attention_mask", self.numbers(2)), to=TensorProto.FLOAT)
        return self("Mul", self.norm(words), kept)

    def hidden_pairs(self):
        """bool [batch, 1, length, length]: what a query or a key that the mask hides takes part in."""
        keys = self("Unsqueeze", self("Unsqueeze", "attention_mask", self.numbers(1)), self.numbers(2))
        queries = self("Unsqueeze", self("Squeeze", keys, self.numbers(2)), self.numbers(-1))
        return self("Cast", self("Sub", self.number(1), self("Mul", keys, queries)), to=TensorProto.BOOL)

    def distances(self, x):
        """i64 [1, length, length]: query minus key."""
        length = self.size(x, 1)
        places = self.range(self.number(0), length)
        keys = self("Tile", self("Reshape", places, self.numbers(1, -1)), self.vector(length, self.number(1)))
        apart = self("Sub", self("Unsqueeze", places, self.numbers(1)), keys)
        if self.buckets:
            apart = self.bucket(apart)
        to = self("Unsqueeze", length, self.numbers(0))
        return self("Unsqueeze", self("Slice", apart, self.numbers(0), to, self.numbers(0)), self.numbers(0))

    def bucket(self, apart):
        def real(number):
            return self.constant(f"f32_{number}", np.float32(number))

        middle = self.buckets // 2
        near = self("And", self("Less", apart, self.number(middle)), self("Greater", apart, self.number(-middle)))
        far = self("Where", near, self.number(middle - 1), self("Abs", apart))
        steps = self("Log", self("Div", self("Cast", far, to=TensorProto.FLOAT), real(middle)))
        steps = self("Mul", self("Div", steps, real(np.log((MOST - 1) / middle))), real(middle - 1))
        steps = self("Add", self("Ceil", steps), real(middle))
        signed = self("Mul", steps, self("Cast", self("Sign", apart), to=TensorProto.FLOAT))
        is_near = self("LessOrEqual", far, self.number(middle))
        found = self("Where", is_near, self("Cast", apart, to=TensorProto.FLOAT), signed)
        return self("Cast", found, to=TensorProto.INT64)

    def taken(self, scores, apart, span, sizes):
        """The scores of embeddings, one for each distance."""
        last = self("Sub", self("Mul", span, self.number(2)), self.number(1))
        places = self("Clip", self("Add", apart, span), self.number(0), last)
        shape = self("Reshape", self.vector(*sizes), self.numbers(-1))
        ones = self(
            "ConstantOfShape", self("Shape", shape), value=helper.make_tensor("one", TensorProto.INT64, [1], [1])
        )
        any_size = self("Equal", shape, self("Mul", ones, self.number(-1)))
        places = self("Expand", places, self("Where", any_size, ones, shape))
        return self("GatherElements", scores, places, axis=-1)

    def relative_scores(self, query, key, to_query, to_key, apart, span):
        """Of query and key, with transposed embeddings for each."""
        sizes = [self.size(query, axis) for axis in range(2 if self.buckets else 3)]
        sizes.append(sizes[-1])
        by_query = self.taken(self("MatMul", query, to_query), apart, span, sizes)
        by_key = self.taken(self("MatMul", key, to_key), self("Neg", apart), span, sizes)
        swap = [0, 2, 1] if self.buckets else [0, 1, 3, 2]
        return by_query, self("Transpose", by_key, perm=swap)

    def scaled(self, x):
        return self("Div", x, self.constant("root", np.float32(np.sqrt(3 * self.head))))

    def probabilities(self, scores, hidden):
        scores = self("Softmax", self("Where", hidden, self.lowest, scores), axis=-1)
        return self("Where", hidden, self.constant("zero", np.float32(0)), scores)

    def merged(self, context):
        """[batch, heads, length, head] as rows"""
        rows = self("Transpose", context, perm=[0, 2, 1, 3])
        return self("Reshape", rows, self.vector(self.size(rows, 0), self.size(rows, 1), self.number(self.width)))

    def attention(self, x, apart, hidden, embeddings):
        """As the first DeBERTa."""
        together = self("MatMul", x, self.weight(self.width, 3 * self.width))
        heads = self.vector(self.size(together, 0), self.size(together, 1), self.number(self.heads), self.number(-1))
        together = self("Transpose", self("Reshape", together, heads), perm=[0, 2, 1, 3])
        bounds = [self.numbers(i * self.head) for i in range(4)]
        query, key, value = (self("Slice", together, *bounds[i : i + 2], self.numbers(-1)) for i in range(3))
        query = self.scaled(self("Add", query, self.weight(1, self.heads, 1, self.head, scale=0.1)))
        value = self("Add", value, self.weight(1, self.heads, 1, self.head, scale=0.1))
        scores = self("MatMul", query, self("Transpose", key, perm=[0, 1, 3, 2]))

        span = self.size(query, 2)
        begin, end = self("Sub", self.number(MOST), span), self("Add", span, self.number(MOST))
        begin, end = (self("Unsqueeze", bound, self.numbers(0)) for bound in (begin, end))
        rows = self("Unsqueeze", self("Slice", embeddings, begin, end, self.numbers(0)), self.numbers(0))
        split = self.numbers(1, -1, self.heads, self.head)
        for_query = self("MatMul", rows, self.weight(self.width, self.width))
        for_query = self("Transpose", self("Reshape", for_query, split), perm=[0, 2, 3, 1])
        for_key = self.scaled(self("Reshape", linear(self, rows, self.width, self.width), split))
        for_key = self("Transpose", for_key, perm=[0, 2, 3, 1])
        apart = self("Unsqueeze", apart, self.numbers(1))
        by_query, by_key = self.relative_scores(query, key, for_query, for_key, apart, span)
        by_query = self("Add", by_query, self.constant("zero", np.float32(0)))
        scores = self("Add", scores, self("Add", by_query, by_key))
        return self.merged(self("MatMul", self.probabilities(scores, hidden), value))

    def attention_with_buckets(self, x, apart, hidden, embeddings):
        """As the third DeBERTa: batch and heads are one axis."""
        weights = [(self.weight(self.width, self.width), self.weight(self.width, scale=0.1)) for _ in range(3)]
        batch = self.size(x, 0)

        def heads(rows, weight, bias, sizes):
            y = self("Add", self("MatMul", rows, weight), bias)
            y = self("Transpose", self("Reshape", y, self.vector(*sizes)), perm=[0, 2, 1, 3])
            return self("Reshape", y, self.vector(self.number(-1), sizes[1], self.number(self.head)))

        sizes = [batch, self.size(x, 1), self.number(self.heads), self.number(-1)]
        query, key, value = (heads(x, *one, sizes) for one in weights)
        scores = self.scaled(self("MatMul", query, self("Transpose", key, perm=[0, 2, 1])))
        rows = self("Unsqueeze", embeddings, self.numbers(0))
        sizes = [self.number(n) for n in (1, 2 * self.buckets, self.heads, -1)]
        often = self.vector(batch, self.number(1), self.number(1))
        to_key, to_query = (self("Tile", heads(rows, *one, sizes), often) for one in weights[:2])
        to_query, to_key = (self("Transpose", part, perm=[0, 2, 1]) for part in (to_query, to_key))
        span = self.number(self.buckets)
        parts = self.relative_scores(query, key, to_query, to_key, apart, span)
        scores = self("Add", scores, self("Add", *(self.scaled(part) for part in parts)))
        apart_heads = [self.number(-1), self.number(self.heads), self.size(scores, 1), self.size(scores, 2)]
        probabilities = self.probabilities(self("Reshape", scores, self.vector(*apart_heads)), hidden)
        flat = [self.number(-1), self.size(probabilities, 2), self.size(probabilities, 3)]
        context = self("MatMul", self("Reshape", probabilities, self.vector(*flat)), value)
        apart_heads = [self.number(-1), self.number(self.heads), self.size(context, 1), self.size(context, 2)]
        return self.merged(self("Reshape", context, self.vector(*apart_heads)))

    def layer(self, x, *rest):
        attention = self.attention_with_buckets if self.buckets else self.attention
        context = attention(x, *rest)
        x = self.norm(self("Add", linear(self, context, self.width, self.width), x))
        y = self.gelu(linear(self, x, self.width, 4 * self.width), f"gelu_{len(self.nodes)}")
        return self.norm(self("Add", linear(self, y, 4 * self.width, self.width), x))


def model(layers, width, heads, buckets=0):
    """The ModelProto. The base models have 12 layers of 768 channels with 12 heads; buckets: those of the third one."""
    w = Encoder(width, heads, buckets)
    x, hidden = w.embed(), w.hidden_pairs()
    apart = w.distances(x)
    embeddings = w.weight(2 * (buckets or MOST), width, scale=1)
    if buckets:
        embeddings = w.norm(embeddings)
    for _ in range(layers):
        x = w.layer(x, apart, hidden, embeddings)
    w.op("Identity", [x], "hidden")

    def value(name, kind, dims):
        return helper.make_tensor_value_info(name, kind, dims)

    graph = helper.make_graph(
        w.nodes,
        "DeBERTa",
        [value(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")],
        [value("hidden", TensorProto.FLOAT, ["batch", "length", width])],
        list(w.initializers.values()),
    )
    result = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="camshaft-tests"
    )
    onnx.checker.check_model(result)
    return result


def tokens(batch, length):
    """Texts of several lengths, but for the first."""
    rng = np.random.default_rng(batch * 1000 + length)
    mask = np.ones((batch, length), np.int64)
    for row in range(1, batch):
        mask[row, length - row * (length // (batch + 1)) :] = 0
    return {"input_ids": rng.integers(0, TOKENS, (batch, length)), "attention_mask": mask}
