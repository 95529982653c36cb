"""Combinations of types, layouts and tactics that a quickly deployable plugin says it can compute."""

import itertools

from camshaft.tensorrt._enums import DataType, TensorFormat

_SHORT = {"FP32": DataType.FLOAT, "FP16": DataType.HALF}


def _type_of(word):
    return _SHORT[word] if word in _SHORT else DataType[word]


class AutoTuneCombination:
    """Types and layouts of inputs and then outputs, as text: "FP32|FP16, FP32|FP16" is all in one type or all in the
    other, "FP32*FP16" is either, whatever the others are."""

    def __init__(self, io_types=None, layouts=None, tactics=None):
        self.io_types = [] if io_types is None else [word.strip() for word in io_types.split(",")]
        self.layouts = [word.strip() for word in (layouts or "LINEAR").split(",")]
        if len(self.layouts) == 1:
            self.layouts *= len(self.io_types)
        if len(self.layouts) != len(self.io_types):
            raise ValueError(f"{len(self.io_types)} types and {len(self.layouts)} layouts do not fit together")
        self._tactics = tactics

    def pos(self, pos, io_types, layouts="LINEAR"):
        """The same of single inputs and outputs, by their numbers."""
        for index in [pos] if isinstance(pos, int) else pos:
            missing = index + 1 - len(self.io_types)
            self.io_types += [None] * missing
            self.layouts += [None] * missing
            if self.io_types[index] is not None:
                raise ValueError(f"position {index} has types already")
            self.io_types[index], self.layouts[index] = io_types, layouts

    def tactics(self, tactics):
        """Numbers above 0: other ways to compute the same."""
        self._tactics = tactics

    def _expanded(self):
        """[((type, layout) of each input and output, [tactic])]"""
        if None in self.io_types:
            raise ValueError(f"position {self.io_types.index(None)} has no types")
        types, layouts = _variants(self.io_types), _variants(self.layouts)
        return [
            (tuple((_type_of(t), TensorFormat[f]) for t, f in zip(of_types, of_layouts)), list(self._tactics or ()))
            for of_types in types
            for of_layouts in layouts
        ]


def _variants(words):
    """The combinations of words that are "A|B" (all the first, or all the second, …) or "A*B" (each by itself)."""
    together = {len(word.split("|")) for word in words if "|" in word}
    if len(together) > 1:
        raise ValueError(f"{', '.join(words)}: what stands between | goes together, and is of different lengths")
    if any("|" in word and "*" in word for word in words):
        raise ValueError(f"{', '.join(words)}: a type has either | or *")
    found = []
    for turn in range(together.pop() if together else 1):
        choices = [[word.split("|")[turn]] if "|" in word else word.split("*") for word in words]
        found += itertools.product(*choices)
    return found
