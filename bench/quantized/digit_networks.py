"""A convolutional network and a vision transformer for scikit-learn's digits, trained here, and the same functions written with
channels of very different sizes, as large networks have them."""

import hashlib
import os
from functools import cache
from pathlib import Path

import camshaft_cli
import numpy as np
import tape
from sklearn.datasets import load_digits

import onnx
from onnx import TensorProto, helper, numpy_helper

TRAINED = 1000  # the others are judged on
WIDTH, HEADS, BLOCKS = 32, 4, 2


@cache
def digits():
    """Pictures f32 [1797, 1, 8, 8] in [0, 1] and their classes, shuffled."""
    pictures, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(classes))
    return (pictures[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), classes[order]


def drawn(rng, *shape):
    return rng.normal(0, (2 / np.prod(shape[:-1])) ** 0.5, shape).astype(np.float32)


CONVOLUTIONS = (
    ("stem", 1, 16, 1),
    ("inner", 16, 16, 1),
    ("outer", 16, 16, 1),
    ("half", 16, 32, 2),
    ("last", 32, 32, 1),
)


def cnn_parameters(rng):
    parameters = {}
    for name, channels, out, _ in CONVOLUTIONS:
        parameters[f"{name}.weight"] = drawn(rng, 9 * channels, out)
        parameters[f"{name}.bias"] = np.zeros(out, np.float32)
    return parameters | {"head.weight": drawn(rng, 32, 10), "head.bias": np.zeros(10, np.float32)}


def cnn(p, pictures):
    """Five convolutions, the third's result added to the second's operand."""

    def conv(x, name, stride):
        return tape.windows(x, stride) @ p[f"{name}.weight"] + p[f"{name}.bias"]

    x = tape.relu(conv(tape.Var(pictures.transpose(0, 2, 3, 1)), "stem", 1))
    x = tape.relu(x + conv(tape.relu(conv(x, "inner", 1)), "outer", 1))
    x = tape.relu(conv(tape.relu(conv(x, "half", 2)), "last", 1))
    return x.mean((1, 2)) @ p["head.weight"] + p["head.bias"]


def vit_parameters(rng):
    parameters = {"embed.weight": drawn(rng, 4, WIDTH), "place": 0.1 * drawn(rng, 16, WIDTH)}
    linears = {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "gate": (WIDTH, 48),
        "up": (WIDTH, 48),
        "down": (48, WIDTH),
    }
    for block in range(BLOCKS):
        for name, shape in linears.items():
            parameters[f"{block}.{name}.weight"] = 0.5 * drawn(rng, *shape)
            parameters[f"{block}.{name}.bias"] = np.zeros(shape[1], np.float32)
        for norm in ("norm1", "norm2"):
            parameters[f"{block}.{norm}.weight"] = np.ones(WIDTH, np.float32)
            parameters[f"{block}.{norm}.bias"] = np.zeros(WIDTH, np.float32)
    parameters |= {"norm.weight": np.ones(WIDTH, np.float32), "norm.bias": np.zeros(WIDTH, np.float32)}
    return parameters | {"head.weight": drawn(rng, WIDTH, 10), "head.bias": np.zeros(10, np.float32)}


def patches(pictures):
    """f32 [n, 1, 8, 8] to the 2 x 2 patches [n, 16, 4]."""
    return pictures.reshape(-1, 4, 2, 4, 2).transpose(0, 1, 3, 2, 4).reshape(-1, 16, 4)


def vit(p, pictures):
    """Norms in front of attention and of a gated layer (Shazeer, "GLU Variants Improve Transformer", 2020)."""
    n = len(pictures)

    def linear(x, name):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    def norm(x, name):
        return tape.layer_norm(x, p[f"{name}.weight"], p[f"{name}.bias"])

    x = tape.Var(patches(pictures)) @ p["embed.weight"] + p["place"]
    for block in range(BLOCKS):
        heads = linear(norm(x, f"{block}.norm1"), f"{block}.qkv").reshape(n, 16, 3, HEADS, WIDTH // HEADS)
        split = heads.transpose(2, 0, 3, 1, 4)
        q, k, v = (tape.Var(split.value[i], ((split, put(split, i)),)) for i in range(3))
        scores = tape.softmax((q @ k.transpose(0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5)
        x = x + linear((scores @ v).transpose(0, 2, 1, 3).reshape(n, 16, WIDTH), f"{block}.out")
        y = norm(x, f"{block}.norm2")
        gate = linear(y, f"{block}.gate")
        x = x + linear(gate * tape.sigmoid(gate) * linear(y, f"{block}.up"), f"{block}.down")
    return linear(norm(x, "norm").mean((1,)), "head")


def put(whole, index):
    def back(g):
        gradient = np.zeros_like(whole.value)
        gradient[index] = g
        return gradient

    return back


def trained(make, network, seed, epochs):
    pictures, classes = digits()
    rng = np.random.default_rng(seed)
    parameters = make(rng)

    def loss_of(variables, batch):
        return tape.cross_entropy(network(variables, pictures[batch]), classes[batch])

    tape.train(parameters, loss_of, TRAINED, epochs, rng)
    return parameters


def uneven_cnn(parameters):
    """The same function: what a convolution gives in a channel is up to 32 times larger, and the next one's weights for it
    are as much smaller, which a ReLU between them lets through."""
    rng, p = np.random.default_rng(12), {name: array.copy() for name, array in parameters.items()}
    for first, second in (("inner", "outer"), ("half", "last")):
        factor = np.exp2(rng.integers(-5, 6, p[f"{first}.bias"].size)).astype(np.float32)
        p[f"{first}.weight"] *= factor
        p[f"{first}.bias"] *= factor
        p[f"{second}.weight"] /= np.tile(factor, 9)[:, None]
    return p


def outlier_vit(parameters):
    """The same function: three channels behind every norm are 64 times larger, and the weights that read them as much
    smaller (Dettmers et al., "LLM.int8()", 2022, find such channels in large models)."""
    rng, p = np.random.default_rng(13), {name: array.copy() for name, array in parameters.items()}
    for block in range(BLOCKS):
        for norm, readers in (("norm1", ("qkv",)), ("norm2", ("gate", "up"))):
            channels = rng.choice(WIDTH, 3, replace=False)
            for part in ("weight", "bias"):
                p[f"{block}.{norm}.{part}"][channels] *= 64
            for reader in readers:
                p[f"{block}.{reader}.weight"][channels] /= 64
    return p


class Writer:
    """Nodes and constants of an ONNX model; each method returns the name of what it adds."""

    def __init__(self, parameters):
        self.nodes, self.constants, self.parameters = [], {}, parameters

    def constant(self, name, array):
        self.constants.setdefault(name, numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def op(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, x, name):
        weight = self.constant(f"{name}.weight", self.parameters[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", self.parameters[f"{name}.bias"])
        return self.op("Add", [self.op("MatMul", [x, weight], f"{name}.product"), bias], name)

    def norm(self, x, name):
        parts = [self.constant(f"{name}.{part}", self.parameters[f"{name}.{part}"]) for part in ("weight", "bias")]
        return self.op("LayerNormalization", [x, *parts], name, axis=-1, epsilon=1e-5)

    def conv(self, x, name, channels, out, stride):
        weight = self.parameters[f"{name}.weight"].reshape(3, 3, channels, out).transpose(3, 2, 0, 1)
        inputs = [
            x,
            self.constant(f"{name}.weight", weight),
            self.constant(f"{name}.bias", self.parameters[f"{name}.bias"]),
        ]
        return self.op("Conv", inputs, name, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4)

    def model(self, output):
        graph = helper.make_graph(
            self.nodes,
            "digits",
            [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["batch", 1, 8, 8])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", 10])],
            list(self.constants.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def cnn_model(parameters):
    g, x = Writer(parameters), "pictures"
    residual = x  # what the convolution before read
    for index, (name, channels, out, stride) in enumerate(CONVOLUTIONS):
        y = g.conv(x, name, channels, out, stride)
        if name == "outer":
            y = g.op("Add", [residual, y], "sum")
        residual, x = x, g.op("Relu", [y], f"relu{index}")
    mean = g.op("Flatten", [g.op("GlobalAveragePool", [x], "mean")], "row")
    return g.model(g.linear(mean, "head"))


def vit_model(parameters):
    g, size = Writer(parameters), WIDTH // HEADS
    split = g.constant("split", np.array([0, 4, 2, 4, 2]))
    x = g.op("Reshape", [g.op("Squeeze", ["pictures", g.constant("one", np.array([1]))], "picture"), split], "cells")
    # Reshape's 0 keeps the batch; of the picture's two axes four become.
    x = g.op("Transpose", [x], "cells_in_order", perm=[0, 1, 3, 2, 4])
    x = g.op("Reshape", [x, g.constant("patch_shape", np.array([0, 16, 4]))], "patches")
    x = g.op("MatMul", [x, g.constant("embed.weight", parameters["embed.weight"])], "embedded")
    x = g.op("Add", [x, g.constant("place", parameters["place"])], "placed")
    heads, rows = g.constant("heads", np.array([0, 0, 3, HEADS, size])), g.constant("rows", np.array([0, 0, WIDTH]))
    for b in range(BLOCKS):
        y = g.op("Reshape", [g.linear(g.norm(x, f"{b}.norm1"), f"{b}.qkv"), heads], f"{b}.heads")
        y = g.op("Transpose", [y], f"{b}.parts", perm=[2, 0, 3, 1, 4])
        q, k, v = (
            g.op("Gather", [y, g.constant(f"index{i}", np.array(i))], f"{b}.{part}", axis=0)
            for i, part in enumerate("qkv")
        )
        scores = g.op("MatMul", [q, g.op("Transpose", [k], f"{b}.keys", perm=[0, 1, 3, 2])], f"{b}.scores")
        scores = g.op("Mul", [scores, g.constant("scale", np.float32(size**-0.5))], f"{b}.scaled")
        y = g.op("MatMul", [g.op("Softmax", [scores], f"{b}.weights", axis=-1), v], f"{b}.mixed")
        y = g.op("Reshape", [g.op("Transpose", [y], f"{b}.merged", perm=[0, 2, 1, 3]), rows], f"{b}.rows")
        x = g.op("Add", [x, g.linear(y, f"{b}.out")], f"{b}.sum1")
        y = g.norm(x, f"{b}.norm2")
        gate = g.linear(y, f"{b}.gate")
        silu = g.op("Mul", [gate, g.op("Sigmoid", [gate], f"{b}.sigmoid")], f"{b}.silu")
        y = g.op("Mul", [silu, g.linear(y, f"{b}.up")], f"{b}.gated")
        x = g.op("Add", [x, g.linear(y, f"{b}.down")], f"{b}.sum2")
    mean = g.op("ReduceMean", [g.norm(x, "norm")], "mean", axes=[1], keepdims=0)
    return g.model(g.linear(mean, "head"))


@cache
def parameters_of(kind):
    return trained(cnn_parameters, cnn, 10, 30) if kind == "cnn" else trained(vit_parameters, vit, 11, 60)


MODELS = {
    "cnn": lambda: cnn_model(parameters_of("cnn")),
    "uneven cnn": lambda: cnn_model(uneven_cnn(parameters_of("cnn"))),
    "vit": lambda: vit_model(parameters_of("vit")),
    "vit with outliers": lambda: vit_model(outlier_vit(parameters_of("vit"))),
}


def path(name):
    """The ONNX file: trained once for each state of these sources."""
    digest = hashlib.sha256(Path(__file__).read_bytes() + Path(tape.__file__).read_bytes()).hexdigest()[:8]
    file = camshaft_cli.CACHE / "digits" / digest / f"{name.replace(' ', '_')}.onnx"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_bytes(MODELS[name]().SerializeToString())
        partial.rename(file)
    return file
