"""Engines on disk, so that another process need not build them again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from camshaft import Engine, Error, Refitter, _native
from camshaft.torch._options import Options, build_options, log
from camshaft.torch._region import bytes_of
from camshaft.torch._registry import added

if TYPE_CHECKING:
    from camshaft.torch._conversion import Conversion


#: Of what the key is made: another number is another key. It counts changes of what converters make of a graph.
_FORM = 1


def folder_of(options: Options) -> Path:
    if options.cache_dir:
        return Path(options.cache_dir)
    if named := os.environ.get("CAMSHAFT_TORCH_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "camshaft" / "torch"


def engine_of(
    conversion: Conversion,
    options: Options,
    profiles: Mapping[str, Any] | None,
    device: str | None,
    make: Callable[[], Engine],
) -> Engine:
    """The engine of a network from the folder, or a new one, which is put there. A file that cannot be read, or has no
    weights and does not take these, is made anew; a folder that cannot be written is said and done without."""
    if not options.cache:
        return make()
    path = folder_of(options) / f"{key_of(conversion, options, profiles)}.engine"
    if path.exists():
        try:
            engine = Engine(path, device)
            if options.cache_weightless:
                _give_weights(engine, conversion)
            _note_use(path)
            log.info("engine taken from %s", path)
            return engine
        except Error as error:
            log.warning("%s is made anew: %s", path, error)
    engine = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        engine.save(path)  # whole or not at all: processes that write it at once do not meet
        if options.cache_size > 0:
            _trim(path.parent, options.cache_size)
    except (OSError, Error) as error:
        log.warning("the engine is not kept: %s", error)
    if options.cache_weightless:
        _give_weights(engine, conversion)  # or files of compiled modules would have none
    return engine


def _note_use(path: Path) -> None:
    """As the time of access, from which _trim() knows."""
    with contextlib.suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def _trim(folder: Path, most: int) -> None:
    """Removes the engines that were used the longest ago, until the others take `most` bytes; the last one stays. Other
    processes may do the same at once."""
    found = []
    for path in folder.glob("*.engine"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_atime_ns, path.stat().st_size, path))
    kept = 0
    for number, (_, size, path) in enumerate(sorted(found, reverse=True)):
        kept += size
        if number > 0 and kept > most:
            with contextlib.suppress(OSError):
                path.unlink()


def _give_weights(engine: Engine, conversion: Conversion) -> None:
    refitter = Refitter(engine)
    for name in (weight["name"] for weight in refitter.all_weights):
        if name in conversion.net.constants:  # refit() says what an engine lacks besides
            refitter.set(name, conversion.net.constants[name])
    refitter.refit()


def key_of(conversion: Conversion, options: Options, profiles: Mapping[str, Any] | None) -> str:
    """By the graph, its constants' contents (but for weightless engines), what the build is told, this version, PyTorch's
    and the machine."""
    digest = hashlib.sha256()

    def add_tensor(tensor: torch.Tensor) -> None:
        add(str(tensor.dtype), tuple(tensor.shape))
        if not options.cache_weightless:
            digest.update(bytes_of(tensor))

    def add(*parts: Any) -> None:
        digest.update(json.dumps(parts, default=str).encode())

    add(_FORM, _library(), torch.__version__, _machine(), sorted(build_options(options).items()))
    add(added(), options.truncate_long_and_double, sorted((profiles or {}).items()))
    numbers: dict[Any, str] = {}
    for node in conversion.gm.graph.nodes:
        numbers[node] = f"%{len(numbers)}"
        fake = node.meta.get("val")
        described = [
            (str(t.dtype), [str(s) for s in t.shape], [str(s) for s in t.stride()], str(t.device))
            for t in (fake if isinstance(fake, (tuple, list)) else [fake])
            if isinstance(t, torch.Tensor)
        ]
        target = node.op if node.op in ("placeholder", "output") else str(node.target)
        name = node.name if node.op == "placeholder" else ""  # which the engine's inputs have
        add(node.op, name, target, _written(node.args, numbers), _written(node.kwargs, numbers), described)
        if node.name in conversion.constants and node.users:
            add_tensor(conversion.constants[node.name])
        elif node.op == "get_attr":
            held = getattr(conversion.gm, str(node.target), None)
            if isinstance(held, torch.Tensor):
                add_tensor(held)
    return digest.hexdigest()


def _written(value: Any, numbers: Mapping[Any, str]) -> Any:
    if isinstance(value, torch.fx.Node):
        return numbers[value]
    if isinstance(value, (list, tuple)):
        return [_written(item, numbers) for item in value]
    if isinstance(value, dict):
        return {key: _written(item, numbers) for key, item in value.items()}
    return repr(value)


def _library() -> str:
    """The version, and the library file's own size and time, which tell two builds of one version apart."""
    found = Path(_native.__file__).stat()
    return f"{_native.version()} {found.st_size} {found.st_mtime_ns}"


def _machine() -> list[Any]:
    kept = ("kind", "name", "isa", "compute_capability")
    return [platform.machine(), [[device.get(key) for key in kept] for device in json.loads(_native.list_devices())]]
