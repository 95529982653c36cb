"""Jinja2 for chat templates: what they may do, and how much of it. A folder's template is not the program's own code."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

#: Turns of loops and calls of macros. Conversations of 10,000 messages take some 10 of them a message.
MOST_TURNS = 200_000
MOST_SECONDS = 5.0
#: Characters of a text, or items of a list, that operators make.
MOST_LENGTH = 1 << 24
_WIDE_FIELD = re.compile(r"(?:%[-+ #0]*\d*\.?|\{[^{}]*)\d{7}")  # of a format, by a number in it


class TemplateBudgetError(Exception):
    """A template did more than it may."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Transformers' environment, with a budget: its templates are read as they are there."""

    # Of constants these would be computed while the template is read.
    intercepted_binops = frozenset(["*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.filters["tojson"] = _tojson
        for name in ("batch", "center", "format", "indent", "join", "replace", "slice", "wordwrap"):
            self.filters[name] = _checked(name, self.filters[name])
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self._spent = threading.local()

    @contextlib.contextmanager
    def budget(self) -> Iterator[None]:
        """What is rendered in it has one budget."""
        self._spent.turns, self._spent.end = 0, time.monotonic() + MOST_SECONDS
        yield

    def take_turn(self) -> str:
        self._spent.turns += 1
        if self._spent.turns > MOST_TURNS:
            raise TemplateBudgetError(f"it has taken {MOST_TURNS} turns of loops and macros")
        if self._spent.turns % 64 == 0 and time.monotonic() > self._spent.end:
            raise TemplateBudgetError(f"it has taken {MOST_SECONDS:.0f} s")
        return ""

    def limited(self, value: Any) -> Any:
        if isinstance(value, (str, list, tuple)) and len(value) > MOST_LENGTH:
            raise TemplateBudgetError(f"it has made a text or a list of more than {MOST_LENGTH} items")
        return value

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            for repeated, times in ((left, right), (right, left)):
                if isinstance(repeated, (str, list, tuple)) and isinstance(times, int):
                    if len(repeated) * times > MOST_LENGTH:
                        raise TemplateBudgetError(f"it has made a text or a list of more than {MOST_LENGTH} items")
            if isinstance(left, int) and isinstance(right, int):
                _check_bits(left.bit_length() + right.bit_length())
        elif operator == "%":
            _check_growth("format", left, list(right) if isinstance(right, tuple) else [right])
        elif isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() * max(right, 0))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = getattr(function, "__wrapped__", function)  # the sandbox has wrapped `format`
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            _check_growth(method.__name__, owner, [*args, *kwargs.values()])
        return super().call(context, function, *args, **kwargs)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Metered().visit(super()._parse(source, name, filename))


def _check_growth(name: str, text: Any, arguments: list[Any]) -> None:
    """Before a method of a text, or a filter, makes something large of something small."""
    too_large = any(isinstance(each, int) and abs(each) > MOST_LENGTH for each in arguments)
    if name in ("format", "format_map"):
        too_large = too_large or (isinstance(text, str) and _WIDE_FIELD.search(text) is not None)
    elif name == "replace" and isinstance(text, str) and len(arguments) >= 2:
        old, new = str(arguments[0]), str(arguments[1])
        too_large = too_large or text.count(old) * len(new) > MOST_LENGTH
    elif name == "join" and arguments:  # a text of a list, or a list by a text
        items, separator = (arguments[0], text) if isinstance(text, str) else (text, str(arguments[0]))
        if hasattr(items, "__len__"):
            too_large = too_large or len(items) * len(separator) > MOST_LENGTH
        else:
            too_large = too_large or len(separator) > 1024
    if too_large:
        raise TemplateBudgetError(f"{name} would make a text or a list of more than {MOST_LENGTH} items")


def _checked(name: str, filter: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(filter)  # with what it says of the arguments that Jinja2 passes
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = [each for each in args if not isinstance(each, (nodes.EvalContext, jinja2.Environment))]
        _check_growth(name, given[0] if given else None, [*given[1:], *kwargs.values()])
        return filter(*args, **kwargs)

    return checked


def _check_bits(bits: int) -> None:
    if bits > 1 << 16:
        raise TemplateBudgetError("it computes with a number of more than 65536 bits")


class _Metered(NodeTransformer):
    """Loops and macros take turns; what grows by an operator is looked at. By attributes of the environment, whose names no
    template can take."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        return self._turning(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._turning(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._turning(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        return self._limited(node)

    def visit_Add(self, node: nodes.Add) -> nodes.Node:
        return self._limited(node)

    def _turning(self, node: Any) -> Any:
        self.generic_visit(node)
        call = nodes.Call(nodes.EnvironmentAttribute("take_turn"), [], [], None, None)
        node.body.insert(0, nodes.ExprStmt(call).set_lineno(node.lineno))
        return node

    def _limited(self, node: Any) -> Any:
        self.generic_visit(node)
        return nodes.Call(nodes.EnvironmentAttribute("limited"), [node], [], None, None).set_lineno(node.lineno)


class _Generation(Extension):
    """{% generation %} marks what the model has said, for those who train it: here a block like any other."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.datetime.now().strftime(format)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Jinja2's own writes characters of HTML as escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
