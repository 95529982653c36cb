"""How much a JSON text becomes when it is read, by its characters: before there are objects, which are many times larger."""

from __future__ import annotations

#: Those of the server for bodies of OpenAI's interface: a list or object takes 64 bytes and more, a value 8 to 40.
_MOST_CONTAINERS, _MOST_VALUES = 1 << 16, 1 << 21


def check_size(text: str | bytes) -> None:
    """Raises ValueError. Brackets and commas within strings count too, where there are more than that: strings are then
    left out, which takes longer."""
    if isinstance(text, str):
        text = text.encode("utf-8", "replace")
    if _fits(text):
        return
    # What is between quotes is every second part once what is escaped is gone.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if not _fits(b"".join(plain.split(b'"')[::2])):
        raise ValueError(f"it has more than {_MOST_CONTAINERS} lists and objects, or {_MOST_VALUES} values")


def _fits(text: bytes) -> bool:
    containers = text.count(b"[") + text.count(b"{")
    return containers <= _MOST_CONTAINERS and containers + text.count(b",") <= _MOST_VALUES
