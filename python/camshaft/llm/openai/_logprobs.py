"""Logarithms of probabilities, as the two calls write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from camshaft.llm._outputs import Logprob

_LEAST = -9999.0  # of tokens that are excluded: JSON has no infinity


class TokenTexts:
    """Of single tokens. tokenizer: of the package `tokenizers`, or None."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._bytes: dict[str, int] = {}
        if tokenizer is not None and '"ByteLevel"' in json.dumps(json.loads(tokenizer.to_str()).get("decoder")):
            self._bytes = _byte_characters()

    def text(self, token: int) -> str:
        if self._tokenizer is None:
            return f"token_id:{token}"
        return str(self._tokenizer.decode([token], skip_special_tokens=False))

    def bytes(self, token: int) -> list[int]:
        """What the token stands for, which may be a part of a character."""
        word = None if self._tokenizer is None else self._tokenizer.id_to_token(token)
        if word and self._bytes and all(c in self._bytes for c in word):
            return [self._bytes[c] for c in word]
        if word and (found := re.fullmatch("<0x([0-9A-F]{2})>", word)):
            return [int(found[1], 16)]
        return list(self.text(token).encode("utf-8", "replace"))


class TokenNames:
    """as_ids: tokens are written as "token_id:5", which no two have in common."""

    def __init__(self, texts: TokenTexts, as_ids: bool) -> None:
        self._texts, self._as_ids = texts, as_ids

    def name(self, token: int, logprob: Logprob | None = None) -> str:
        if self._as_ids:
            return f"token_id:{token}"
        text = None if logprob is None else logprob.decoded_token
        return self._texts.text(token) if text is None else text

    def bytes(self, token: int) -> list[int]:
        return self._texts.bytes(token)


def completion_logprobs(
    tokens: Sequence[int],
    logprobs: Sequence[Mapping[int, Logprob] | None],
    count: int,
    names: TokenNames,
    offset: int = 0,
) -> dict[str, Any]:
    """offset: characters in front."""
    made: dict[str, Any] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for token, by_token in zip(tokens, logprobs):
        own = None if by_token is None else by_token.get(token)
        name = names.name(token, own)
        made["text_offset"].append(offset)
        made["tokens"].append(name)
        offset += len(name)
        if by_token is None:  # the first token of a prompt
            made["token_logprobs"].append(None)
            made["top_logprobs"].append(None)
            continue
        made["token_logprobs"].append(_value(own))
        chosen = [item for item in by_token.items() if (item[1].rank or 0) <= count or item[0] == token]
        made["top_logprobs"].append({names.name(each, logprob): _value(logprob) for each, logprob in chosen})
    return made


def chat_logprobs(
    tokens: Sequence[int], logprobs: Sequence[Mapping[int, Logprob]], count: int, names: TokenNames
) -> dict[str, Any]:
    content = []
    for token, by_token in zip(tokens, logprobs):
        ranked = sorted(by_token.items(), key=lambda item: item[1].rank or 1 << 31)[:count]
        entry = _entry(token, by_token[token], names)
        entry["top_logprobs"] = [_entry(each, logprob, names) for each, logprob in ranked]
        content.append(entry)
    return {"content": content, "refusal": None}


def _entry(token: int, logprob: Logprob, names: TokenNames) -> dict[str, Any]:
    name = names.name(token, logprob)
    return {"token": name, "logprob": _value(logprob), "bytes": names.bytes(token)}


def _byte_characters() -> dict[str, int]:
    """The character that a vocabulary of bytes has for each: itself where it can be seen, else one of those from U+0100 on."""
    made: dict[str, int] = {}
    hidden = 0
    for byte in range(256):
        is_seen = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF
        made[chr(byte if is_seen else 0x100 + hidden)] = byte
        hidden += not is_seen
    return made


def _value(logprob: Logprob | None) -> float:
    return _LEAST if logprob is None else max(logprob.logprob, _LEAST)
