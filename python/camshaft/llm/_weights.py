"""The weights of a model: by roles of its family, of the shapes that its configuration says, in the type that is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from camshaft._errors import InvalidModelError, UnsupportedError
from camshaft.llm._blocks import Blocks, in_blocks
from camshaft.llm._decoder import Decoder
from camshaft.llm._lora import HEAD
from camshaft.llm._optional import needed
from camshaft.llm._rows import widened

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

# What older versions of Transformers saved beside the weights: masks and frequencies, which are made anew.
_BUFFERS = re.compile(
    r"rotary_emb\.inv_freq$|\.(attn|attention|self_attention)\.(bias|masked_bias)$|(embed_positions|embeddings)\.position_ids$"
)


class Source(Protocol):
    """Tensors by name: SafetensorsFolder or GgufModel. An entry has `dtype` and `shape`."""

    entries: Any

    def array(self, name: str) -> Array: ...
    def blocks(self, name: str) -> Blocks | None: ...


class Weights:
    """beside: of another part of the same model, with which this one shares what has been read."""

    def __init__(self, source: Source, decoder: Decoder, where: str, beside: Weights | None = None) -> None:
        self._source = source
        self._decoder = decoder
        self._where = where
        self._read: set[str] = set() if beside is None else beside._read
        names, prefixes = decoder.family.names, decoder.family.prefixes
        embedding = f"{names['embedding']}.weight"
        found = [prefix for prefix in prefixes if prefix + embedding in source.entries]
        if not found:
            raise InvalidModelError(f"{where}: tensor '{prefixes[0]}{embedding}' is missing")
        self._prefix = found[0]

    def name(self, role: str, layer: int | None = None, kind: str = "weight", expert: int | None = None) -> str:
        family = self._decoder.family
        name = family.names[role] if expert is None and role in family.names else family.experts[role]
        if role == "head":
            # Beside the decoder where that is a part of a model; within it in models of text and pictures.
            own = f"{name}.{kind}"
            inner = self._prefix.removesuffix("model.") + own
            return inner if own not in self._source.entries and inner in self._source.entries else own
        place = "" if layer is None else family.layer.format(layer)
        return f"{self._prefix}{place}{name if expert is None else name.format(expert)}.{kind}"

    def module(self, role: str, layer: int | None = None, expert: int | None = None) -> str:
        """Of a product, without the path in front that all layers have."""
        if role == "head":
            return HEAD
        return self.name(role, layer, expert=expert).removeprefix(self._prefix).removesuffix(".weight")

    def dtype(self, name: str) -> str:
        """What the file has it as: "F32", "BF16", "Q4_0", …; "" where there is none."""
        entry = self._source.entries.get(name)
        return "" if entry is None else entry.dtype

    def blocks(self, name: str, shape: Sequence[int]) -> Blocks | None:
        """Of a tensor that the file has quantised."""
        self._check(name, shape)
        return self._source.blocks(name)

    def stored(self, name: str, shape: Sequence[int]) -> tuple[Array, str]:
        """The tensor as the file has it, and its type: "F32", "F16", "BF16" (as u16) or "F64"."""
        self._check(name, shape)
        dtype = self.dtype(name)
        if dtype not in ("F32", "F16", "BF16", "F64"):
            raise UnsupportedError(f"{self._where}: tensor '{name}' is of type {dtype}, which is not read")
        return self._source.array(name), dtype

    def _check(self, name: str, shape: Sequence[int]) -> None:
        entry = self._source.entries.get(name)
        if entry is None:
            raise InvalidModelError(f"{self._where}: tensor '{name}' is missing")
        if tuple(entry.shape) != tuple(shape):
            raise InvalidModelError(
                f"{self._where}: tensor '{name}' is {list(entry.shape)}; by the configuration it must be {list(shape)}"
            )
        self._read.add(name)

    def f32(self, name: str, shape: Sequence[int]) -> Array:
        """In fp32, over the file's bytes where that has it so."""
        return widened(*self._values(name, shape))

    def in_blocks(self, name: str, shape: Sequence[int], bits: int, transposed: bool) -> Blocks:
        """Of the matrix, or of its transposed one."""
        array, dtype = self._values(name, shape)
        return in_blocks(array.T if transposed else array, bits, dtype)

    def _values(self, name: str, shape: Sequence[int]) -> tuple[Array, str]:
        """stored(), and of what the file has quantised the values."""
        quantised = self.blocks(name, shape)
        return self.stored(name, shape) if quantised is None else (quantised.values(shape[-1]), "F32")

    def narrow(self, name: str, shape: Sequence[int], dtype: str) -> Array:
        """In "f16" or "bf16", over the file's bytes where that has it so."""
        import numpy

        if dtype == "bf16":
            bfloat16 = needed("ml_dtypes", "weights in bf16").bfloat16
            if self.dtype(name) == "BF16":
                return self.stored(name, shape)[0].view(bfloat16)
            return self.f32(name, shape).astype(bfloat16)
        if self.dtype(name) == "F16":
            return self.stored(name, shape)[0]
        with numpy.errstate(over="ignore"):
            made: Array = self.f32(name, shape).astype(numpy.float16)
        if not numpy.isfinite(made).all():
            raise UnsupportedError(
                f"{self._where}: tensor '{name}' has values that f16 cannot hold; take other weights"
            )
        return made

    def beside(self, name: str) -> str:
        """A tensor of the model that this is a part of."""
        around, _, _ = self._prefix.removesuffix(".").rpartition(".")
        return f"{around}.{name}" if around else name

    def leave_out(self, beginning: str) -> None:
        """What is called so in this part is there, and nobody needs it."""
        self._read.update(name for name in self._source.entries if name.startswith(self._prefix + beginning))

    def check_all_read(self, reads_head: bool) -> None:
        """Refuses a folder with weights that the decoder does not know: it would compute something else. reads_head: unless
        it is tied."""
        family = self._decoder.family
        unread = []
        if "head" in family.names and (self._decoder.tied or not reads_head):
            unread = [self.name("head")] if reads_head else [self.name("head"), self.name("head", kind="bias")]
        for name in self._source.entries:
            if name in self._read or _BUFFERS.search(name) or name in unread:
                continue
            if not name.startswith(family.ignored or ("\0",)):
                raise UnsupportedError(
                    f"{self._where}: tensor '{name}' is of no part that models of '{self._decoder.model_type}' have"
                )
