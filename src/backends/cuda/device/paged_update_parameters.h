// What an update of caches in blocks is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// A token's units, of `chunk` pairs or elements each, are those of its query, of its key, and of its value.
struct PagedUpdateParameters {
  u32 tokens = 0, wide = 0;           ///< rows; whether slots are i64
  i64 places = 0;                     ///< rows of a cache
  Divisor head;                       ///< units of a head that is turned
  u32 pairs = 0;                      ///< units of a head's pairs; behind them are those that are only copied
  u32 half = 0;                       ///< pairs of a head
  u32 size = 0;                       ///< elements of a head
  u32 query = 0, key = 0, value = 0;  ///< units of a token
  i64 query_pitch = 0, key_pitch = 0, value_pitch = 0;  ///< elements from token to token
  u32 query_width = 0, key_width = 0, value_width = 0;  ///< elements of a token
};

}  // namespace camshaft::cuda
