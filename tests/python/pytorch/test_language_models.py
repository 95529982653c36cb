"""Language models of Transformers with random weights: what camshaft.llm builds of them gives the same logits, for prefills,
64 steps with a past, and ragged batches."""

import json
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
llm = pytest.importorskip("camshaft.llm", reason="the Python module was not built: no Python headers")
from camshaft.llm._blocks import in_blocks  # noqa: E402
from llm_folders import PagedDecoder  # noqa: E402

VOCABULARY = 90
USUAL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = {**USUAL, "num_key_value_heads": 2}
HEADS_OF_24 = {**GROUPED, "head_dim": 24}
FALCON = {name: value for name, value in USUAL.items() if name != "intermediate_size"} | {"alibi": False}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 256, "eos_token_id": 2}
OPT = {name: value for name, value in USUAL.items() if name != "intermediate_size"} | {"ffn_dim": 96}
MOE = {**GROUPED, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0 + 0.1 * i for i in range(8)]}
LONGROPE |= {"long_factor": [2.0 + i for i in range(8)], "rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def rope(kind, **fields):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **fields}}


# name: (class of the configuration, its fields)
MODELS = {
    "llama": ("LlamaConfig", GROUPED),
    "llama biases, tied": ("LlamaConfig", {**USUAL, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama heads of their own size": ("LlamaConfig", {**HEADS_OF_24, "hidden_act": "gelu"}),
    "llama one key": ("LlamaConfig", {**USUAL, "num_key_value_heads": 1}),
    "llama linear": ("LlamaConfig", {**GROUPED, **rope("linear", factor=3.0)}),
    "llama llama3": ("LlamaConfig", {**GROUPED, **rope(**{**LLAMA3, "kind": "llama3"} | {"original_max_position_embeddings": 32})}),
    "llama yarn": ("LlamaConfig", {**GROUPED, **rope("yarn", factor=4.0, original_max_position_embeddings=64)}),
    "llama yarn, mscale": ("LlamaConfig", {**GROUPED, **rope("yarn", factor=8.0, original_max_position_embeddings=32, mscale=0.7, mscale_all_dim=1.1, beta_fast=16, beta_slow=2)}),
    "mistral": ("MistralConfig", {**GROUPED, "sliding_window": 9}),
    "mistral no window": ("MistralConfig", {**GROUPED, "sliding_window": None}),
    "qwen2": ("Qwen2Config", GROUPED),
    "qwen2 windows": ("Qwen2Config", {**GROUPED, "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    "qwen3": ("Qwen3Config", HEADS_OF_24),
    "gemma": ("GemmaConfig", {**HEADS_OF_24}),
    "gemma2": ("Gemma2Config", {**HEADS_OF_24, "sliding_window": 8, "query_pre_attn_scalar": 20, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}),
    "gemma3": ("Gemma3TextConfig", {**HEADS_OF_24, "num_hidden_layers": 7, "sliding_window": 8, "query_pre_attn_scalar": 20}),
    "phi3": ("Phi3Config", {**GROUPED, "sliding_window": 20}),
    "phi3 longrope": ("Phi3Config", {**GROUPED, "original_max_position_embeddings": 16, "rope_parameters": LONGROPE}),
    "phi3 partial": ("Phi3Config", {**GROUPED, **rope("default", partial_rotary_factor=0.5)}),
    "phi": ("PhiConfig", GROUPED),
    "phi norms of heads": ("PhiConfig", {**USUAL, "qk_layernorm": True}),
    "gpt_neox": ("GPTNeoXConfig", USUAL),
    "gpt_neox sequential": ("GPTNeoXConfig", {**USUAL, "use_parallel_residual": False, "attention_bias": False, "hidden_act": "relu"}),
    "falcon 7b": ("FalconConfig", {**FALCON, "multi_query": True, "bias": False}),
    "falcon 40b": ("FalconConfig", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon 11b": ("FalconConfig", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}),
    "falcon sequential": ("FalconConfig", {**FALCON, "multi_query": False, "parallel_attn": False, "bias": True}),
    "gpt2": ("GPT2Config", GPT2),
    "gpt2 scales": ("GPT2Config", {**GPT2, "n_inner": 80, "scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"}),
    "opt": ("OPTConfig", OPT),
    "opt 350m": ("OPTConfig", {**OPT, "word_embed_proj_dim": 32, "do_layer_norm_before": False}),
    "opt without biases": ("OPTConfig", {**OPT, "enable_bias": False}),
    "mixtral": ("MixtralConfig", {**GROUPED, "num_local_experts": 5, "sliding_window": 30}),
    "qwen2_moe": ("Qwen2MoeConfig", {**MOE, "shared_expert_intermediate_size": 48, "decoder_sparse_step": 2}),
    "qwen3_moe": ("Qwen3MoeConfig", {**MOE, "head_dim": 24, "norm_topk_prob": True, "mlp_only_layers": [1]}),
}  # fmt: skip


def make(folder, kind, fields, dtype=torch.float32):
    """A model with weights of which none is 0 or 1 throughout, saved in the folder."""
    config = getattr(transformers, kind)(**fields)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.add_(0.2 * noise)
            else:
                parameter.copy_(noise * (1.5 / parameter.shape[-1] ** 0.5))
    model.to(dtype).save_pretrained(folder)
    if dtype == torch.float32:
        return model
    # What is not saved, RoPE's frequencies among it, was rounded, too.
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options).eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor(np.array(ids)[None]), use_cache=False).logits[0].float().numpy()


def built(folder, tmp_path, **options):
    output = tmp_path / "model"
    engine = llm.build(folder, output, **{"tuning": "heuristic", "cache": "f32", **options})
    return PagedDecoder(engine, json.loads((output / "llm.json").read_text()))


def worst(actual, wanted):
    return np.abs(actual - wanted).max() / np.abs(wanted).max()


def compared(decoder, model, steps=64):
    """The largest error, as a part of the scale, of three sequences: each is prefilled in a batch with others, in chunks or
    whole, then all go on token by token."""
    random = np.random.default_rng(11)
    prefills = {"a": 19, "b": 5, "c": 30}
    ids = {name: random.integers(3, VOCABULARY, count + steps) for name, count in prefills.items()}
    parts = {name: [] for name in ids}

    def take(padding=0, **counts):
        done = {name: sum(map(len, parts[name])) for name in counts}
        new = {name: ids[name][done[name] : done[name] + count] for name, count in counts.items()}
        for name, logits in decoder.step(new, padding).items():
            parts[name].append(logits)

    take(a=19)
    take(b=5, c=17, padding=3)
    take(c=13, a=1)
    for step in range(steps):
        order = {name: 1 for name in ("c", "a", "b")[step % 3 :] + ("c", "a", "b")[: step % 3]}
        order = {name: 1 for name in order if sum(map(len, parts[name])) < len(ids[name])}
        take(padding=step % 2, **order)
    return max(
        worst(np.concatenate(parts[name]), logits_of(model, ids[name])[: sum(map(len, parts[name]))]) for name in ids
    )


@pytest.mark.parametrize("name", MODELS)
def test_logits(tmp_path, name):
    kind, fields = MODELS[name]
    model = make(tmp_path / "hf", kind, fields)
    assert compared(built(tmp_path / "hf", tmp_path), model) < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_ranks_say_what_one_rank_says(tmp_path, name):
    """Of prompts in chunks and batches, and of what is decoded behind them, as long as the likeliest tokens are the same."""
    make(tmp_path / "hf", *MODELS[name])
    random = np.random.default_rng(12)
    prompts = [random.integers(3, VOCABULARY, int(random.integers(1, 40))).tolist() for _ in range(12)]
    params = llm.SamplingParams(temperature=0, max_tokens=12, logprobs=3, ignore_eos=True, detokenize=False)
    said = []
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        llm.build(tmp_path / "hf", folder, tensor_parallel_size=ranks, tuning="heuristic", cache="f32")
        made = llm.LLM(folder, max_num_seqs=4, max_num_batched_tokens=24, max_model_len=64, threads=1)
        said.append([output.outputs[0] for output in made.generate(prompts, params)])
    compared_tokens = 0
    for one, other in zip(*said):
        for step, (first, second) in enumerate(zip(one.logprobs, other.logprobs)):
            for token in first.keys() & second.keys():
                assert abs(first[token].logprob - second[token].logprob) < 1e-3
            compared_tokens += 1
            if one.token_ids[step] != other.token_ids[step]:
                break
    assert compared_tokens > 0.9 * 12 * 12


def test_a_cache_in_halves(tmp_path):
    model = make(tmp_path / "hf", *MODELS["llama"])
    assert compared(built(tmp_path / "hf", tmp_path, cache="f16", block_size=8), model) < 5e-3


@pytest.mark.parametrize("kind", ["short", "long"])
def test_longrope_by_the_longest_sequence(tmp_path, kind):
    """Transformers changes the factors when a sequence gets longer; an engine has those of its longest one."""
    kinds = {**GROUPED, "original_max_position_embeddings": 100, "rope_parameters": LONGROPE}
    model = make(tmp_path / "hf", "Phi3Config", kinds)
    decoder = built(tmp_path / "hf", tmp_path, max_length=100 if kind == "short" else 200)
    ids = np.random.default_rng(2).integers(3, VOCABULARY, 90 if kind == "short" else 150)
    assert worst(decoder.step({"a": ids})["a"], logits_of(model, ids)) < 1e-4


def test_dynamic_rope_token_by_token(tmp_path):
    """As Transformers decodes: each token has the base of a sequence that ends with it."""
    fields = {**GROUPED, "max_position_embeddings": 24, **rope("dynamic", factor=3.0)}
    model = make(tmp_path / "hf", "LlamaConfig", fields)
    decoder = built(tmp_path / "hf", tmp_path, max_length=72)
    ids = np.random.default_rng(2).integers(3, VOCABULARY, 60)
    cache = transformers.DynamicCache()
    for i in range(len(ids)):
        with torch.no_grad():
            wanted = model(torch.tensor(ids[None, i : i + 1]), past_key_values=cache, use_cache=True).logits[0].numpy()
        assert worst(decoder.step({"a": ids[i : i + 1]})["a"], wanted) < 1e-4


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_checkpoints_of_other_types(tmp_path, dtype):
    model = make(tmp_path / "hf", *MODELS["qwen2"], dtype=getattr(torch, dtype))
    assert compared(built(tmp_path / "hf", tmp_path), model, steps=3) < 1e-4


def test_several_files(tmp_path):
    model = make(tmp_path / "whole", *MODELS["gemma3"])
    model.save_pretrained(tmp_path / "hf", max_shard_size="50KB")
    assert len(list((tmp_path / "hf").glob("*.safetensors"))) > 2
    assert compared(built(tmp_path / "hf", tmp_path), model, steps=3) < 1e-4


def rounded(name, x, weights):
    """A weight as an engine has it."""
    is_product = x.ndim > 1 and not re.search("wpe|embed_positions", name)
    if weights in ("f16", "bf16"):
        return x.to(torch.float16 if weights == "f16" else torch.bfloat16).float() if x.ndim > 1 else x
    if not is_product:
        return x.half().float() if x.ndim > 1 else x
    bits = 8 if re.search("embed|wte|head|mlp.gate.weight", name) else int(weights[3:])
    is_turned = re.search("c_attn|c_proj|c_fc", name)  # GPT-2's are [inputs, outputs]
    rows = (x.T if is_turned else x).reshape(-1, x.shape[0 if is_turned else -1])
    made = torch.tensor(in_blocks(rows.contiguous().numpy(), bits).values(rows.shape[1]))
    return made.T if is_turned else made.reshape(x.shape)


@pytest.mark.parametrize("weights", ["f16", "bf16", "int8", "int4"])
@pytest.mark.parametrize("name", ["llama biases, tied", "gpt2", "gpt_neox", "mixtral", "opt 350m", "qwen2_moe"])
def test_weights_of_few_bits(tmp_path, name, weights):
    """The logits are Transformers' with the weights that there are."""
    model = make(tmp_path / "hf", *MODELS[name])
    decoder = built(tmp_path / "hf", tmp_path, weights=weights, activations="f32")
    with torch.no_grad():
        for parameter, x in model.named_parameters():
            x.copy_(rounded(parameter, x, weights))
    ids = np.random.default_rng(2).integers(3, VOCABULARY, 40)
    assert worst(decoder.step({"a": ids})["a"], logits_of(model, ids)) < 1e-4


def test_a_model_of_text_and_pictures_gives_its_text_model(tmp_path):
    text = MODELS["gemma3"][1]
    model = make(tmp_path / "text", "Gemma3TextConfig", text)
    from safetensors.torch import load_file, save_file

    tensors = load_file(tmp_path / "text/model.safetensors")
    folder = tmp_path / "hf"
    folder.mkdir()
    config = json.loads((tmp_path / "text/config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gemma3", "text_config": config, "vision_config": {}})
    )
    renamed = {f"language_model.{name}": tensor for name, tensor in tensors.items()}
    save_file({**renamed, "vision_tower.x": torch.ones(3)}, folder / "model.safetensors")
    assert compared(built(folder, tmp_path), model, steps=3) < 1e-4
