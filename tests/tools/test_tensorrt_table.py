"""The table of docs/tensorrt.md is what its script writes."""

import subprocess
import sys

import pytest
from camshaft_cli import BINARY, ROOT


def test_the_table_is_up_to_date():
    if not (BINARY.parent.parent / "python/camshaft").exists():
        pytest.skip("the Python module was not built: no Python headers")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/tensorrt_table.py", "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
