"""Updates by adapters in the networks of decoders: their matrices are inputs, of which each token's row chooses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from camshaft._arrays import Memory
from camshaft._errors import InvalidArgumentError
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._lora import LORA_TYPES, MOST_LORA_RANK, RANK_MULTIPLE, LoraAdapter, Sizes, _ends
from camshaft.llm._optional import needed

if TYPE_CHECKING:
    import numpy

    from camshaft._engine import Engine
    from camshaft.llm._layers import WeightType

    Array = numpy.ndarray[Any, Any]

IDS = "lora_ids"
_MATRICES = ("lora_a.", "lora_b.")
_USUAL_RANK = 16
# Products that are updated where adapters name them, and not with all others.
_NAMED_ALONE = ("head", "router", "shared_weight")
_SAMPLE_LORAS = 3


@dataclasses.dataclass(frozen=True)
class LoraChoice:
    """What a build is to have. targets: ends of the paths of modules that adapters name; has_all: whether all linear layers
    are updated beside these, but the head and routers."""

    rank: int
    type: str
    targets: frozenset[str]
    has_all: bool
    adapters: tuple[LoraAdapter, ...] = ()


def lora_choice(
    adapters: Sequence[LoraAdapter],
    enable_lora: bool | None,
    max_lora_rank: int | None,
    lora_dtype: str,
    weights: WeightType,
) -> LoraChoice | None:
    """None: no adapters. Raises InvalidArgumentError for what does not go together."""
    if enable_lora is False and adapters:
        raise InvalidArgumentError("enable_lora is false, and adapters are given")
    if not adapters and not enable_lora:
        if max_lora_rank is not None or lora_dtype != "auto":
            raise InvalidArgumentError("max_lora_rank and lora_dtype go with adapters, or with enable_lora")
        return None
    if lora_dtype not in LORA_TYPES:
        raise InvalidArgumentError(f"lora_dtype is {lora_dtype!r}; {', '.join(LORA_TYPES)} are possible")
    known = max((adapter.rank for adapter in adapters), default=_USUAL_RANK)
    rank = known if max_lora_rank is None else max_lora_rank
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= MOST_LORA_RANK:
        raise InvalidArgumentError(f"max_lora_rank is {rank!r}; 1 to {MOST_LORA_RANK} are possible")
    for adapter in adapters:
        if adapter.rank > rank:
            raise InvalidArgumentError(f"{adapter.where} has rank {adapter.rank}; max_lora_rank is {rank}")
    targets = frozenset(end for adapter in adapters for module in adapter.updates for end in _ends(module))
    usual = {"f32": "f32", "stored": "f32", "bf16": "bf16"}.get(weights, "f16")
    made = usual if lora_dtype == "auto" else lora_dtype
    return LoraChoice(-(-rank // RANK_MULTIPLE) * RANK_MULTIPLE, made, targets, bool(enable_lora), tuple(adapters))


class LoraInputs:
    """Adds updates to a network's products, and remembers all products that could have one."""

    def __init__(self, net: Network, choice: LoraChoice, ids: Value, wanted: Value) -> None:
        """ids: of the tokens' rows; wanted: the tokens whose logits are computed."""
        self._net, self._choice = net, choice
        self.ids, self._wanted = ids, wanted
        self._wanted_ids: Value | None = None
        self.linears: dict[str, Sizes] = {}
        self.updated: dict[str, Sizes] = {}

    def ids_of_rows(self) -> Value:
        """Of the rows whose logits are computed."""
        if self._wanted_ids is None:
            self._wanted_ids = self._net.Gather(self.ids, self._wanted)
        return self._wanted_ids

    def update(self, y: Value, x: Value, name: str, role: str, sizes: Sizes, ids: Value) -> Value:
        """y, and what the rows' adapters add to it."""
        self.linears[name] = sizes
        choice = self._choice
        if name not in choice.targets and (role in _NAMED_ALONE or not choice.has_all):
            return y
        self.updated[name] = sizes
        operators: Any = self._net.domain("camshaft")
        for matrices, shape in zip(_MATRICES, ((sizes.inputs, choice.rank), (choice.rank, sizes.outputs))):
            w = self._net.input(matrices + name, choice.type, ["loras", *shape])
            x = operators.GatherMatMul(x, ids, w)
        return y + x

    def check(self) -> None:
        """That all of the adapters has a place."""
        for adapter in self._choice.adapters:
            placed = adapter.placed(self.linears)
            assert placed.keys() <= self.updated.keys(), "all that an adapter names is updated"

    def samples(self, tokens: int, random: numpy.random.Generator) -> dict[str, Any]:
        """Values of the inputs, of some adapters and of tokens with each and with none."""
        rank, made = self._choice.rank, {}
        for name, sizes in self.updated.items():
            for matrices, shape in zip(_MATRICES, ((sizes.inputs, rank), (rank, sizes.outputs))):
                values = random.standard_normal((_SAMPLE_LORAS, *shape), "f") / shape[0] ** 0.5
                stored = stored_as(values, self._choice.type)
                if self._choice.type == "bf16":  # which NumPy's DLPack has not
                    stored = Memory(stored.ctypes.data, "bf16", stored.shape, owner=stored)
                made[matrices + name] = stored
        made[IDS] = ((random.permutation(tokens) % (_SAMPLE_LORAS + 1)) - 1).astype("i4")
        return made


