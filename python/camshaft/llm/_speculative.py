"""speculative_config: who guesses the tokens that come next."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _native
from camshaft._engine import Engine
from camshaft._errors import InvalidArgumentError
from camshaft.llm._checks import short
from camshaft.llm._folder import (
    ENGINE,
    TOKENIZER,
    check_description,
    hidden_size_of,
    ranks_of,
    read_description,
    read_tokenizer,
)
from camshaft.llm._optional import needed

if TYPE_CHECKING:
    import argparse

_NGRAM = {"prompt_lookup_max", "prompt_lookup_min"}
_KNOWN = {"method", "model", "num_speculative_tokens", "draft_sample_method", *_NGRAM}
_SAMPLE_METHODS = ("greedy", "probabilistic")
_GUESSES = 4


@dataclass(frozen=True)
class Speculation:
    """settings: of a generator's configuration. draft: the engine of a draft model, if there is one."""

    settings: dict[str, Any]
    draft: Engine | None = None


def speculation_of(
    config: Mapping[str, Any] | None, folder: Path | None = None, device: str | None = None
) -> Speculation:
    """folder: of the model whose text is guessed, where it has one; device: what a draft model is to run on.

    Raises InvalidArgumentError for what does not go together, or for a draft model of other tokens, and FileError where
    there is none."""
    if config is None:
        return Speculation({})
    if not isinstance(config, Mapping):
        raise InvalidArgumentError(f"speculative_config is {config!r}; a dict is needed, as {{'method': 'ngram'}}")
    if unknown := set(config) - _KNOWN:
        raise InvalidArgumentError(
            f"speculative_config has no {min(unknown, key=str)}; it has {', '.join(sorted(_KNOWN))}"
        )
    model = config.get("model")
    method = config.get("method", "ngram" if model is None else "draft_model")
    settings: dict[str, Any] = {"num_speculative_tokens": config.get("num_speculative_tokens", _GUESSES)}
    sampling = config.get("draft_sample_method")
    if method == "ngram":
        if model is not None:
            raise InvalidArgumentError("speculative_config: the method ngram has no model; draft_model has one")
        if sampling is not None:
            raise InvalidArgumentError(
                "speculative_config: draft_sample_method is of the method draft_model, not of ngram"
            )
        most = config.get("prompt_lookup_max", 4)
        least = config.get("prompt_lookup_min", min(2, most) if isinstance(most, int) else 2)
        return Speculation({**settings, "prompt_lookup_max": most, "prompt_lookup_min": least})
    if method != "draft_model":
        raise InvalidArgumentError(
            f"speculative_config: the method {method!r} is none; ngram and draft_model are what there is"
        )
    if model is None:
        raise InvalidArgumentError(
            "speculative_config: the method draft_model needs the key model, the folder of a smaller model that "
            "`camshaft llm build` made"
        )
    if ngram := _NGRAM & set(config):
        raise InvalidArgumentError(f"speculative_config: {min(ngram)} is of the method ngram, not of draft_model")
    if sampling is not None and not (isinstance(sampling, str) and sampling in _SAMPLE_METHODS):
        raise InvalidArgumentError(
            f"speculative_config: draft_sample_method is {short(sampling)}; {' or '.join(_SAMPLE_METHODS)} is needed"
        )
    settings["draft_samples"] = sampling == "probabilistic"
    if isinstance(model, Engine):
        _check_generates(model, "it")
        return Speculation(settings, model)
    try:
        place = Path(os.fspath(model))
    except TypeError:
        raise InvalidArgumentError(
            f"speculative_config: model is {model!r}, not the folder of a built model or an Engine"
        ) from None
    description = read_description(place)
    if ranks_of(description, place) > 1:
        raise InvalidArgumentError(
            f"speculative_config: {place} was built for several ranks: a draft model runs in one, beside rank 0"
        )
    draft = Engine(place / ENGINE, device)
    check_description(description, draft, place)
    _check_generates(draft, str(place))
    if folder is not None:
        _check_tokens(folder, place)
    return Speculation({**settings, "draft_max_model_len": description.get("max_length")}, draft)


def _check_generates(draft: Engine, what: str) -> None:
    if hidden_size_of(draft) is not None:
        raise InvalidArgumentError(
            f"speculative_config: {what} gives embeddings, not text: build the draft model without --task embed"
        )
    if _native.generator_cross_cache(draft._engine)[0] > 0:
        raise InvalidArgumentError(f"speculative_config: {what} has an encoder: a draft model is a decoder of text")


def _check_tokens(folder: Path, draft: Path) -> None:
    """That both have the same tokens by the same numbers, where both have a tokenizer: guesses would be other words."""
    files = (folder / TOKENIZER, draft / TOKENIZER)
    if not all(each.is_file() for each in files) or files[0].read_bytes() == files[1].read_bytes():
        return
    tokenizers = needed("tokenizers", f"{draft}: its tokenizer is compared with the model's")
    ours, theirs = (read_tokenizer(each, tokenizers).get_vocab(with_added_tokens=True) for each in (folder, draft))
    if different := [token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token)]:
        token = min(different, key=lambda each: min(ours.get(each, len(ours)), theirs.get(each, len(theirs))))
        raise InvalidArgumentError(
            f"speculative_config: {draft} has other tokens than {folder}: {token!r} is number {theirs.get(token)} there, "
            f"{ours.get(token)} here, and {len(different) - 1} more differ; a draft model must have the same vocabulary"
        )


def add_speculation(command: argparse.ArgumentParser) -> None:
    """The flags of a command that makes an LLM."""
    for name, what in SPECULATION_FLAGS.items():
        kind = int if name.startswith("num-") else str
        choices = list(_SAMPLE_METHODS) if name == "draft-sample-method" else None
        metavar = None if choices else "N" if kind is int else "DIR"
        command.add_argument("--" + name, type=kind, metavar=metavar, choices=choices, help=what)


SPECULATION_FLAGS = {
    "speculative-model": "a smaller built model of the same vocabulary that guesses ahead, instead of n-grams",
    "draft-sample-method": "of --speculative-model: greedy, its likeliest tokens (default), or probabilistic, drawn as texts are",
    "num-speculative-tokens": f"guessed ahead in a step (default: {_GUESSES} with --speculative-model, else 0; more: n-grams)",
}


def config_of_flags(model: str | None, guesses: int | None, sampling: str | None = None) -> dict[str, Any] | None:
    """speculative_config by these flags."""
    method = {} if sampling is None else {"draft_sample_method": sampling}
    if model is None:
        return {**method, **({"num_speculative_tokens": guesses} if guesses else {})} or None
    return {"model": model, "num_speculative_tokens": _GUESSES if guesses is None else guesses, **method}
