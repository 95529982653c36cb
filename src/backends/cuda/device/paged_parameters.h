// What operators over caches in blocks are given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// out[slots[i], :] = rows[i, :]
struct PagedStoreParameters {
  u32 count = 0, wide = 0;  ///< rows; whether slots are i64
  u32 chunks = 0;           ///< of a row
  i64 places = 0;           ///< rows of the cache
};

/// The same of rows that become steps of scales, one for each of their heads.
struct PagedQuantizeParameters {
  u32 count = 0, wide = 0;
  u32 heads = 0, size = 0;  ///< of a row; of a head
  f32 least = 0, highest = 1;
  i64 places = 0;
};

constexpr u32 most_parts = 64;  ///< of a tile's keys

/// Sizes alone: how long sequences are is data of the device, so that a recorded launch serves all steps of a shape.
struct PagedParameters {
  u32 tokens = 0, sequences = 0, width = 0;
  u32 heads = 1, key_heads = 1;
  Divisor block_size, group;  ///< heads of the query that share one of the keys
  i64 blocks = 0;
  u32 window = 0, causal = 0;  ///< window 0: none
  u32 splits = 1;              ///< parts of a tile's keys
  u32 is_cluster = 0;          ///< whether a tile's blocks see each other's shared memory
  u32 own_bytes = 0;           ///< of shared memory; behind them is what a block gets of its cluster
  u32 aligned = 0;             ///< bits: query, keys, values can be copied by 16 bytes, results written 4 at a time
  f32 scale = 1;               ///< of capped scores: over the cap
  f32 softcap = 0;
  i32 reach = 0;       ///< of the relative bias
  f32 bias_scale = 1;  ///< of capped scores: over the cap
};

constexpr u32 most_step_tokens = 64;  ///< of a step in one kernel: a multiple of 4

/// What such a step does to the caches, beside the attention.
struct PagedStepParameters {
  const void *query = nullptr, *key = nullptr, *value = nullptr;  ///< rows of tokens
  const void *cosines = nullptr, *sines = nullptr, *slots = nullptr;
  void *keys = nullptr, *values = nullptr;              ///< the caches
  u32 wide = 0;                                         ///< whether slots are i64
  u32 caches_are_early = 0;                             ///< no kernel but this one writes them
  i64 places = 0;                                       ///< rows of a cache
  i64 query_pitch = 0, key_pitch = 0, value_pitch = 0;  ///< elements from token to token
};

}  // namespace camshaft::cuda
