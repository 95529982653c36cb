"""How many blocks the caches of a language model have, and of its draft."""

from __future__ import annotations

import os

from camshaft import _native
from camshaft._engine import Engine, devices
from camshaft._errors import InvalidArgumentError
from camshaft.llm._checks import check_size, plain_number


def blocks_of_caches(
    engine: Engine,
    draft: Engine | None,
    longest: int,
    sequences: int,
    num_blocks: int | None,
    kv_cache_memory_bytes: int | None,
    *,
    spare: int,
) -> tuple[int, int]:
    """Of the model, and of the draft (0 without one), whose cache has room for as many tokens. kv_cache_memory_bytes: of
    both together; without it and num_blocks a quarter of the device's memory at most. spare: tokens that must have room
    behind a prompt."""
    layers, block_size, block_bytes = _native.generator_cache(engine._engine)
    if layers == 0:
        for name, given in (("num_blocks", num_blocks), ("kv_cache_memory_bytes", kv_cache_memory_bytes)):
            if given is not None:
                raise InvalidArgumentError(f"{name} is {given}: this model keeps no keys and values, and has no cache")
        return 2 * sequences, 0  # one for each sequence, and as many that admission leaves free
    draft_size = 1
    if draft is not None:
        _, draft_size, draft_bytes = _native.generator_cache(draft._engine)
        block_bytes += -(-draft_bytes * block_size // draft_size)
    per_sequence = -(-longest // block_size)
    fewest = min(per_sequence, 1 + spare)
    if num_blocks is not None and 0 < num_blocks < fewest:
        raise InvalidArgumentError(f"num_blocks is {num_blocks}: no text would have room behind its prompt")
    if kv_cache_memory_bytes is not None and num_blocks is None and kv_cache_memory_bytes < fewest * block_bytes:
        raise InvalidArgumentError(
            f"kv_cache_memory_bytes is {kv_cache_memory_bytes}: no text would have room behind its prompt, for which "
            f"{fewest * block_bytes} bytes are needed"
        )
    if num_blocks is None:
        budget = kv_cache_memory_bytes or _memory_of(engine.device) // 4
        # A request is let in where a block more is left for each that runs.
        num_blocks = max(min((per_sequence + 1) * sequences, budget // block_bytes), 1)
        if kv_cache_memory_bytes is None:
            num_blocks = max(num_blocks, per_sequence + 1)
    return num_blocks, 0 if draft is None else max(-(-num_blocks * block_size // draft_size), 1)


def blocks_of_host(engine: Engine, ranks: int, kv_offloading_size: float | None, *, caches_prefixes: bool) -> int:
    """In as many GiB of the host's memory, for all ranks together."""
    if kv_offloading_size is None:
        return 0
    check_size("kv_offloading_size", kv_offloading_size)
    if kv_offloading_size == 0:
        return 0
    layers, _, block_bytes = _native.generator_cache(engine._engine)
    if layers == 0:
        raise InvalidArgumentError(
            f"kv_offloading_size is {kv_offloading_size}: this model keeps no keys and values, and has no cache"
        )
    if not caches_prefixes:
        raise InvalidArgumentError(
            f"kv_offloading_size is {kv_offloading_size}, and what was offloaded is found as prefixes are: leave "
            "enable_prefix_caching true"
        )
    size, most = plain_number(kv_offloading_size) * 2**30, _memory_of("cpu")
    if size > most:
        raise InvalidArgumentError(
            f"kv_offloading_size is {kv_offloading_size} GiB, and this machine has {most / 2**30:.1f}"
        )
    return min(int(size) // (block_bytes * ranks), 2**31 - 1)


def _memory_of(device: str) -> int:
    """Bytes."""
    for each in devices():
        if each.get("device", each.get("name")) == device and each.get("memory_bytes"):
            return int(each["memory_bytes"])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
