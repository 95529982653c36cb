"""Adapters of LoRA that requests choose: texts are those of the model with the adapter merged, whatever runs beside."""

import itertools
import json
import re
import shutil
import time

import camshaft
import llm_folders
import lora_folders
import ml_dtypes
import numpy as np
import pytest
from camshaft.llm import LLM, BeamSearchParams, LoRARequest, SamplingParams
from camshaft.llm._blocks import in_blocks
from camshaft_cli import ROOT
from safetensors.numpy import save_file

WIDTH, INNER, HEADS, KV = 64, 96, 64, 32
LAYER = {
    "self_attn.q_proj": (WIDTH, HEADS),
    "self_attn.k_proj": (WIDTH, KV),
    "self_attn.v_proj": (WIDTH, KV),
    "self_attn.o_proj": (HEADS, WIDTH),
    "mlp.gate_proj": (WIDTH, INNER),
    "mlp.up_proj": (WIDTH, INNER),
    "mlp.down_proj": (INNER, WIDTH),
}
ALL = {f"model.layers.{i}.{name}": sizes for i in range(2) for name, sizes in LAYER.items()}
SOME = {name: sizes for name, sizes in ALL.items() if name.endswith(("q_proj", "v_proj"))}
HEAD = {"lm_head": (WIDTH, 80)}
FAST = {"tuning": "heuristic", "cache": "f32", "verify_seconds": 0.5}


class Adapted:
    """A folder, three adapters of different ranks and modules, and the engine with all of them."""

    def __init__(self, place):
        self.place = place
        self.folder = llm_folders.write_llama(place / "hf")
        self.config = json.loads((self.folder / "config.json").read_text())
        self.tensors = llm_folders.llama_tensors(self.config, np.random.default_rng(0))
        self.updates = {
            "all": lora_folders.make_updates(ALL, 8, 1),
            "some": lora_folders.make_updates(SOME, 3, 2),
            "head": lora_folders.make_updates({**HEAD, **SOME}, 16, 3),
        }
        self.scales = {"all": 2.0, "some": 3 / np.sqrt(3), "head": 0.5}
        configs = {"all": {"lora_alpha": 16}, "some": {"lora_alpha": 3, "use_rslora": True}, "head": {"lora_alpha": 8}}
        self.paths = {
            name: lora_folders.write_adapter(place / name, updates, config=configs[name])
            for name, updates in self.updates.items()
        }
        self.given = [f"{name}={path}" for name, path in self.paths.items()]
        self.built = place / "built"
        camshaft.llm.build(self.folder, self.built, lora=self.given, **FAST)

    def weights_of(self, name):
        if name is None:
            return self.tensors
        return lora_folders.merged(self.tensors, self.updates[name], self.scales[name])

    def logprobs_of(self, name, ids):
        """[tokens, vocabulary] in f64, of the merged weights."""
        logits = llm_folders.llama_logits(self.config, self.weights_of(name), ids)
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    return Adapted(tmp_path_factory.mktemp("lora"))


@pytest.fixture(scope="module")
def llm(adapted):
    return LLM(adapted.built)


NAMES = (None, "all", "some", "head")


def request(name):
    return None if name is None else LoRARequest(name)


def prompts_of(seed, count, longest=40):
    random = np.random.default_rng(seed)
    return [random.integers(3, 80, random.integers(1, longest)).tolist() for _ in range(count)]


def greedy(tokens, **more):
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, **more)


def texts_of(outputs):
    return [[sample.token_ids for sample in output.outputs] for output in outputs]


def worst_logprob(output, expected):
    """The largest difference of the prompt's logprobs, each of the first five tokens."""
    worst = 0.0
    for place, row in enumerate(output.prompt_logprobs[1:]):
        assert len(row) >= 5
        worst = max(worst, *(abs(known.logprob - expected[place, token]) for token, known in row.items()))
    return worst


def test_logits_are_those_of_merged_weights(adapted, llm):
    """Of all adapters and none in the same steps."""
    prompts = prompts_of(5, 12)
    names = [NAMES[i % 4] for i in range(12)]
    outputs = llm.generate(prompts, greedy(1, prompt_logprobs=5), lora_request=[request(name) for name in names])
    for prompt, name, output in zip(prompts, names, outputs):
        assert output.outputs[0].error is None
        if len(prompt) > 1:
            assert worst_logprob(output, adapted.logprobs_of(name, prompt)) < 1e-4, name


