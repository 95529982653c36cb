"""Scripts that are started by themselves run on the project's own Python, which scripts/setup.sh makes and which has what
they import."""

import os
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / ".venv"


def use():
    """Starts the program again on that Python, unless it is the one that runs or is not there. For the first lines of a
    script, before its imports."""
    python = HOME / "bin/python"
    if python.exists() and Path(sys.prefix).resolve() != HOME.resolve():
        os.execv(python, [str(python), *sys.argv])
