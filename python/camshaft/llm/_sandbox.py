"""Jinja2 for chat templates: what they may do, and how much of it. A folder's template is not the program's own code.

Whatever costs more than a moment passes one of the environment's methods. Values have bounded sizes, so that each such step
is short, and the clock is looked at before it. A template has the filters, tests and methods below, no others."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import re
import string
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.runtime import BlockReference, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Namespace, pass_context
from jinja2.visitor import NodeTransformer

#: Turns of loops and calls of macros. Conversations of 10,000 messages take some 10 of them a message.
MOST_TURNS = 200_000
MOST_SECONDS = 5.0
#: Characters of a text, and of all texts in a list or dict.
MOST_LENGTH = 1 << 24
#: Items of a list or dict, with those of the lists and dicts in it where they are all looked at.
MOST_ITEMS = 1 << 20
#: Of all texts and lists that are made, also of those that are left again.
MOST_BYTES = 1 << 30
_BYTES_OF_ITEM = 128  # where the item is new, too
_MOST_BITS = 1024  # of an integer
_NUMBER_TEXT = 1024  # characters of a number as any format writes it, without its width

# That look at items one by one, when these are wanted.
_LAZY_FILTERS = frozenset("list map reject rejectattr select selectattr".split())
_INSTANT_FILTERS = frozenset("count d default first items last length".split())
_OTHER_FILTERS = frozenset(
    "abs capitalize dictsort e escape float format groupby indent int join lower max min replace reverse round safe sort"
    " string sum title tojson trim unique upper".split()
)
_INSTANT_TESTS = frozenset(
    "boolean callable defined escaped false filter float integer iterable mapping none number sameas sequence string test"
    " true undefined".split()
)
_NUMBER_TESTS = frozenset(["divisibleby", "even", "odd"])
_OTHER_TESTS = frozenset("!= < <= == > >= eq equalto ge greaterthan gt in le lessthan lower lt ne upper".split())
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "capitalize count endswith find format index isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace"
        " istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit"
        " rstrip split splitlines startswith strip swapcase title upper".split()
    ),
    list: frozenset(["copy", "count", "index"]),
    tuple: frozenset(["count", "index"]),
    dict: frozenset(["copy", "get", "items", "keys", "values"]),
}
_CONTAINERS: Any = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
_PERCENT = re.compile(r"%(\([^()%]*\))?[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?")


class TemplateBudgetError(Exception):
    """A template did more than it may."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Transformers' environment, with a budget: its templates are read as they are there."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

    def __init__(self) -> None:
        # Nothing is computed while a template is read: there is no budget then.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            extensions=[_Generation, loopcontrols],
            finalize=pass_context(lambda context, value: self.text(value)),
        )
        own = {"join": self._join, "sum": self._sum, "tojson": self._tojson}
        known = {**self.filters, **own}
        self.filters = {name: self._filter(name, known[name]) for name in _LAZY_FILTERS | _OTHER_FILTERS}
        self.filters.update((name, known[name]) for name in _INSTANT_FILTERS)
        tests: dict[str, Any] = self.tests
        self.tests = {
            **{name: tests[name] for name in _INSTANT_TESTS},
            **{name: self._test(name, tests[name]) for name in _NUMBER_TESTS | _OTHER_TESTS},
        }
        del self.globals["lipsum"]
        self.globals["range"] = self._range
        self.globals["raise_exception"] = self._raise_exception
        self.globals["strftime_now"] = _strftime_now
        self._spent = threading.local()

    @contextlib.contextmanager
    def budget(self) -> Iterator[None]:
        """What is rendered in it has one budget."""
        self._spent.turns, self._spent.bytes, self._spent.end = 0, 0, time.monotonic() + MOST_SECONDS
        yield

    # Of templates, by their names of this environment, which no template can take.

    def tick(self) -> bool:
        if time.monotonic() > self._spent.end:
            raise TemplateBudgetError(f"it has taken {MOST_SECONDS:.0f} s")
        return True

    def take_turn(self) -> str:
        self._spent.turns += 1
        if self._spent.turns > MOST_TURNS:
            raise TemplateBudgetError(f"it has taken {MOST_TURNS} turns of loops and macros")
        self.tick()
        return ""

    def made(self, value: Any, bytes_of_item: int = _BYTES_OF_ITEM) -> Any:
        """A new value, which is small enough and is charged."""
        if isinstance(value, str):
            _check_length(len(value))
            self._spent.bytes += value.__sizeof__()
        elif isinstance(value, (list, tuple, dict)):
            _check_items(len(value))
            self._spent.bytes += len(value) * bytes_of_item
        elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise TemplateBudgetError(f"it computes with a number of more than {_MOST_BITS} bits")
        if self._spent.bytes > MOST_BYTES:
            raise TemplateBudgetError(f"it has made texts and lists of more than {MOST_BYTES} bytes")
        self.tick()
        return value

    def copied(self, value: Any) -> Any:
        """A new value of items that were there."""
        return self.made(value, 8)

    def looked_at(self, value: Any) -> Any:
        """A value that is compared, hashed or written with all that is in it."""
        if isinstance(value, str):
            if len(value) > 4096:
                self.tick()
        elif value is not None and not isinstance(value, (int, float)):
            self.tick()
            _deep_length(value)
        return value

    def text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        made: str = self.made(str(self.looked_at(value)))
        return made

    def joined(self, *values: Any) -> str:
        return self.concat(map(self.text, values))

    def concat(self, pieces: Iterable[str]) -> str:
        """Of outputs: of the whole template, a macro, a block."""
        length, kept = 0, []
        for piece in pieces:
            if piece:
                length += len(piece)
                _check_length(length)
                kept.append(piece)
        made: str = self.made("".join(kept))
        return made

    # Of Jinja2, for what templates do.

    def getitem(self, obj: Any, argument: Any) -> Any:
        self.tick()  # a filter's attribute may have millions of parts
        if not isinstance(argument, (str, int)):
            self.looked_at(argument)
        return super().getitem(obj, argument)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            for repeated, times in ((left, right), (right, left)):
                if isinstance(repeated, (str, list, tuple)) and isinstance(times, int):
                    check = _check_length if isinstance(repeated, str) else _check_items
                    check(len(repeated) * times)
        elif operator == "+":
            if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
                _check_items(len(left) + len(right))
        elif operator == "%":
            if isinstance(left, str):
                self.looked_at(right)
                _check_length(_length_of_percent(left, right))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            if left.bit_length() * max(right, 0) > 2 * _MOST_BITS:
                raise TemplateBudgetError(f"it computes with a number of more than {_MOST_BITS} bits")
        return self.copied(super().call_binop(context, operator, left, right))

    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = getattr(function, "__wrapped__", function)  # the sandbox has wrapped `format`
        owner = getattr(method, "__self__", None)
        kind = None if owner is self else next((kind for kind in _METHODS if isinstance(owner, kind)), None)
        if kind is not None or owner is self:  # else super().call leaves them out
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
        if owner is self:
            return function(*args, **kwargs)
        if kind is None:
            if isinstance(function, BlockReference) or type(owner).__module__ == "builtins" and owner is not None:
                raise TemplateBudgetError(f"it calls {getattr(method, '__qualname__', 'a block')}")
            if isinstance(owner, (LoopContext, Cycler)) or function in (dict, Namespace):
                self.looked_at(args)
            return super().call(context, function, *args, **kwargs)
        name = method.__name__
        if name not in _METHODS[kind]:
            raise TemplateBudgetError(f"it calls {kind.__name__}.{name}, which chat templates have no use for")
        self.tick()
        if isinstance(owner, str) and name == "join" and len(args) == 1:
            args = (self._texts(args[0], owner),)
        self.looked_at((owner, args) if kind in (list, tuple) else args[:1] if kind is dict else (args, kwargs))
        if kind is str and name in _METHOD_LENGTHS:
            _check_length(_METHOD_LENGTHS[name](owner, *args, **kwargs))
        return self.made(super().call(context, function, *args, **kwargs))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Metered().visit(super()._parse(source, name, filename))

    # Filters, tests and functions.

    def _filter(self, name: str, filter: Callable[..., Any]) -> Callable[..., Any]:
        first = 1 if hasattr(filter, "jinja_pass_arg") else 0  # of the template's own arguments

        @functools.wraps(filter)  # with what it says of the arguments that Jinja2 passes
        def checked(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            given = list(args[first:])
            if name in _LAZY_FILTERS:
                given[0] = given[0] and self._items(given[0])  # None has no items for some of them
            else:
                if isinstance(given[0], Iterator):
                    given[0] = list(self._items(given[0]))
                self.looked_at((given, kwargs))
                if name in _FILTER_LENGTHS:
                    _check_length(_FILTER_LENGTHS[name](*given, **kwargs))
            return self.made(filter(*args[:first], *given, **kwargs))

        return checked

    def _test(self, name: str, test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def checked(*args: Any) -> Any:
            self.looked_at(args)
            if name in _NUMBER_TESTS and not all(isinstance(each, (int, float)) for each in args):
                raise jinja2.TemplateError(f"{name} is of numbers")
            return test(*args)

        return checked

    def _items(self, value: Any) -> Iterator[Any]:
        for index, item in enumerate(value):
            _check_items(index + 1)
            self.tick()
            yield item

    def _texts(self, items: Iterable[Any], separator: str) -> list[str]:
        texts, length = [], 0
        for item in self._items(items):
            texts.append(self.text(item))
            length += len(texts[-1]) + len(separator)
            _check_length(length - len(separator))
        return texts

    def _join(self, value: Any, d: Any = "", attribute: Any = None) -> str:
        if attribute is not None:
            value = map(make_attrgetter(self, attribute), value)
        separator = self.text(d)
        return str(separator).join(self._texts(value, separator))

    def _sum(self, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
        if attribute is not None:
            iterable = map(make_attrgetter(self, attribute), iterable)
        for item in self._items(iterable):
            start = self.call_binop(None, "+", start, item)
        return start

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        """Jinja2's own writes characters of HTML as escapes."""
        wide = (len(indent) if isinstance(indent, str) else indent or 0), *(len(text) for text in separators or ())
        if max(wide) > 64:
            raise TemplateBudgetError("it writes with tojson more than 64 characters between values")
        encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        return encoder.encode(value) if indent is None else self.concat(encoder.iterencode(value))

    def _range(self, *args: int) -> range:
        made = range(*args)
        if len(made) > 100_000:
            raise TemplateBudgetError("it has made a range of more than 100000 numbers")
        return made

    def _raise_exception(self, message: Any) -> None:
        raise jinja2.TemplateError(self.text(message))


def _check_length(length: int) -> None:
    if length > MOST_LENGTH:
        raise TemplateBudgetError(f"it makes a text of more than {MOST_LENGTH} characters")


def _check_items(items: int) -> None:
    if items > MOST_ITEMS:
        raise TemplateBudgetError(f"it makes, or looks at, a list of more than {MOST_ITEMS} items")


def _deep_length(value: Any) -> int:
    """Characters of all texts in it; small lists may hold the same large one many times, which is counted as often."""
    length, items, left = 0, 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            length += len(each)
            _check_length(length)
            continue
        if isinstance(each, Namespace):
            each = each._Namespace__attrs
        if isinstance(each, _CONTAINERS):
            items += len(each)
            _check_items(items)
            left.extend(each)
            if isinstance(each, dict):
                left.extend(each.values())
    return length


def _length_of_percent(text: str, right: Any) -> int:
    given = right if isinstance(right, tuple) else (right,)
    largest = max((_deep_length(each) for each in given), default=0) + _NUMBER_TEXT
    length = len(text)
    for field in _PERCENT.finditer(text):
        name, *widths = field.groups()
        if "*" in widths or (name is None and text.startswith("(", field.start() + 1)):
            raise TemplateBudgetError("it formats with a width that is an argument, or a name with brackets")
        length += largest + sum(_width(width) for width in widths if width)
        _check_length(length)
    return length


def _length_of_format(text: Any, *args: Any, **kwargs: Any) -> int:
    largest = max((_deep_length(each) for each in (*args, *kwargs.values())), default=0) + _NUMBER_TEXT
    length = len(text)
    for _, name, specification, _ in string.Formatter().parse(text):
        if name is None:
            continue
        if "{" in (specification or ""):
            raise TemplateBudgetError("it formats with a width that is an argument")
        length += largest + sum(_width(width) for width in re.findall(r"\d+", specification or ""))
        _check_length(length)
    return length


def _width(digits: str) -> int:
    return int(digits) if len(digits) < 9 else MOST_LENGTH + 1


def _length_of_replaced(text: Any, old: Any, new: Any, count: Any = None) -> int:
    text = str(text)
    return len(text) + text.count(str(old)) * len(str(new))


def _length_of_indented(text: Any, width: Any = 4, first: bool = False, blank: bool = False) -> int:
    text = str(text)
    return len(text) + (len(text.splitlines()) + 2) * (len(width) if isinstance(width, str) else int(width))


def _length_of_int(value: Any, default: Any = 0, base: Any = 10) -> int:
    if isinstance(value, str) and len(value) > 300:
        raise TemplateBudgetError("it reads a number of more than 300 digits")
    return 0


def _length_of_round(value: Any, precision: Any = 0, method: Any = "common") -> int:
    if not isinstance(value, (int, float)) or abs(precision) > 100:
        raise TemplateBudgetError("it rounds what is no number, or to more than 100 digits")
    return 0


#: Of texts that may be much longer than what they are made of: a bound before they are made.
_METHOD_LENGTHS: dict[str, Callable[..., int]] = {"format": _length_of_format, "replace": _length_of_replaced}
_FILTER_LENGTHS: dict[str, Callable[..., int]] = {
    "format": lambda text, *args, **kwargs: _length_of_percent(str(text), kwargs or args),
    "indent": _length_of_indented,
    "int": _length_of_int,
    "replace": _length_of_replaced,
    "round": _length_of_round,
}


class _Metered(NodeTransformer):
    """Loops and macros take turns; what may cost much passes the environment."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self._turning(node)
        if node.test is not None:  # of items that come to no turn
            node.test = nodes.And(_by("tick", node), node.test).set_lineno(node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._turning(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._turning(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _by("joined", node, *node.nodes)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _looked_at(node.expr)
        for operand in node.ops:
            operand.expr = _looked_at(operand.expr)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        self.generic_visit(node)
        node.key = _looked_at(node.key)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _by("copied", node, node) if isinstance(node.arg, nodes.Slice) else node

    def visit_List(self, node: nodes.List) -> nodes.Node:
        return self._made_of_items(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        return node if node.ctx != "load" else self._made_of_items(node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        return self._made_of_items(node)

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier) -> nodes.Node:
        raise jinja2.TemplateSyntaxError("autoescape is not for chat templates", node.lineno)

    def _turning(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_by("take_turn", node)).set_lineno(node.lineno))
        return node

    def _made_of_items(self, node: Any) -> Any:
        self.generic_visit(node)
        return _by("made", node, node) if len(node.items) > 8 else node


def _by(name: str, place: nodes.Node, *arguments: nodes.Expr) -> nodes.Expr:
    call = nodes.Call(nodes.EnvironmentAttribute(name), list(arguments), [], None, None)
    return call.set_lineno(place.lineno)  # type: ignore[return-value]


def _looked_at(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _by("looked_at", node, node)


class _Generation(Extension):
    """{% generation %} marks what the model has said, for those who train it: here a block like any other."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _strftime_now(format: str) -> str:
    if len(format) > 1000:
        raise TemplateBudgetError("strftime_now is of a format of at most 1000 characters")
    return datetime.datetime.now().strftime(format)
