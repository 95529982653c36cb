"""Fields of JSON files that strangers wrote: each is checked when it is asked for."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from camshaft._errors import FileError, InvalidModelError

LARGEST_FILE = 64 << 20  # bytes: tokenizers of 256,000 words take 35 MB, configurations a few kB
LONGEST_NAME = 512  # of a tensor
_MISSING: Any = object()


class Fields:
    """The fields of an object. `where` says in errors whose they are."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise InvalidModelError(f"{where}: an object of fields is needed, not {_short(values)}")
        self.values: dict[str, Any] = values
        self.where = where

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def raw(self, *names: str, default: Any = _MISSING) -> Any:
        """The first field of these names that is there and not null."""
        for name in names:
            if self.has(name):
                return self.values[name]
        if default is _MISSING:
            raise InvalidModelError(f"{self.where}: field '{names[0]}' is missing")
        return default

    def integer(self, *names: str, default: Any = _MISSING, low: int = 1, high: int = 1 << 20) -> int:
        value = self.raw(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(names, f"a whole number from {low} to {high}", value)
        return value

    def number(self, *names: str, default: Any = _MISSING, low: float = 0.0, high: float = 1e12) -> float:
        value = self.raw(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            self.wrong(names, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def flag(self, *names: str, default: Any = _MISSING) -> bool:
        value = self.raw(*names, default=default)
        if not isinstance(value, bool):
            self.wrong(names, "true or false", value)
        return value

    def text(self, *names: str, default: Any = _MISSING) -> str:
        value = self.raw(*names, default=default)
        if not isinstance(value, str):
            self.wrong(names, "a text", value)
        return value

    def numbers(self, name: str, count: int) -> list[float]:
        """A list of so many finite numbers."""
        values = self.raw(name)
        if not isinstance(values, list) or len(values) != count:
            self.wrong((name,), f"a list of {count} numbers", values)
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values):
            self.wrong((name,), f"a list of {count} numbers", values)
        return [float(v) for v in values]

    def within(self, name: str) -> Fields:
        """The fields of an object in this one."""
        return Fields(self.raw(name), f"{self.where}, '{name}'")

    def wrong(self, names: Sequence[str], wanted: str, value: Any) -> NoReturn:
        name = next((name for name in names if self.has(name)), names[0])
        raise InvalidModelError(f"{self.where}: field '{name}' is {_short(value)}; {wanted} is needed")


def read_json(path: Path) -> Any:
    """What a file of JSON has."""
    try:
        size = os.stat(path).st_size
        if size > LARGEST_FILE:
            raise InvalidModelError(f"{path}: {size} bytes, more than the {LARGEST_FILE} that such a file may have")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidModelError(f"{path}: no JSON ({error})") from None


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
