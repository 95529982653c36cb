"""Adapters that PEFT wrote, over language models of Transformers: the logits are PEFT's, of all families."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
peft = pytest.importorskip("peft", reason="PEFT is not installed")
llm = pytest.importorskip("camshaft.llm", reason="the Python module was not built: no Python headers")
from test_language_models import MODELS, VOCABULARY, logits_of, make  # noqa: E402

RANKS = {"a": 4, "b": 11}


def adapted(model, folder, rank, targets, **more):
    """Logits' function of the model with an adapter whose two matrices are random, which is saved in the folder."""
    config = peft.LoraConfig(r=rank, lora_alpha=3 * rank, target_modules=targets, task_type="CAUSAL_LM", **more)
    made = peft.get_peft_model(model, config)
    generator = torch.Generator().manual_seed(rank)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if ".lora_" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * (0.5 / parameter.shape[-1] ** 0.5))
    made.save_pretrained(folder, save_embedding_layers=False)  # which it has from the model
    return made.eval()


def worst(output, logits):
    expected = logits - logits.max(-1, keepdims=True)
    expected -= np.log(np.exp(expected).sum(-1, keepdims=True))
    return max(
        abs(known.logprob - expected[place, token])
        for place, row in enumerate(output.prompt_logprobs[1:])
        for token, known in row.items()
    )


@pytest.mark.parametrize("name", MODELS)
def test_logits(tmp_path, name):
    """Of two adapters and none in one step: all linear layers, and those of attention with the head."""
    kind, fields = MODELS[name]
    model = make(tmp_path / "hf", kind, fields)
    rng = np.random.default_rng(5)
    prompts = [rng.integers(3, VOCABULARY, count).tolist() for count in (30, 17, 19)]
    wanted = [logits_of(model, prompts[0])]
    first = sorted(
        {
            path.rsplit(".", 1)[-1]
            for path, part in model.named_modules()
            if "attn" in path or "attention" in path
            if isinstance(part, (torch.nn.Linear, transformers.pytorch_utils.Conv1D))
        }
    )
    settings = {
        "a": (first if "experts" in str(model) else "all-linear", {}),  # experts are one tensor of all to it
        "b": ([*first, next(e for e in ("lm_head", "embed_out") if hasattr(model, e))], {"use_rslora": True}),
    }
    for (adapter, (targets, more)), prompt in zip(settings.items(), prompts[1:]):
        fresh = make(tmp_path / "again", kind, fields)
        made = adapted(fresh, tmp_path / adapter, RANKS[adapter], targets, **more)
        wanted.append(logits_of(made, prompt))
    given = [f"{adapter}={tmp_path / adapter}" for adapter in RANKS]
    llm.build(tmp_path / "hf", tmp_path / "built", lora=given, cache="f32", tuning="heuristic")
    assert json.loads((tmp_path / "built/llm.json").read_text())["lora"]["adapters"] == list(RANKS)
    params = llm.SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=20, ignore_eos=True)
    requests = [None, *(llm.LoRARequest(adapter) for adapter in RANKS)]
    outputs = llm.LLM(tmp_path / "built").generate(prompts, params, lora_request=requests)
    for output, logits in zip(outputs, wanted):
        assert worst(output, logits) < 1e-4 * max(1, np.abs(logits).max())
