"""Embedding models of Transformers with random weights, as folders of sentence-transformers: the same embeddings, alone and
beside others."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
llm = pytest.importorskip("camshaft.llm", reason="the Python module was not built: no Python headers")
from llm_encoders import pooled, write_modules  # noqa: E402
from test_language_models import GPT2, GROUPED, HEADS_OF_24, OPT, USUAL, VOCABULARY, rope, worst  # noqa: E402

DISTILBERT = {
    "vocab_size": VOCABULARY,
    "dim": 64,
    "hidden_dim": 96,
    "n_layers": 3,
    "n_heads": 4,
    "max_position_embeddings": 256,
}
ROBERTA = {**USUAL, "max_position_embeddings": 258, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0}
# name: (class of the configuration, its fields, pooling)
MODELS = {
    "bert": ("BertConfig", USUAL, "mean"),
    "bert cls": ("BertConfig", {**USUAL, "type_vocab_size": 3, "layer_norm_eps": 1e-3}, "cls"),
    "bert relu": ("BertConfig", {**USUAL, "hidden_act": "relu"}, "mean"),
    "roberta": ("RobertaConfig", ROBERTA, "mean"),
    "xlm-roberta": ("XLMRobertaConfig", ROBERTA, "cls"),
    "xlm-roberta padding 0": ("XLMRobertaConfig", {**ROBERTA, "pad_token_id": 0}, "mean"),
    "camembert": ("CamembertConfig", ROBERTA, "mean"),
    "distilbert": ("DistilBertConfig", DISTILBERT, "mean"),
    "nomic_bert": ("NomicBertConfig", {**USUAL, **rope("default")}, "mean"),
    "eurobert": ("EuroBertConfig", {**GROUPED, "mlp_bias": True}, "mean"),
    "qwen2 both directions": ("Qwen2Config", {**GROUPED, "is_causal": False}, "lasttoken"),
    "llama both directions": ("LlamaConfig", {**USUAL, "num_key_value_heads": 1, "is_causal": False}, "mean"),
    "qwen3": ("Qwen3Config", HEADS_OF_24, "lasttoken"),
    "qwen2 mean": ("Qwen2Config", GROUPED, "mean"),
    "mistral": ("MistralConfig", {**GROUPED, "sliding_window": 9}, "lasttoken"),
    "llama first": ("LlamaConfig", GROUPED, "cls"),
    "gemma2": ("Gemma2Config", {**HEADS_OF_24, "sliding_window": 8, "query_pre_attn_scalar": 20}, "lasttoken"),
    "gpt2": ("GPT2Config", GPT2, "mean"),
    "opt 350m": ("OPTConfig", {**OPT, "word_embed_proj_dim": 32, "do_layer_norm_before": False}, "lasttoken"),
}
DECODERS = ("qwen2", "qwen3", "mistral", "llama", "gemma2", "gpt2", "opt")
WITH_HEADS = ("BertForMaskedLM", "RobertaForMaskedLM", "DistilBertForMaskedLM", "Qwen3ForCausalLM", "GPT2LMHeadModel")


def randomize(model):
    """Weights of which none is 0 or 1 throughout."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.add_(0.2 * noise)
            else:
                parameter.copy_(noise * (1.5 / parameter.shape[-1] ** 0.5))
    return model.eval()


def hidden_states(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).last_hidden_state[0].double().numpy()


def prompts_of(longest):
    random = np.random.default_rng(5)
    return [random.integers(3, VOCABULARY, n).tolist() for n in (1, 2, 17, 33, longest, 5, 64)]


def cache_of(folder):
    """Keys and values in f32, where the model keeps any."""
    config = json.loads((folder / "config.json").read_text())
    keeps = config["model_type"] in DECODERS and config.get("is_causal", True)
    return {"cache": "f32"} if keeps else {}


def check(folder, tmp_path, wanted, prompts, **options):
    llm.build(folder, tmp_path / "out", task="embed", tuning="heuristic", **cache_of(folder), **options)
    for setting in ({}, {"max_num_seqs": 1}, {"max_num_seqs": 3, "max_num_batched_tokens": 20}):
        model = llm.LLM(tmp_path / "out", **setting)
        for output, known in zip(model.embed(prompts), wanted):
            assert worst(np.array(output.outputs.embedding), known) < 1e-4, setting


@pytest.mark.parametrize("name", MODELS)
def test_embeddings_are_transformers(tmp_path, name):
    kind, fields, pooling = MODELS[name]
    config = getattr(transformers, kind)(**fields)
    model = randomize(transformers.AutoModel.from_config(config, attn_implementation="eager"))
    model.save_pretrained(tmp_path / "hf")
    write_modules(tmp_path / "hf", pooling)
    prompts = prompts_of(256)
    wanted = [pooled(hidden_states(model, prompt), pooling.removesuffix("token")) for prompt in prompts]
    check(tmp_path / "hf", tmp_path, wanted, prompts)


@pytest.mark.parametrize("kind", WITH_HEADS)
def test_what_is_over_the_hidden_states_is_left_out(tmp_path, kind):
    made = getattr(transformers, kind)
    fields = {"GPT2LMHeadModel": GPT2, "DistilBertForMaskedLM": DISTILBERT, "RobertaForMaskedLM": ROBERTA}
    fields["Qwen3ForCausalLM"] = GROUPED
    model = randomize(made(made.config_class(**fields.get(kind, USUAL))))
    model.save_pretrained(tmp_path / "hf")
    prompts = prompts_of(100)
    wanted = [pooled(hidden_states(model.base_model, prompt), "mean") for prompt in prompts]
    check(tmp_path / "hf", tmp_path, wanted, prompts, pooling_type="mean")


@pytest.mark.parametrize(
    "kind, fields, pooling", [("BertConfig", USUAL, "mean"), ("Qwen3Config", HEADS_OF_24, "lasttoken")]
)
def test_embeddings_are_those_of_sentence_transformers(tmp_path, kind, fields, pooling):
    sentence_transformers = pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is not installed"
    )
    if hasattr(sentence_transformers, "models"):
        models = sentence_transformers.models
    else:  # from version 6 on
        models = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    from tokenizers import Tokenizer, processors
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    folder = tmp_path / "hf"
    randomize(transformers.AutoModel.from_config(getattr(transformers, kind)(**fields))).save_pretrained(folder)
    words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(VOCABULARY - 4))]
    made = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", unk_token="<unk>").save_pretrained(
        folder
    )
    transformer = models.Transformer(str(folder), max_seq_length=40)
    pooler = models.Pooling(64, pooling_mode=pooling)
    theirs = sentence_transformers.SentenceTransformer(modules=[transformer, pooler, models.Normalize()], device="cpu")
    theirs.save(str(tmp_path / "saved"))
    random = np.random.default_rng(4)
    texts = [" ".join(f"w{i}" for i in random.integers(0, VOCABULARY, n)) for n in (1, 3, 20, 38)]
    llm.build(tmp_path / "saved", tmp_path / "out", task="embed", **cache_of(folder))
    model = llm.LLM(tmp_path / "out")
    assert model.description["max_length"] == 40
    for output, wanted in zip(model.embed(texts), theirs.encode(texts)):
        assert worst(np.array(output.outputs.embedding), wanted) < 1e-4
