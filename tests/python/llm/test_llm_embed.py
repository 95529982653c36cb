"""Embeddings: those of decoders and encoders beside a plain computation in NumPy, however they are computed."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys

import camshaft.llm
import numpy as np
import pytest
from camshaft import CorruptEngineError, Error, InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft.llm import LLM, PoolingParams, SamplingParams, build
from camshaft.llm._decoder import decoder_of
from camshaft.llm._encoders import ENCODERS
from camshaft.llm._fields import Fields
from camshaft.llm._sentence_transformers import read_modules
from camshaft_cli import BINARY, ROOT
from llm_encoders import BERT, bert_hidden_states, bert_tensors, pooled, write_bert, write_modules
from llm_folders import LLAMA, llama_logits, llama_tensors, write_llama

SEED = int(os.environ.get("CAMSHAFT_TEST_SEED", 0)) or np.random.SeedSequence().entropy % (1 << 32)


def worst(actual, wanted):
    return np.abs(np.asarray(actual) - wanted).max() / np.abs(wanted).max()


def prompts_of(vocabulary, longest, count=12):
    print(f"CAMSHAFT_TEST_SEED={SEED}")
    random = np.random.default_rng(SEED)
    lengths = [1, 2, longest, *random.integers(1, longest + 1, count - 3)]
    prompts = [random.integers(0, vocabulary, n).tolist() for n in lengths]
    prompts[4] = prompts[2][: max(longest // 2, 1)] + prompts[4]  # what the prefix cache finds
    return [prompt[:longest] for prompt in prompts]


def embeddings(llm, prompts, params=None):
    outputs = llm.embed(prompts, params)
    assert [output.prompt_token_ids for output in outputs] == prompts
    assert all(output.finished for output in outputs)
    return [output.outputs.embedding for output in outputs]


class Model:
    """A built model, and what its hidden states are."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        random = np.random.default_rng(1)
        if kind == "llama":
            self.tensors = llama_tensors(LLAMA, random)
            del self.tensors["lm_head.weight"]
            write_llama(folder / "hf", self.tensors)
        else:
            self.tensors = bert_tensors(BERT, random)
            write_bert(folder / "hf", self.tensors)
        self.width = (LLAMA if kind == "llama" else BERT)["hidden_size"]
        self.vocabulary = (LLAMA if kind == "llama" else BERT)["vocab_size"]
        self.longest = (LLAMA if kind == "llama" else BERT)["max_position_embeddings"]

    def hidden_states(self, ids):
        if self.kind == "bert":
            return bert_hidden_states(BERT, self.tensors, ids)
        return llama_logits(LLAMA, {**self.tensors, "lm_head.weight": np.eye(self.width)}, ids)

    def built(self, **options):
        out = self.folder / "-".join(["out", *(f"{name}={value}" for name, value in options.items())])
        if not out.exists():
            cache = {"cache": "f32"} if self.kind == "llama" else {}  # encoders keep nothing
            build(self.folder / "hf", out, task="embed", **{**cache, **options})
        return out


@pytest.fixture(scope="module", params=["llama", "bert"])
def model(request, tmp_path_factory):
    return Model(tmp_path_factory.mktemp(request.param), request.param)


SETTINGS = [
    {},
    {"max_num_seqs": 1},
    {"max_num_seqs": 3, "max_num_batched_tokens": 9},
    {"max_num_seqs": 4, "threads": 1},
]
SETTINGS_OF_CACHES = [{"num_blocks": 9}, {"enable_prefix_caching": False}, {"max_num_seqs": 5, "num_blocks": 14}]


@pytest.mark.parametrize("pooling", ["last", "cls", "mean"])
def test_embeddings_are_those_of_a_plain_computation(model, pooling):
    out = model.built(pooling_type=pooling)
    prompts = prompts_of(model.vocabulary, model.longest)
    wanted = [pooled(model.hidden_states(prompt), pooling) for prompt in prompts]
    for setting in SETTINGS + (SETTINGS_OF_CACHES if model.kind == "llama" else []):
        llm = LLM(out, **setting)
        for _ in range(2):  # the second time beginnings of prompts are there
            for got, known in zip(embeddings(llm, prompts), wanted):
                assert worst(got, known) < 1e-5, setting
                assert abs(np.linalg.norm(got) - 1) < 1e-6


