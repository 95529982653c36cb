"""Configurations of decoders: what they mean, and the message for what they may not say."""

import json

import numpy as np
import pytest
from camshaft import Error, FileError, InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft.llm._decoder import decoder_of, read_config
from llm_folders import LLAMA


@pytest.fixture
def read(tmp_path):
    def of(max_length=None, **changes):
        config = {name: value for name, value in {**LLAMA, **changes}.items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return decoder_of(read_config(tmp_path), max_length)

    return of


def test_what_is_read(read):
    d = read()
    assert (d.width, d.heads, d.kv_heads, d.head_size, d.mlp_width, d.vocabulary) == (64, 4, 2, 16, 96, 80)
    assert len(d.layers) == 2 and d.max_length == 128 and d.layers[0].scale == 0.25 and not d.tied and not d.biased
    assert read(head_dim=32, attention_bias=True).biased == {"q", "k", "v", "o"}
    assert read(num_key_value_heads=...).kv_heads == 4


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"hidden_size": ...}, "field 'hidden_size' is missing"),
        ({"hidden_size": 1 << 40}, "field 'hidden_size' is 1099511627776; a whole number from 1 to 1048576"),
        ({"hidden_size": "64"}, "field 'hidden_size' is \"64\""),
        ({"hidden_size": 64.0}, "field 'hidden_size' is 64.0"),
        ({"hidden_size": True}, "field 'hidden_size' is true"),
        ({"hidden_size": 66}, r"field 'num_attention_heads' is 4; a divisor of hidden_size \(66\)"),
        ({"num_hidden_layers": 10**9}, "field 'num_hidden_layers'"),
        ({"num_attention_heads": 0}, "field 'num_attention_heads'"),
        ({"num_key_value_heads": 3}, "field 'num_key_value_heads' is 3; a divisor of the 4 heads"),
        ({"vocab_size": -1}, "field 'vocab_size'"),
        ({"rms_norm_eps": float("nan")}, "field 'rms_norm_eps' is NaN"),
        ({"rope_theta": 0}, "field 'rope_theta'"),
        ({"rope_scaling": [1]}, "an object of fields is needed"),
        ({"rope_scaling": {"type": "linear"}}, "field 'factor' is missing"),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, "field 'factor'"),
        ({"rope_scaling": {"type": "longrope", "short_factor": [1]}}, "field 'short_factor' is a list of 1; a list of 8"),
        ({"partial_rotary_factor": 0.2}, "field 'partial_rotary_factor' is 0.2"),
        ({"tie_word_embeddings": "yes"}, "field 'tie_word_embeddings'"),
        ({"layer_types": ["full_attention"]}, "field 'layer_types' is a list of 1"),
        ({"model_type": "mistral", "layer_types": ["sliding_attention"] * 2}, "field 'sliding_window'"),
    ],
)  # fmt: skip
def test_fields_that_are_wrong(read, changes, words):
    with pytest.raises(InvalidModelError, match=words) as error:
        read(**changes)
    assert "config.json" in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"model_type": "bart"}, "model_type 'bart' is not supported; t5, mt5, llama, "),
        (
            {"model_type": "bert"},
            "model_type 'bert' is an encoder, which generates no text: build it with task='embed'",
        ),
        ({"rope_scaling": {"rope_type": "spiral"}}, "'rope_type' is 'spiral'"),
        ({"layer_types": ["linear_attention"] * 2}, "layer_types has 'linear_attention'"),
        ({"model_type": "falcon", "alibi": True}, "'alibi' is true"),
    ],
)
def test_what_is_not_supported(read, changes, words):
    with pytest.raises(UnsupportedError, match=words):
        read(**changes)


