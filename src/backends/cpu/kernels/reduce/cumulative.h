// Running sums and products.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Along the middle of dims [outer, axis, inner], dense. f32 is summed in double; integers wrap. Types as Reduce.
struct RunningTotal {
  int64_t outer = 1, axis = 1, inner = 1;
  bool product = false, exclusive = false, reverse = false;

  /// `out` may be `in`.
  void run(ThreadPool& pool, DType dtype, const void* in, void* out) const;
};

}  // namespace camshaft::cpu
