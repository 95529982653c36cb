// Rows written into a cache in blocks, each at a position that is data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// out = cache with row i at slots[i]; rows of negative slots are left out, of two at one slot the later one stays.
/// `out` may be `cache`: then nothing but the rows is written.
struct PagedStore {
  int64_t places = 0;  ///< rows of the cache
  int64_t count = 0;   ///< rows that are given
  int64_t row_bytes = 1;

  /// `slots`: i64 or i32, [count]. Throws Error(invalid_argument), before anything is written, for those beyond the
  /// cache.
  void run(ThreadPool& pool, const std::byte* cache, const std::byte* rows, const void* slots, DType slot_type,
           std::byte* out) const;
};

}  // namespace camshaft::cpu
