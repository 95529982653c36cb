"""Checkpoints of AWQ, GPTQ and compressed-tensors: the logits are those of the weights that they stand for."""

import json

import camshaft.llm
import numpy as np
import pytest
from camshaft import InvalidModelError, UnsupportedError
from llm_folders import LLAMA, PagedDecoder, llama_logits, llama_tensors, write_llama

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(codes, bits, order=None):
    """[rows, columns] of codes -> [rows, words] of i32: code i of a word is of its column order[i]."""
    each = 32 // bits
    parts = codes.reshape(len(codes), -1, each).astype(np.uint32)[:, :, order or list(range(each))]
    return (parts << (bits * np.arange(each, dtype=np.uint32))).sum(axis=2, dtype=np.uint32).view(np.int32)


def quantized(x, bits, size, random, symmetric=False, groups=None):
    """(codes [rows, columns], scales and zeros [rows, groups], the weights that they are); groups: of the columns."""
    groups = np.arange(x.shape[1]) // size if groups is None else groups
    count = x.shape[1] // size
    codes = random.integers(0, 1 << bits, x.shape)
    scales = random.uniform(0.5, 1.5, (len(x), count)).astype(np.float16).astype(np.float32)
    scales = (scales / np.float32(2**bits * 4)).astype(np.float16)
    middle = 1 << (bits - 1)
    zeros = np.full((len(x), count), middle) if symmetric else random.integers(1, 1 << bits, (len(x), count))
    made = (codes - zeros[:, groups]) * scales.astype(np.float64)[:, groups]
    return codes, scales, zeros, made.astype(np.float32)


def checkpoint(method, bits, size, folder, act_order=False, version="gptq"):
    """Writes a folder; gives the weights in fp32."""
    random = np.random.default_rng(8)
    plain, stored = llama_tensors(LLAMA, np.random.default_rng(0)), {}
    for name, x in list(plain.items()):
        if "_proj" not in name:
            stored[name] = x
            continue
        stem = name.removesuffix("weight")
        count = size if size > 0 else x.shape[1]
        groups = random.permutation(x.shape[1]) // count if act_order else None
        codes, scales, zeros, plain[name] = quantized(x, bits, count, random, method == "compressed-tensors", groups)
        if method == "awq":
            stored[stem + "qweight"] = words(codes.T, 4, AWQ_ORDER)
            stored[stem + "qzeros"] = words(zeros.T, 4, AWQ_ORDER)
            stored[stem + "scales"] = scales.T
        elif method == "gptq":
            stored[stem + "qweight"] = words(codes, bits).T
            stored[stem + "qzeros"] = words((zeros - (version == "gptq")).T, bits)
            stored[stem + "scales"] = scales.T
            stored[stem + "g_idx"] = (np.arange(x.shape[1]) // count if groups is None else groups).astype(np.int32)
        else:
            stored[stem + "weight_packed"] = words(codes, bits)
            stored[stem + "weight_scale"] = scales
            stored[stem + "weight_shape"] = np.array(x.shape, np.int64)
    scheme = {"quant_method": method, "bits": bits, "group_size": size, "checkpoint_format": version}
    if method == "compressed-tensors":
        of = {"num_bits": bits, "group_size": size if size > 0 else None, "symmetric": True, "type": "int"}
        scheme = {"quant_method": method, "format": "pack-quantized", "config_groups": {"group_0": {"weights": of}}}
    # What is not dense, safetensors writes in the order of the memory.
    write_llama(folder, {name: np.ascontiguousarray(x) for name, x in stored.items()}, quantization_config=scheme)
    return plain


@pytest.mark.parametrize("weights", [None, "f32"])
@pytest.mark.parametrize(
    "method, bits, size, more",
    [
        ("awq", 4, 32, {}),
        ("awq", 4, 16, {}),
        ("gptq", 4, 32, {}),
        ("gptq", 8, 16, {}),
        ("gptq", 4, -1, {}),
        ("gptq", 4, 32, {"version": "gptq_v2"}),
        ("gptq", 4, 32, {"act_order": True}),
        ("compressed-tensors", 4, 32, {}),
        ("compressed-tensors", 8, -1, {}),
    ],
)
def test_logits(tmp_path, weights, method, bits, size, more):
    plain = checkpoint(method, bits, size, tmp_path / "hf", **more)
    engine = camshaft.llm.build(
        tmp_path / "hf", tmp_path / "out", weights=weights, activations="f32", cache="f32", tuning="heuristic"
    )
    described = json.loads((tmp_path / "out/llm.json").read_text())
    assert described["weights"] == (weights or "stored")
    ids = np.random.default_rng(1).integers(0, LLAMA["vocab_size"], 30)
    actual, wanted = PagedDecoder(engine, described).step({"a": ids})["a"], llama_logits(LLAMA, plain, ids)
    assert np.abs(actual - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(
    "scheme, kind, words",
    [
        ({"quant_method": "bitsandbytes"}, UnsupportedError, "weights quantised by 'bitsandbytes'; awq, gptq, "),
        ({}, InvalidModelError, "field 'quant_method' is missing"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 32}, UnsupportedError, "weights of 3 bits"),
        ({"quant_method": "gptq", "bits": "4"}, InvalidModelError, "field 'bits'"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, UnsupportedError, "AWQ's version 'gemv'"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 48}, InvalidModelError, "no whole groups of 48"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 16}, InvalidModelError, r"qzeros' .* it is I32\[2, 8\]"),
        ({"quant_method": "compressed-tensors", "format": "float-quantized"}, UnsupportedError, "'float-quantized'"),
    ],
)
def test_schemes_that_are_wrong(tmp_path, scheme, kind, words):
    checkpoint("gptq", 4, 32, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": scheme}))
    with pytest.raises(kind, match=words) as error:
        camshaft.llm.network(tmp_path)
    assert "\n" not in str(error.value)
