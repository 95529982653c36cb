"""Caches of keys and values in blocks, as inputs of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from camshaft._arrays import Memory
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._decoder import Decoder
from camshaft.llm._optional import needed

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

CACHE_TYPES = ("f16", "f32", "int8", "fp8")
# Of those that have a scale for each head of each token, the elements.
SCALED_CACHES = {"int8": "i8", "fp8": "f8e4m3"}
CROSS = "cross_"  # before the names of caches that an encoder fills


@dataclass(frozen=True)
class Caches:
    """What a decoder's layers keep, each in its own caches of the same shapes."""

    type: str  # of CACHE_TYPES
    block_size: int
    decoder: Decoder

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each layer keeps from step to step, in the order of PagedAttention's inputs."""
        kinds = ("key_cache", "value_cache")
        return (*kinds, "key_scales", "value_scales") if self.type in SCALED_CACHES else kinds

    def inputs(self, net: Network, prefix: str, blocks: str, layer: int) -> tuple[Value, ...]:
        """The inputs of a layer; blocks: the name of their number."""
        shape: list[int | str] = [blocks, self.block_size, self.decoder.kv_heads, self.decoder.head_size]
        return tuple(net.input(f"{prefix}{kind}.{layer}", *self._typed(kind, shape)) for kind in self.kinds)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def samples(self, prefix: str, blocks: int, random: numpy.random.Generator) -> dict[str, Any]:
        """Values of all these inputs, normally distributed."""
        import numpy

        made: dict[str, Any] = {}
        shape = (blocks, self.block_size, self.decoder.kv_heads, self.decoder.head_size)
        for layer in range(len(self.decoder.layers)):
            for kind in ("key", "value"):
                values: Any = random.standard_normal(shape, numpy.float32)
                if self.type in SCALED_CACHES:
                    values, made[f"{prefix}{kind}_scales.{layer}"] = _in_steps(values, self.type)
                made[f"{prefix}{kind}_cache.{layer}"] = values.astype(numpy.float16) if self.type == "f16" else values
        return made

    def _typed(self, kind: str, shape: list[int | str]) -> tuple[Any, list[int | str]]:
        if kind.endswith("scales"):
            return "f32", shape[:3]
        return SCALED_CACHES.get(self.type, self.type), shape


def _in_steps(x: Array, cache: str) -> tuple[Any, Array]:
    """In 8 bits, and the scales of rows."""
    import numpy

    scales = numpy.abs(x).max(-1) / (127 if cache == "int8" else 448)
    steps = x / scales[..., None]
    if cache == "int8":
        return numpy.rint(steps).astype(numpy.int8), scales
    codes = steps.astype(needed("ml_dtypes", "a cache in fp8").float8_e4m3fn)
    return Memory(codes.ctypes.data, SCALED_CACHES[cache], codes.shape, owner=codes), scales  # DLPack of NumPy has none
