"""Engines in Ray's object store: sent to each node once, and mapped there by all of its processes."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any, Union

import ray

from camshaft import Engine
from camshaft._errors import FileError, InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class StoredEngine:
    """What put() gives; it goes to other processes."""

    reference: Any  # of a NumPy array of bytes in the object store
    digest: str


Source = Union[Engine, StoredEngine, bytes, str, "os.PathLike[str]"]


def put(engine: Source) -> StoredEngine:
    """Puts an engine, its bytes or its file into the object store, from which nodes fetch it when a process there first
    loads it."""
    import numpy

    if isinstance(engine, StoredEngine):
        return engine
    data = Path(engine).read_bytes() if isinstance(engine, (str, os.PathLike)) else bytes(engine)
    return StoredEngine(ray.put(numpy.frombuffer(data, numpy.uint8)), hashlib.sha256(data).hexdigest())


def load(engine: Source, device: str | None = None) -> Engine:
    """The engine in this process: that of a node's other processes is mapped from the same file, so that its weights are
    in memory once."""
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, StoredEngine):
        return Engine(os.fspath(_file_of(engine)), device)
    return Engine(engine if isinstance(engine, bytes) else os.fspath(engine), device)


def own_folder() -> Path:
    """Where this node's processes have what came of the object store."""
    folder = Path(tempfile.gettempdir()) / f"camshaft-ray-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    owner = folder.lstat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o022 or folder.is_symlink():
        raise FileError(f"{folder} is not this user's own folder: remove it, or set TMPDIR")
    return folder


def _file_of(engine: StoredEngine) -> Path:
    folder = own_folder()
    path = folder / f"{engine.digest}.engine"
    if path.exists():
        return path
    data = ray.get(engine.reference)
    if hashlib.sha256(data).hexdigest() != engine.digest:
        raise InvalidArgumentError("the engine in the object store is not the one that was put there")
    descriptor, unfinished = tempfile.mkstemp(dir=folder, prefix=".unfinished-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)  # processes that do so at once write the same
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
    return path