def stored_as(values: Array, kind: str) -> Any:
    """In the type of an engine's input; bf16 as ml_dtypes has it."""
    if kind == "bf16":
        return values.astype(needed("ml_dtypes", "adapters in bf16").bfloat16)
    return values.astype({"f32": "f4", "f16": "f2"}[kind])


@dataclasses.dataclass(frozen=True)
class EngineLoras:
    """What an engine can update."""

    rank: int
    type: str
    products: Mapping[str, Sizes]

    def matrices_of(self, adapter: LoraAdapter) -> list[tuple[str, Any]]:
        """An adapter's matrices by the names of the engine's inputs, padded to its rank with zeros.

        Raises InvalidArgumentError for an adapter that does not fit."""
        import numpy

        if adapter.rank > self.rank:
            raise InvalidArgumentError(
                f"{adapter.where} has rank {adapter.rank}; the engine was built for ranks up to {self.rank} "
                "(max_lora_rank)"
            )
        hint = ": build the engine with it, or with enable_lora, and it may be"
        made = []
        for name, update in adapter.placed(self.products, hint).items():
            rank = update.a.shape[1]
            for matrices, values in zip(_MATRICES, update):
                missing = ((0, 0), (0, self.rank - rank)) if values is update.a else ((0, self.rank - rank), (0, 0))
                with numpy.errstate(over="ignore"):
                    stored = numpy.ascontiguousarray(stored_as(numpy.pad(values, missing), self.type))
                if not numpy.isfinite(stored.astype("f4")).all():
                    raise InvalidArgumentError(
                        f"{adapter.where}: the matrices of {name} have values that {self.type} cannot hold; build with "
                        "another lora_dtype"
                    )
                made.append((matrices + name, stored))
        return made


def loras_of(engine: Engine, orders: Mapping[str, Array]) -> EngineLoras | None:
    """None of an engine without adapters. orders: of products whose outputs are in another order than adapters', by the
    ends of their names."""
    shapes = {each.name: each for each in engine.inputs}
    if IDS not in shapes:
        return None
    names = [name.removeprefix(_MATRICES[0]) for name in shapes if name.startswith(_MATRICES[0])]
    products = {}
    for name in names:
        a, b = (shapes[matrices + name].shape for matrices in _MATRICES)
        rows = next((rows for end, rows in orders.items() if name.endswith(end)), None)
        products[name] = Sizes(int(a[1]), int(b[2]), rows)
    first = shapes[_MATRICES[0] + names[0]]
    return EngineLoras(int(first.shape[2]), first.dtype, products)


def is_lora_input(name: str) -> bool:
    return name == IDS or name.startswith(_MATRICES)
