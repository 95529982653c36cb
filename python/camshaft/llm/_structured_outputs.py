"""What a text must be like, in vLLM's words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass
class StructuredOutputsParams:
    """Names are those of vLLM's class of this name; one of the first five says what the text is.

    json: a JSON schema, an object or its text. regex: of the whole text. choice: one of these texts. grammar: Lark's or
    GBNF. json_object: any object of JSON. disable_any_whitespace, whitespace_pattern: of JSON between its parts."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: Sequence[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    whitespace_pattern: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("json", "regex", "choice", "grammar") if getattr(self, name) is not None]
        given += ["json_object"] if self.json_object else []
        if len(given) != 1:
            raise ValueError(
                "structured_outputs has one of json, regex, choice, grammar and json_object"
                + (f", not {' and '.join(given)}" if given else "")
            )
        self.kind: str = given[0]  #: of these
        if self.choice is not None and (
            isinstance(self.choice, str) or not self.choice or not all(isinstance(each, str) for each in self.choice)
        ):
            raise ValueError(f"structured_outputs: choice is a list of texts, not {self.choice!r}")
        for name in ("regex", "grammar", "whitespace_pattern"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise ValueError(f"structured_outputs: {name} is a text, not {getattr(self, name)!r}")
