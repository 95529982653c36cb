"""Which operators PyTorch takes apart before the graph is converted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from camshaft.torch._registry import table

# Views and copies that the table has for graphs made elsewhere; taken apart they are fewer operators.
_TAKEN_APART = ("aten.t.", "aten.dropout.", "aten.reshape.", "aten.contiguous.")


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of core ATen, without the operators that have a converter of their own."""
    from torch._decomp import core_aten_decompositions

    kept = table()
    return {
        operator: decomposition
        for operator, decomposition in dict(core_aten_decompositions()).items()
        if operator not in kept or str(operator).startswith(_TAKEN_APART)
    }
