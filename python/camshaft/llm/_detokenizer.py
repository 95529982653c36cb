"""Text of tokens while they come, and the stop strings in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

#: A character that is not complete yet: tokens of bytes come one by one.
_INCOMPLETE = "\ufffd"
#: Of the prompt, so that the first token is decoded as what stands behind others.
_CONTEXT = 6


@functools.lru_cache(64)
def _borders(stop: str) -> tuple[int, ...]:
    """Of each beginning of a stop string how much of its end is a beginning too, as Knuth, Morris and Pratt have it."""
    borders, border = [0], 0
    for place in range(1, len(stop)):
        while border and stop[place] != stop[border]:
            border = borders[border - 1]
        border += stop[place] == stop[border]
        borders.append(border)
    return tuple(borders)


class _Stop:
    """A stop string in a text that grows: each character is looked at once, however long the stop string is."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.begun = 0  # characters of it that the text ends with

    def find(self, added: str) -> int | None:
        """Characters of what is added until it is complete."""
        if not self.begun and self.text[0] not in added:
            return None
        borders, begun = _borders(self.text), self.begun
        for place, character in enumerate(added):
            while begun and character != self.text[begun]:
                begun = borders[begun - 1]
            begun += character == self.text[begun]
            if begun == len(self.text):
                return place + 1
        self.begun = begun
        return None


class Detokenizer:
    """What was given out is never taken back: characters wait until they are complete, and what may become a stop string
    waits until it is one or not.

    Tokens are decoded with some that stand before them, twice: without the new ones and with them. The difference is what
    they add, as words depend on what is in front of them."""

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        prompt: Sequence[int],
        stop: Sequence[str] = (),
        include_stop: bool = False,
    ) -> None:
        self._decode = decode
        self._tokens = list(prompt[-_CONTEXT:])
        self._context, self._read = 0, len(self._tokens)
        self._stops, self._include_stop = [_Stop(text) for text in stop], include_stop
        self._all = ""
        #: What may be shown.
        self.text = ""

    def add(self, token: int, look_for_stop: bool = True) -> str | None:
        """Takes a token; the stop string that is complete now, which ends the text."""
        self._tokens.append(token)
        before = self._decode(self._tokens[self._context : self._read])
        with_it = self._decode(self._tokens[self._context :])
        if len(with_it) <= len(before) or with_it.endswith(_INCOMPLETE):
            return None
        self._context, self._read = self._read, len(self._tokens)
        return self._append(with_it[len(before) :], look_for_stop)

    def finish(self) -> None:
        """No more tokens come: characters that are not complete stay so."""
        before = self._decode(self._tokens[self._context : self._read])
        self._all += self._decode(self._tokens[self._context :])[len(before) :]
        self._read = self._context = len(self._tokens)
        self.text = self._all

    def _append(self, added: str, look_for_stop: bool) -> str | None:
        before = len(self._all)
        self._all += added
        if not look_for_stop:
            for stop in self._stops:
                stop.begun = 0
        found = min(
            (
                (before + end - len(stop.text), -len(stop.text), stop.text)
                for stop in self._stops
                if look_for_stop and (end := stop.find(added)) is not None
            ),
            default=None,
        )
        if found is not None:
            place, _, text = found
            self._all = self._all[: place + len(text) if self._include_stop else place]
            self.text = self._all
            self._tokens, self._context, self._read = [], 0, 0
            return text
        waiting = max((stop.begun for stop in self._stops), default=0)
        self.text = self._all[: len(self._all) - waiting]
        return None
