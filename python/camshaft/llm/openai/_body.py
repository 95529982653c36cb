"""The fields of a call's body: each is checked when it is taken, and what is left over is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from camshaft.llm._json_size import check_size
from camshaft.llm.openai._errors import RequestError

LONGEST_BODY = 16 << 20  # bytes, as the server has it for OpenAI's routes; others have more


def read_body(data: bytes) -> Body:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        if len(data) > LONGEST_BODY:
            raise ValueError(f"it has {len(data)} bytes; {LONGEST_BODY} are the most")
        check_size(data)
        values = json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise RequestError("the body is no object of JSON")
    return Body(values)


class Body:
    """where: in front of the names of fields in errors, of an object within another."""

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self._where = where

    def has(self, name: str) -> bool:
        return name in self._values

    def raw(self, name: str, default: Any = None) -> Any:
        return self._values.pop(name, default)

    def integer(self, name: str, default: Any = None, low: int = 0, high: int = 1 << 62) -> Any:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(name, f"a whole number from {low} to {high}", value)
        return value

    def number(self, name: str, default: Any = None, low: float = 0.0, high: float = 1e6) -> Any:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            self.wrong(name, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw(name, default)
        if not isinstance(value, bool):
            self.wrong(name, "true or false", value)
        return value

    def text(self, name: str, default: Any = None, options: Sequence[str] = ()) -> Any:
        value = self.raw(name, default)
        if value is not None and (not isinstance(value, str) or (options and value not in options)):
            self.wrong(name, f"one of {', '.join(options)}" if options else "a text", value)
        return value

    def objects(self, name: str) -> list[Any]:
        """A list of objects; empty where it is not there."""
        value = self.raw(name, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.wrong(name, "a list of objects", value)
        return value

    def within(self, name: str) -> Body | None:
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(name, "an object", value)
        return Body(value, f"{self._where}{name}.")

    def finish(self) -> None:
        """All fields that are known were taken."""
        for name in self._values:
            raise RequestError(
                f"Unrecognized request argument supplied: {self._where}{_short(name)}", self._named(name)
            )

    def wrong(self, name: str, wanted: str, value: Any) -> NoReturn:
        raise RequestError(f"'{self._where}{name}' is {_shown(value)}; {wanted} is needed", self._named(name))

    def _named(self, name: str) -> str:
        return self._where + _short(name)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "a file"
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"
