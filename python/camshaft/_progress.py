"""How far a long call is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from camshaft._types import Progress


@contextlib.contextmanager
def shown(progress: Progress | None) -> Iterator[Callable[[str, float], object] | None]:
    """What the library is to call with the stage and how far it is: None for nothing."""
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        yield progress
    else:
        bar = _Bar()
        try:
            yield bar
        finally:
            bar.clear()


class _Bar:
    """One line on stderr, written again; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._width = 0

    def __call__(self, stage: str, fraction: float) -> None:
        if not self._is_terminal:
            return
        done = int(20 * fraction)
        line = f"{stage:<12} [{'#' * done}{'.' * (20 - done)}] {100 * fraction:3.0f}%"
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = max(self._width, len(line))

    def clear(self) -> None:
        if self._is_terminal and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