@pytest.mark.parametrize(
    "options, most", [({"cache": "f16"}, 1e-5), ({"weights": "int8"}, 2e-3), ({"weights": "int4"}, 0.1)]
)
def test_narrow_types(model, options, most):
    """By the cosine of the angle between them."""
    prompts = prompts_of(model.vocabulary, model.longest)
    if model.kind == "bert":
        options = {name: value for name, value in options.items() if name != "cache"}
    llm = LLM(model.built(pooling_type="mean", **options))
    angles = [
        np.dot(got, pooled(model.hidden_states(prompt), "mean"))
        for got, prompt in zip(embeddings(llm, prompts), prompts)
    ]
    assert 1 - min(angles) < most


def test_dimensions_and_lengths(model):
    prompts = prompts_of(model.vocabulary, model.longest)[:4]
    llm = LLM(model.built(pooling_type="last", normalize=False))
    whole = [pooled(model.hidden_states(prompt), "last", False) for prompt in prompts]
    for got, known in zip(embeddings(llm, prompts), whole):
        assert worst(got, known) < 1e-5
    for got, known in zip(embeddings(llm, prompts, PoolingParams(dimensions=5, normalize=True)), whole):
        assert len(got) == 5 and worst(got, known[:5] / np.linalg.norm(known[:5])) < 1e-5
    for got, known in zip(embeddings(llm, prompts, PoolingParams(dimensions=model.width)), whole):
        assert worst(got, known) < 1e-5
    several = llm.embed(prompts[:2], [PoolingParams(dimensions=1), PoolingParams()])
    assert [output.outputs.hidden_size for output in several] == [1, model.width]
    with pytest.raises(InvalidArgumentError, match=f"dimensions is {model.width + 1}; the model's embeddings have"):
        llm.embed(prompts, PoolingParams(dimensions=model.width + 1))
    for wrong in (0, -1, 2.0, True):
        with pytest.raises(InvalidArgumentError, match="dimensions is"):
            PoolingParams(dimensions=wrong)


def test_what_cannot_be_a_prompt(model):
    llm = LLM(model.built(pooling_type="last"))
    for prompt, words in (
        ([], "no prompt"),
        ([[]], "the prompt is empty"),
        ([[1], []], "the prompt is empty"),
        ([[0] * (model.longest + 1)], f"the prompt has {model.longest + 1} tokens, max_model_len is {model.longest}: "),
        ([[model.vocabulary]], f"the vocabulary has tokens 0 to {model.vocabulary - 1}"),
        ([[-1]], "-1"),
        ("text", "no tokenizer.json"),
        ([1.5], "not"),
    ):
        if words == "no prompt":
            assert llm.embed(prompt) == []
            continue
        with pytest.raises(InvalidArgumentError, match=words):
            llm.embed(prompt)
    assert len(llm.embed([0] * model.longest)[0].outputs.embedding) == model.width
    shorter = LLM(model.built(pooling_type="last"), max_model_len=3)
    assert len(shorter.embed([1, 2, 3])) == 1
    with pytest.raises(InvalidArgumentError, match="max_model_len is 3"):
        shorter.embed([1, 2, 3, 4])
    assert len(LLM(model.built(pooling_type="last"), max_model_len=1).embed([1])) == 1


