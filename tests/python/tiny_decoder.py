"""A decoder of two layers with seeded weights, made by the network API, and what it computes in NumPy."""

import math

import camshaft
import ml_dtypes
import numpy as np

LAYERS, HEADS, KV_HEADS, SIZE, BLOCK = 2, 4, 2, 8, 4
WIDTH = HEADS * SIZE


def weights_of(vocabulary, seed=0):
    random = np.random.default_rng(seed)

    def matrix(rows, columns, scale=1.0):
        return (random.standard_normal((rows, columns)) * scale / math.sqrt(rows)).astype(np.float32)

    weights = {"embedding": matrix(vocabulary, WIDTH, math.sqrt(vocabulary)), "head": matrix(WIDTH, vocabulary, 6.0)}
    for layer in range(LAYERS):
        weights |= {f"q{layer}": matrix(WIDTH, WIDTH), f"o{layer}": matrix(WIDTH, WIDTH)}
        weights |= {f"{kind}{layer}": matrix(WIDTH, KV_HEADS * SIZE) for kind in "kv"}
    return weights


def engine_of(weights, finds_likeliest=False, cache="f32", **options):
    """By the inputs and outputs that language models' engines have. cache: f32, or i8 or f8e4m3 with scales."""
    net = camshaft.Network()
    ids, positions = net.input("input_ids", "i32", ["tokens"]), net.input("positions", "i32", ["tokens"])
    starts = net.input("cumulative_sequence_length", "i32", ["boundaries"])
    past = net.input("past_seqlens", "i32", ["sequences"])
    table = net.input("block_table", "i32", ["sequences", "table_width"])
    wanted = net.input("logits_indices", "i32", ["rows"])
    shape = ["blocks", BLOCK, KV_HEADS, SIZE]
    kinds = _kinds(cache)
    caches = [[net.input(f"{kind}.{i}", *_state(kind, cache, shape)) for kind in kinds] for i in range(LAYERS)]
    operators = net.microsoft if cache == "f32" else net.domain("camshaft")
    angle = net.Mul(net.Unsqueeze(net.Cast(positions, to="f32"), np.array([1])), _frequencies())
    x = net.Gather(weights["embedding"], ids)
    x = net.Add(x, net.Concat(net.Sin(angle), net.Cos(angle), axis=1))
    for layer in range(LAYERS):
        query, key, value = (net.MatMul(x, weights[f"{kind}{layer}"]) for kind in "qkv")
        attended, *kept = operators.PagedAttention(
            *(query, key, value, *caches[layer], starts, past, table),
            num_heads=HEADS,
            kv_num_heads=KV_HEADS,
            outputs=1 + len(kinds),
        )
        for kind, value in zip(kinds, kept):
            net.output(value, f"{kind}_out.{layer}")
        x = net.Add(x, net.MatMul(net.Tanh(attended), weights[f"o{layer}"]))
    logits = net.MatMul(net.Gather(x, wanted), weights["head"])
    net.output(logits, "logits")
    if finds_likeliest:
        likeliest = net.ArgMax(logits, axis=1, keepdims=1)
        net.output(net.Squeeze(likeliest, [1]), "likeliest")
        net.output(net.Squeeze(net.GatherElements(logits, likeliest, axis=1), [1]), "largest")
    return camshaft.build(net, inputs=_step(cache), **{"tuning": "heuristic", "verify_seconds": 0.0, **options})


def _kinds(cache):
    return ("key_cache", "value_cache", *(() if cache == "f32" else ("key_scales", "value_scales")))


def _state(kind, cache, shape):
    """Type and shape."""
    return ("f32", shape[:3]) if kind.endswith("scales") else (cache, shape)


def narrow_array(x):
    """In E4M3, which NumPy exports no arrays of."""
    codes = x.astype(ml_dtypes.float8_e4m3fn)
    return camshaft.Memory(codes.ctypes.data, "f8e4m3", codes.shape, owner=codes)


def _step(cache_type):
    """Inputs to verify on: a sequence that begins, one with a past, and a token of padding."""
    cache = np.random.default_rng(1).standard_normal((5, BLOCK, KV_HEADS, SIZE), np.float32)
    step = {
        "input_ids": [1, 2, 3, 4, 0],
        "positions": [0, 1, 2, 5, 0],
        "cumulative_sequence_length": [0, 3, 4],
        "past_seqlens": [0, 5],
        "block_table": [[3, 0], [1, 4]],
        "logits_indices": [2, 3],
    }
    made = {name: np.array(values, np.int32) for name, values in step.items()}
    given = {"f32": cache, "i8": np.rint(cache * 40).astype(np.int8), "f8e4m3": narrow_array(cache)}
    kept = {"cache": given[cache_type], "scales": np.full(cache.shape[:3], 1 / 40, np.float32)}
    return made | {f"{kind}.{i}": kept[kind.split("_")[1]] for kind in _kinds(cache_type) for i in range(LAYERS)}


def _frequencies():
    return (10.0 ** -np.arange(WIDTH // 2)[None]).astype(np.float32)


def logits_of(weights, ids):
    """Of every token of one sequence, in f64."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    angle = np.arange(len(ids))[:, None] * _frequencies().astype(np.float64)
    x = w["embedding"][ids] + np.concatenate([np.sin(angle), np.cos(angle)], 1)
    for layer in range(LAYERS):
        query = (x @ w[f"q{layer}"]).reshape(len(ids), HEADS, SIZE)
        key, value = (
            np.repeat((x @ w[f"{kind}{layer}"]).reshape(len(ids), KV_HEADS, SIZE), HEADS // KV_HEADS, 1)
            for kind in "kv"
        )
        scores = np.einsum("qhs,khs->hqk", query, key) / math.sqrt(SIZE)
        scores[:, np.triu(np.ones((len(ids), len(ids)), bool), 1)] = -np.inf
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        attended = np.einsum("hqk,khs->qhs", scores, value).reshape(len(ids), WIDTH)
        x = x + np.tanh(attended) @ w[f"o{layer}"]
    return x @ w["head"]


def greedy_text(weights, prompt, count):
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(np.argmax(logits_of(weights, ids)[-1])))
    return ids[len(prompt) :]
