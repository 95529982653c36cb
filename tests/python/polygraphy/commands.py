"""Runs several of Polygraphy's commands, which standard input lists as JSON, in one process: a line of JSON for each, with
its status and all that it printed."""

import contextlib
import io
import json
import re
import sys
import traceback

import camshaft.tensorrt

camshaft.tensorrt.install()

from polygraphy.tools._main import main  # noqa: E402

for arguments in json.load(sys.stdin):
    printed = io.StringIO()
    sys.argv = ["polygraphy", *arguments]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            status = main(arguments)
        except SystemExit as error:
            status = error.code
        except Exception:
            traceback.print_exc()
            status = "raised"
    print(json.dumps([status or 0, re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())]), flush=True)
