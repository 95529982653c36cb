"""Formats of tensors other than row-major: what a plugin in Python asks for is packed in front of it, and unpacked
behind it."""

import math

from camshaft.tensorrt._enums import TensorFormat
from camshaft.tensorrt._values import bytes_of_element, name_of_dtype

#: How a format splits the axis of channels: the number of spatial axes, the multiple that channels are filled up to, and
#: whether they come last, in one group, or in groups that lie outside of the spatial axes.
_FACTS = {
    TensorFormat.HWC: (2, 1, True),
    TensorFormat.HWC8: (2, 8, True),
    TensorFormat.HWC16: (2, 16, True),
    TensorFormat.CHW2: (2, 2, False),
    TensorFormat.CHW4: (2, 4, False),
    TensorFormat.CHW16: (2, 16, False),
    TensorFormat.CHW32: (2, 32, False),
    TensorFormat.DHWC: (3, 1, True),
    TensorFormat.DHWC8: (3, 8, True),
    TensorFormat.CDHW32: (3, 32, False),
}
_MOST_QUESTIONS = 4096


def _formats_of(desc):
    yield TensorFormat.LINEAR
    if bytes_of_element(name_of_dtype(desc.type)) >= 1:
        yield from (format for format, (axes, _, _) in _FACTS.items() if len(desc.dims) > axes)


def choose_formats(descs, supports, row_major_alone):
    """Gives each description the first format by which the plugin takes all of them, row-major before others:
    supports(place, descs). How far it came: the place that no format was taken for, or the number of descriptions."""
    questions, furthest = 0, 0

    def chosen(place):
        nonlocal questions, furthest
        furthest = max(furthest, place)
        if place == len(descs):
            return True
        for format in [TensorFormat.LINEAR] if row_major_alone else _formats_of(descs[place]):
            questions += 1
            descs[place].format = format
            if questions <= _MOST_QUESTIONS and supports(place, descs) and chosen(place + 1):
                return True
        descs[place].format = TensorFormat.LINEAR
        return False

    chosen(0)
    return furthest


class Packing:
    """A tensor in a format: [outer, groups, inner, group], of elements that are [outer, channels, inner] row by row."""

    def __init__(self, desc):
        axes, multiple, is_last = _FACTS[desc.format]
        at = len(desc.dims) - axes - 1
        self.outer, self.channels, self.inner = math.prod(desc.dims[:at]), desc.dims[at], math.prod(desc.dims[at + 1 :])
        padded = -(-self.channels // multiple) * multiple
        self.group = padded if is_last else multiple
        self.groups = 1 if is_last else padded // multiple
        self.width = bytes_of_element(name_of_dtype(desc.type))
        self.is_padded = padded != self.channels
        self.bytes = self.outer * padded * self.inner * self.width

    def copy(self, memory, plain, packed, packs):
        """From `plain` to `packed`, or back: a column of elements for each channel. Both are addresses of `memory`."""
        if packs and self.is_padded:
            memory.clear(packed, self.bytes)
        width, pitch = self.width, self.group * self.width
        for outer in range(self.outer):
            for channel in range(self.channels):
                row = plain + (outer * self.channels + channel) * self.inner * width
                group = outer * self.groups + channel // self.group
                column = packed + (group * self.inner * self.group + channel % self.group) * width
                if packs:
                    memory.copy_column(column, pitch, row, width, width, self.inner)
                else:
                    memory.copy_column(row, width, column, pitch, width, self.inner)


class Packed:
    """The operands of a run in the formats that their descriptions have. `memory` has room for the copies."""

    def __init__(self, given, made):
        self._given = {i: Packing(desc) for i, desc in enumerate(given) if desc.format in _FACTS}
        self._made = {o: Packing(desc) for o, desc in enumerate(made) if desc.format in _FACTS}
        self._plain = {}

    def bytes(self, aligned):
        return sum(aligned(packing.bytes) for packing in [*self._given.values(), *self._made.values()])

    def enter(self, memory, given_at, made_at):
        """Packs inputs, and puts the copies' addresses in place of the operands'."""
        for index, packing in self._given.items():
            copy = memory.scratch(packing.bytes)
            packing.copy(memory, given_at[index], copy, True)
            given_at[index] = copy
        for index, packing in self._made.items():
            self._plain[index], made_at[index] = made_at[index], memory.scratch(packing.bytes)

    def leave(self, memory, made_at):
        """Unpacks outputs."""
        for index, packing in self._made.items():
            packing.copy(memory, self._plain[index], made_at[index], False)
