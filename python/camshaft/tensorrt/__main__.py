"""Runs a program for TensorRT as it is: python -m camshaft.tensorrt program.py arguments…, -m module arguments…, or the
name of an installed command, as polygraphy."""

import runpy
import shutil
import sys
from pathlib import Path

import camshaft.tensorrt


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    camshaft.tensorrt.install()
    if arguments[0] == "-m":
        if len(arguments) == 1:
            print("-m: the name of a module is missing", file=sys.stderr)
            return 2
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    program = arguments[0]
    path = program if program.endswith(".py") else shutil.which(program)
    if path is None:
        print(f"there is no program '{program}'", file=sys.stderr)
        return 2
    sys.argv = [path, *arguments[1:]]
    sys.path.insert(0, str(Path(path).resolve().parent))
    runpy.run_path(path, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
