"""Adapters of LoRA (Hu et al., https://arxiv.org/abs/2106.09685) in files as PEFT writes them, and where a model has the
products that they update."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from camshaft._errors import FileError, InvalidArgumentError, InvalidModelError, UnsupportedError
from camshaft.llm._fields import Fields, read_json
from camshaft.llm._rows import widened
from camshaft.llm._safetensors import SafetensorsFolder

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LORA_TYPES = ("auto", "f32", "f16", "bf16")
RANK_MULTIPLE = 8  # ranks of engines are multiples of it: rows of matrices are whole vectors then
MOST_LORA_RANK = 512
HEAD = "lm_head"  #: the module that gives logits, whatever a family calls it
_WRAPPER = "base_model.model."
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_TENSOR = re.compile(r"(?P<module>.+)\.lora_(?P<matrix>[AB])(\.[^.]+)?\.weight")
# Settings of PEFT that compute something else than x·A·B.
_OTHERS = ("use_dora", "alora_invocation_tokens", "layer_replication", "use_qalora", "arrow_config")
# Parts of models of text and pictures that have layers of their own.
_OTHER_PARTS = ("vision_tower", "vision_model", "visual", "multi_modal_projector", "audio_tower")


_EXPRESSION = re.compile(r"[*+?()\[\]{}|$\\]")
_T = TypeVar("_T")


class Update(NamedTuple):
    """A product x·W becomes x·(W + a·b)."""

    a: Array  # f32 [inputs, rank]
    b: Array  # f32 [rank, outputs], times the adapter's scale


class Sizes(NamedTuple):
    """Of a product that adapters may update. rows: which of the adapter's outputs each of the model's is, where their order
    differs."""

    inputs: int
    outputs: int
    rows: Array | None = None


@dataclasses.dataclass(frozen=True)
class LoraAdapter:
    name: str
    path: Path
    updates: Mapping[str, Update]  # by module, as the file names it

    @property
    def rank(self) -> int:
        """The largest."""
        return max(update.a.shape[1] for update in self.updates.values())

    @property
    def where(self) -> str:
        return f"the adapter '{self.name}' ({self.path})"

    def placed(self, known: Mapping[str, Sizes], hint: str = "") -> dict[str, Update]:
        """The updates by the names that the model's products have, which adapters may have more path in front of; their
        outputs in the model's order. hint: what to do about a module that is none of them.

        Raises InvalidArgumentError, naming the adapter and the module, for one that is none of the model's products, has
        other sizes, or is there twice."""
        made: dict[str, Update] = {}
        for module, update in self.updates.items():
            name = next((end for end in _ends(module) if end in known), None)
            if name is None:
                self._refuse(module, known, hint)
            if name in made:
                raise InvalidArgumentError(f"{self.where} updates {name} twice, by {module} for one")
            sizes, given = known[name], (update.a.shape[0], update.b.shape[1])
            if given != sizes[:2]:
                raise InvalidArgumentError(
                    f"{self.where} updates {module} from {given[0]} to {given[1]} channels; the model's is from "
                    f"{sizes.inputs} to {sizes.outputs}"
                )
            made[name] = update if sizes.rows is None else Update(update.a, update.b[:, sizes.rows])
        return made

    def _refuse(self, module: str, known: Iterable[str], hint: str) -> NoReturn:
        alike = difflib.get_close_matches(module, known, 1, 0.5)
        meant = f"; is {alike[0]} meant?" if alike else ""
        raise InvalidArgumentError(
            f"{self.where} updates {module}, which is no product that adapters may update here{hint or meant}"
        )


def _ends(module: str) -> Iterable[str]:
    """The path, and what is left of it without its beginnings."""
    parts = module.split(".")
    if any(part in _OTHER_PARTS for part in parts):
        return ()
    return (".".join(parts[i:]) for i in range(len(parts)))


def check_adapter_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in ("none", ".", "..") or len(name) > 200:
        raise InvalidArgumentError(
            f"an adapter cannot be named {name!r}: give letters, digits, '_', '-' and '.', and not none"
        )
    return name


def named_paths(given: Iterable[str]) -> dict[str, Path]:
    """Of "NAME=PATH", each a folder of PEFT's or a file."""
    made: dict[str, Path] = {}
    for each in given:
        name, equals, path = str(each).partition("=")
        if not equals or not path:
            raise InvalidArgumentError(f"an adapter is NAME=FOLDER, not {str(each)!r}")
        if check_adapter_name(name) in made:
            raise InvalidArgumentError(f"two adapters are named '{name}'")
        made[name] = Path(path)
    return made


def files_of(path: Path) -> tuple[Path, Path]:
    """Of an adapter's folder, or its file: the weights, and the configuration, which need not be there."""
    if path.is_dir():
        return path / WEIGHTS, path / CONFIG
    if path.suffix != ".safetensors":
        raise FileError(
            f"{path}: an adapter is the folder that PEFT's save_pretrained() writes, or a .safetensors file"
        )
    return path, path.parent / CONFIG


