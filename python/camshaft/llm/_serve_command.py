"""`camshaft llm serve`: a built model behind OpenAI's interface, by the program that `camshaft serve` is."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.llm._folder import DESCRIPTION
from camshaft.llm._image_encoder import limits_of
from camshaft.llm._lora import named_paths
from camshaft.llm._speculative import SPECULATION_FLAGS

if TYPE_CHECKING:
    from collections.abc import Sequence

_SERVER = "camshaft-server"
#: Options of the model: parameters of its configuration.
_PARAMETERS = {
    "max-model-len": "tokens of a prompt and its text; the model's without it",
    "max-num-seqs": "sequences that are decoded at once (default: 32), of models of speech windows of sound (8)",
    "max-num-batched-tokens": "tokens of a step, with parts of prompts (default: 512)",
    "num-blocks": "blocks of the cache; else by what all sequences may need, and a quarter of the memory at most",
    "kv-cache-memory-bytes": "the same in bytes",
    "kv-offloading-size": "GiB of the host's memory for blocks that leave the cache; none without it",
    "max-queued": "texts that may be under way and wait together, beyond which calls get 503 (default: 1024)",
    **SPECULATION_FLAGS,
    "limit-mm-per-prompt": 'pictures of a prompt, as {"image": 4} (default: 999)',
    "allowed-local-media-path": "folder whose pictures file: URLs may name; none without it",
    "max-loras": "adapters in memory at once; as many as the model has without it",
    "seed": "of calls that have none",
    "threads": "of the engine; one for each core without it",
    "device": "cuda:N, where the engine is for GPUs",
    "distributed-executor-backend": "where the ranks of a model in several run: threads (default), or mp, in processes of theirs",
}


def add_serve(commands: Any) -> None:
    text = "Serve a built language model by OpenAI's interface."
    epilog = "What follows -- goes to camshaft serve: --http-server-cert, --token-file and all its other flags."
    command = commands.add_parser("serve", help=text, description=text, epilog=epilog, allow_abbrev=False)
    command.add_argument("folder", metavar="DIR", help="that `camshaft llm build` made")
    command.add_argument("--host", default="127.0.0.1", metavar="A", help="where it listens (default: 127.0.0.1)")
    command.add_argument("--port", type=int, default=8000, metavar="N", help="0: any that is free (default: 8000)")
    command.add_argument("--metrics-port", type=int, metavar="N", help="of /metrics; without it there are none")
    command.add_argument("--model-name", metavar="NAME", help="that calls name; the folder's without it")
    command.add_argument("--api-key-file", metavar="FILE", help="calls need one of its keys, one a line")
    for name, what in _PARAMETERS.items():
        command.add_argument("--" + name, metavar="X", help=what)
    command.add_argument(
        "--lora-modules", nargs="+", metavar="NAME=DIR", help="adapters beside those of the model, as PEFT wrote them"
    )
    command.add_argument(
        "--allow-runtime-lora-updating",
        action="store_true",
        help="calls may load adapters, from any folder that the server reads",
    )
    command.add_argument("server_flags", nargs="*", metavar="-- FLAG", help="of camshaft serve")
    command.set_defaults(run=_run)


def split_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is in front of -- and what is behind it, of `serve`: argparse would take that directly behind DIR alone."""
    given = list(arguments)
    if given[:1] != ["serve"] or "--" not in given:
        return given, []
    at = given.index("--")
    return given[:at], given[at + 1 :]


def _run(options: argparse.Namespace) -> None:
    folder = Path(options.folder).resolve()
    if options.speculative_model is not None:  # the server looks for it from the model's folder on
        options.speculative_model = str(Path(options.speculative_model).resolve())
    if options.allowed_local_media_path is not None:
        options.allowed_local_media_path = str(Path(options.allowed_local_media_path).resolve())
        if not Path(options.allowed_local_media_path).is_dir():
            raise FileError(f"--allowed-local-media-path {options.allowed_local_media_path}: there is no such folder")
    if options.limit_mm_per_prompt is not None:
        limits_of(options.limit_mm_per_prompt)
    for each in (folder, *filter(None, [options.speculative_model])):
        if not (Path(each) / DESCRIPTION).is_file():
            raise FileError(f"{each}: there is no {DESCRIPTION}: `camshaft llm build` makes the folder of a model")
    if options.lora_modules is not None:
        modules = named_paths(options.lora_modules)
        options.lora_modules = " ".join(f"{each}={path.resolve()}" for each, path in modules.items())
        if len(options.lora_modules.split()) != len(modules):
            raise InvalidArgumentError("--lora-modules: folders that have spaces in their names cannot be given")
    options.allow_runtime_lora_updating = "true" if options.allow_runtime_lora_updating else None
    name = options.model_name or folder.name
    if not re.fullmatch(r"[^/\\\x00-\x1f\x7f]{1,200}", name) or name.startswith("."):
        raise InvalidArgumentError(f"--model-name {name!r}: no slashes, no control characters, no '.' in front")
    if len(os.fsencode(name)) > 255:
        raise InvalidArgumentError(
            f"--model-name {name!r}: it has more than 255 bytes, which no folder's name may have"
        )
    program = _program()
    repository = Path(tempfile.mkdtemp(prefix="camshaft-llm-"))
    try:
        (repository / name).mkdir()
        (repository / name / "1").symlink_to(folder)
        (repository / name / "config.pbtxt").write_text(_configuration(options), encoding="utf-8")
        arguments = [
            str(program),
            f"--model-repository={repository}",
            f"--http-address={options.host}",
            f"--http-port={options.port}",
            "--allow-grpc=false",
            *(
                ["--allow-metrics=false"]
                if options.metrics_port is None
                else [f"--metrics-port={options.metrics_port}"]
            ),
            *([f"--token-file={options.api_key_file}"] if options.api_key_file else []),
            *options.server_flags,
        ]
        os.environ["CAMSHAFT_PYTHON"] = sys.executable  # which has the package that the model needs
        _remove_behind(repository)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(program, arguments)
    except BaseException:
        shutil.rmtree(repository, ignore_errors=True)
        raise


def _configuration(options: argparse.Namespace) -> str:
    lines = ['backend: "llm"']
    for name in (*_PARAMETERS, "lora-modules", "allow-runtime-lora-updating"):
        key = name.replace("-", "_")
        if (value := getattr(options, key)) is not None:
            quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append(f'parameters {{ key: "{key}" value {{ string_value: "{quoted}" }} }}')
    return "\n".join(lines) + "\n"


def _program() -> Path:
    """In the wheel it lies beside the module, in a build folder beside the folder of it, else in PATH."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "bin" / _SERVER, package.parents[1] / "server" / _SERVER):
        if os.access(place, os.X_OK):
            return place
    found = shutil.which(_SERVER)
    if found is None:
        raise FileError(f"there is no {_SERVER}, beside the package camshaft or in PATH")
    return Path(found)


def _remove_behind(folder: Path) -> None:
    """The folder goes with the server, however that ends: a process waits for the end of a pipe that the server holds."""
    reading, writing = os.pipe()
    if os.fork() > 0:
        os.close(reading)
        os.set_inheritable(writing, True)
        return
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(writing)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):  # who reads the server's output is to see its end
            os.dup2(null, descriptor)
        os.read(reading, 1)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)
