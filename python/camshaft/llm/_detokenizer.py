"""Text of tokens while they come, and the stop strings in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: A character that is not complete yet: tokens of bytes come one by one.
_INCOMPLETE = "\ufffd"
#: Of the prompt, so that the first token is decoded as what stands behind others.
_CONTEXT = 6


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
        self._stop, self._include_stop = list(stop), include_stop
        self._looked = 0  # characters in which no stop string begins
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
        self._all += added
        if not look_for_stop:
            self._looked = len(self._all)
        found = min(
            ((place, -len(stop), stop) for stop in self._stop if (place := self._all.find(stop, self._looked)) >= 0),
            default=None,
        )
        if found is not None:
            place, _, stop = found
            self._all = self._all[: place + len(stop) if self._include_stop else place]
            self.text = self._all
            self._tokens, self._context, self._read = [], 0, 0
            return stop
        waiting = max(
            (n for stop in self._stop for n in range(1, len(stop)) if self._all.endswith(stop[:n], self._looked)),
            default=0,
        )
        self._looked = max(self._looked, len(self._all) - max((len(stop) - 1 for stop in self._stop), default=0))
        self.text = self._all[: len(self._all) - waiting]
        return None
