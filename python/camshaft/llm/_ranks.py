"""Tensor parallel: a model in ranks, of which each has a part of the weights and of the caches, and computes all tokens.

Every product is cut by its outputs, and what ranks have computed is gathered before the next one reads it: no sum is cut in
two, so that each number is what a single rank computes, but for how kernels cut sums of other sizes. Or every other product
is cut by its inputs (row parallel), and what it gives is summed over the ranks: half as many meetings, and sums that are
rounded in parts. Shoeybi et al., "Megatron-LM", 2019."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from camshaft._errors import InvalidArgumentError, UnsupportedError
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._decoder import Decoder

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

MOST_RANKS = 64


@dataclass(frozen=True)
class Ranks:
    """One of `size` ranks."""

    rank: int = 0
    size: int = 1
    row_parallel: bool = False

    def cuts_inputs(self, columns: int) -> bool:
        """Whether a product of floats with so many inputs, of which each rank has its own(columns), is cut by them."""
        return self.row_parallel and self.size > 1 and columns % self.size == 0

    def summed(self, net: Network, x: Value) -> Value:
        whole: Value = net.domain("camshaft").AllReduce(x, group_size=self.size)
        return whole

    def gathered(self, net: Network, x: Value, columns: int) -> Value:
        """[tokens, columns] of all ranks' own(columns)."""
        if self.size == 1:
            return x
        whole: Value = net.domain("camshaft").AllGather(x, axis=-1, group_size=self.size)
        return whole if columns % self.size == 0 else net.Slice(whole, [0], [columns], [-1])

    def own(self, columns: int) -> Array | None:
        """Which of so many outputs are this rank's, None for all: as many on each rank. Where they are no multiple of the
        ranks, the last of all stands for those that there are not."""
        import numpy

        if self.size == 1:
            return None
        part = -(-columns // self.size)
        return numpy.minimum(numpy.arange(self.rank * part, (self.rank + 1) * part), columns - 1)

    def decoder_of(self, decoder: Decoder) -> Decoder:
        """With the heads that are this rank's. Ranks share a key head where there are fewer of these than ranks."""
        if self.size == 1:
            return decoder
        where = f"tensor_parallel_size is {self.size}"
        if not decoder.family.causal or decoder.cross_keys:
            raise UnsupportedError(
                f"{where}: models of '{decoder.model_type}' run in one rank; decoders of text in several"
            )
        if decoder.heads % self.size:
            raise InvalidArgumentError(f"{where}: {decoder.heads} heads cannot be shared out evenly")
        if decoder.kv_heads % self.size and self.size % decoder.kv_heads:
            raise InvalidArgumentError(
                f"{where}: {decoder.kv_heads} key heads can neither be shared out evenly, nor ranks to them"
            )
        return replace(decoder, heads=decoder.heads // self.size, kv_heads=max(decoder.kv_heads // self.size, 1))

    def first_key_head(self, decoder: Decoder) -> int:
        """Of all of the model's."""
        return self.rank * decoder.kv_heads // self.size


def check_ranks(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST_RANKS:
        raise InvalidArgumentError(f"tensor_parallel_size is {size!r}; 1 to {MOST_RANKS} ranks are possible")
    return size
