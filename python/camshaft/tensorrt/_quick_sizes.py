"""Sizes of quickly deployable plugins: expressions of the sizes that a network leaves open."""

from camshaft.tensorrt._enums import DimensionOperation
from camshaft.tensorrt._plugin_types import IDimensionExpr, IExprBuilder
from camshaft.tensorrt._values import Dims


class SymIntExpr:
    """A number, or an expression of sizes; + - * // < and == make others."""

    def __init__(self, value=None):
        if isinstance(value, SymIntExpr):
            value = value._expr
        elif not isinstance(value, IDimensionExpr):
            value = IDimensionExpr(int(value or 0))
        self._expr = value

    def _op(self, op, other, swapped=False):
        pair = [self._expr, SymIntExpr(other)._expr]
        return type(self)(IExprBuilder().operation(op, *(reversed(pair) if swapped else pair)))

    def __add__(self, other):
        return self._op(DimensionOperation.SUM, other)

    def __sub__(self, other):
        return self._op(DimensionOperation.SUB, other)

    def __rsub__(self, other):
        return self._op(DimensionOperation.SUB, other, swapped=True)

    def __mul__(self, other):
        return self._op(DimensionOperation.PROD, other)

    def __floordiv__(self, other):
        return self._op(DimensionOperation.FLOOR_DIV, other)

    def __eq__(self, other):
        return self._op(DimensionOperation.EQUAL, other)

    def __lt__(self, other):
        return self._op(DimensionOperation.LESS, other)

    __radd__, __rmul__ = __add__, __mul__
    __hash__ = None

    @property
    def is_constant(self):
        return self._expr.is_constant()

    def constant_value(self):
        """Raises ValueError where the network leaves it open."""
        return self._expr.get_constant_value()

    def __repr__(self):
        return f"{type(self).__name__}[{self._expr._dim}]"


class SymInt8(SymIntExpr):
    """An argument of a kernel, of 8 bits."""


class SymInt16(SymIntExpr):
    """Of 16 bits."""


class SymInt32(SymIntExpr):
    """Of 32 bits."""


class ShapeExpr(SymInt32):
    """A size."""

    is_size_tensor = False
    is_fake = False  # there is always one to compute with, of sizes that are not known, too


class SizeTensorShapeExpr(ShapeExpr):
    """A size that the plugin itself tells, in an output that is a size tensor."""

    is_size_tensor, is_constant = True, False

    def __init__(self, size_tensor_desc):
        super().__init__()
        self._desc = size_tensor_desc

    def _op(self, op, other, swapped=False):
        raise ValueError("a size that only running tells stands alone: no other is computed of it")

    def constant_value(self):
        raise ValueError("the size of a size tensor is not known before running")

    def __repr__(self):
        return "ShapeExpr[is_size_tensor = True]"


class SymExprs:
    """So many expressions."""

    _OF = SymIntExpr

    def __init__(self, length):
        self._exprs = [self._OF(0) for _ in range(length)]

    @classmethod
    def from_tuple(cls, exprs):
        made = cls(len(exprs))
        for index, expr in enumerate(exprs):
            made[index] = expr
        return made

    def __iter__(self):
        return iter(self._exprs)

    def __len__(self):
        return len(self._exprs)

    def __getitem__(self, index):
        return self._exprs[index]

    def __setitem__(self, index, expr):
        if not isinstance(expr, (int, SymIntExpr)):
            raise ValueError(f"expression {index} is an int or a {self._OF.__name__}, not {expr!r}")
        self._exprs[index] = expr if isinstance(expr, self._OF) else self._OF(expr)

    def __repr__(self):
        return f"{type(self).__name__}[{', '.join(map(repr, self._exprs))}]"


class SymIntExprs(SymExprs):
    """Arguments of a kernel."""


class ShapeExprs(SymExprs):
    """The sizes of a tensor."""

    _OF = ShapeExpr

    def __init__(self, length):
        if length > Dims.MAX_DIMS:
            raise ValueError(f"{length} sizes: at most {Dims.MAX_DIMS} are possible")
        super().__init__(length)

    def numel(self):
        """The number of elements."""
        count = ShapeExpr(1)
        for size in self._exprs:
            count = count * size
        return count


def _of_two(op, first, second):
    if isinstance(first, int) and isinstance(second, int):
        raise ValueError(f"one of {first} and {second} is a ShapeExpr: compute with ints yourself")
    return (ShapeExpr(first) if isinstance(first, int) else first)._op(op, second)


def cdiv(first, second):
    """The quotient, rounded up."""
    return _of_two(DimensionOperation.CEIL_DIV, first, second)


def larger(first, second):
    """tensorrt.plugin.max"""
    return _of_two(DimensionOperation.MAX, first, second)


def smaller(first, second):
    """tensorrt.plugin.min"""
    return _of_two(DimensionOperation.MIN, first, second)