def read_adapter(name: str, path: str | os.PathLike[str]) -> LoraAdapter:
    """Reads tensors `[base_model.model.]<module>.lora_A.weight` [rank, inputs] and `….lora_B.weight` [outputs, rank], in
    fp32, fp16 or bf16. The configuration beside them says the scale (lora_alpha, use_rslora, rank_pattern, alpha_pattern);
    beside a file that was named without one it is 1.

    Raises FileError, InvalidModelError for damaged files, and UnsupportedError for what is no such update (DoRA, embeddings,
    whole weights); each names the file and the tensor."""
    given = Path(os.fspath(path))
    weights, config = files_of(given)
    if not weights.is_file():
        raise FileError(f"{given}: there is no {WEIGHTS}")
    if given.is_dir() and not config.is_file():
        raise FileError(f"{given}: there is no {CONFIG}, which says the scale (lora_alpha)")
    scale = _scale_of(config)
    files = SafetensorsFolder(weights.parent, [weights])
    matrices: dict[str, dict[str, Array]] = {}
    for tensor, entry in files.entries.items():
        module, matrix = _part_of(weights, tensor)
        if entry.dtype not in ("F32", "F16", "BF16"):
            raise UnsupportedError(f"{weights}: tensor '{tensor}' is {entry.dtype}; F32, F16 and BF16 are read")
        if len(entry.shape) != 2:
            raise UnsupportedError(f"{weights}: tensor '{tensor}' has {len(entry.shape)} axes; products have 2")
        if matrix in matrices.setdefault(module, {}):
            raise InvalidModelError(f"{weights}: the module {module} has two tensors lora_{matrix}")
        matrices[module][matrix] = widened(files.array(tensor), entry.dtype)
    if not matrices:
        raise InvalidModelError(f"{weights}: it has no tensors lora_A and lora_B")
    return LoraAdapter(name, given, {m: _update(weights, m, both, scale) for m, both in sorted(matrices.items())})


def _part_of(file: Path, tensor: str) -> tuple[str, str]:
    def refuse(why: str) -> NoReturn:
        raise UnsupportedError(f"{file}: tensor '{tensor}' {why}")

    if "lora_embedding_" in tensor:
        refuse("updates an embedding; only products have low-rank updates here")
    if "lora_magnitude_vector" in tensor:
        refuse("is DoRA's, which scales whole columns of the weights: merge it into the model")
    if tensor.endswith((".base_layer.weight", "embed_tokens.weight")):
        refuse("has whole weights: save the adapter with save_pretrained(…, save_embedding_layers=False)")
    found = _TENSOR.fullmatch(tensor)
    if found is None:
        refuse("is no low-rank update (lora_A.weight, lora_B.weight)")
    # The head of GPT-NeoX, by its name before Transformers 5.
    module = re.sub(r"(^|\.)embed_out$", rf"\1{HEAD}", found["module"])
    return module.removeprefix(_WRAPPER), found["matrix"]


def _update(file: Path, module: str, both: Mapping[str, Array], scale: Any) -> Update:
    import numpy

    for matrix in "AB":
        if matrix not in both:
            raise InvalidModelError(f"{file}: the module {module} has no tensor lora_{matrix}")
    a, b = both["A"], both["B"]
    if a.shape[0] != b.shape[1] or not 1 <= a.shape[0] <= MOST_LORA_RANK:
        raise InvalidModelError(
            f"{file}: lora_A {list(a.shape)} and lora_B {list(b.shape)} of the module {module} have no common rank from 1 to "
            f"{MOST_LORA_RANK}"
        )
    for matrix, values in both.items():
        if not numpy.isfinite(values).all():
            raise InvalidModelError(f"{file}: lora_{matrix} of the module {module} has a NaN or an infinity")
    return Update(a.T, numpy.float32(scale(module, a.shape[0])) * b.T)


def _scale_of(config: Path) -> Any:
    """Of a module and its rank."""
    if not config.is_file():
        return lambda module, rank: 1.0
    fields = Fields(read_json(config), str(config))
    if fields.raw("peft_type", default="LORA") != "LORA":
        raise UnsupportedError(f"{config}: peft_type is {fields.raw('peft_type')!r}; LORA is read")
    for name in _OTHERS:
        if fields.has(name) and fields.raw(name) is not False:
            raise UnsupportedError(f"{config}: {name} is set: only plain low-rank updates are read")
    by_root = fields.flag("use_rslora", default=False)
    usual = fields.number("lora_alpha", low=-1e12)
    alphas = _by_module(fields, "alpha_pattern", lambda pattern, key: pattern.number(key, low=-1e12))
    if bad := next((key for key, _ in alphas if _EXPRESSION.search(key)), None):
        raise UnsupportedError(
            f"{config}: alpha_pattern has the regular expression {bad!r}; give the ends of modules' paths"
        )
    ranks = _by_module(fields, "rank_pattern", lambda pattern, key: pattern.integer(key, high=MOST_LORA_RANK))
    usual_rank: int | None = None
    # The tensors say the ranks: what an expression says of them is not looked at.
    if fields.has("r") and not any(_EXPRESSION.search(key) for key, _ in ranks):
        usual_rank = fields.integer("r", high=MOST_LORA_RANK)

    def scale(module: str, rank: int) -> float:
        if usual_rank is not None and (said := _first_fit(ranks, module, usual_rank)) != rank:
            raise InvalidModelError(
                f"{config}: r is {said} for the module {module}, whose tensors have rank {rank}: the configuration is of "
                "another adapter"
            )
        return _first_fit(alphas, module, usual) / (math.sqrt(rank) if by_root else rank)

    return scale


def _by_module(fields: Fields, name: str, read: Callable[[Fields, str], _T]) -> list[tuple[str, _T]]:
    """What a pattern has by the ends of modules' paths."""
    pattern = fields.within(name) if fields.has(name) else Fields({}, fields.where)
    return [(key, read(pattern, key)) for key in pattern.values]


def _first_fit(values: Sequence[tuple[str, _T]], module: str, usual: _T) -> _T:
    """As PEFT matches: the module itself or the end of its path; "^" stands for the beginning."""
    fits = (v for key, v in values if module in (key, key[1:] * key.startswith("^")) or module.endswith(f".{key}"))
    return next(fits, usual)
