"""How much a JSON text becomes when it is read, by its characters: before there are objects, which are many times larger."""

from __future__ import annotations

import re

#: Those of the server for bodies of OpenAI's interface: a list or object takes 64 bytes and more, a value 8 to 40.
_MOST_CONTAINERS, _MOST_VALUES = 1 << 16, 1 << 21


# A string, whose end may be missing, or what begins or divides lists and objects.
_PART = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{,]', re.DOTALL)


def check_size(text: str | bytes) -> None:
    """Raises ValueError."""
    if isinstance(text, str):
        text = text.encode("utf-8", "replace")
    containers = text.count(b"[") + text.count(b"{")
    if containers <= _MOST_CONTAINERS and containers + text.count(b",") <= _MOST_VALUES:
        return
    containers = values = 0  # without those in strings, which takes longer
    for found in _PART.finditer(text):
        first = text[found.start()]
        containers += first in b"[{"
        values += first != ord('"')
        if containers > _MOST_CONTAINERS or values > _MOST_VALUES:
            break
    if containers > _MOST_CONTAINERS or values > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_CONTAINERS} lists and objects, or {_MOST_VALUES} values")
