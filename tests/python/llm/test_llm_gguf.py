"""GGUF files: the values of their types, decoders in them, and the message for files that are not what they say."""

import json
import struct

import camshaft.llm
import numpy as np
import pytest
from camshaft import FileError, InvalidModelError, UnsupportedError
from camshaft.llm._gguf import GgufFile
from camshaft.llm._gguf_blocks import SIZES, blocks_of
from llm_folders import LLAMA, PagedDecoder, llama_logits, llama_tensors

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "o_proj": "attn_output",
    **{f"{name}_proj": f"attn_{name}" for name in "qkv"},
    **{f"{name}_proj": f"ffn_{name}" for name in ("gate", "up", "down")},
}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def field(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return text(name) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return text(name) + (struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value))


def gguf_bytes(fields, tensors):
    """tensors: {name: (type, shape, bytes)}"""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    header += b"".join(field(name, value) for name, value in fields.items())
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        header += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        header += struct.pack("<IQ", TYPES[kind], len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    return header + b"\0" * (-len(header) % 32) + data


def q8_0(x):
    """A row's blocks, and the values that they have."""
    blocks = x.reshape(-1, 32)
    scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    codes = np.rint(blocks / scale.astype(np.float32)).astype(np.int8)
    raw = np.concatenate([scale.view(np.uint8), codes.view(np.uint8)], axis=1)
    return raw.tobytes(), (codes * scale.astype(np.float32)).reshape(x.shape)


def random_blocks(kind, count, random):
    """Bytes of blocks whose scales are of one size."""
    data = random.integers(0, 256, (count, SIZES[kind][1]), dtype=np.uint8)
    scale = lambda: random.uniform(-0.01, 0.01, (count, 1)).astype(np.float16).view(np.uint8)  # noqa: E731
    for place in {"Q4_K": (0, 2), "Q6_K": (208,)}.get(kind, (0,)):
        data[:, place : place + 2] = scale()
    return data


def value(kind, b, i):
    """Element i of a block, as the format's description says."""
    half = lambda at: float(b[at : at + 2].view(np.float16)[0])  # noqa: E731
    if kind == "Q4_0":
        return half(0) * (int(b[2 + i % 16] >> (4 * (i // 16)) & 15) - 8)
    if kind == "Q8_0":
        return half(0) * int(b[2 + i].view(np.int8))
    if kind == "Q4_K":
        j, packed = i // 32, b[4:16].astype(int)
        if j < 4:
            step, low = packed[j] & 63, packed[j + 4] & 63
        else:
            step = (packed[j + 4] & 15) | (packed[j - 4] >> 6 << 4)
            low = (packed[j + 4] >> 4) | (packed[j] >> 6 << 4)
        code = int(b[16 + j // 2 * 32 + i % 32]) >> (4 * (j % 2)) & 15
        return half(0) * step * code - half(2) * low
    n, quarter, at = i // 128, i % 128 // 32, i % 32
    lower = int(b[n * 64 + quarter % 2 * 32 + at]) >> (4 * (quarter // 2)) & 15
    upper = int(b[128 + n * 32 + at]) >> (2 * quarter) & 3
    return half(208) * int(b[192 + i // 16].view(np.int8)) * ((lower | upper << 4) - 32)


@pytest.mark.parametrize("kind", SIZES)
def test_values_of_blocks(kind):
    random = np.random.default_rng(4)
    data = random_blocks(kind, 12, random)
    if kind == "Q4_K":
        data[3, 4:10] = 0  # scales of 0 beside minima that are none
    elements = SIZES[kind][0]
    columns = 3 * elements
    blocks = blocks_of(data.reshape(-1), kind, 4)
    wanted = np.array([[value(kind, b, i) for i in range(elements)] for b in data]).reshape(4, columns)
    np.testing.assert_allclose(blocks.values(columns), wanted, rtol=2e-6, atol=2e-6)
    order = np.array([2, 0, 3, 1])
    np.testing.assert_array_equal(blocks.rows(order).values(columns), blocks.values(columns)[order])

    net = camshaft.Network()
    x = net.input("x", np.float32, ("rows", columns))
    zeros = None if blocks.zeros is None else blocks.zeros.reshape(-1)
    sizes = {"K": columns, "N": 4, "bits": blocks.bits, "block_size": blocks.size}
    net.output(net.microsoft.MatMulNBits(x, blocks.codes, blocks.scales.reshape(-1), zeros, **sizes), "y")
    given = random.standard_normal((3, columns), np.float32)
    actual = camshaft.build(net, tuning="heuristic", inputs={"x": given})(given)
    np.testing.assert_allclose(actual, given @ wanted.T, atol=1e-4 * np.abs(wanted).max() * columns**0.5)


@pytest.mark.parametrize("kind", SIZES)
def test_values_are_those_of_the_package_gguf(kind):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    data = random_blocks(kind, 50, np.random.default_rng(5))
    wanted = gguf.quants.dequantize(data.reshape(1, -1), getattr(gguf.GGMLQuantizationType, kind))
    made = blocks_of(data.reshape(-1), kind, 1).values(wanted.size)
    np.testing.assert_allclose(made, wanted, rtol=2e-6, atol=1e-6)


def gguf_of_llama(tensors, config, permuted=True, **changes):
    """(the file's bytes, the weights as they come back): matrices in Q8_0, the rest in F32, the embedding in BF16."""
    fields = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "tokenizer.ggml.tokens": ["a", "b"],
        "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "llama.rope.freq_base": config["rope_theta"],
        "tokenizer.ggml.eos_token_id": 2,
        **changes,
    }
    made, known = {}, {}
    for name, x in tensors.items():
        parts = name.split(".")
        role = parts[-2]
        stored = f"blk.{parts[2]}.{LAYER[role]}" if "layers" in name else NAMES[role]
        if role == "embed_tokens":
            bits = x.view(np.uint32) >> 16
            known[name] = (bits << 16).view(np.float32)
            made[f"{stored}.weight"] = ("BF16", x.shape, bits.astype(np.uint16).tobytes())
        elif x.ndim == 1:
            known[name] = x
            made[f"{stored}.weight"] = ("F32", x.shape, x.tobytes())
        else:
            raw, known[name] = q8_0(x)
            if role in ("q_proj", "k_proj"):
                heads = 4 if role == "q_proj" else 2
                moved = x.reshape(heads, 2, -1, x.shape[1]).swapaxes(1, 2).reshape(x.shape)
                raw = q8_0(np.ascontiguousarray(moved))[0]
            made[f"{stored}.weight"] = ("Q8_0", x.shape, raw)
    return gguf_bytes(fields, made), known


@pytest.mark.parametrize("weights, most", [(None, 1e-4), ("f32", 1e-4), ("int8", 0.05)])
def test_a_llama(tmp_path, weights, most):
    tensors = llama_tensors(LLAMA, np.random.default_rng(0))
    data, known = gguf_of_llama(tensors, LLAMA)
    (tmp_path / "tiny.gguf").write_bytes(data)
    (tmp_path / "tokenizer.json").write_text("{}")
    out = tmp_path / "out"
    engine = camshaft.llm.build(
        tmp_path / "tiny.gguf", out, weights=weights, activations="f32", cache="f32", tuning="heuristic"
    )
    described = json.loads((out / "llm.json").read_text())
    assert (described["weights"], described["eos_ids"]) == (weights or "stored", [2])
    assert (out / "tokenizer.json").exists()
    ids = np.random.default_rng(1).integers(0, 80, 40)
    actual, wanted = PagedDecoder(engine, described).step({"a": ids})["a"], llama_logits(LLAMA, known, ids)
    assert np.abs(actual - wanted).max() < most * np.abs(wanted).max()


def test_what_is_not_supported(tmp_path):
    path = tmp_path / "model.gguf"
    tensors = llama_tensors(LLAMA, np.random.default_rng(0))
    for changes, words in [
        ({"general.architecture": "mamba"}, "'general.architecture' is 'mamba'; llama, qwen2, qwen3 are supported"),
        ({"llama.block_count": 1}, "tensor 'model.layers.1.* is of no part"),
    ]:
        path.write_bytes(gguf_of_llama(tensors, LLAMA, **changes)[0])
        with pytest.raises(UnsupportedError, match=words):
            camshaft.llm.network(path)
    path.write_bytes(gguf_of_llama(tensors, LLAMA, **{"llama.embedding_length": 1 << 19})[0])
    with pytest.raises(InvalidModelError, match="by the configuration it must be"):
        camshaft.llm.network(path)
    with pytest.raises(FileError, match="gone.gguf: No such file"):
        camshaft.llm.network(tmp_path / "gone.gguf")


def test_two_of_one_name_and_tensors_without_rows(tmp_path):
    data, _ = gguf_of_llama(llama_tensors(LLAMA, np.random.default_rng(0)), LLAMA)
    path = tmp_path / "model.gguf"
    path.write_bytes(data.replace(b"blk.1.attn_q.weight", b"blk.0.attn_q.weight"))
    with pytest.raises(InvalidModelError, match="it has two tensors 'blk.0.attn_q.weight'"):
        GgufFile(path)
    path.write_bytes(gguf_bytes({"general.architecture": "llama"}, {"t": ("Q4_0", (0, 32), b"")}))
    with pytest.raises(InvalidModelError, match=r"tensor 't' is Q4_0\[0, 32\]"):
        GgufFile(path)


def test_files_that_are_cut_or_changed(tmp_path):
    """Each ends in an error of ours, or in what the file then says, in no time."""
    data, _ = gguf_of_llama(llama_tensors(LLAMA, np.random.default_rng(0)), LLAMA)
    path = tmp_path / "model.gguf"
    end = data.index(b"output_norm")
    for length in [*range(0, 200), *range(200, len(data), 4999)]:
        path.write_bytes(data[:length])
        with pytest.raises(InvalidModelError, match="model.gguf: "):
            GgufFile(path)
    random = np.random.default_rng(6)
    for _ in range(300):
        changed = bytearray(data)
        at = int(random.integers(4, end + 200))
        changed[at : at + 8] = struct.pack("<Q", [0, 255, 1 << 31, 1 << 62, (1 << 64) - 1][random.integers(5)])
        path.write_bytes(changed)
        try:
            GgufFile(path)
        except InvalidModelError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
