// Where the maxima of max pooling lie.
#pragma once

#include "backends/cpu/kernels/window/pool.h"
#include "base/dtype.h"

namespace camshaft::cpu {

/// One problem, channels first, of at most 2^31 - 1 pixels a channel; fill in the fields and run. Allocates nothing.
struct PoolIndices {
  int64_t planes = 1;  ///< batch times channels
  PoolAxis depth, height, width;
  bool column_major = false;  ///< positions within a plane count the depth fastest (the height, the width)

  /// Positions in all of `in`; of equal maxima the first, NaN before any number; the plane's first pixel for windows
  /// that lie in the padding. Types: f32, f64 and integers of 8 bits and more.
  void run(ThreadPool& pool, DType dtype, const void* in, int64_t* out) const;
};

}  // namespace camshaft::cpu
