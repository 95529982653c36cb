"""What a folder of sentence-transformers says of its model: which tokens' hidden states become an embedding, and how.

https://sbert.net/docs/package_reference/sentence_transformer/models.html has the files' fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from camshaft._errors import InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft.llm._fields import Fields, read_json

PoolingType = Literal["last", "cls", "mean"]
POOLING_TYPES = ("last", "cls", "mean")
_MODES = {
    "pooling_mode_lasttoken": "last",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
}
_LONGEST = 1 << 30  # tokens
_NAMED_MODES = {"lasttoken": "last", "last": "last", "cls": "cls", "mean": "mean"}


@dataclass(frozen=True)
class Modules:
    """folder: of the transformer. pooling_type, normalize, max_length: None where no file says."""

    folder: Path
    pooling_type: str | None = None
    normalize: bool | None = None
    max_length: int | None = None


def check_pooling_type(name: Any) -> str:
    if name not in POOLING_TYPES:
        raise InvalidArgumentError(f"pooling_type is {name!r}; {', '.join(POOLING_TYPES)} are possible")
    return str(name)


def read_modules(folder: Path) -> Modules:
    """Of a folder without modules.json, or one that is no folder, nothing is known."""
    path = folder / "modules.json"
    if not path.is_file():
        return Modules(folder, max_length=_max_length(folder))
    listed = read_json(path)
    if not isinstance(listed, list) or not listed:
        raise InvalidModelError(f"{path}: a list of modules is needed")
    modules = [Fields(module, f"{path}, module {place}") for place, module in enumerate(listed)]
    kinds = [module.text("type").rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer"], ["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise UnsupportedError(
            f"{path}: the modules {', '.join(kinds)} are not supported; Transformer, Pooling and Normalize are, in this order"
        )
    transformer = _within(folder, modules[0])
    pooling = _pooling_type(_within(folder, modules[1]) / "config.json") if len(kinds) > 1 else None
    return Modules(transformer, pooling, len(kinds) > 2 if len(kinds) > 1 else None, _max_length(transformer))


def _within(folder: Path, module: Fields) -> Path:
    """The folder of a module."""
    name = module.text("path")
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts:
        module.wrong(("path",), "a folder within this one", name)
    return folder / place


def _pooling_type(path: Path) -> str:
    fields = Fields(read_json(path), str(path))
    if not fields.flag("include_prompt", default=True):
        raise UnsupportedError(f"{path}: pooling without the prompt's tokens (include_prompt) is not supported")
    if fields.has("pooling_mode"):  # of later versions
        mode = fields.raw("pooling_mode")
        chosen = [str(each) for each in mode] if isinstance(mode, list) else [fields.text("pooling_mode")]
        known = _NAMED_MODES
    else:
        names = [name for name in fields.values if name.startswith("pooling_mode_")]
        chosen = [name for name in names if fields.flag(name)]
        known = _MODES
    if len(chosen) != 1 or chosen[0] not in known:
        raise UnsupportedError(
            f"{path}: pooling by {' and '.join(chosen) or 'nothing'} is not supported; one of {', '.join(known)} is"
        )
    return known[chosen[0]]


def _max_length(folder: Path) -> int | None:
    """What texts are cut to: in files of sentence-transformers before version 6, else as the tokenizer says."""
    path = folder / "sentence_bert_config.json"
    fields = Fields(read_json(path) if path.is_file() else {}, str(path))
    if fields.flag("do_lower_case", default=False):
        raise UnsupportedError(
            f"{path}: texts in small letters (do_lower_case) are not supported: let the tokenizer do it"
        )
    if fields.has("max_seq_length"):
        return fields.integer("max_seq_length", high=_LONGEST)
    path = folder / "tokenizer_config.json"
    fields = Fields(read_json(path) if path.is_file() else {}, str(path))
    known = fields.raw("model_max_length", default=None)  # which may be 1e30: there is no limit
    is_number = isinstance(known, (int, float)) and not isinstance(known, bool)
    return int(known) if is_number and 1 <= known <= _LONGEST else None
