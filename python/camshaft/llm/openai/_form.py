"""Bodies of multipart/form-data, RFC 7578, as clients send sounds."""

from __future__ import annotations

import re
from email.message import Message
from email.parser import HeaderParser
from typing import Any, NamedTuple

from camshaft.llm.openai._body import Body
from camshaft.llm.openai._errors import RequestError

# As the server has them (server/http/multipart_form.cpp, openai_request.h).
LONGEST_FORM = 26 << 20  # bytes
_MOST_PARTS, _LONGEST_HEADER, _LONGEST_BOUNDARY = 64, 8 << 10, 70
_LONGEST_FILE = 25 << 20  # OpenAI's limit
_LONGEST_TEXT = 1 << 16  # bytes of a field
_WHOLE, _NUMBER = (
    re.compile(r"[+-]?[0-9]{1,18}\Z"),
    re.compile(r"[+-]?(?=\.?[0-9])[0-9]{0,18}\.?[0-9]{0,18}(e[+-]?[0-9]{1,3})?\Z"),
)


class File(NamedTuple):
    """content: a part of the body, which is not copied."""

    name: str
    content: memoryview


class Form(Body):
    """Fields are texts, of which numbers and truth values are read. A name that ends with [] is a list's."""

    def integer(self, name: str, default: Any = None, low: int = 0, high: int = 1 << 62) -> Any:
        self._read(name)
        return super().integer(name, default, low, high)

    def number(self, name: str, default: Any = None, low: float = 0.0, high: float = 1e6) -> Any:
        self._read(name)
        return super().number(name, default, low, high)

    def flag(self, name: str, default: bool = False) -> bool:
        given = self._values.get(name)
        if isinstance(given, str) and given.lower() in ("true", "false"):
            self._values[name] = given.lower() == "true"
        return super().flag(name, default)

    def texts(self, name: str) -> list[str]:
        """Of a list, whose name may end with []; empty where it is not there."""
        made: list[str] = []
        for value in (self.raw(name), self.raw(f"{name}[]")):
            for each in value if isinstance(value, list) else [] if value is None else [value]:
                if not isinstance(each, str):
                    self.wrong(name, "a text", each)
                made.append(each)
        return made

    def file(self, name: str) -> File:
        value = self.raw(name)
        if value is None:
            raise RequestError(f"you must provide a '{name}'", name)
        if not isinstance(value, File):
            raise RequestError(f"'{name}' is no file: its part has no file name", name)
        return value

    def _read(self, name: str) -> None:
        given = self._values.get(name)
        if isinstance(given, str) and _WHOLE.match(given):
            self._values[name] = int(given)
        elif isinstance(given, str) and _NUMBER.match(given.lower()):
            self._values[name] = float(given)


def read_form(data: bytes, content_type: str) -> Form:
    if len(data) > LONGEST_FORM:
        raise RequestError(f"the body has {len(data)} bytes; {LONGEST_FORM} are the most of one with a sound", "file")
    values: dict[str, Any] = {}
    for name, file, content in _parts(data, _boundary(content_type)):
        if file is not None:
            if len(content) > _LONGEST_FILE:
                raise RequestError(f"'{name}' has {len(content)} bytes; {_LONGEST_FILE} are the most", name)
            value: Any = File(file, content)
        else:
            value = _text(name, content)
        if name.endswith("[]"):
            values.setdefault(name, []).append(value)
        elif name in values:
            raise RequestError(f"'{name}' is there twice", name)
        else:
            values[name] = value
    return Form(values)


def _text(name: str, content: memoryview) -> str:
    if len(content) > _LONGEST_TEXT:
        raise RequestError(f"'{name}' has {len(content)} bytes; {_LONGEST_TEXT} are the most of a text", name)
    try:
        return bytes(content).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(f"'{name}' is no text in UTF-8", name) from None


def _boundary(content_type: str) -> bytes:
    header = Message()
    header["content-type"] = content_type.replace("\r", "").replace("\n", "")
    boundary = header.get_param("boundary")
    if header.get_content_type() != "multipart/form-data":
        raise _none("its Content-Type is another")
    if not isinstance(boundary, str) or not 1 <= len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
        raise _none(f"its Content-Type has no boundary of 1 to {_LONGEST_BOUNDARY} characters")
    return boundary.encode()


def _parts(data: bytes, boundary: bytes) -> list[tuple[str, str | None, memoryview]]:
    """Names, file names and contents."""
    delimiter = b"\r\n--" + boundary
    first = delimiter[2:]
    found = 0 if data.startswith(first) else data.find(delimiter)
    if found < 0:
        raise _none("its boundary is not in it")
    at = len(first) if data.startswith(first) else found + len(delimiter)
    parts: list[tuple[str, str | None, memoryview]] = []
    while not data.startswith(b"--", at):
        while data[at : at + 1] in (b" ", b"\t"):
            at += 1
        if not data.startswith(b"\r\n", at):
            raise _none("no line ends behind a boundary")
        begin = at + 2
        end = data.find(b"\r\n\r\n", begin, begin + _LONGEST_HEADER + 4)
        if end < 0:
            raise _none("a part's header has no end, or more than 8 KiB")
        # What is empty may have the line's end of its header alone in front of the boundary.
        following = data.find(delimiter, end + 2)
        if following < 0:
            raise _none("it does not end with its boundary")
        if len(parts) == _MOST_PARTS:
            raise _none(f"it has more than {_MOST_PARTS} parts")
        name, file = _names(data[begin:end])
        parts.append((name, file, memoryview(data)[end + 4 : following]))
        at = following + len(delimiter)
    return parts


def _names(header: bytes) -> tuple[str, str | None]:
    fields = HeaderParser().parsestr(header.decode("utf-8", "replace"))
    name = fields.get_param("name", header="content-disposition")
    if not isinstance(name, str) or not name:
        raise _none("a part has no name")
    return name, fields.get_filename()


def _none(why: str) -> RequestError:
    return RequestError(f"the body is no multipart/form-data: {why}")
