// Layer and RMS norms of f64.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// y[r, i] = (x[r, i] - mean_r) / sqrt(max(mean of (x[r] - mean_r)^2, least) + epsilon) * scale[i] + bias[i], over
/// `rows` rows of `length` elements; mean_r is 0 where the norm is not `centred` (RMS). `scale` and `bias`: `length`
/// elements each, or null for 1 and 0. Sums are of eight vectors side by side: as exact as the reference's, to some
/// 1e-15 of the largest element. Nothing is allocated; y may be x.
struct NormF64 {
  int64_t rows = 0, length = 0;
  double epsilon = 1e-5, least = 0;
  bool centred = true;

  void run(ThreadPool& pool, const double* x, const double* scale, const double* bias, double* y) const;
};

}  // namespace camshaft::cpu