def test_without_an_adapter_it_is_the_model(adapted, llm, tmp_path):
    """Bit by bit, where the same kernels were chosen: logprobs are those of an engine that knows no adapters."""
    camshaft.llm.build(adapted.folder, tmp_path / "plain", **FAST)
    plain = LLM(tmp_path / "plain")
    prompts = prompts_of(6, 6)
    params = greedy(12, logprobs=2)
    ours, theirs = llm.generate(prompts, params), plain.generate(prompts, params)
    assert texts_of(ours) == texts_of(theirs)
    for a, b in zip(ours, theirs):
        for x, y in zip(a.outputs[0].logprobs, b.outputs[0].logprobs):
            assert all(abs(x[token].logprob - y[token].logprob) < 1e-5 for token in x.keys() & y.keys())


SETUPS = {
    "alone": {"max_num_seqs": 3, "enable_prefix_caching": False},
    "in batches": {"max_num_seqs": 16, "enable_prefix_caching": False},
    "in chunks": {"max_num_seqs": 8, "max_num_batched_tokens": 16, "enable_prefix_caching": False},
    "with a prefix cache": {"max_num_seqs": 8},
    "preempted": {"max_num_seqs": 8, "num_blocks": 20},
    "guessed": {"max_num_seqs": 8, "speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    "all of it": {
        "max_num_seqs": 5,
        "max_num_batched_tokens": 24,
        "num_blocks": 20,
        "max_loras": 3,
        "speculative_config": {"num_speculative_tokens": 2},
    },
}


def test_300_requests_are_the_same_however_they_are_computed(adapted):
    random = np.random.default_rng(7)
    beginnings = prompts_of(8, 4, 50)
    requests = []
    for i in range(300):
        prompt = beginnings[random.integers(4)] + random.integers(3, 80, random.integers(1, 12)).tolist()
        # Some are drawn, some have samples that share the prompt.
        drawn = {"temperature": 0.8, "seed": i, "n": int(random.integers(1, 4))} if i % 3 == 0 else {"temperature": 0}
        params = SamplingParams(max_tokens=int(random.integers(1, 20)), ignore_eos=True, **drawn)
        requests.append((prompt, params, request(NAMES[random.integers(4)])))
    prompts, params, loras = (list(each) for each in zip(*requests))
    expected = None
    for name, setup in SETUPS.items():
        llm = LLM(adapted.built, **setup)
        if name == "alone":
            made = [llm.generate([p], [s], lora_request=[r])[0] for p, s, r in requests]
        else:
            made = llm.generate(prompts, params, lora_request=loras)
        assert all(sample.error is None for output in made for sample in output.outputs)
        expected = expected or texts_of(made)
        different = [i for i, (a, b) in enumerate(zip(texts_of(made), expected)) if a != b]
        assert not different, (name, len(different))
        statistics = llm.statistics()
        if name == "with a prefix cache":
            assert statistics["prefix_hit"] > 0
        if name == "preempted":
            assert statistics["preemptions"] > 0
    by_adapter = {}
    for prompt, lora in itertools.product(beginnings[:2], NAMES):
        by_adapter[lora, tuple(prompt)] = texts_of(llm.generate([prompt], greedy(8), lora_request=request(lora)))
    assert len({json.dumps(text) for text in by_adapter.values()}) > 4


