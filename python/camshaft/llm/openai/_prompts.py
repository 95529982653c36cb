"""Prompts as completions and embeddings take them: texts, or tokens' numbers."""

from __future__ import annotations

from typing import Any

from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._sampling import is_token
from camshaft.llm.openai._served import Served


def listed_prompts(given: Any, param: str) -> list[Any]:
    """A text and a list of tokens are one prompt, lists of these are several."""
    if given is None:
        raise RequestError(f"you must provide a '{param}'", param)
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not given:
        raise _none(param)
    return given if isinstance(given[0], (str, list)) else [given]


def prompt_of(
    served: Served, prompt: Any, add_special_tokens: bool, param: str, most: int | None = None
) -> dict[str, Any]:
    """most: tokens that it is cut to."""
    if isinstance(prompt, str):
        return served.tokens_of(prompt, add_special_tokens, param, most)
    if isinstance(prompt, list) and most is not None:
        prompt = prompt[-most:]
    if isinstance(prompt, list) and len(prompt) > served.longest:
        raise served.too_long(f"you requested {len(prompt)} tokens in the {param}", param)
    if not isinstance(prompt, list) or not all(is_token(each) for each in prompt):
        raise _none(param)
    return {"prompt": None, "prompt_token_ids": prompt}


def _none(param: str) -> RequestError:
    return RequestError(f"'{param}' is a text, a list of tokens' numbers, or a list of these", param)
