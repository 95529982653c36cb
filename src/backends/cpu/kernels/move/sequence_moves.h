// Moves of whole steps of sequences: an update written into caches, and sequences turned round.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// out = cache with `count` steps of each line replaced by those of the update, from a position that is given for each
/// of `batch` on; circular ones go on at the first step. `out` may be `cache`.
struct CacheUpdate {
  int64_t batch = 1, lines = 1;  ///< lines of each of the batch
  int64_t size = 0, count = 0;   ///< steps of a line of the cache and of the update, count <= size
  int64_t step_bytes = 1;
  bool circular = false;

  /// `starts`: i64 or i32, [batch], or none for 0. Throws Error(invalid_argument) for positions outside of the cache.
  void run(ThreadPool& pool, const std::byte* cache, const std::byte* update, const void* starts, DType start_type,
           std::byte* out) const;
};

/// out = x with the first lengths[b] steps of each sequence in reverse order, the others as they are.
struct SequenceReverse {
  int64_t batch = 1, time = 1;
  int64_t step_bytes = 1;
  bool batch_first = false;  ///< [batch, time, step] and not [time, batch, step]

  /// `lengths`: i64 or i32, [batch]. Throws Error(invalid_argument) for those that are not in [0, time].
  void run(ThreadPool& pool, const std::byte* x, const void* lengths, DType length_type, std::byte* out) const;
};

}  // namespace camshaft::cpu
