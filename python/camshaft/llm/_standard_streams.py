"""What commands write: one clean message where the standard output is closed, full, or a pipe that nobody reads."""

from __future__ import annotations

import contextlib
import os
import sys

from camshaft._errors import FileError


class OutputError(FileError):
    """The standard output could not be written."""


def open_standard_streams() -> None:
    """Those that are closed become what reads as empty (input), refuses to be written (output) or swallows all (errors):
    else files that are opened later would take their numbers. What a locale cannot write is shown as "?"."""
    for number, (name, flags, mode) in enumerate(
        (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w"))
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # of the server, too, which takes this process's place
            setattr(sys, name, open(number, mode, closefd=False))
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")


def say(text: str, end: str = "\n") -> None:
    """To the standard output, at once. Raises OutputError."""
    try:
        sys.stdout.write(text + end)
        sys.stdout.flush()
    except OSError as error:
        _leave_output()
        raise OutputError(f"the standard output could not be written ({error.strerror})") from None


def flush_output() -> None:
    """What others have written, as argparse its help. Raises OutputError."""
    say("", end="")


def complain(text: str) -> None:
    """To the standard error, where there is one."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _leave_output() -> None:
    """What is left in buffers goes nowhere, or Python would try again at its end, and complain in its own way."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