def test_what_one_adapter_computed_no_other_finds(adapted):
    llm = LLM(adapted.built)
    prompt = list(range(3, 60))
    for name in NAMES:
        llm.generate(prompt, greedy(1), lora_request=request(name))
        assert llm.statistics()["prefix_hit"] == 0
    for name in NAMES:
        llm.generate(prompt, greedy(1), lora_request=request(name))
    assert llm.statistics()["prefix_hit"] == 4 * ((len(prompt) - 1) // 16 * 16)


@pytest.mark.parametrize("weights, activations", [("int8", "f32"), ("int4", "f32"), ("int4", "int8"), ("f16", "int8")])
def test_weights_of_few_bits_have_adapters_in_floating_point(adapted, tmp_path, weights, activations):
    """What an adapter adds is what it adds to weights that were rounded."""
    exact = activations == "f32" or weights == "f16"
    options = {"weights": weights, "activations": activations, "lora_dtype": "f32" if exact else "auto"}
    engine = camshaft.llm.build(adapted.folder, tmp_path / "built", lora=adapted.given, **options, **FAST)
    matrices = {each.dtype for each in engine.inputs if each.name.startswith("lora_a.")}
    assert matrices == {"f32" if exact else "f16"}
    llm = LLM(tmp_path / "built")
    plain = dict(adapted.tensors)
    prompt = prompts_of(9, 1, 40)[0] * 2
    for name, value in plain.items():
        if value.ndim == 2 and weights == "f16":
            plain[name] = value.astype(np.float16).astype(np.float32)
        elif value.ndim == 2:
            bits = 8 if weights == "int8" or name in ("lm_head.weight", "model.embed_tokens.weight") else 4
            plain[name] = in_blocks(value, bits).values(value.shape[1])
    changed = Changed(adapted, plain)
    for name in NAMES:
        output = llm.generate(prompt, greedy(1, prompt_logprobs=5), lora_request=request(name))[0]
        worst = worst_logprob(output, changed.logprobs_of(name, prompt))
        assert worst < (2e-4 if exact else 0.5), (name, worst)


class Changed(Adapted):
    """With other weights below the adapters."""

    def __init__(self, adapted, tensors):
        self.config, self.tensors = adapted.config, tensors
        self.updates, self.scales = adapted.updates, adapted.scales


def test_each_expert_has_its_update(tmp_path):
    """Of experts that a file has one by one, and of the router: beside an engine of the merged weights."""
    config = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 48}
    tensors = {
        name: value
        for name, value in llm_folders.llama_tensors({**llm_folders.LLAMA, **config}, np.random.default_rng(4)).items()
        if ".mlp." not in name
    }
    experts = {"gate": (64, 4)} | {
        f"experts.{e}.w{w}": (48, 64) if w == 2 else (64, 48) for e in range(4) for w in (1, 2, 3)
    }
    sizes = {f"model.layers.{i}.block_sparse_moe.{name}": each for i in range(2) for name, each in experts.items()}
    random = np.random.default_rng(5)
    for name, (inputs, outputs) in sizes.items():
        values = random.standard_normal((outputs, inputs), np.float32)
        tensors[f"{name}.weight"] = values / np.float32(np.sqrt(inputs))
    updates = lora_folders.make_updates(sizes, 4, 6)
    lora_folders.write_adapter(tmp_path / "adapter", updates)
    for name, each in (("hf", tensors), ("merged", lora_folders.merged(tensors, updates))):
        llm_folders.write_llama(tmp_path / name, each, **config)
    camshaft.llm.build(tmp_path / "hf", tmp_path / "adapted", lora=[f"experts={tmp_path / 'adapter'}"], **FAST)
    camshaft.llm.build(tmp_path / "merged", tmp_path / "wanted", **FAST)
    prompts, params = prompts_of(15, 4, 30), greedy(1, prompt_logprobs=5)
    wanted = LLM(tmp_path / "wanted").generate(prompts, params)
    ours = LLM(tmp_path / "adapted").generate(prompts, params, lora_request=request("experts"))
    plain = LLM(tmp_path / "adapted").generate(prompts, params)

    def worst(outputs):
        return max(
            abs(row[token].logprob - known.logprob)
            for a, b in zip(outputs, wanted)
            for row, other in zip(a.prompt_logprobs[1:], b.prompt_logprobs[1:])
            for token, known in other.items()
            if token in row
        )

    assert worst(ours) < 1e-4 < 0.1 < worst(plain)


