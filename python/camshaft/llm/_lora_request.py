"""Which adapter a request is decoded with, and those that a model has in memory."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _native
from camshaft._errors import InvalidArgumentError
from camshaft.llm._folder import adapter_folder
from camshaft.llm._layers import stacked_rows
from camshaft.llm._lora import LoraAdapter, check_adapter_name, read_adapter
from camshaft.llm._lora_inputs import EngineLoras, loras_of

if TYPE_CHECKING:
    import argparse

    from camshaft._engine import Engine
    from camshaft.llm._step_loop import StepLoop

_MOST_LORAS = 4096


@dataclasses.dataclass(frozen=True)
class LoRARequest:
    """An adapter, as in vLLM.

    lora_name: that the folder of the model has, or of another one.
    lora_int_id: is taken as vLLM does; names tell adapters apart here.
    lora_path: of another one the folder that PEFT wrote, or its file."""

    lora_name: str
    lora_int_id: int | None = None
    lora_path: str | os.PathLike[str] = ""


def add_lora_flag(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--lora", action="append", metavar="NAME[=DIR]", default=[], help=what)


def requests_of_flags(given: list[str], folder: Path) -> list[LoRARequest]:
    """Of adapters that are named in a command: those of the model's folder, or from elsewhere."""
    made = []
    for each in given:
        name, _, path = each.partition("=")
        made.append(LoRARequest(check_adapter_name(name), None, path or adapter_folder(folder, name)))
    return made


class NoLoraPlaceError(InvalidArgumentError):
    """All of max_loras are in use: later there may be a place."""


@dataclasses.dataclass
class _Loaded:
    name: str
    salt: int  # of what the prefix cache has by it
    used: int = 0  # when, as requests count


