"""The process of a rank that another one's LLM has started: python -m camshaft.llm._rank_process FOLDER NAME RANK."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from camshaft import _native
from camshaft._errors import Error
from camshaft.llm._folder import ranks_of, read_description
from camshaft.llm._rank_start import READY, USUAL_TIMEOUT, engine_of


def main() -> int:
    parser = argparse.ArgumentParser(description="A rank of a model, as an LLM starts it.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", help="of the communicator")
    parser.add_argument("rank", type=int)
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    try:
        description = read_description(options.folder)
        engine = engine_of(options.folder, description, options.rank, options.device)
        print(READY, flush=True)
        ranks = ranks_of(description, options.folder)
        communicator = _native.join_communicator(options.name, options.rank, ranks, USUAL_TIMEOUT)
        _native.follow_ranks(engine._engine, communicator, options.threads)
    except Error as error:
        print(f"camshaft: rank {options.rank}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
