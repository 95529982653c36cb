"""The folder of a built model: model.engine, llm.json, which says what runs it must know, and the tokenizer's files."""

from __future__ import annotations

import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft._errors import CorruptEngineError, FileError, InvalidArgumentError, InvalidModelError
from camshaft.llm._decoder import Decoder
from camshaft.llm._fields import Fields, read_json
from camshaft.llm._lora import CONFIG, WEIGHTS, check_adapter_name, files_of
from camshaft.llm._optional import needed
from camshaft.llm._ranks import MOST_RANKS
from camshaft.llm._sentence_transformers import POOLING_TYPES

if TYPE_CHECKING:
    from camshaft._engine import Engine

ENGINE, ENCODER_ENGINE, DESCRIPTION = "model.engine", "encoder.engine", "llm.json"
TOKENIZER = "tokenizer.json"
FORMAT = 1
RANKS = "tensor_parallel_size"  # of llm.json; 1 where it does not say
CHECKSUMS = "engine_checksums"  # of llm.json, of models in ranks: by the names of the files
# Whatever of these is there.
_TOKENIZER_FILES = (
    TOKENIZER,
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "preprocessor_config.json",
)
_NAMED_TEMPLATES = "additional_chat_templates"


def description_of(
    decoder: Decoder, config: Fields, generation: Fields | None, weights: str, cache: str, block_size: int
) -> dict[str, Any]:
    """What llm.json says of any model. generation: of generation_config.json, where there is one."""
    attention = {
        "kv_heads": decoder.kv_heads,
        "head_size": decoder.head_size,
        "windows": [layer.window for layer in decoder.layers],
    }
    stored = {"cache_type": cache, "block_size": block_size}
    return {
        "format": FORMAT,
        "model_type": decoder.model_type,
        "layers": len(decoder.layers),
        "heads": decoder.heads,
        **(attention if decoder.family.causal else {}),
        "vocabulary": decoder.vocabulary,
        "max_length": decoder.max_length,
        "weights": weights,
        **(stored if decoder.family.causal else {}),
        **_special_tokens([config] if generation is None else [config, generation], decoder.vocabulary),
    }


def embedding_description(decoder: Decoder, pooling_type: str, normalize: bool) -> dict[str, Any]:
    """What it says of embeddings beside."""
    return {
        "task": "embed",
        "embedding_size": decoder.embedding_width if "project_out" in decoder.family.names else decoder.width,
        "pooling_type": pooling_type,
        "normalize": normalize,
    }


def encoder_description(decoder: Decoder, config: Fields, generation: Fields | None) -> dict[str, Any]:
    """What it says of an encoder of text, under "encoder"."""
    fields = config if generation is None else Fields({**config.values, **generation.values}, generation.where)
    start = fields.integer("decoder_start_token_id", "pad_token_id", low=0, high=decoder.vocabulary - 1)
    return {"max_tokens": decoder.cross_keys, "start_id": start}


def read_generation(folder: Path) -> Fields | None:
    path = folder / "generation_config.json"
    return Fields(read_json(path), str(path)) if path.is_file() else None


def _special_tokens(sources: list[Fields], vocabulary: int) -> dict[str, Any]:
    """bos_id and pad_id, None where there is none, and the list eos_ids: of the last source that has them."""
    found: dict[str, list[int]] = {}
    for fields in sources:
        for kind in ("bos", "eos", "pad"):
            name = f"{kind}_token_id"
            if not fields.has(name):
                continue
            value = fields.raw(name)
            ids = value if isinstance(value, list) else [value]
            if not all(type(i) is int for i in ids):
                fields.wrong((name,), "a token's number, or a list of these", value)
            # Configurations of small models keep the numbers of large vocabularies: no token is that one.
            found[kind] = [i for i in ids if 0 <= i < vocabulary]
    first = {kind: next(iter(found.get(kind, [])), None) for kind in ("bos", "pad")}
    return {"bos_id": first["bos"], "eos_ids": found.get("eos", []), "pad_id": first["pad"]}


