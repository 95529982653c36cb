"""Messages of Protocol Buffers, read without a package for them: the wire format is
https://protobuf.dev/programming-guides/encoding."""

import struct

import numpy

_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5  # wire types


class Malformed(ValueError):
    """The bytes are no such message."""


def varint(data, at):
    """(number, where the next field begins); numbers have 64 bits."""
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number has no end")
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & (2**64 - 1), at
        shift += 7


def signed(number):
    return number - 2**64 if number >= 2**63 else number


def _fields(data):
    """(number, wire type, value): an integer, or a part of `data`, for each field."""
    at, end = 0, len(data)
    while at < end:
        key, at = varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = varint(data, at)
        else:
            if wire == _BYTES:
                size, at = varint(data, at)
            elif wire in (_WIDE, _NARROW):
                size = 8 if wire == _WIDE else 4
            else:
                raise Malformed(f"a field is of type {wire}, which there is not")
            if size > end - at:
                raise Malformed(f"a field of {size} bytes has {end - at} left")
            value = data[at : at + size]
            at += size
        yield key >> 3, wire, value


def _integer(wire, value):
    if wire != _VARINT:
        raise Malformed("an integer is expected")
    return signed(value)


def _float(wire, value):
    if wire != _NARROW:
        raise Malformed("a float is expected")
    return struct.unpack("<f", value)[0]


def _span(wire, value):
    if wire != _BYTES:
        raise Malformed("bytes are expected")
    return value


def _text(wire, value):
    try:
        return bytes(_span(wire, value)).decode()
    except UnicodeDecodeError:
        raise Malformed("a text is not UTF-8") from None


def _integers(wire, value, into):
    """One, or several in a row."""
    if wire == _VARINT:
        into.append(signed(value))
        return
    at = 0
    while at < len(_span(wire, value)):
        number, at = varint(value, at)
        into.append(signed(number))


def _numbers_of(dtype, single):
    def read(wire, value, into):
        if wire not in (single, _BYTES) or len(value) % dtype.itemsize:
            raise Malformed("floats are expected")
        into.extend(numpy.frombuffer(value, dtype).tolist())

    return read


def encoded(number, data):
    """A field of bytes."""
    length, head = len(data), bytearray([number << 3 | _BYTES])
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes([*head, length]) + data


_ONE = {"integer": _integer, "float": _float, "text": _text, "bytes": _span}
_MANY = {
    "integers": _integers,
    "floats": _numbers_of(numpy.dtype("<f4"), _NARROW),
    "doubles": _numbers_of(numpy.dtype("<f8"), _WIDE),
    "texts": lambda wire, value, into: into.append(_text(wire, value)),
    "spans": lambda wire, value, into: into.append(_span(wire, value)),
}
_EMPTY = {"integer": 0, "float": 0.0, "text": "", "bytes": b""}


class Message:
    """A message with the fields {number: (name, kind)}: a kind's word, a class of messages, or [class] for any number of
    them. What the message has not is 0, "", empty or None."""

    FIELDS = {}

    def __init__(self, data=b""):
        """Of a memoryview, whose parts it shows. Raises Malformed."""
        for name, kind in self.FIELDS.values():
            setattr(self, name, [] if isinstance(kind, list) or kind in _MANY else _EMPTY.get(kind))
        for number, wire, value in _fields(data):
            if number not in self.FIELDS:
                continue
            name, kind = self.FIELDS[number]
            if kind in _ONE if isinstance(kind, str) else False:
                setattr(self, name, _ONE[kind](wire, value))
            elif isinstance(kind, str):
                _MANY[kind](wire, value, getattr(self, name))
            elif isinstance(kind, list):
                getattr(self, name).append(kind[0](_span(wire, value)))
            else:
                setattr(self, name, kind(_span(wire, value)))
