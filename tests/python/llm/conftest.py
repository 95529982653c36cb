"""Tests of camshaft.llm: left out where the Python module was not built (no Python headers)."""

import sys

from camshaft_cli import BINARY

HERE = BINARY.parent.parent / "python"
if not (HERE / "camshaft/_native.abi3.so").exists():
    collect_ignore_glob = ["*"]
elif str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))