def test_adapters_come_and_go(adapted, tmp_path):
    camshaft.llm.build(adapted.folder, tmp_path / "open", enable_lora=True, max_lora_rank=8, **FAST)
    llm = LLM(tmp_path / "open", max_loras=2)
    prompt = prompts_of(10, 1, 30)[0]
    expected = {
        name: texts_of(LLM(adapted.built).generate(prompt, greedy(8), lora_request=request(name))) for name in NAMES
    }
    named = {
        name: LoRARequest(name, number, str(adapted.paths[name])) for number, name in enumerate(("all", "some"), 1)
    }
    assert llm.list_loras() == {}
    for name, lora in named.items():
        assert texts_of(llm.generate(prompt, greedy(8), lora_request=lora)) == expected[name]
    assert texts_of(llm.generate(prompt, greedy(8))) == expected[None]
    assert list(llm.list_loras()) == ["all", "some"]
    # A third one takes the place of the one that was not used for longest, and that comes back from its file.
    third = lora_folders.make_updates(SOME, 2, 11, 2.0)
    lora_folders.write_adapter(tmp_path / "third", third)
    texts = texts_of(llm.generate(prompt, greedy(8), lora_request=LoRARequest("third", 3, tmp_path / "third")))
    assert texts not in expected.values()
    assert texts_of(llm.generate(prompt, greedy(8), lora_request=LoRARequest("all"))) == expected["all"]
    # Another one of the same name has its own texts, and finds nothing of the old one's.
    llm.remove_lora("some")
    with pytest.raises(camshaft.InvalidArgumentError, match="no adapter 'some'"):
        llm.generate(prompt, greedy(8), lora_request=LoRARequest("some"))
    llm.add_lora(LoRARequest("some", 2, tmp_path / "third"))
    assert texts_of(llm.generate(prompt, greedy(8), lora_request=LoRARequest("some"))) == texts
    with pytest.raises(camshaft.InvalidArgumentError, match="rank 16.*ranks up to 8"):
        llm.add_lora(LoRARequest("head", 4, adapted.paths["head"]))
    with pytest.raises(camshaft.InvalidArgumentError, match="remove_lora"):
        llm.add_lora(LoRARequest("some", 2, adapted.paths["some"]))
    with pytest.raises(camshaft.InvalidArgumentError, match="max_loras"):
        llm.generate(
            [prompt] * 3, greedy(30), lora_request=[LoRARequest("all"), LoRARequest("some"), LoRARequest("third")]
        )
    assert texts_of(llm.generate(prompt, greedy(8))) == expected[None]


def test_what_an_adapter_names_is_updated_beside_all_linear_layers(adapted, tmp_path):
    """The head, which enable_lora alone leaves out."""
    given = [f"head={adapted.paths['head']}"]
    camshaft.llm.build(adapted.folder, tmp_path / "both", lora=given, enable_lora=True, **FAST)
    llm = LLM(tmp_path / "both", max_loras=2)
    [prompt] = prompts_of(20, 1, 30)
    for lora in (LoRARequest("head"), LoRARequest("all", 1, adapted.paths["all"])):
        [output] = llm.generate([[3, *prompt]], greedy(1, prompt_logprobs=5), lora_request=lora)
        assert worst_logprob(output, adapted.logprobs_of(lora.lora_name, [3, *prompt])) < 1e-4


def test_beams_of_adapters(adapted, llm):
    """Their probabilities are those of the merged weights."""
    prompts = prompts_of(21, 4)
    params = BeamSearchParams(beam_width=3, max_tokens=8, ignore_eos=True)
    found = llm.beam_search(prompts, params, lora_request=[request(name) for name in NAMES])
    texts = set()
    for prompt, name, output in zip(prompts, NAMES, found):
        for beam in output.sequences:
            rows = adapted.logprobs_of(name, beam.tokens)
            places = range(len(prompt), len(beam.tokens))
            expected = sum(rows[place - 1, beam.tokens[place]] for place in places)
            assert beam.cum_logprob == pytest.approx(expected, abs=1e-3), name
        texts.add(tuple(output.sequences[0].tokens[len(prompt) :]))
    one = llm.beam_search(prompts[0], params, lora_request=LoRARequest("all"))
    assert one[0].sequences[0].tokens != found[0].sequences[0].tokens and len(texts) > 1


def test_two_callers_give_one_name(adapted, tmp_path):
    """Which of two folders it is, is known once one of them has a place, whoever was asked first."""
    llm = LLM(adapted.built, max_loras=4)
    first, second, unnamed = (
        llm._loras.prepared(LoRARequest("new", 1, path), llm._steps)
        for path in (adapted.paths["some"], adapted.paths["all"], adapted.paths["some"])
    )
    llm._steps.between_steps(first)
    with pytest.raises(camshaft.InvalidArgumentError, match="remove_lora\\(\\) comes before another"):
        llm._steps.between_steps(second)
    assert llm._steps.between_steps(unnamed)[0] == llm._steps.between_steps(first)[0]
    assert llm.list_loras()["new"] == adapted.paths["some"]