def test_each_engine_does_its_own_task(model, tmp_path):
    llm = LLM(model.built(pooling_type="last"))
    assert llm.task == "embed"
    for attempt in (
        lambda: llm.generate([[1]]),
        lambda: list(llm.stream([[1]])),
        lambda: llm.generate([[1]], SamplingParams(n=2)),
        lambda: llm.chat([{"role": "user", "content": "x"}]),
    ):
        with pytest.raises(
            InvalidArgumentError, match=r"gives embeddings, by embed\(\): text is of one .* task='generate'"
        ):
            attempt()
    with pytest.raises(InvalidArgumentError, match="nothing is guessed"):
        LLM(model.built(pooling_type="last"), speculative_config={"num_speculative_tokens": 2})
    if model.kind == "bert":
        with pytest.raises(
            UnsupportedError, match="'bert' is an encoder, which generates no text: build it with task='embed'"
        ):
            build(model.folder / "hf", tmp_path / "out")
        for name, value in (("cache", "f16"), ("cache", "f32"), ("block_size", 16)):
            with pytest.raises(InvalidArgumentError, match=f"{name} is of keys and values that decoders keep: .*json"):
                build(model.folder / "hf", tmp_path / "out", task="embed", **{name: value})
        for name in ("num_blocks", "kv_cache_memory_bytes"):
            with pytest.raises(InvalidArgumentError, match=f"{name} is 100: this model keeps no keys and values"):
                LLM(model.built(pooling_type="last"), **{name: 100})
        return
    text = LLM(camshaft.llm.build(write_llama(tmp_path / "hf"), tmp_path / "text"), max_model_len=20)
    with pytest.raises(InvalidArgumentError, match="the model generates text: .* task='embed'"):
        text.embed([[1]])
    assert text.generate([[1]], SamplingParams(max_tokens=2, ignore_eos=True))[0].outputs[0].token_ids


