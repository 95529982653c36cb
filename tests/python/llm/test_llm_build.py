"""Folders of decoders built into engines: what they compute, what is written, and what is said of folders that are wrong.
tests/python/pytorch/test_language_models.py compares every family with Transformers."""

import json
import os
import re
import subprocess
import sys

import camshaft
import camshaft.llm
import numpy as np
import pytest
from camshaft import FileError, InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft_cli import BINARY, ROOT
from llm_folders import LLAMA, PagedDecoder, llama_logits, llama_tensors, write_llama
from safetensors.numpy import save_file
from t5_folders import write_t5

IDS = np.random.default_rng(1).integers(0, LLAMA["vocab_size"], 40)


def build(folder, output, **options):
    return camshaft.llm.build(folder, output, **{"tuning": "heuristic", **options})


def decoder_of(engine, output):
    return PagedDecoder(engine, json.loads((output / "llm.json").read_text()))


def worst(actual, wanted):
    return np.abs(actual - wanted).max() / np.abs(wanted).max()


@pytest.fixture
def tensors():
    return llama_tensors(LLAMA, np.random.default_rng(0))


@pytest.mark.parametrize("cache, most", [("f32", 1e-5), ("f16", 2e-3), ("int8", 0.02), ("fp8", 0.1)])
@pytest.mark.parametrize("block_size", [16, 1, 5])
def test_logits(tmp_path, tensors, cache, most, block_size):
    engine = build(write_llama(tmp_path / "hf", tensors), tmp_path / "out", cache=cache, block_size=block_size)
    decoder, wanted = decoder_of(engine, tmp_path / "out"), llama_logits(LLAMA, tensors, IDS)
    first = decoder.step({"a": IDS[:17], "b": IDS[:3]}, padding=2)
    second = decoder.step({"b": IDS[3:4], "c": IDS[:1], "a": IDS[17:]})
    for got, place in [
        (first["a"], slice(0, 17)),
        (first["b"], slice(0, 3)),
        (second["b"], slice(3, 4)),
        (second["c"], slice(0, 1)),
        (second["a"], slice(17, 40)),
    ]:
        assert worst(got, wanted[place]) < most


@pytest.mark.parametrize("cache", ["int8", "fp8"])
def test_a_cache_of_8_bits_is_what_its_scales_say(tmp_path, cache):
    engine = build(write_llama(tmp_path / "hf"), tmp_path / "out", cache=cache)
    inputs = {info.name: (info.dtype, info.shape) for info in engine.inputs}
    assert inputs["value_cache.1"] == ({"int8": "i8", "fp8": "f8e4m3"}[cache], (-1, 16, 2, 16))
    assert inputs["value_scales.1"] == ("f32", (-1, 16, 2))
    aliases = {info.name: info.aliased_input for info in engine.outputs if info.aliased_input}
    assert aliases == {
        f"{kind}_out.{i}": f"{kind}.{i}"
        for kind in ("key_cache", "value_cache", "key_scales", "value_scales")
        for i in range(2)
    }
    assert json.loads((tmp_path / "out/llm.json").read_text())["cache_type"] == cache
    wide, decoders = {}, {}
    for name, made in (("f32", build(tmp_path / "hf", tmp_path / "wide", cache="f32")), (cache, engine)):
        folder = tmp_path / ("wide" if name == "f32" else "out")
        decoders[name] = decoder_of(made, folder)
        decoders[name].step({"a": IDS})
        wide[name] = decoders[name].caches
    for kind in ("key", "value"):  # of the first layer, whose keys and values no cache has touched
        exact, codes = wide["f32"][f"{kind}_cache.0"], wide[cache][f"{kind}_cache.0"].astype(np.float32)
        scales = wide[cache][f"{kind}_scales.0"]
        written = ~np.isnan(scales)
        assert written.sum() == 2 * len(IDS)
        largest = np.abs(exact[written]).max(-1)
        np.testing.assert_allclose(scales[written], largest / (127 if cache == "int8" else 448), rtol=1e-5)
        error = np.abs(codes[written] * scales[written][:, None] - exact[written]).max(-1)
        assert (error <= largest / (250 if cache == "int8" else 27)).all()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bits", [8, 4])