class Loras:
    """Adapters of a model: those that are known by name, and those whose matrices are in memory, of which there are
    max_loras at most. One that is not there takes the place of the one that was not used for longest."""

    def __init__(self, products: EngineLoras, folder: Path | None, names: list[str], max_loras: int | None) -> None:
        if max_loras is not None and (type(max_loras) is not int or not 1 <= max_loras <= _MOST_LORAS):
            raise InvalidArgumentError(f"max_loras is {max_loras!r}; 1 to {_MOST_LORAS} are possible")
        self.max_loras = max_loras or max(len(names), 1)
        self._products = products
        self._paths = {} if folder is None else {name: adapter_folder(folder, name) for name in names}
        self._slots: list[_Loaded | None] = [None] * self.max_loras
        self._salts, self._uses = itertools.count(1), itertools.count(1)

    @property
    def paths(self) -> Mapping[str, Path]:
        """Of the adapters that are known."""
        return dict(self._paths)

    def load_first(self, steps: StepLoop) -> None:
        """Those of the folder, as many as there is room for: what is wrong with one is said at once."""
        for name in list(self._paths)[: self.max_loras]:
            self._place(steps, name, self._matrices(name, self._paths[name]))

    def prepared(self, request: LoRARequest, steps: StepLoop) -> Callable[[], tuple[int, int]]:
        """What gives the adapter's place and its salt, to be called between steps. Files are read before."""
        if not isinstance(request, LoRARequest):
            raise InvalidArgumentError(f"lora_request is LoRARequest(name), not {request!r}")
        name, given = check_adapter_name(request.lora_name), request.lora_path
        if not isinstance(given, (str, os.PathLike)):
            raise InvalidArgumentError(f"LoRARequest({name!r}): lora_path is {given!r}; a path is needed")
        asked = Path(os.fspath(given)) if str(given) else None
        read = self._path_of(name, asked)
        matrices = None if self._place_of(name) is not None else self._matrices(name, read)

        def place() -> tuple[int, int]:
            path = self._path_of(name, asked)  # others may have come or gone since
            slot = self._place_of(name)
            if slot is None:
                is_read = matrices is not None and path == read
                slot = self._place(steps, name, matrices if is_read and matrices else self._matrices(name, path))
            self._paths[name] = path
            loaded = self._slots[slot]
            assert loaded is not None
            loaded.used = next(self._uses)
            return slot, loaded.salt

        return place

    def remove(self, name: str, steps: StepLoop) -> None:
        """Between steps. Raises InvalidArgumentError for one that is unknown, or that a request is decoded with."""
        if name not in self._paths:
            raise InvalidArgumentError(f"there is no adapter '{name}' ({', '.join(self._paths) or 'there is none'})")
        slot = self._place_of(name)
        if slot is not None:
            if slot in _in_use(steps):
                raise InvalidArgumentError(f"the adapter '{name}' cannot be removed: a request is decoded with it")
            self._slots[slot] = None
        del self._paths[name]

    def _path_of(self, name: str, asked: Path | None) -> Path:
        known = self._paths.get(name)
        path = known if asked is None else asked
        if path is None:
            names = ", ".join(self._paths) or "there is none"
            raise InvalidArgumentError(f"there is no adapter '{name}' ({names}): give its lora_path")
        if known is not None and path != known:
            raise InvalidArgumentError(
                f"the adapter '{name}' is {known}, not {path}: remove_lora() comes before another"
            )
        return path

    def _place_of(self, name: str) -> int | None:
        return next((i for i, loaded in enumerate(self._slots) if loaded is not None and loaded.name == name), None)

    def _matrices(self, name: str, path: Path) -> list[tuple[str, Any]]:
        adapter: LoraAdapter = read_adapter(name, path)
        return self._products.matrices_of(adapter)

    def _place(self, steps: StepLoop, name: str, matrices: list[tuple[str, Any]]) -> int:
        taken = _in_use(steps)
        free = [slot for slot in range(self.max_loras) if slot not in taken]
        if not free:
            raise NoLoraPlaceError(
                f"there is no place for the adapter '{name}': requests are decoded with {self.max_loras} others; raise "
                "max_loras"
            )

        def age(slot: int) -> int:
            loaded = self._slots[slot]
            return -1 if loaded is None else loaded.used

        slot = min(free, key=age)
        self._slots[slot] = None
        listed = [(each, values.ctypes.data, values.nbytes) for each, values in matrices]
        _native.generator_set_lora(steps.generator, slot, listed)
        self._slots[slot] = _Loaded(name, next(self._salts))
        return slot


def _in_use(steps: StepLoop) -> set[int]:
    return {request.lora for request in steps.requests() if request.lora is not None}


def loras_of_model(
    engine: Engine, description: Mapping[str, Any], folder: Path | None, enable_lora: bool | None, max_loras: int | None
) -> Loras | None:
    """None where there are no adapters. Raises InvalidArgumentError where some are asked for, and the engine has none."""
    said = description.get("lora") or {}
    orders = {}
    if said.get("grouped_qkv"):
        orders[said["grouped_qkv"]] = stacked_rows(
            description["heads"], description["kv_heads"], description["head_size"]
        )
    products = loras_of(engine, orders)
    if products is None or enable_lora is False:
        if enable_lora or max_loras is not None:
            raise InvalidArgumentError(
                "enable_lora and max_loras: the model was built without adapters; `camshaft llm build` takes --lora and "
                "--enable-lora"
            )
        return None
    return Loras(products, folder, list(said.get("adapters") or ()), max_loras)


def checked_loras(loras: Loras | None) -> Loras:
    if loras is None:
        raise InvalidArgumentError(
            "lora_request: the model was built without adapters, or enable_lora is false; `camshaft llm build` takes --lora "
            "and --enable-lora"
        )
    return loras


def place_of(loras: Loras | None, request: LoRARequest | None, steps: StepLoop) -> Callable[[], tuple[int, int]]:
    """Loras.prepared(), also of a request without an adapter."""
    return (lambda: (-1, 0)) if request is None else checked_loras(loras).prepared(request, steps)
