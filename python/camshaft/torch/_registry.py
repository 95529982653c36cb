"""The table of converters: which function adds the nodes of which operator of PyTorch's to a network."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import torch

Converter = Callable[..., Any]
"""(conversion, *arguments of the operator's schema, in its order) -> Value, or a tuple of them: one for each result."""

_TABLE: dict[Any, Converter] = {}
_OURS = "camshaft.torch._converters."
_ADDED: list[tuple[Any, ...]] = []  # by others, as the cache's key has them


class UnsupportedNode(Exception):
    """The node is left to PyTorch; the message says why."""


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Registers a converter for operators by their names, "add.Tensor" of aten or "prims::sum" of another library, in
    place of the one that there may be. A name that this version of PyTorch does not have is passed over."""

    def register(function: Converter) -> Converter:
        if not function.__module__.startswith(_OURS):
            table()  # so that ours do not come later
            _ADDED.append((*names, function.__qualname__, function.__code__.co_code.hex(), function.__code__.co_consts))
        for name in names:
            library, _, own = name.rpartition("::")
            packet, _, overload = own.partition(".")
            operators = getattr(torch.ops, library or "aten")
            found = getattr(getattr(operators, packet, None), overload or "default", None)
            if found is not None:
                _TABLE[found] = function
        return function

    return register


@functools.cache
def table() -> dict[Any, Converter]:
    """All converters by operator; they are imported when this is called first."""
    from camshaft.torch import _converters

    for module in pkgutil.iter_modules(_converters.__path__):
        importlib.import_module(f"{_converters.__name__}.{module.name}")
    return _TABLE


def bound_arguments(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments in the schema's order, its defaults where none is given."""
    parameters = target._schema.arguments
    given = list(args)
    for parameter in parameters[len(args) :]:
        given.append(kwargs.get(parameter.name, parameter.default_value if parameter.has_default_value() else None))
    return given


def added() -> str:
    """What others registered, as text."""
    return repr(_ADDED)


@functools.cache
def arity(function: Converter) -> int | None:
    """How many of the schema's arguments a converter reads; None: all."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return None
    return len(parameters) - 1
