"""--build-option of the commands that run in Python."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from camshaft._errors import InvalidArgumentError


def add_build_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--build-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of a build, by its name in docs/options.md",
    )


def build_options(pairs: Iterable[str]) -> dict[str, str]:
    """By the names as given."""
    options = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise InvalidArgumentError(f"--build-option {pair}: give NAME=VALUE")
        options[name] = value
    return options
