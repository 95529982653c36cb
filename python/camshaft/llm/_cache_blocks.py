"""How many blocks a model's cache gets."""

from __future__ import annotations

import os

from camshaft import _native
from camshaft._engine import Engine, devices
from camshaft._errors import InvalidArgumentError


def cache_blocks(
    engine: Engine,
    longest: int,
    max_num_seqs: int,
    num_blocks: int | None,
    kv_cache_memory_bytes: int | None,
    *,
    spare: int,
) -> int:
    """So many as are asked for, or as all sequences of `longest` tokens may need, with a quarter of the memory as the most.
    spare: tokens that must have room behind a prompt."""
    layers, block_size, block_bytes = _native.generator_cache(engine._engine)
    if layers == 0:
        for name, given in (("num_blocks", num_blocks), ("kv_cache_memory_bytes", kv_cache_memory_bytes)):
            if given is not None:
                raise InvalidArgumentError(f"{name} is {given}: this model keeps no keys and values, and has no cache")
        return 2 * max_num_seqs  # one for each sequence, and as many that admission leaves free
    per_sequence = -(-longest // block_size)
    fewest = min(per_sequence, 1 + spare)
    if num_blocks is not None:
        if 0 < num_blocks < fewest:
            raise InvalidArgumentError(f"num_blocks is {num_blocks}: no text would have room behind its prompt")
        return num_blocks
    if kv_cache_memory_bytes is not None and kv_cache_memory_bytes < fewest * block_bytes:
        raise InvalidArgumentError(
            f"kv_cache_memory_bytes is {kv_cache_memory_bytes}: no text would have room behind its prompt, for which "
            f"{fewest * block_bytes} bytes are needed"
        )
    budget = kv_cache_memory_bytes or _memory_of(engine.device) // 4
    # A request is let in where a block more is left for each that runs.
    made: int = max(min((per_sequence + 1) * max_num_seqs, budget // block_bytes), 1)
    return made if kv_cache_memory_bytes is not None else max(made, per_sequence + 1)


def _memory_of(device: str) -> int:
    """Bytes."""
    for each in devices():
        if each.get("device", each.get("name")) == device and each.get("memory_bytes"):
            return int(each["memory_bytes"])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
