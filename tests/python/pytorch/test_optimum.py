"""Optimum's models of ONNX Runtime (ORTModel…) with the provider's name and nothing else changed: skipped where Optimum is not
installed (pip install optimum-onnx[onnxruntime])."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
optimum = pytest.importorskip("optimum.onnxruntime", reason="Optimum is not installed")
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import camshaft.ort  # noqa: E402

SMALL = {"vocab_size": 12, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 6, 5, 3, 3]])


def bert(head):
    return getattr(transformers, f"BertFor{head}")(transformers.BertConfig(**SMALL))


def gpt2():
    ends = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=12, n_embd=32, n_layer=2, n_head=4, **ends))


def t5():
    sizes = {"vocab_size": 12, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0, **sizes))


def vit():
    sizes = {name: value for name, value in SMALL.items() if name != "vocab_size"}
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=32, patch_size=8, num_labels=5, **sizes)
    )


def answers(model):
    words = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}
    return model(**words, token_type_ids=torch.zeros_like(TOKENS)).to_tuple()


def generated(model):
    words = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}
    return [model.generate(**words, max_new_tokens=8, do_sample=False, num_beams=beams) for beams in (1, 2)]


def pictures(model):
    torch.manual_seed(1)
    return model(pixel_values=torch.randn(2, 3, 32, 32)).to_tuple()


CASES = {
    "ORTModelForSequenceClassification": (lambda: bert("SequenceClassification"), "text-classification", answers),
    "ORTModelForQuestionAnswering": (lambda: bert("QuestionAnswering"), "question-answering", answers),
    "ORTModelForTokenClassification": (lambda: bert("TokenClassification"), "token-classification", answers),
    "ORTModelForCausalLM": (gpt2, "text-generation-with-past", generated),
    "ORTModelForSeq2SeqLM": (t5, "text2text-generation-with-past", generated),
    "ORTModelForImageClassification": (vit, "image-classification", pictures),
}


@pytest.mark.parametrize("name", CASES)
def test_models_of_optimum(name, tmp_path, monkeypatch):
    from optimum.exporters.onnx import main_export

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    make, task, run = CASES[name]
    torch.manual_seed(0)
    make().eval().save_pretrained(tmp_path / "torch")
    if run is pictures:
        transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "torch")
    else:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "a", "dog"]
        (tmp_path / "vocab.txt").write_text("\n".join(words))
        tokenizer = transformers.BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt"))
        tokenizer.save_pretrained(tmp_path / "torch")
    main_export(str(tmp_path / "torch"), str(tmp_path / "onnx"), task=task, do_validation=False)
    camshaft.ort.register()
    results = []
    for provider in ("CPUExecutionProvider", camshaft.ort.PROVIDER):
        model = getattr(optimum, name).from_pretrained(tmp_path / "onnx", provider=provider)
        assert model.providers[0] == provider
        results.append(run(model))
    assert len(results[0]) == len(results[1]) > 0
    for expected, actual in zip(*results):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
