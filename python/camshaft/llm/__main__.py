"""`camshaft llm build | chat | bench | serve | transcribe`, and `python -m camshaft.llm` with the same arguments."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from camshaft._build_option import add_build_option, build_options
from camshaft._errors import InvalidArgumentError
from camshaft._exit_codes import exit_code
from camshaft.llm._bench_command import add_bench
from camshaft.llm._build import build
from camshaft.llm._caches import CACHE_TYPES
from camshaft.llm._chat_command import add_chat
from camshaft.llm._folder import DESCRIPTION, engine_names
from camshaft.llm._layers import ACTIVATION_TYPES, WEIGHT_TYPES
from camshaft.llm._lora import LORA_TYPES
from camshaft.llm._network import TASKS
from camshaft.llm._sentence_transformers import POOLING_TYPES
from camshaft.llm._serve_command import add_serve, split_flags
from camshaft.llm._standard_streams import complain, flush_output, open_standard_streams, say
from camshaft.llm._transcribe_command import add_transcribe


def main(arguments: Sequence[str]) -> int:
    """arguments: "llm", the command, and what is behind it. Returns the exit code."""
    open_standard_streams()
    try:
        options = _parsed(arguments[1:])
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # which leaves no half-written folder
        code: int | None = options.run(options)
        flush_output()
        return code or 0
    except KeyboardInterrupt:
        complain("camshaft: error: interrupted")
        return 130
    except Exception as error:
        for line in (str(error) or type(error).__name__).splitlines():
            complain(f"camshaft: error: {line}")
        return exit_code(error)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    given, flags = split_flags(arguments)
    options = _parser().parse_args(given)
    if flags:
        options.server_flags = flags
    return options


def _build(options: argparse.Namespace) -> None:
    given: dict[str, Any] = {
        name.replace("-", "_"): value for name, value in build_options(options.build_option).items()
    }
    if "lora" in given:
        raise InvalidArgumentError("--build-option lora: adapters of language models are given by --lora NAME=DIR")
    build(
        options.folder,
        options.output,
        weights=options.weights,
        activations=options.activations,
        cache=options.cache,
        block_size=options.block_size,
        max_length=options.max_length,
        task=options.task,
        pooling_type=options.pooling_type,
        normalize=options.normalize,
        tensor_parallel_size=options.tensor_parallel_size,
        row_parallel=options.row_parallel,
        lora=options.lora or [],
        enable_lora=options.enable_lora,
        max_lora_rank=options.max_lora_rank,
        lora_dtype=options.lora_dtype,
        device=options.device,
        threads=options.threads,
        progress=sys.stderr.isatty() or None,
        **given,
    )
    output = Path(options.output)
    engines = [
        f"{output / name} ({(output / name).stat().st_size / 2**20:.2f} MiB)"
        for name in engine_names(options.tensor_parallel_size)
    ]
    say(", ".join([*engines, str(output / DESCRIPTION)]))


class _Parser(argparse.ArgumentParser):
    def _print_message(self, message: str, file: Any = None) -> None:
        """Of its help: argparse itself says nothing where the output cannot be written."""
        if file is sys.stdout:
            say(message, end="")
        elif message:
            complain(message.rstrip("\n"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="camshaft llm", description="Language models.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "Build an engine of the language model in a Hugging Face folder."
    command = commands.add_parser("build", help=text, description=text, allow_abbrev=False)
    command.add_argument(
        "folder", metavar="DIR", help="with config.json, *.safetensors and the tokenizer's files; or a .gguf file"
    )
    command.add_argument("-o", "--output", required=True, metavar="OUT", help="the folder to write")
    command.add_argument(
        "--weights",
        choices=WEIGHT_TYPES,
        help="what weights are stored as (default: f32; of GGUF files as they have them)",
    )
    command.add_argument(
        "--activations",
        choices=ACTIVATION_TYPES,
        default="int8",
        help="what weights of 4 and 8 bits are multiplied with on CPUs: int8, rounded in blocks of 32, or f32 (default: int8)",
    )
    command.add_argument(
        "--cache", choices=CACHE_TYPES, help="what keys and values of decoders are stored as (default: f16)"
    )
    command.add_argument("--block-size", type=int, metavar="N", help="tokens in a block of the cache (default: 16)")
    command.add_argument(
        "--max-length", type=int, metavar="N", help="the longest sequence; that of config.json without it"
    )
    command.add_argument(
        "--task", choices=TASKS, default="generate", help="text, or embeddings of prompts (default: generate)"
    )
    command.add_argument(
        "--pooling-type",
        choices=POOLING_TYPES,
        help="whose hidden state an embedding is; as modules.json says, else last of decoders, mean of encoders",
    )
    command.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        help="embeddings to a length of 1; as modules.json says, else so",
    )
    command.add_argument(
        "--tensor-parallel-size",
        type=int,
        default=1,
        metavar="N",
        help="ranks that compute the model together, each with its part of weights and cache (default: 1)",
    )
    command.add_argument(
        "--row-parallel",
        action="store_true",
        help="of these: every other product is cut by its inputs, where weights are floats: half as many meetings, other rounding",
    )
    command.add_argument(
        "--lora",
        action="append",
        metavar="NAME=DIR",
        help="an adapter as PEFT writes it, that requests may name; may be given several times",
    )
    command.add_argument(
        "--enable-lora",
        action=argparse.BooleanOptionalAction,
        help="whether adapters that come later may update all linear layers (default: those that --lora updates)",
    )
    command.add_argument(
        "--max-lora-rank", type=int, metavar="N", help="the largest of an adapter (default: that of --lora, else 16)"
    )
    command.add_argument(
        "--lora-dtype",
        choices=LORA_TYPES,
        default="auto",
        help="what adapters are stored as (default: f32 beside weights in f32, bf16 beside bf16, else f16)",
    )
    command.add_argument("--device", metavar="X", help="cpu, cuda or cuda:N (default: cpu)")
    command.add_argument("--threads", type=int, metavar="N", help="to build with; one for each core without it")
    add_build_option(command)
    command.set_defaults(run=_build)
    add_chat(commands)
    add_bench(commands)
    add_serve(commands)
    add_transcribe(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main(["llm", *sys.argv[1:]]))
