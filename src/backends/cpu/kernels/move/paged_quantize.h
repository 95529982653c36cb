// Rows written into a cache of 8 bits in blocks, in steps of scales that they get (ops::PagedQuantize).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

struct PagedQuantize {
  int64_t places = 0;            ///< positions of the cache
  int64_t count = 0;             ///< rows that are given
  int64_t heads = 0, size = 0;   ///< of a row; of a head
  DType row_type = DType::f32;   ///< f32, f16 or bf16
  DType cache_type = DType::i8;  ///< or f8e4m3

  struct Caches {
    const std::byte* codes;  ///< [places, heads, size]
    const float* scales;     ///< [places, heads]
  };
  struct Results {
    std::byte* codes;
    float* scales;
  };
  /// Rows of negative slots are left out, of two at one slot the later one stays. Results may be the caches: then
  /// nothing but the rows is written. `slots`: i64 or i32, [count]. Throws Error(invalid_argument), before anything is
  /// written, for those beyond the cache.
  void run(ThreadPool& pool, const Caches& caches, const std::byte* rows, const void* slots, DType slot_type,
           const Results& results) const;
};

}  // namespace camshaft::cpu
