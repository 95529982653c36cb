"""What a prompt may be given as."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Union

from camshaft._errors import InvalidArgumentError

_LARGEST = 1 << 31  # of 32 bits; whether the model has a token it says itself

#: A text, the numbers of its tokens, or a dict of both: `prompt_token_ids`, and `prompt`, for what is given back.
Prompt = Union[str, Sequence[int], Mapping[str, Any]]


def listed_prompts(prompts: Any) -> list[Any]:
    """A text and a list of numbers are one prompt each."""
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    if not hasattr(prompts, "__iter__"):
        raise InvalidArgumentError(f"prompts are texts or lists of tokens' numbers, not {prompts!r}")
    listed = list(prompts)
    return [listed] if listed and not isinstance(listed[0], (str, Sequence)) and _is_number(listed[0]) else listed


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__")


def parts_of(prompt: Mapping[str, Any]) -> tuple[Any, Any]:
    """The text that is given back, and what is read: the tokens where they are there."""
    if unknown := set(prompt) - {"prompt", "prompt_token_ids"}:
        raise InvalidArgumentError(f"a prompt has no {sorted(unknown)[0]!r}: it has prompt and prompt_token_ids")
    text, tokens = prompt.get("prompt"), prompt.get("prompt_token_ids")
    if tokens is None and text is None:
        raise InvalidArgumentError("a prompt is empty: it has prompt or prompt_token_ids")
    return text, text if tokens is None else tokens


def text_tokens(tokenizer: Any, text: str, most: int | None, add_special_tokens: bool = True) -> list[int]:
    """Of a text; `most`: of its beginning so many, with the special tokens, which stay."""
    if most is None:
        return list(tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)
    special = tokenizer.num_special_tokens_to_add(False) if add_special_tokens else 0
    if most < special:
        raise InvalidArgumentError(f"truncate_prompt_tokens is {most}: the special tokens of a text are {special}")
    encoding = tokenizer.encode(text, add_special_tokens=False)
    encoding.truncate(most - special)
    return list(tokenizer.post_process(encoding, None, add_special_tokens).ids)


def tokens_of(prompt: Any) -> list[int]:
    try:
        tokens = [operator.index(token) for token in prompt]
    except TypeError:
        raise InvalidArgumentError(f"a prompt is a text or a list of tokens' numbers, not {prompt!r}") from None
    if wrong := next((token for token in tokens if not -_LARGEST <= token < _LARGEST), None):
        raise InvalidArgumentError(f"a prompt has the token {wrong}, which no vocabulary has")
    return tokens
