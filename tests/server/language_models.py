"""Small language models in a model repository, and a server of one."""

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from unittest import mock

import camshaft
import pytest
import tiny_decoder
from llm_encoders import write_bert
from llm_folders import write_llama
from serving import serving

VOCABULARY, LONGEST = 300, 1024
TEXTS = [
    "The engine turns the shaft, and the shaft turns the wheels.",
    "A valve opens; a valve closes.",
    "Öl läuft über",
]
TEMPLATE = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def write_language_model(folder):
    """As `camshaft llm build` makes it, with a tokenizer of bytes and their pairs."""
    folder.mkdir(parents=True)
    tiny_decoder.engine_of(tiny_decoder.weights_of(VOCABULARY), finds_likeliest=True).save(folder / "model.engine")
    tokenizer_of_bytes().save(str(folder / "tokenizer.json"))
    description = {"max_length": LONGEST, "eos_ids": [0], "vocabulary": VOCABULARY}
    (folder / "llm.json").write_text(json.dumps(description))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "chat_template": TEMPLATE}))
    return folder


def write_embedding_model(folder, kind):
    """The same of embeddings, of an encoder ("bert") or a decoder ("llama"); texts end with a token of their own."""
    import camshaft.llm

    write = {"bert": write_bert, "llama": write_llama}[kind]
    made_of = write(folder.parent / "hf", vocab_size=VOCABULARY)
    tokenizer = tokenizer_of_bytes()
    ending = tokenizers_module().processors.TemplateProcessing("$A <end>", special_tokens=[("<end>", 0)])
    tokenizer.post_processor = ending
    tokenizer.save(str(made_of / "tokenizer.json"))
    camshaft.llm.build(made_of, folder, task="embed", **({"cache": "f32"} if kind == "llama" else {}))
    shutil.rmtree(made_of)
    return folder


def tokenizers_module():
    return pytest.importorskip("tokenizers", reason="tokenizers is not installed")


def tokenizer_of_bytes():
    tokenizers = tokenizers_module()
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


@contextlib.contextmanager
def serving_language_model(repository, *flags, **parameters):
    """The model `tiny` of a repository, which write_language_model() has made in tiny/1."""
    lines = [f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}' for key, value in parameters.items()]
    (repository / "tiny/config.pbtxt").write_text("\n".join(['backend: "llm"', *lines]))
    path = [str(Path(camshaft.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    with mock.patch.dict(os.environ, {"CAMSHAFT_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(path)}):
        with serving(repository, *flags) as server:
            yield server
