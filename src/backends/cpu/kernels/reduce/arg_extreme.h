// Argmax and argmin.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Index (i64) of the largest or smallest element along the middle of dims [outer, axis, inner]; dense; the output is
/// [outer, inner]. Among equals the first, or the last with `last_of_equals`. The first
/// NaN is before any number. `axis` >= 1, else Error(invalid_argument).
struct ArgExtreme {
  int64_t outer = 1, axis = 1, inner = 1;
  bool largest = true;
  bool last_of_equals = false;

  /// Types as Reduce.
  void run(ThreadPool& pool, DType dtype, const void* in, int64_t* out) const;
};

}  // namespace camshaft::cpu
