"""Arguments of wrong types, which are named."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

from camshaft._errors import InvalidArgumentError

MOST_THREADS = 1024


def check_whole(name: str, value: Any, may_be_none: bool = False) -> None:
    """Of a whole number; how large it may be is another's to say."""
    if may_be_none and value is None:
        return
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(f"{name} is {short(value)}; a whole number is needed")


def check_positive(name: str, value: Any, may_be_none: bool = False) -> None:
    """Of a whole number from 1 on."""
    check_whole(name, value, may_be_none)
    if value is not None and value < 1:
        raise InvalidArgumentError(f"{name} is {value}, it must be 1 or more")


def check_threads(name: str, value: Any) -> None:
    """Of an engine; None: one for each core."""
    check_positive(name, value, may_be_none=True)
    if value is not None and value > MOST_THREADS:
        raise InvalidArgumentError(
            f"{name} is {value}, at most {MOST_THREADS} may be: more than one for each core makes nothing faster"
        )


def check_number(name: str, value: Any) -> None:
    """Of a number, of Python or NumPy; how large it may be is another's to say."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidArgumentError(f"{name} is {short(value)}; a number is needed")


def check_flag(name: str, value: Any) -> None:
    if value is not True and value is not False:
        raise InvalidArgumentError(f"{name} is {short(value)}; True or False is needed")


def check_size(name: str, value: Any) -> None:
    """Of a finite number that is not below 0."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise InvalidArgumentError(f"{name} is {short(value)}; a number from 0 on is needed")


def plain_number(value: Any) -> int | float:
    """Of a number that was checked: Python's own. NumPy's are bounded, and no numbers to json.dumps(), whose `default` this
    may be."""
    return operator.index(value) if hasattr(value, "__index__") else float(value)


def listed_priorities(priority: Any, count: int) -> list[Any]:
    """Of so many prompts; whether they are as many is another's to say."""
    if priority is not None and (isinstance(priority, (str, bytes)) or not hasattr(priority, "__iter__")):
        raise InvalidArgumentError(f"priority is {short(priority)}; a list of whole numbers is needed")
    listed = [0] * count if priority is None else list(priority)
    for one in listed:
        check_whole("priority", one)
    return listed


def check_tokens(name: str, value: Any) -> None:
    """Of a list of tokens' numbers."""
    items = None if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") else list(value)
    if items is None or not all(hasattr(each, "__index__") for each in items):
        raise InvalidArgumentError(f"{name} is {short(value)}; a list of tokens' numbers is needed")


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
