"""Sizes that are known only at run time, as values of a network and as functions of the inputs' shapes."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch

from camshaft.torch._registry import UnsupportedNode

if TYPE_CHECKING:
    from camshaft import Network, Value


def expression_of(size: Any) -> int | sympy.Expr:
    """The number that a size is, or the expression of symbols."""
    if isinstance(size, torch.SymInt):
        expression = size.node.expr
        return int(expression) if expression.is_number else expression
    return operator.index(size)


def is_symbolic(size: Any) -> bool:
    return not isinstance(expression_of(size), int)


def linear_form(size: Any) -> tuple[sympy.Symbol, int, int] | None:
    """(s, a, b) of a size a s + b, from which s follows; None of other sizes."""
    expression = expression_of(size)
    if isinstance(expression, int) or len(expression.free_symbols) != 1:
        return None
    symbol = next(iter(expression.free_symbols))
    factor = expression.coeff(symbol)
    rest = sympy.expand(expression - factor * symbol)
    return (symbol, int(factor), int(rest)) if factor.is_Integer and factor > 0 and rest.is_Integer else None


class Sizes:
    """The symbols of a network's inputs, each as a vector of one element that the network computes."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._of_axis: dict[sympy.Expr, tuple[Value, int]] = {}
        self._by_form: dict[sympy.Symbol, tuple[Value, int, int, int]] = {}
        self._scalars: dict[sympy.Expr, Callable[[], Value]] = {}
        self._vectors: dict[sympy.Expr, Value] = {}

    def learn(self, value: Value, shape: Sequence[Any]) -> None:
        """The sizes of a value, which are found there from now on, as are the symbols that follow from them."""
        for axis, size in enumerate(shape):
            if is_symbolic(size):
                self._of_axis.setdefault(expression_of(size), (value, axis))
                form = linear_form(size)
                if form is not None:
                    self._by_form.setdefault(form[0], (value, axis, *form[1:]))

    def learn_scalar(self, size: Any, make: Callable[[], Value]) -> None:
        """A size that is an input of its own, which `make` adds where no tensor has it."""
        self._scalars.setdefault(expression_of(size), make)

    def vector(self, size: Any) -> Value:
        """A tensor i64[1] that holds a size."""
        return self._of(size if isinstance(size, (int, sympy.Expr)) else expression_of(size))

    def _of(self, expression: Any) -> Value:
        if isinstance(expression, int) or expression.is_Integer:
            return self._network.constant(_array([int(expression)]))
        if expression not in self._vectors:
            self._vectors[expression] = self._computed(expression)
        return self._vectors[expression]

    def _computed(self, expression: sympy.Expr) -> Value:
        net = self._network
        if expression in self._of_axis:
            value, axis = self._of_axis[expression]
            return net.Shape(value, start=axis, end=axis + 1)
        if expression.is_Symbol and expression in self._by_form:
            value, axis, factor, rest = self._by_form[expression]
            return net.Div(net.Sub(net.Shape(value, start=axis, end=axis + 1), [rest]), [factor])
        if expression in self._scalars:
            return net.Unsqueeze(self._scalars[expression](), [0])
        if expression.is_Symbol:
            raise UnsupportedNode(f"the size {expression} is of no input of this part of the graph")
        name = type(expression).__name__
        if name == "Pow" and expression.args[1].is_Integer and expression.args[1] > 0:
            result = base = self._of(expression.args[0])
            for _ in range(int(expression.args[1]) - 1):
                result = net.Mul(result, base)
            return result
        if name == "Add":
            return _joined(net.Add, [self._of(part) for part in expression.args])
        if name == "Mul":
            return _joined(net.Mul, [self._of(part) for part in expression.args])
        operands = [self._of(part) for part in expression.args]
        if name in ("FloorDiv", "CleanDiv", "IntTrueDiv") and len(operands) == 2:  # of sizes, which are not negative
            remainder = net.Mod(operands[0], operands[1])
            return net.Div(net.Sub(operands[0], remainder), operands[1])
        if name in ("Mod", "PythonMod"):
            return net.Mod(operands[0], operands[1])
        if name in ("Max", "Min"):
            return _joined(getattr(net, name), operands)
        raise UnsupportedNode(f"the size {expression} is computed by {name}")


def _joined(add: Callable[[Any, Any], Value], values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = add(result, value)
    return result


def _array(numbers: list[int]) -> Any:
    import numpy

    return numpy.asarray(numbers, numpy.int64)


def text_of(size: Any) -> int | str:
    """A size as text of Python over the names of symbols, or the number that it is."""
    expression = expression_of(size)
    if isinstance(expression, int):
        return expression
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter().doprint(expression)


def symbol_of(size: Any) -> str | None:
    expression = expression_of(size)
    return str(expression) if isinstance(expression, sympy.Symbol) else None


_OF_MATH = ("floor", "ceil", "trunc")
# What text_of() writes: arithmetic, and these functions.
_FUNCTIONS: dict[str, Any] = {"max": max, "min": min, "int": int, "abs": abs, "math": math}
_ALLOWED = (
    *(ast.Expression, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load, ast.Call, ast.Attribute),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub),
)


def evaluator(texts: Sequence[int | str]) -> Callable[[dict[str, int]], tuple[int, ...]]:
    """A function from the symbols' values to sizes that text_of() wrote. The texts may come from a file: what is not
    arithmetic raises ValueError."""
    tree = ast.parse("(" + "".join(f"{text}," for text in texts) + ")", "<sizes>", "eval")
    for node in ast.walk(tree):
        strange = not isinstance(node, _ALLOWED)
        if isinstance(node, ast.Constant):
            strange = not isinstance(node.value, (int, float))
        elif isinstance(node, ast.Attribute):
            strange = not (isinstance(node.value, ast.Name) and node.value.id == "math" and node.attr in _OF_MATH)
        elif isinstance(node, ast.Call):
            strange = bool(node.keywords) or isinstance(node.func, ast.Call)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            strange = not (isinstance(node.right, ast.Constant) and 0 <= node.right.value <= 8)
        if strange:
            raise ValueError(f"a size is no arithmetic: {texts}")
    code = compile(tree, "<sizes>", "eval")
    return lambda symbols: eval(code, {"__builtins__": {}, **_FUNCTIONS}, symbols)


def symbols_of(sizes: Sequence[Any]) -> set[str]:
    found = [expression_of(size) for size in sizes]
    return {str(symbol) for size in found if not isinstance(size, int) for symbol in size.free_symbols}
