"""The command of the wheel by its other names."""

import os
import shutil
import sys
import sysconfig


def trtexec() -> None:
    """`camshaft-trtexec …` is `camshaft trtexec …`."""
    program = shutil.which("camshaft", path=sysconfig.get_path("scripts")) or shutil.which("camshaft")
    if program is None:
        sys.exit("camshaft-trtexec: the command 'camshaft' is not there")
    os.execv(program, [program, "trtexec", *sys.argv[1:]])
