"""Work on the rows of large matrices, on all threads: NumPy computes without Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_AT_A_TIME = 1 << 19  # elements: temporary arrays stay in a core's caches


def for_rows(rows: int, columns: int, work: Callable[[slice], None]) -> None:
    """Calls `work` for parts of the rows."""
    step = max(1, _AT_A_TIME // max(columns, 1))
    parts = [slice(first, first + step) for first in range(0, rows, step)]
    if len(parts) == 1:
        work(parts[0])
        return
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for _ in threads.map(work, parts):
            pass


def widened(array: Array, dtype: str) -> Array:
    """In fp32; `dtype` is the format's name, as BF16 comes as the u16 that have its bits."""
    import numpy

    if dtype != "BF16":
        return array.astype(numpy.float32, copy=False)
    made = numpy.empty(array.shape, numpy.uint32)
    if array.ndim != 2:
        numpy.left_shift(array, numpy.uint32(16), out=made)
    else:

        def widen(part: slice) -> None:
            numpy.left_shift(array[part], numpy.uint32(16), out=made[part])

        for_rows(array.shape[0], array.shape[1], widen)
    return made.view(numpy.float32)
