"""Replacing the weights of an engine."""

from __future__ import annotations

import json
import mmap
import os
from typing import TYPE_CHECKING

from camshaft import _native
from camshaft._arrays import Memory, capsule_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from camshaft._engine import Engine
    from camshaft._types import Capsule, Path, Record, SupportsDLPack


def model_weights(
    model: Path | bytes | bytearray | memoryview, folder: Path | None = None, names: Iterable[str] | None = None
) -> dict[str, Memory]:
    """The weights of an ONNX model by the names that Refitter.set() knows them by, those of branches and loops among
    them. They lie in the model's memory where it has them as they are, and are not to be written. `model`: a path, or a
    model's bytes, whose external data lies in `folder`. `names`: these alone. Strings are left out."""
    import numpy

    if isinstance(model, (str, os.PathLike)):
        folder = folder or os.path.dirname(os.path.abspath(model))
        with open(model, "rb") as file:
            data = numpy.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), numpy.uint8)
    else:
        data = numpy.frombuffer(model, numpy.uint8)
    wanted = None if names is None else list(names)
    owner, found = _native.model_weights(
        data.ctypes.data, data.size, None if folder is None else os.fspath(folder), wanted
    )
    return {name: Memory(address, dtype, dims, owner=(owner, data)) for name, address, dtype, dims in found}


class Refitter:
    """Collects new weights for an engine that was built with refit=True, and gives them to it at once.

        refitter = camshaft.Refitter(engine)
        refitter.set("conv1.weight", array)
        refitter.refit()

    Contexts take the new weights with their next run; one that runs meanwhile ends on the old ones. Nothing is verified.
    Several refitters of one engine take turns."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._refitter = _native.create_refitter(engine._engine)
        self._kept: dict[str, Capsule | Memory] = {}  # what the refitter points to

    def __repr__(self) -> str:
        return f"<camshaft.Refitter of {self.engine!r}: {len(self._kept)} weights set>"

    @property
    def all_weights(self) -> list[Record]:
        """The initializers of the model that the engine was built of, as far as nodes read them: [{"name", "dtype",
        "dims", "fixed_by", "layers", "is_set"}]. "fixed_by" is what was decided by an initializer's numbers, so that
        only the same ones can be set, and "" where it can be replaced; "layers" are those that read what is made of
        it."""
        weights: list[Record] = json.loads(_native.refitter_weights(self._refitter))
        return weights

    @property
    def missing(self) -> list[str]:
        """The names of what must be set besides what is, as constants of the engine are made of both."""
        return _native.refitter_missing(self._refitter)

    def set(self, name: str, array: SupportsDLPack) -> None:
        """Puts an array of the host in the place of an initializer; it must stay as it is until refit()."""
        if isinstance(array, Memory) and array.device == "cpu":  # whose elements may be of types that DLPack has not
            _native.refitter_set_memory(self._refitter, name, array.address, array.dtype, array.shape)
            self._kept[name] = array
            return
        capsule = capsule_of(array)
        _native.refitter_set(self._refitter, name, capsule)
        self._kept[name] = capsule

    def set_file(self, path: Path) -> None:
        """The same for every initializer of a model (.onnx) that the engine has, or all tensors of a .safetensors or
        .npz file."""
        _native.refitter_set_file(self._refitter, os.fspath(path))

    def set_lora(self, adapter: str, path: Path) -> None:
        """The same for an adapter that the engine was built with (the option lora), from another file: its numbers take
        the place of all of that adapter's. It may update what the engine's adapters did when it was built, in ranks up
        to theirs."""
        _native.refitter_set_lora(self._refitter, adapter, os.fspath(path))

    def refit(self, threads: int = 0) -> None:
        """Gives the engine what is set, on so many threads (0: one for each core), and forgets it. The engine is as it
        was when this raises."""
        _native.refit(self._refitter, threads)
        self._kept.clear()
