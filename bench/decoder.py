"""A decoder of a language model with seeded weights of 4 or 8 bits, as ONNX Runtime's model builder writes such models: one
token, and a cache of keys and values of the tokens before it.

usage: decoder.py OUT.onnx [--layers 24] [--hidden 896] [--inner 4864] [--heads 14] [--groups 2] [--vocabulary 151936]
                  [--past 128] [--rows 1] [--block 32] [--bits 4] [--zero-points] [--accuracy 0]
"""

import argparse

import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


class Decoder:
    """The parts of the graph, with names; `options` as the command has them."""

    def __init__(self, options, seed=1):
        self.options, self.random = options, np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, name, outputs=1, domain=MICROSOFT, **attributes):
        names = [name] + [f"{name}.{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=name, domain=domain, **attributes))
        return name

    def weights(self, name, columns, depth):
        """Bytes, scales and zero points of a matrix, such that a product keeps the size of what goes in."""
        block, bits = self.options.block, self.options.bits
        blocks = (depth + block - 1) // block
        data = self.random.integers(0, 256, (columns, blocks, block * bits // 8), dtype=np.uint8)
        spread = np.sqrt(depth * (4**bits - 1) / 12)
        scales = self.random.uniform(0.8, 1.2, (columns, blocks)).astype(np.float32) / np.float32(spread)
        zeros = self.random.integers(0, 256, (columns, (blocks * bits + 7) // 8), dtype=np.uint8)
        names = [self.constant(name + ".data", data), self.constant(name + ".scales", scales)]
        return names + ([self.constant(name + ".zeros", zeros)] if self.options.zero_points else [])

    def product(self, x, name, columns, depth, weights=None):
        o = self.options
        names = weights or self.weights(name, columns, depth)
        sizes = {"N": columns, "K": depth, "bits": o.bits, "block_size": o.block, "accuracy_level": o.accuracy}
        return self.node("MatMulNBits", [x, *names], name, **sizes)

    def norm(self, x, name, size):
        weight = self.constant(name + ".weight", self.random.uniform(0.8, 1.2, size).astype(np.float32))
        return self.node(
            "SimplifiedLayerNormalization", [x, weight], name, domain="", axis=-1, epsilon=1e-6, stash_type=1
        )

    def layer(self, x, i):
        o, size = self.options, self.options.hidden // self.options.heads
        name = f"layer{i}."
        y = self.norm(x, name + "norm", o.hidden)
        qkv = self.product(y, name + "qkv", (o.heads + 2 * o.groups) * size, o.hidden)
        attention = self.node(
            "GroupQueryAttention",
            [qkv, "", "", f"past_key.{i}", f"past_value.{i}", "last", "total", "cosines", "sines"],
            name + "attention",
            3,
            num_heads=o.heads,
            kv_num_heads=o.groups,
            do_rotary=1,
        )
        x = self.node("Add", [x, self.product(attention, name + "out", o.hidden, o.hidden)], name + "add", domain="")
        y = self.norm(x, name + "inner_norm", o.hidden)
        gate, up = (self.product(y, name + part, o.inner, o.hidden) for part in ("gate", "up"))
        silu = self.node("Mul", [gate, self.node("Sigmoid", [gate], name + "s", domain="")], name + "silu", domain="")
        y = self.node("Mul", [silu, up], name + "gated", domain="")
        return self.node("Add", [x, self.product(y, name + "down", o.hidden, o.inner)], name + "sum", domain="")

    def model(self):
        o, size = self.options, self.options.hidden // self.options.heads
        total = o.past + o.rows
        angles = np.arange(total)[:, None] / 10000.0 ** (np.arange(size // 2) / (size // 2))
        self.constant("cosines", np.cos(angles).astype(np.float32))
        self.constant("sines", np.sin(angles).astype(np.float32))
        self.constant("last", np.array([total - 1], np.int32))
        self.constant("total", np.array(total, np.int32))
        vocabulary = self.weights("vocabulary", o.vocabulary, o.hidden)
        # The table of tokens is the last product's matrix, in the shape in which rows are gathered.
        shape = self.constant("table.shape", np.array([o.vocabulary, o.hidden * o.bits // 8], np.int64))
        data = self.node("Reshape", [vocabulary[0], shape], "table", domain="")
        gathered = [data, "token", *vocabulary[1:]]
        sizes = {"bits": o.bits, "block_size": o.block, "gather_axis": 0, "quantize_axis": 1}
        x = self.node("GatherBlockQuantized", gathered, "embedding", **sizes)
        for i in range(o.layers):
            x = self.layer(x, i)
        x = self.norm(x, "last_norm", o.hidden)
        self.product(x, "logits", o.vocabulary, o.hidden, vocabulary)
        cache = [1, o.groups, o.past, size]
        inputs = [helper.make_tensor_value_info("token", TensorProto.INT64, [1, o.rows])]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, o.rows, o.vocabulary])]
        for i in range(o.layers):
            for part, at in (("key", 1), ("value", 2)):
                inputs.append(helper.make_tensor_value_info(f"past_{part}.{i}", TensorProto.FLOAT, cache))
                outputs.append(
                    helper.make_tensor_value_info(
                        f"layer{i}.attention.{at}", TensorProto.FLOAT, [1, o.groups, total, size]
                    )
                )
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.initializers)
        imports = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"layers": 24, "hidden": 896, "inner": 4864, "heads": 14, "groups": 2, "vocabulary": 151936, "past": 128}
    for name, default in (sizes | {"rows": 1, "block": 32, "bits": 4, "accuracy": 0}).items():
        made.add_argument("--" + name, type=int, default=default)
    made.add_argument("--zero-points", action="store_true")
    return made


def main():
    made = parser()
    made.add_argument("out")
    options = made.parse_args()
    onnx.save(Decoder(options).model(), options.out)


if __name__ == "__main__":
    main()
