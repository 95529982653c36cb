"""Exit codes of the commands that run in Python: those of tools/exit_code.h."""

from __future__ import annotations

from camshaft._errors import Error

_OF_CODES = {
    "invalid argument": 2,
    "invalid model": 3,
    "unsupported": 3,
    "verification failed": 4,
    "input/output error": 5,
    "corrupt engine": 5,
    "out of memory": 6,
    "cancelled": 130,
}


_OF_PYTHON: list[tuple[type[BaseException], str]] = [
    (KeyboardInterrupt, "cancelled"),
    (MemoryError, "out of memory"),
    (OSError, "input/output error"),
]


def code_of(error: BaseException) -> str:
    """The code of the C interface's that an exception is."""
    if isinstance(error, Error):
        return error.code
    return next((code for kind, code in _OF_PYTHON if isinstance(error, kind)), "internal error")


def exit_code(error: BaseException) -> int:
    """Of an exception that ends a command."""
    return _OF_CODES.get(code_of(error), 1)
