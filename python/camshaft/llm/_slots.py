"""Places for what an encoder has read, a window of sound or a prompt, which go to callers in turn."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable


class Slots:
    """Numbers from 0. A caller that needs many waits behind those that came meanwhile: long sounds do not hold up short ones.
    Signals leave `with` of a lock whole."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))
        self._waiting: collections.deque[Callable[[int], None]] = collections.deque()
        self._lock = threading.Lock()

    def take(self, given: Callable[[int], None]) -> None:
        """Calls `given` with a number, now or, on the thread of who puts one back, later."""
        with self._lock:
            if self._free and not self._waiting:
                given(self._free.pop())
            else:
                self._waiting.append(given)

    def take_free(self) -> int | None:
        """One more; None where none is free, or others wait for it."""
        with self._lock:
            return self._free.pop() if self._free and not self._waiting else None

    def put(self, number: int) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft()(number)
            else:
                self._free.append(number)

    def leave(self, given: Callable[[int], None]) -> None:
        """It is not called any more."""
        with self._lock:
            if given in self._waiting:
                self._waiting.remove(given)
