"""Packages of the wheel's extra `llm`, which are imported where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from camshaft._errors import UnsupportedError


def needed(package: str, what: str) -> Any:
    """The module; `what` says in the error what needs it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise UnsupportedError(
            f"{what}: the Python package {package} is missing: pip install 'camshaft[llm]'"
        ) from None