def test_weights_of_few_bits_are_what_the_blocks_say(tmp_path, bits, tied):
    """The engine's logits are those of the weights that the blocks stand for."""
    from camshaft.llm._blocks import in_blocks

    config = {**LLAMA, "tie_word_embeddings": tied}
    tensors = llama_tensors(config, np.random.default_rng(0))
    folder = write_llama(tmp_path / "hf", tensors, tie_word_embeddings=tied)
    exact = build(folder, tmp_path / "out", weights=f"int{bits}", activations="f32", cache="f32")
    decoder = decoder_of(exact, tmp_path / "out")
    rounded = {}
    for name, x in tensors.items():
        of = 8 if "embed" in name or "head" in name else bits
        rounded[name] = x if x.ndim == 1 else in_blocks(x, of).values(x.shape[1])
    wanted = llama_logits(config, rounded, IDS)
    assert worst(decoder.step({"a": IDS})["a"], wanted) < 1e-4
    # Activations in bytes, which is usual: the same to some thousandths, and not the same.
    bytewise = decoder_of(build(folder, tmp_path / "int8", weights=f"int{bits}", cache="f32"), tmp_path / "int8")
    assert 1e-4 < worst(bytewise.step({"a": IDS})["a"], wanted) < 0.03
    size = (tmp_path / "out/model.engine").stat().st_size
    build(folder, tmp_path / "wide")
    assert size < (tmp_path / "wide/model.engine").stat().st_size


def test_what_is_written(tmp_path):
    folder = write_llama(tmp_path / "hf")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7, 5000], "pad_token_id": 0}))
    (folder / "README.md").write_text("not of the model")
    build(folder, tmp_path / "deep/out", weights="int8", max_length=100)
    out = tmp_path / "deep/out"
    assert sorted(os.listdir(out)) == ["generation_config.json", "llm.json", "model.engine", "tokenizer.json"]
    assert json.loads((out / "llm.json").read_text()) == {
        "format": 1,
        "model_type": "llama",
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "head_size": 16,
        "windows": [0, 0],
        "vocabulary": 80,
        "max_length": 100,
        "weights": "int8",
        "cache_type": "f16",
        "block_size": 16,
        "bos_id": 1,
        "eos_ids": [2, 7],
        "pad_id": 0,
    }
    names = [info.name for info in camshaft.Engine(out / "model.engine").inputs]
    assert names[:6] == [
        "input_ids",
        "positions",
        "cumulative_sequence_length",
        "past_seqlens",
        "block_table",
        "logits_indices",
    ]
    assert os.stat(out).st_mode & 0o700 == 0o700

    build(folder, out)  # takes the place of the one that is there
    assert json.loads((out / "llm.json").read_text())["weights"] == "f32"
    assert os.listdir(tmp_path / "deep") == ["out"]


def test_a_lock_file_gives_the_same_engine(tmp_path):
    folder, lock = write_llama(tmp_path / "hf"), tmp_path / "lock"
    build(folder, tmp_path / "a", weights="int4", write_lock=lock)
    build(folder, tmp_path / "b", weights="int4", tuning="locked", lock=lock)
    first, second = ((tmp_path / name / "model.engine").read_bytes() for name in "ab")
    assert first == second


def test_nothing_is_left_of_what_fails(tmp_path, tensors):
    del tensors["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(InvalidModelError, match="'model.layers.1.mlp.up_proj.weight' is missing"):
        build(write_llama(tmp_path / "hf", tensors), tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["hf"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("mine")
    write_llama(tmp_path / "hf")
    with pytest.raises(InvalidArgumentError, match="no model that this command made"):
        build(tmp_path / "hf", tmp_path / "other")
    with pytest.raises(InvalidArgumentError, match="over what it is made of"):
        build(tmp_path / "hf", tmp_path / "hf")


@pytest.mark.parametrize(
    "name, change, kind, words",
    [
        ("model.embed_tokens.weight", None, InvalidModelError, "tensor 'model.embed_tokens.weight' is missing"),
        ("model.norm.weight", None, InvalidModelError, "tensor 'model.norm.weight' is missing"),
        ("lm_head.weight", None, InvalidModelError, "tensor 'lm_head.weight' is missing"),
        ("model.layers.0.self_attn.k_proj.weight", np.ones((64, 64), np.float32), InvalidModelError,
         r"k_proj.weight' is \[64, 64\]; by the configuration it must be \[32, 64\]"),
        ("model.norm.weight", np.ones(64, np.int8), UnsupportedError, "'model.norm.weight' is of type I8"),
        ("model.layers.0.self_attn.q_proj.bias", np.ones(64, np.float32), UnsupportedError,
         "'model.layers.0.self_attn.q_proj.bias' is of no part"),
        ("model.layers.2.input_layernorm.weight", np.ones(64, np.float32), UnsupportedError, "is of no part"),
    ],
)  # fmt: skip
def test_tensors_that_are_wrong(tmp_path, tensors, name, change, kind, words):
    tensors.pop(name, None)
    if change is not None:
        tensors[name] = change
    with pytest.raises(kind, match=words) as error:
        build(write_llama(tmp_path / "hf", tensors), tmp_path / "out")
    assert "\n" not in str(error.value)


def test_buffers_of_older_versions_are_left_aside(tmp_path, tensors):
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)
    tensors["model.rotary_emb.inv_freq"] = np.ones(8, np.float32)
    camshaft.llm.network(write_llama(tmp_path / "hf", tensors))


def test_a_head_that_is_tied_is_not_read(tmp_path, tensors):
    tensors["lm_head.weight"] = np.zeros_like(tensors["lm_head.weight"])
    camshaft.llm.network(write_llama(tmp_path / "hf", tensors, tie_word_embeddings=True))


def test_values_that_halves_cannot_hold(tmp_path, tensors):
    tensors["model.layers.1.mlp.down_proj.weight"][3, 4] = 1e6
    folder = write_llama(tmp_path / "hf", tensors)
    with pytest.raises(UnsupportedError, match="'model.layers.1.mlp.down_proj.weight' has values that f16 cannot hold"):
        camshaft.llm.network(folder, weights="f16")
    camshaft.llm.network(folder, weights="bf16")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"weights": "int3"}, "weights is 'int3'; f32, f16, bf16, int8, int4, stored are possible"),
        ({"cache": "f8"}, "cache is 'f8'; f16, f32, int8, fp8 are possible"),
        ({"block_size": 0}, "block_size is 0"),
        ({"block_size": 2.5}, "block_size is 2.5"),
        ({"max_length": 129}, "max_length is 129"),
        ({"tunning": "measure"}, "tunning"),
    ],
)
def test_options_that_are_wrong(tmp_path, options, words):
    with pytest.raises((InvalidArgumentError, TypeError), match=words):
        build(write_llama(tmp_path / "hf"), tmp_path / "out", **options)