def test_an_adapter_in_use_stays(adapted):
    llm = LLM(adapted.built)
    slow = greedy(60, token_mask=lambda tokens: time.sleep(0.05))
    stream = llm.stream(prompts_of(12, 1)[0], slow, lora_request=LoRARequest("all"))
    next(stream)
    with pytest.raises(camshaft.InvalidArgumentError, match="cannot be removed"):
        llm.remove_lora("all")
    stream.close()
    llm.remove_lora("all")
    assert list(llm.list_loras()) == ["some", "head"]


@pytest.mark.parametrize(
    "prefix", ["", "base_model.model.", "base_model.model.model.", "base_model.model.language_model."]
)
def test_paths_in_front_of_modules(adapted, llm, tmp_path, prefix):
    """Adapters of the inner model have less of them, those of a larger one more."""
    inner = prefix.endswith("model.model.")
    updates = adapted.updates["some"]
    named = {name.removeprefix("model.") if inner else name: both for name, both in updates.items()}
    folder = lora_folders.write_adapter(
        tmp_path / "a", named, prefix=prefix, config={"lora_alpha": 3, "use_rslora": True}, dtype=ml_dtypes.bfloat16
    )
    name = f"prefix{len(prefix)}"
    prompt = prompts_of(13, 1, 40)[0]
    llm.add_lora(LoRARequest(name, None, folder))
    output = llm.generate(prompt * 2, greedy(1, prompt_logprobs=5), lora_request=LoRARequest(name))[0]
    assert worst_logprob(output, adapted.logprobs_of("some", prompt * 2)) < 0.1
    llm.remove_lora(name)


def broken(tmp_path, change):
    """An adapter that something is wrong with: change gets its tensors and its configuration."""
    updates = lora_folders.make_updates(SOME, 4, 14)
    folder = lora_folders.write_adapter(tmp_path / "broken", updates)
    tensors = lora_folders.tensors_of(updates)
    config = json.loads((folder / "adapter_config.json").read_text())
    change(tensors, config)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