def test_many_threads_and_interrupted_calls(model):
    import concurrent.futures

    llm = LLM(model.built(pooling_type="mean"), max_num_seqs=4)
    prompts = prompts_of(model.vocabulary, model.longest, 40)
    wanted = [pooled(model.hidden_states(prompt), "mean") for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for got, known in zip(pool.map(lambda prompt: llm.embed(prompt)[0], prompts), wanted):
            assert worst(got.outputs.embedding, known) < 1e-5
    numbers = llm.statistics()
    assert numbers["running"] == numbers["waiting"] == 0 and numbers["free_blocks"] == numbers["blocks"]


def test_an_embedding_that_is_not_finite_is_an_error(tmp_path):
    tensors = bert_tensors(BERT, np.random.default_rng(1))
    tensors["embeddings.word_embeddings.weight"][7] = np.nan
    build(write_bert(tmp_path / "hf", tensors), tmp_path / "out", task="embed", verify=False)
    llm = LLM(tmp_path / "out")
    with pytest.raises(Error, match="the model's embedding has a NaN or an infinity"):
        llm.embed([[1, 2], [1, 7, 2]])
    assert (
        worst(llm.embed([1, 2])[0].outputs.embedding, pooled(bert_hidden_states(BERT, tensors, [1, 2]), "mean")) < 1e-5
    )


def test_what_is_written(model):
    described = json.loads((model.built(pooling_type="mean", normalize=False) / "llm.json").read_text())
    given = {name: described[name] for name in ("task", "embedding_size", "pooling_type", "normalize", "max_length")}
    assert given == {
        "task": "embed",
        "embedding_size": model.width,
        "pooling_type": "mean",
        "normalize": False,
        "max_length": model.longest,
    }
    assert ("cache_type" in described) == (model.kind == "llama")
    engine = camshaft.Engine(model.built(pooling_type="mean", normalize=False) / "model.engine")
    assert engine.outputs[0].name == "hidden_states" and engine.outputs[0].shape == (-1, model.width)
    net = camshaft.llm.network(model.folder / "hf", task="embed")
    assert "hidden_states" in map(str, net.outputs) or "hidden_states" in net.outputs


def test_descriptions_that_lie_are_refused(model, tmp_path):
    out = model.built(pooling_type="last")
    for name, value, words in (
        ("task", "generate", "'task' is 'generate', and 'embed' of the engine"),
        ("embedding_size", 3, "'embedding_size' is 3"),
        ("pooling_type", "max", "'pooling_type' is 'max', not one of last, cls, mean"),
        ("pooling_type", ["last"], "'pooling_type' is"),
        ("pooling_type", None, "'pooling_type' is None"),
        ("normalize", 1, "'normalize' is 1, not true or false"),
        ("vocabulary", 80.5, "'vocabulary' is 80.5, not a number of tokens"),
        ("vocabulary", 0, "'vocabulary' is 0"),
        ("max_length", 0, "'max_length' is 0, not a number of tokens from 1 on"),
    ):
        copy = tmp_path / "copy"
        shutil.copytree(out, copy)
        described = {**json.loads((out / "llm.json").read_text()), name: value}
        (copy / "llm.json").write_text(json.dumps(described))
        with pytest.raises(CorruptEngineError, match=words):
            LLM(copy)
        shutil.rmtree(copy)
    # A vocabulary that is too large reaches a table's end, which the engine says.
    shutil.copytree(out, copy)
    (copy / "llm.json").write_text(json.dumps({**described, "max_length": 60, "vocabulary": 1 << 20}))
    llm = LLM(copy)
    with pytest.raises(Error, match="index|out of"):
        llm.embed([[1 << 19]])
    assert len(llm.embed([[1]])[0].outputs.embedding) == model.width


def test_engines_that_are_none_are_named():
    def engine(output="hidden_states", dtype="f32", width=3, without=""):
        net = camshaft.Network()
        names = ("input_ids", "positions", "cumulative_sequence_length", "logits_indices")
        given = {
            name: net.input(name, "i32", ["boundaries" if "cumulative" in name else "tokens"])
            for name in names
            if name != without
        }
        used = functools.reduce(
            net.Add, [net.Cast(net.ReduceMax(each, keepdims=1), to="f32") for each in given.values()]
        )
        rows = net.Cast(net.Mul(used, np.ones((2, 3) if width else 2, np.float32)), to=dtype)
        net.output(rows, output)
        return camshaft.build(net, verify=False)

    known = {"vocabulary": 9, "pooling_type": "last", "normalize": False, "max_length": 4}
    for changes, words in (
        ({"without": "logits_indices"}, "it has no input logits_indices"),
        ({"dtype": "f64"}, r"its output hidden_states is f64.*, which should be f32\[rows, size\]"),
        ({"output": "states"}, "it has no input key_cache.0"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"the engine is no language model: {words}"):
            LLM(engine(**changes), description=known)
    for name in ("vocabulary", "pooling_type"):
        with pytest.raises(InvalidArgumentError, match=f"the description has no '{name}'"):
            LLM(engine(), description={key: value for key, value in known.items() if key != name})
    assert LLM(engine(), description=known).task == "embed"


@pytest.mark.parametrize(
    "pooling, normalize, wanted",
    [("cls", True, ("cls", True)), ("mean", False, ("mean", False)), ("lasttoken", True, ("last", True))],
)
def test_modules_of_sentence_transformers(tmp_path, pooling, normalize, wanted):
    folder = write_modules(write_bert(tmp_path / "hf"), pooling, normalize, max_seq_length=20)
    build(folder, tmp_path / "out", task="embed")
    described = json.loads((tmp_path / "out/llm.json").read_text())
    assert (described["pooling_type"], described["normalize"], described["max_length"]) == (*wanted, 20)
    llm = LLM(tmp_path / "out")
    hidden = bert_hidden_states(BERT, bert_tensors(BERT, np.random.default_rng(0)), [5, 6, 7])
    assert worst(llm.embed([5, 6, 7])[0].outputs.embedding, pooled(hidden, wanted[0], normalize)) < 1e-5
    # Since version 6 the mode has a name, and the length is the tokenizer's.
    (folder / "1_Pooling/config.json").write_text(json.dumps({"embedding_dimension": 48, "pooling_mode": pooling}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"transformer_task": "feature-extraction"}))
    for length, longest in ((30, 30), (1 << 20, 64), (10**30, 64), (1e30, 64), (None, 64)):
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
        build(folder, tmp_path / "out", task="embed")
        described = json.loads((tmp_path / "out/llm.json").read_text())
        assert (described["pooling_type"], described["normalize"], described["max_length"]) == (*wanted, longest)
    build(folder, tmp_path / "other", task="embed", pooling_type="mean", normalize=True, max_length=50)
    described = json.loads((tmp_path / "other/llm.json").read_text())
    assert (described["pooling_type"], described["normalize"], described["max_length"]) == ("mean", True, 50)


def test_a_transformer_in_a_folder_of_its_own(tmp_path):
    folder = write_modules(tmp_path / "hf", "mean", max_seq_length=None) if (tmp_path / "hf").mkdir() is None else None
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    write_bert(folder / "0_Transformer")
    (folder / "0_Transformer/vocab.txt").write_text("a")
    build(folder, tmp_path / "out", task="embed")
    assert (tmp_path / "out/vocab.txt").exists()


@pytest.mark.parametrize(
    "change, kind, words",
    [
        (lambda m, p: m.append({"type": "sentence_transformers.models.Dense", "path": "3_Dense"}), UnsupportedError,
         "modules Transformer, Pooling, Normalize, Dense are not supported"),
        (lambda m, p: m.reverse(), UnsupportedError, "modules Normalize, Pooling, Transformer"),
        (lambda m, p: m.clear(), InvalidModelError, "a list of modules is needed"),
        (lambda m, p: m[0].pop("type"), InvalidModelError, "module 0: field 'type' is missing"),
        (lambda m, p: m.__setitem__(1, 5), InvalidModelError, "module 1: an object of fields is needed"),
        (lambda m, p: m[1].update(path="../1_Pooling"), InvalidModelError, "field 'path' is \"../1_Pooling\""),
        (lambda m, p: m[0].update(path="/etc"), InvalidModelError, "field 'path' is \"/etc\""),
        (lambda m, p: p.update(pooling_mode_cls_token=True), UnsupportedError,
         "pooling by pooling_mode_cls_token and pooling_mode_mean_tokens is not supported"),
        (lambda m, p: p.update(pooling_mode_mean_tokens=False), UnsupportedError, "pooling by nothing"),
        (lambda m, p: p.update(pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True), UnsupportedError,
         "pooling by pooling_mode_max_tokens is not supported"),
        (lambda m, p: p.update(pooling_mode_mean_tokens="yes"), InvalidModelError, "field 'pooling_mode_mean_tokens'"),
        (lambda m, p: p.update(pooling_mode="max"), UnsupportedError, "pooling by max"),
        (lambda m, p: p.update(pooling_mode=["mean", "cls"]), UnsupportedError, "pooling by mean and cls"),
        (lambda m, p: p.update(pooling_mode=5), InvalidModelError, "field 'pooling_mode' is 5"),
        (lambda m, p: p.update(include_prompt=False), UnsupportedError, "include_prompt"),
    ],
)  # fmt: skip
def test_modules_that_are_refused(tmp_path, change, kind, words):
    folder = write_bert(tmp_path / "hf", pooling="mean")
    modules, pooling = (json.loads((folder / name).read_text()) for name in ("modules.json", "1_Pooling/config.json"))
    change(modules, pooling)
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    with pytest.raises(kind, match=words):
        build(folder, tmp_path / "out", task="embed")
    assert not (tmp_path / "out").exists()


def test_other_files_that_are_refused(tmp_path):
    folder = write_modules(write_bert(tmp_path / "hf"), "mean", max_seq_length=20)
    (folder / "1_Pooling/config.json").unlink()
    with pytest.raises(camshaft.FileError, match="1_Pooling/config.json"):
        build(folder, tmp_path / "out", task="embed")
    write_modules(folder, "mean", max_seq_length=20)
    for fields, kind, words in (
        ({"do_lower_case": True}, UnsupportedError, "do_lower_case"),
        ({"max_seq_length": "20"}, InvalidModelError, "max_seq_length"),
    ):
        (folder / "sentence_bert_config.json").write_text(json.dumps(fields))
        with pytest.raises(kind, match=words):
            build(folder, tmp_path / "out", task="embed")


@pytest.mark.parametrize(
    "changes, kind, words",
    [
        ({"is_decoder": True}, UnsupportedError, "field 'is_decoder' is true"),
        ({"position_embedding_type": "relative_key"}, UnsupportedError, "'relative_key' is not supported"),
        ({"is_causal": "no"}, InvalidModelError, "field 'is_causal' is \"no\""),
        (
            {"model_type": "mistral", "is_causal": False, "sliding_window": 9, "rms_norm_eps": 1e-5},
            UnsupportedError,
            "windows of attention in both",
        ),
        ({"model_type": "nomic_bert", "prenorm": True}, UnsupportedError, "field 'prenorm' is True"),
        ({"model_type": "nomic_bert", "rotary_emb_fraction": 0.5}, UnsupportedError, "a part of a head"),
        ({"model_type": "nomic_bert", "rotary_scaling_factor": 2}, UnsupportedError, "'rotary_scaling_factor' is set"),
        ({"model_type": "nomic_bert", "num_experts": 8}, UnsupportedError, "encoders with experts"),
        ({"type_vocab_size": 0}, InvalidModelError, "field 'type_vocab_size'"),
        ({"model_type": "xlm-roberta", "pad_token_id": 63}, InvalidModelError, "field 'max_position_embeddings' is 64"),
        ({"model_type": "modernbert"}, UnsupportedError, "'modernbert' is not supported; .*bert, roberta, xlm-roberta"),
        ({"hidden_act": "sigmoid"}, UnsupportedError, "activation 'sigmoid'"),
        ({"layer_norm_eps": "x"}, InvalidModelError, "layer_norm_eps"),
    ],
)
def test_configurations_that_are_refused(tmp_path, changes, kind, words):
    with pytest.raises(kind, match=words):
        build(write_bert(tmp_path / "hf", **changes), tmp_path / "out", task="embed")


ODD = [None, True, -1, 0, 1, 3, 1 << 62, 1e300, -0.5, "", "x", [], [1], {}, {"a": 1}]


@pytest.mark.parametrize("family", [*ENCODERS, "qwen3"])
def test_fields_of_any_value_raise_errors_of_ours(family):
    shared = {**BERT, "model_type": family, "rms_norm_eps": 1e-5, "type_vocab_size": 2}
    decoder_of(Fields(shared, "config.json"), None, "embed")
    fields = ["is_causal", "is_decoder", "position_embedding_type", "prenorm", "rotary_emb_fraction", "num_experts"]
    for field in [*shared, *fields, "rotary_scaling_factor", "rope_parameters", "head_dim", "num_key_value_heads"]:
        for value in ODD:
            try:
                decoder_of(Fields({**shared, field: value}, "config.json"), None, "embed")
            except Error as error:
                assert len(str(error)) < 600


def test_modules_of_any_value_raise_errors_of_ours(tmp_path):
    folder = write_modules(write_bert(tmp_path / "hf"), "mean", max_seq_length=20)
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 30}))
    names = ["modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "tokenizer_config.json"]
    for name in names:
        whole = json.loads((folder / name).read_text())
        places = (
            [(place, key) for place, each in enumerate(whole) for key in each] if isinstance(whole, list) else whole
        )
        for place in places:
            for value in ODD:
                changed = json.loads((folder / name).read_text())
                inner, key = (changed[place[0]], place[1]) if isinstance(changed, list) else (changed, place)
                inner[key] = value
                for text in (json.dumps(changed), json.dumps(value)):
                    (folder / name).write_text(text)
                    try:
                        read_modules(folder)
                    except Error as error:
                        assert len(str(error)) < 600
                (folder / name).write_text(json.dumps(whole))


def test_nomics_own_configuration_is_that_of_transformers(tmp_path):
    """Of nomic-embed-text-v1.5, as far as it is read."""
    own = {
        "n_embd": 48, "n_head": 3, "n_inner": 80, "n_layer": 2, "n_positions": 8192, "layer_norm_epsilon": 1e-12,
        "activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "prenorm": False,
        "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
        "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "use_rms_norm": False,
    }  # fmt: skip
    theirs = {
        "hidden_size": 48, "num_attention_heads": 3, "intermediate_size": 80, "num_hidden_layers": 2,
        "max_position_embeddings": 8192, "layer_norm_eps": 1e-12, "hidden_act": "swiglu",
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
    }  # fmt: skip
    shared = {"model_type": "nomic_bert", "vocab_size": 90, "type_vocab_size": 2}
    read = [decoder_of(Fields({**shared, **each}, "config.json"), None, "embed") for each in (own, theirs)]
    assert read[0] == read[1] and not read[0].biased and read[0].layers[0].rope.theta == 1000


@pytest.mark.parametrize(
    "options, words",
    [
        ({"task": "classify"}, "task is 'classify'; generate and embed are possible"),
        ({"pooling_type": "mean"}, "pooling_type is for task='embed'"),
        ({"normalize": True}, "normalize is for task='embed'"),
        ({"task": "embed", "pooling_type": "max"}, "pooling_type is 'max'; last, cls, mean are possible"),
        ({"task": "embed", "normalize": 1}, "normalize is 1"),
    ],
)
def test_options_that_are_wrong(tmp_path, options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        build(write_llama(tmp_path / "hf"), tmp_path / "out", **options)


def test_texts(tmp_path):
    """Special tokens are the tokenizer's; the padding and truncation that its file has are not of prompts."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz"]
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_padding(length=32)
    made.enable_truncation(4)
    folder = write_bert(tmp_path / "hf", pooling="cls")
    made.save(str(folder / "tokenizer.json"))
    build(folder, tmp_path / "out", task="embed")
    llm = LLM(tmp_path / "out")
    one, two = llm.embed(["a b c d e", ""])
    assert one.prompt_token_ids == [2, 4, 5, 6, 7, 8, 3] and two.prompt_token_ids == [2, 3]
    assert llm.embed("a b c d e")[0].outputs == llm.embed([2, 4, 5, 6, 7, 8, 3])[0].outputs
    with pytest.raises(InvalidArgumentError, match="the prompt has 102 tokens"):
        llm.embed("a " * 100)

    def read(prompt, most):
        return llm.embed(prompt, PoolingParams(truncate_prompt_tokens=most))[0].prompt_token_ids

    assert read("a b c d e", 4) == [2, 4, 5, 3] and read("a b c d e", 2) == [2, 3] and read("a", 60) == [2, 4, 3]
    assert read("a " * 100, -1) == [2, *[4] * 62, 3]
    assert read([7, 8, 9], 2) == [8, 9] and read([5] * 100, -1) == [5] * 64 and read([5], 9) == [5]
    for most, words in (
        (1, "truncate_prompt_tokens is 1: the special tokens of a text are 2"),
        (65, "truncate_prompt_tokens is 65; max_model_len is 64"),
        (0, "truncate_prompt_tokens is 0"),
        (-2, "truncate_prompt_tokens is -2"),
        (2.5, "truncate_prompt_tokens is 2.5"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            read("a b", most)


def test_the_documentations_python_runs(tmp_path, monkeypatch, capsys):
    (block,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/llm_embeddings.md").read_text(), re.MULTILINE | re.DOTALL
    )
    monkeypatch.chdir(tmp_path)
    build(write_bert(tmp_path / "hf", pooling="mean"), tmp_path / "build/bert", task="embed")
    names = {}
    exec(block, names)
    assert capsys.readouterr().out == "48 [5, 9, 7]\n48 [1]\n"
    assert names["short"].outputs.hidden_size == 8


def command(*arguments):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    return subprocess.run([BINARY, "llm", *map(str, arguments)], capture_output=True, text=True, env=environment)


def test_the_command(tmp_path):
    folder = write_bert(tmp_path / "hf")
    done = command(
        "build", folder, "-o", tmp_path / "out", "--task", "embed", "--pooling-type", "cls", "--no-normalize",
        "--build-option", "tuning=heuristic",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    described = json.loads((tmp_path / "out/llm.json").read_text())
    assert (described["pooling_type"], described["normalize"]) == ("cls", False)
    done = command("build", folder, "-o", tmp_path / "text")
    assert done.returncode != 0 and "--task embed" in done.stderr
    for name in ("chat", "bench"):
        done = command(name, tmp_path / "out")
        assert done.returncode == 2 and "gives embeddings" in done.stderr, done.stderr
