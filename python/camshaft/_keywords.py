"""Options as keywords, for help() and for what completes names in a running Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_keywords_of(options: type[Any]) -> Callable[[_Function], _Function]:
    """The function's signature has the keywords of a TypedDict in place of its **options."""

    def decorate(function: _Function) -> _Function:
        *own, rest = inspect.signature(function).parameters.values()
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_words(annotation))
            for name, annotation in options.__annotations__.items()
        ]
        assert rest.kind is inspect.Parameter.VAR_KEYWORD
        signature = inspect.signature(function).replace(parameters=[*own, *keywords])
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


def _words(annotation: Any) -> str:
    """TypedDict keeps words as references."""
    return str(getattr(annotation, "__forward_arg__", annotation))
