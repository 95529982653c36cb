"""Folders of built language models in Ray's object store: each node fetches one once, and its processes map the same files."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import ray

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.llm._folder import DESCRIPTION
from camshaft.ray._engines import own_folder


@dataclasses.dataclass(frozen=True)
class StoredFolder:
    """What put_folder() gives; it goes to other processes. files: their names, where their bytes are, and their digests."""

    name: str
    files: tuple[tuple[str, Any, str], ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr([(name, digest) for name, _, digest in self.files]).encode()).hexdigest()


def put_folder(folder: Path) -> StoredFolder:
    """Raises FileError where there is no built model."""
    import numpy

    if not (folder / DESCRIPTION).is_file():
        raise FileError(f"{folder}: there is no {DESCRIPTION}: `camshaft llm build` makes the folder of a model")
    files = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = numpy.fromfile(path, numpy.uint8)
        files.append((path.relative_to(folder).as_posix(), ray.put(data), hashlib.sha256(data.data).hexdigest()))
    return StoredFolder(folder.name, tuple(files))


def local_folder(stored: StoredFolder) -> Path:
    """On this node, where it is written the first time."""
    place = own_folder() / stored.digest
    if place.exists():
        return place
    unfinished = Path(tempfile.mkdtemp(dir=own_folder(), prefix=".unfinished-"))
    try:
        for name, reference, digest in stored.files:
            data = ray.get(reference)
            if hashlib.sha256(data.data).hexdigest() != digest:
                raise InvalidArgumentError(f"{stored.name}/{name} in the object store is not what was put there")
            (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
            data.tofile(unfinished / name)
        try:
            os.rename(unfinished, place)
        except OSError:  # another process was first, with the same
            if not place.exists():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return place