def test_files_that_are_no_configuration(tmp_path):
    with pytest.raises(FileError, match="config.json: No such file"):
        decoder_of(read_config(tmp_path))
    for text in ["", "{", "[]", "3", "[" * 100_000, '{"model_type": "llama", "model_type": 3}', '{"model_type": null}']:
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(InvalidModelError, match="config.json"):
            decoder_of(read_config(tmp_path))
    with open(tmp_path / "config.json", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InvalidModelError, match="1073741824 bytes, more than"):
        decoder_of(read_config(tmp_path))


def test_fields_of_any_value_raise_errors_of_ours(read):
    values = [None, True, -1, 0, 1, 3, 1 << 62, 1e300, -0.5, "", "x", [], [1], {}, {"a": 1}]
    fields = [
        *LLAMA,
        "head_dim",
        "rope_scaling",
        "rope_parameters",
        "layer_types",
        "sliding_window",
        "max_window_layers",
    ]
    for family in ["llama", "qwen2", "gemma2", "gemma3_text", "phi3", "gpt_neox", "falcon", "gpt2", "opt", "qwen2_moe"]:
        for field in fields:
            for value in values:
                try:
                    read(**{"model_type": family, field: value})
                except Error as error:
                    assert len(str(error)) < 600


def test_windows_of_layers(read):
    windows = lambda **changes: [layer.window for layer in read(num_hidden_layers=6, **changes).layers]  # noqa: E731
    assert windows(sliding_window=8) == [0] * 6
    assert windows(model_type="mistral", sliding_window=8) == [8] * 6
    assert windows(model_type="mistral", sliding_window=None) == [0] * 6
    assert windows(model_type="gemma2", query_pre_attn_scalar=16) == [4096, 0] * 3
    gemma3 = {"model_type": "gemma3_text", "query_pre_attn_scalar": 16, "sliding_window": 8}
    assert windows(**gemma3) == [8] * 5 + [0]
    assert windows(**gemma3, sliding_window_pattern=3) == [8, 8, 0] * 2
    qwen = {"model_type": "qwen2", "sliding_window": 8, "max_window_layers": 4}
    assert windows(**qwen, use_sliding_window=False) == [0] * 6
    assert windows(**qwen, use_sliding_window=True) == [0] * 4 + [8] * 2


def test_ropes_of_old_and_new_configurations_are_the_same(read):
    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    for kind, fields in [
        ("default", {}),
        ("linear", {"factor": 2.0}),
        ("yarn", {"factor": 4.0, "original_max_position_embeddings": 32}),
        ("llama3", llama3),
    ]:
        old = read(rope_theta=5000.0, rope_scaling={"rope_type": kind, **fields})
        new = read(rope_theta=..., rope_parameters={"rope_type": kind, "rope_theta": 5000.0, **fields})
        assert old.layers == new.layers
        assert old.layers[0].rope.frequencies().dtype == np.float32
    old = {"model_type": "gemma3_text", "query_pre_attn_scalar": 16, "sliding_window": 8, "num_hidden_layers": 6}
    of_kinds = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    a, b = read(**old, rope_theta=1e6, rope_local_base_freq=1e4), read(**old, rope_theta=..., rope_parameters=of_kinds)
    assert a.layers == b.layers and a.layers[0].rope.theta == 1e4 and a.layers[5].rope.theta == 1e6


def test_the_longest_sequence(read):
    assert read(max_length=7).max_length == 7
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    assert read(max_length=512, rope_scaling=yarn).max_length == 512
    for length, scaling in [(129, {}), (513, yarn), (0, {}), (True, {}), (2.0, {})]:
        with pytest.raises(InvalidArgumentError, match="allows 1 to (128|512) tokens"):
            read(max_length=length, rope_scaling=scaling)


def test_the_length_chooses_longropes_factors(read):
    scaling = {"rope_type": "longrope", "long_factor": [2.0] * 8, "short_factor": [1.0] * 8}
    changes = {"model_type": "phi3", "original_max_position_embeddings": 32, "rope_scaling": scaling}
    assert read(**changes).layers[0].rope.factors == (2.0,) * 8
    assert read(**changes, max_length=32).layers[0].rope.factors == (1.0,) * 8
