// What attention is given.
#pragma once

#include "backends/cuda/device/axes_parameters.h"

namespace camshaft::cuda {

/// Most masks: what fits the 4 KiB of a kernel's parameters.
constexpr int most_attention_masks = 6;

struct AttentionAccess {
  Axes outer, rows;
  i64 offset = 0, column = 0;
};
struct AttentionMask {
  Axes outer, queries, keys;
  i64 offset = 0;
  f32 masked = 0;
};

/// A kernel has as many masks as its operator, and at least one; the host fills in the most, of which it takes the
/// first.
template <int masks>
struct AttentionParameters {
  u32 queries = 0, keys = 0, rows = 0;  ///< rows: queries of all outer indices
  Divisor tiles;                        ///< of queries, for each outer index
  u32 tiles_per_split = 0;              ///< of keys; blockIdx.y is the split
  /// Bits: query, key, value can be copied by 16 bytes; the result by 8 elements; the mask by 2 keys; keys are one axis
  /// in all masks.
  u32 aligned = 0;
  u32 zero_undefined = 0;
  f32 scale = 1;  ///< of capped scores: over the cap
  f32 softcap = 0;
  AttentionAccess query, key, value, result;
  AttentionMask mask[masks];
};

}  // namespace camshaft::cuda