@contextmanager
def made_folder(output: Path) -> Iterator[Path]:
    """A folder that becomes `output` when all is written, in place of a model that is there; nothing is left of what fails."""
    if output.exists() and not (output / DESCRIPTION).exists() and (not output.is_dir() or any(output.iterdir())):
        raise InvalidArgumentError(f"{output} is there, and no model that this command made: name another folder")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    except OSError as error:
        raise FileError(f"{error.filename}: {error.strerror}") from None
    try:
        made.chmod(0o777 & ~_umask())
        yield made
        if output.exists():
            old = made.with_name(f"{made.name}.old")
            output.rename(old)
            try:
                made.rename(output)
            except OSError:
                old.rename(output)
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            made.rename(output)
    except FileError:  # which names the file already
        raise
    except OSError as error:
        raise FileError(f"{error.filename}: {error.strerror}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def engine_names(ranks: int) -> list[str]:
    """The files of the engines, rank by rank."""
    return [ENGINE] if ranks == 1 else [f"model.rank{rank}.engine" for rank in range(ranks)]


def ranks_of(description: dict[str, Any], where: Path) -> int:
    """In how many ranks a model was built."""
    ranks = description.get(RANKS, 1)
    if type(ranks) is not int or not 1 <= ranks <= MOST_RANKS:
        raise CorruptEngineError(f"{where / DESCRIPTION}: '{RANKS}' is {ranks!r}, not a number of ranks")
    return ranks


def checksum_of(engine: Path) -> str:
    """Of a file that an engine was written to: of its header, which has the checksums of everything else."""
    with open(engine, "rb") as file:
        header = file.read(64)
    if len(header) < 64 or not header.startswith(b"CAMSHAFT"):
        raise CorruptEngineError(f"{engine}: no engine file")
    return f"{int.from_bytes(header[32:40], 'little'):016x}"


def check_build(description: dict[str, Any], folder: Path, name: str) -> None:
    """That the engine of a rank is the one that the others were built with: ranks of different builds would give a text, and
    a wrong one. Folders that say nothing of it are of earlier versions."""
    listed = description.get(CHECKSUMS)
    if listed is None:
        return
    if not isinstance(listed, dict) or not isinstance(listed.get(name), str):
        raise CorruptEngineError(f"{folder / DESCRIPTION}: '{CHECKSUMS}' names no {name}")
    try:
        found = checksum_of(folder / name)
    except OSError as error:
        raise FileError(f"{folder / name}: {error.strerror}") from None
    if found != listed[name]:
        raise CorruptEngineError(
            f"{folder / name} is of another build than {folder / DESCRIPTION} and the other ranks: take all files of a folder "
            "from one `camshaft llm build`"
        )


def write_description(folder: Path, description: dict[str, Any]) -> None:
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n")


def read_description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    if not path.exists():
        raise FileError(f"{path}: No such file or directory: `camshaft llm build` makes the folder of a model")
    try:
        description = read_json(path)
    except InvalidModelError as error:
        raise CorruptEngineError(str(error)) from None
    if not isinstance(description, dict):
        raise CorruptEngineError(f"{path}: not an object")
    for name in ("max_length", "vocabulary"):
        if name not in description:
            raise CorruptEngineError(f"{path}: '{name}' is missing")
    return description


def read_tokenizer(folder: Path, tokenizers: Any) -> Any:
    """tokenizers: the module. Raises CorruptEngineError for a tokenizer.json that is damaged."""
    path = folder / TOKENIZER
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library's own are of no other type
        raise CorruptEngineError(f"{path}: no tokenizer that can be read: {error}") from None


def lazy_tokenizer(folder: Path | None) -> Callable[[], Any]:
    """What gives the tokenizer of prompts, which is read when it is needed; None where there is none."""

    @functools.cache
    def made() -> Any:
        if folder is None or not (folder / TOKENIZER).exists():
            return None
        tokenizer = read_tokenizer(folder, needed("tokenizers", f"{folder}: text needs a tokenizer"))
        # What the file says of these is of batches of old: prompts are as long as they are, and held to max_model_len.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    return made


def hidden_size_of(engine: Engine) -> int | None:
    """Elements of an engine's embeddings; None of one that gives logits."""
    return next((each.shape[-1] for each in engine.outputs if each.name == "hidden_states" and each.shape), None)


def check_description(description: dict[str, Any], engine: Engine, where: Path, file: str = ENGINE) -> None:
    """That what runs believe of llm.json is true of the engine, which is in that file."""
    inputs = {each.name: each for each in engine.inputs}
    logits = next((each for each in engine.outputs if each.name == "logits" and each.shape), None)
    cache, hidden_size = inputs.get("key_cache.0"), hidden_size_of(engine)
    if hidden_size is None and (logits is None or cache is None):
        raise CorruptEngineError(f"{where / file}: no engine of a language model: it has no logits, or no caches")
    types = {"f8e4m3": "fp8", "i8": "int8"}
    found: dict[str, Any] = {"task": "generate" if hidden_size is None else "embed"}
    if cache is not None:
        found |= {
            "layers": sum(name.startswith("key_cache.") for name in inputs),
            "block_size": cache.shape[1],
            **({"kv_heads": cache.shape[2]} if description.get(RANKS, 1) == 1 else {}),
            "head_size": cache.shape[3],
            "cache_type": types.get(cache.dtype, cache.dtype),
        }
    if hidden_size is not None:
        found["embedding_size"] = hidden_size
        _check_pooling(description, where / DESCRIPTION)
    elif logits is not None:
        found["vocabulary"] = logits.shape[-1]
    for name, value in found.items():
        # Types too: 300.0 is 300 to Python, and no vocabulary.
        if name in description and (description[name] != value or type(description[name]) is not type(value)):
            raise CorruptEngineError(
                f"{where / DESCRIPTION}: '{name}' is {description[name]!r}, and {value!r} of the engine beside it"
            )
    longest = description.get("max_length")
    least = 2 if hidden_size is None else 1
    if longest is not None and (type(longest) is not int or longest < least):
        raise CorruptEngineError(
            f"{where / DESCRIPTION}: 'max_length' is {longest!r}, not a number of tokens from {least} on"
        )
    lora = description.get("lora")
    if lora is not None:
        _check_loras(lora, where / DESCRIPTION)
    ids = description.get("eos_ids")
    if ids is not None and (not isinstance(ids, list) or not all(type(each) is int for each in ids)):
        raise CorruptEngineError(f"{where / DESCRIPTION}: 'eos_ids' is {ids!r}, not a list of tokens' numbers")


def _check_loras(lora: Any, where: Path) -> None:
    names = lora.get("adapters", []) if isinstance(lora, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise CorruptEngineError(f"{where}: 'lora' is {lora!r}, not an object with a list of 'adapters'")
    for name in names:
        check_adapter_name(name)
    grouped = lora.get("grouped_qkv")
    if grouped is not None and not isinstance(grouped, str):
        raise CorruptEngineError(f"{where}: 'grouped_qkv' is {grouped!r}, not the name of products")


def _check_pooling(description: dict[str, Any], where: Path) -> None:
    vocabulary, pooling_type, normalize = (description.get(n) for n in ("vocabulary", "pooling_type", "normalize"))
    if type(vocabulary) is not int or vocabulary < 1:
        raise CorruptEngineError(f"{where}: 'vocabulary' is {vocabulary!r}, not a number of tokens")
    if pooling_type not in POOLING_TYPES:
        raise CorruptEngineError(f"{where}: 'pooling_type' is {pooling_type!r}, not one of {', '.join(POOLING_TYPES)}")
    if type(normalize) is not bool:
        raise CorruptEngineError(f"{where}: 'normalize' is {normalize!r}, not true or false")


def copy_tokenizer(source: Path, folder: Path) -> list[str]:
    """The names of what there is."""
    names = [name for name in _TOKENIZER_FILES if (source / name).is_file()]
    for path in sorted((source / _NAMED_TEMPLATES).glob("*.jinja")):
        (folder / _NAMED_TEMPLATES).mkdir(exist_ok=True)
        names.append(f"{_NAMED_TEMPLATES}/{path.name}")
    for name in names:
        shutil.copyfile(source / name, folder / name)
    return names


def grouped_products(decoder: Decoder) -> dict[str, Any]:
    """What llm.json says of products whose outputs the engine has in another order than the model's folder."""
    is_grouped = decoder.family.qkv == "grouped" and decoder.kv_heads > 1
    return {"grouped_qkv": decoder.family.names["qkv"]} if is_grouped else {}


def adapter_folder(folder: Path, name: str) -> Path:
    return folder / "lora" / name


def copy_adapters(paths: Mapping[str, Path], folder: Path) -> None:
    for name, path in paths.items():
        to = adapter_folder(folder, name)
        to.mkdir(parents=True)
        weights, config = files_of(path)
        shutil.copyfile(weights, to / WEIGHTS)
        if config.is_file():
            shutil.copyfile(config, to / CONFIG)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