Q = "base_model.model.model.layers.0.self_attn.q_proj."
A, B = Q + "lora_A.weight", Q + "lora_B.weight"
WRONG = {
    "no lora_B": (lambda t, c: t.pop(B), "has no tensor lora_B"),
    "no tensors": (lambda t, c: t.clear() or t.update({}), "no tensors lora_A and lora_B"),
    "ranks": (lambda t, c: t.update({B: np.zeros((64, 3), "f")}), r"no common rank"),
    "inputs": (lambda t, c: t.update({A: np.zeros((4, 63), "f")}), "from 63 to 64 channels; the model's is from 64 to 64"),
    "outputs": (lambda t, c: t.update({B: np.zeros((65, 4), "f")}), "from 64 to 65 channels"),
    "axes": (lambda t, c: t.update({A: np.zeros((4, 64, 1), "f")}), "has 3 axes"),
    "integers": (lambda t, c: t.update({A: np.zeros((4, 64), "i4")}), "is I32"),
    "NaN": (lambda t, c: t.update({A: np.full((4, 64), np.nan, "f")}), "lora_A of the module .* has a NaN"),
    "infinity": (lambda t, c: t.update({B: np.full((64, 4), np.inf, "f")}), "lora_B of the module .* has a NaN or an inf"),
    "a name": (lambda t, c: t.update({"NaN": t.pop(A)}), "'NaN' is no low-rank update"),
    "an embedding": (
        lambda t, c: t.update({"base_model.model.model.embed_tokens.lora_embedding_A": t.pop(A)}),
        "updates an embedding",
    ),
    "whole weights": (
        lambda t, c: t.update({"base_model.model.lm_head.base_layer.weight": t.pop(A)}),
        "whole weights: save the adapter with",
    ),
    "DoRA": (lambda t, c: t.update({Q + "lora_magnitude_vector": np.ones(64, "f")}), "is DoRA's"),
    "DoRA's configuration": (lambda t, c: c.update(use_dora=True), "use_dora is set"),
    "another kind": (lambda t, c: c.update(peft_type="IA3"), "peft_type is 'IA3'"),
    "another rank": (lambda t, c: c.update(r=8), "r is 8 for the module .*, whose tensors have rank 4"),
    "a rank of one module": (lambda t, c: c.update(rank_pattern={"q_proj": 2}), "r is 2 for the module .*q_proj"),
    "no scale": (lambda t, c: c.pop("lora_alpha"), "'lora_alpha' is missing"),
    "a scale of text": (lambda t, c: c.update(lora_alpha="16"), "'lora_alpha' is \"16\""),
    "a scale that is none": (lambda t, c: c.update(lora_alpha=float("nan")), "'lora_alpha' is NaN"),
    "an expression": (lambda t, c: c.update(alpha_pattern={"q.*": 3}), "regular expression"),
    "another module": (
        lambda t, c: [t.update({n.replace("q_proj", "qq_proj"): t.pop(n)}) for n in (A, B)],
        "self_attn.qq_proj, which is no product .* is layers.0.self_attn.q_proj meant",
    ),
    "another layer": (
        lambda t, c: [t.update({n.replace("layers.0", "layers.7"): t.pop(n)}) for n in (A, B)],
        "layers.7.self_attn.q_proj, which is no product",
    ),
    "the pictures' part": (
        lambda t, c: [t.update({n.replace("model.layers", "vision_tower.layers"): t.pop(n)}) for n in (A, B)],
        "vision_tower.layers.0.self_attn.q_proj, which is no product",
    ),
    "a module twice": (
        lambda t, c: [t.update({n.replace("model.model.", "model.other.model."): t[n]}) for n in (A, B)],
        "updates layers.0.self_attn.q_proj twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_adapters_that_are_wrong(adapted, tmp_path, what):
    change, words = WRONG[what]
    folder = broken(tmp_path, change)
    with pytest.raises(camshaft.Error, match=words) as caught:
        camshaft.llm.build(adapted.folder, tmp_path / "built", lora=[f"bad={folder}"], **FAST)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "built").exists()


def test_a_folder_says_the_scale(adapted, tmp_path):
    folder = broken(tmp_path, lambda tensors, config: None)
    (folder / "adapter_config.json").unlink()
    with pytest.raises(camshaft.FileError, match="there is no adapter_config.json, which says the scale"):
        camshaft.llm.build(adapted.folder, tmp_path / "built", lora=[f"bad={folder}"], **FAST)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"lora": ["a"]}, "NAME=FOLDER"),
        ({"lora": ["a="]}, "NAME=FOLDER"),
        ({"lora": ["none=x"]}, "cannot be named 'none'"),
        ({"lora": ["../a=x"]}, "cannot be named '../a'"),
        ({"lora": ["..=x"]}, "cannot be named '..'"),
        ({"lora": ["a=x", "a=y"]}, "two adapters are named 'a'"),
        ({"lora": ["a=/nowhere"]}, "/nowhere: an adapter is the folder"),
        ({"enable_lora": True, "max_lora_rank": 0}, "max_lora_rank is 0"),
        ({"enable_lora": True, "max_lora_rank": 10**6}, "max_lora_rank is 1000000"),
        ({"enable_lora": True, "lora_dtype": "int8"}, "lora_dtype is 'int8'"),
        ({"max_lora_rank": 8}, "go with adapters"),
        ({"lora_dtype": "f16"}, "go with adapters"),
        ({"enable_lora": True, "task": "embed"}, "adapters are of decoders that write text"),
    ],
)
def test_options_that_are_wrong(adapted, tmp_path, options, words):
    with pytest.raises(camshaft.Error, match=re.escape(words)):
        camshaft.llm.build(adapted.folder, tmp_path / "built", **options, **FAST)