def test_sizes_that_lie_need_no_memory(tmp_path):
    """A configuration of a giant beside small weights: the first tensor says so."""
    folder = write_llama(
        tmp_path / "hf", hidden_size=1 << 20, vocab_size=1 << 24, seed=0, tensors={"x": np.ones(3, np.float32)}
    )
    with pytest.raises(InvalidModelError, match="'model.embed_tokens.weight' is missing"):
        camshaft.llm.network(folder)
    save_file({"model.embed_tokens.weight": np.ones((2, 2), np.float32)}, folder / "model.safetensors")
    with pytest.raises(InvalidModelError, match=r"it must be \[16777216, 1048576\]"):
        camshaft.llm.network(folder)


def test_folders_that_are_none(tmp_path):
    with pytest.raises(FileError, match="no folder with a model"):
        build(tmp_path / "gone", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="config.json: No such file"):
        build(tmp_path / "empty", tmp_path / "out")


def test_the_documentations_python_runs(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/llm.md").read_text(), re.MULTILINE | re.DOTALL)
    block, text, beams, encoder_decoder = blocks
    monkeypatch.chdir(tmp_path)
    write_llama(tmp_path / "build/hf-llama")
    exec(block, {})
    assert capsys.readouterr().out.strip() == re.search(r"# (\(.*\))", block)[1]
    names: dict = {}
    exec(text, names)
    assert capsys.readouterr().out.count(" length\n") == 2
    exec(beams, names)
    assert len(capsys.readouterr().out.splitlines()) == 4
    camshaft.llm.build(write_t5(tmp_path / "build/hf-flan"), tmp_path / "build/flan", tuning="heuristic")
    exec(encoder_decoder, names)
    assert "w" in capsys.readouterr().out


def command(*arguments):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    return subprocess.run([BINARY, "llm", *map(str, arguments)], capture_output=True, text=True, env=environment)


def test_the_command(tmp_path):
    folder = write_llama(tmp_path / "hf")
    done = command(
        "build",
        folder,
        "-o",
        tmp_path / "out",
        "--weights",
        "int4",
        "--cache",
        "f32",
        "--build-option",
        "tuning=heuristic",
    )
    assert done.returncode == 0, done.stderr
    assert "out/model.engine (" in done.stdout
    described = json.loads((tmp_path / "out/llm.json").read_text())
    assert (described["weights"], described["cache_type"]) == ("int4", "f32")

    (folder / "config.json").write_text(json.dumps({**LLAMA, "vocab_size": "many"}))
    done = command("build", folder, "-o", tmp_path / "out")
    assert done.returncode == 3
    assert done.stderr == (
        f"camshaft: error: {folder}/config.json: field 'vocab_size' is \"many\"; a whole number from 1 to 16777216 is needed\n"
    )
    assert command("build", tmp_path / "gone", "-o", tmp_path / "out").returncode == 5
    assert command("build", folder).returncode == 2
    assert "--max-length" in command("build", "--help").stdout
