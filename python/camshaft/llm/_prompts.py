"""What a prompt may be given as."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Union

from camshaft._errors import InvalidArgumentError

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


def tokens_of(prompt: Any) -> list[int]:
    try:
        return [operator.index(token) for token in prompt]
    except TypeError:
        raise InvalidArgumentError(f"a prompt is a text or a list of tokens' numbers, not {prompt!r}") from None