def test_what_does_not_go_together(adapted, llm, tmp_path):
    given = adapted.given
    with pytest.raises(camshaft.InvalidArgumentError, match="enable_lora is false"):
        camshaft.llm.build(adapted.folder, tmp_path / "b", lora=given, enable_lora=False, **FAST)
    with pytest.raises(camshaft.InvalidArgumentError, match="rank 8; max_lora_rank is 4"):
        camshaft.llm.build(adapted.folder, tmp_path / "b", lora=given[:1], max_lora_rank=4, **FAST)
    large = lora_folders.write_adapter(tmp_path / "large", lora_folders.make_updates(SOME, 2, 1, 1e6))
    camshaft.llm.build(adapted.folder, tmp_path / "f16", enable_lora=True, lora_dtype="f16", **FAST)
    with pytest.raises(camshaft.InvalidArgumentError, match="values that f16 cannot hold"):
        LLM(tmp_path / "f16").add_lora(LoRARequest("large", 1, large))
    plain = LLM(tmp_path / "f16", enable_lora=False)
    for wrong in (lambda: plain.generate([3], lora_request=LoRARequest("a", 1, "x")), lambda: plain.remove_lora("a")):
        with pytest.raises(camshaft.InvalidArgumentError, match="built without adapters"):
            wrong()
    for wrong, words in (
        (["a"], "lora_request is LoRARequest"),
        ([None, None], "lora_request has 2 items for 1 prompts"),
        (LoRARequest("other"), r"no adapter 'other' \(all, some, head\)"),
        (LoRARequest("a/b"), "cannot be named"),
        (LoRARequest("new", 1, "/nowhere"), "/nowhere"),
        (LoRARequest("new", 1, 5), "lora_path is 5; a path is needed"),
    ):
        with pytest.raises(camshaft.Error, match=words):
            llm.generate([[3, 4]], lora_request=wrong)
    with pytest.raises(camshaft.InvalidArgumentError, match="max_loras is 0"):
        LLM(adapted.built, max_loras=0)
    # An engine that updates some products says of others what to do.
    camshaft.llm.build(adapted.folder, tmp_path / "some", lora=[f"some={adapted.paths['some']}"], **FAST)
    with pytest.raises(camshaft.InvalidArgumentError, match="gate_proj|down_proj.*enable_lora|k_proj"):
        LLM(tmp_path / "some", max_loras=2).add_lora(LoRARequest("all", 1, adapted.paths["all"]))


def test_a_folder_that_lies(adapted, tmp_path):
    for lora in (3, {"adapters": "all"}, {"adapters": ["all", "all"]}, {"adapters": ["../../x"]}, {"grouped_qkv": 1}):
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(adapted.built, folder)
        said = json.loads((folder / "llm.json").read_text())
        (folder / "llm.json").write_text(json.dumps({**said, "lora": lora}))
        with pytest.raises(camshaft.Error):
            LLM(folder)
    (folder / "llm.json").write_text(json.dumps(said))
    shutil.rmtree(folder / "lora" / "some")
    with pytest.raises(camshaft.Error, match="some"):
        LLM(folder)


def test_the_documentations_python_runs(tmp_path, monkeypatch, capsys):
    [block] = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/llm_lora.md").read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    build = tmp_path / "build"
    llm_folders.write_chat_llama(build / "hf-lora")
    updates = lora_folders.make_updates({"model.layers.0.self_attn.q_proj": (64, 64)}, 8, 1)
    lora_folders.write_adapter(build / "french", updates)
    camshaft.llm.build(build / "hf-lora", build / "adapted", lora=[f"french={build / 'french'}"], **FAST)
    exec(block, {})
    assert capsys.readouterr().out.strip() == re.search(r"# (\[.*\])", block)[1]


def test_the_commands(adapted, tmp_path, capfd):
    from camshaft.llm.__main__ import main

    chat = llm_folders.write_chat_llama(tmp_path / "hf")
    sizes = {f"model.layers.0.{name}": LAYER[name] for name in ("self_attn.q_proj", "mlp.down_proj")}
    lora_folders.write_adapter(tmp_path / "french", lora_folders.make_updates(sizes, 4, 1, 3.0))
    out = str(tmp_path / "built")
    tuned = ["--build-option", "tuning=heuristic"]
    given = ["--lora", f"french={tmp_path / 'french'}", "--enable-lora", "--max-lora-rank", "6", "--lora-dtype", "bf16"]
    assert main(["llm", "build", str(chat), "-o", out, *given, *tuned]) == 0
    engine = camshaft.Engine(f"{out}/model.engine")
    shapes = {each.name: (each.dtype, each.shape) for each in engine.inputs}
    assert shapes["lora_a.layers.1.mlp.down_proj"][0] == "bf16" and shapes["lora_a.layers.1.mlp.down_proj"][1][1:] == (
        96,
        8,
    )
    assert "lora_a.lm_head" not in shapes and "lora_ids" in shapes
    sizes = ["--input-len", "8", "--output-len", "6", "--num-prompts", "3", "--max-num-seqs", "2", "--json"]
    capfd.readouterr()
    assert main(["llm", "bench", out, "--lora", "french", "--lora", f"other={tmp_path / 'french'}", *sizes]) == 0
    assert json.loads(capfd.readouterr().out)["results"][0]["decode_tokens_per_second"] > 0
    assert main(["llm", "bench", out, "--lora", "german", *sizes]) != 0
    assert "german" in capfd.readouterr().err
