// Softmax and log-softmax of f32 and f64.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// y = exp(x - max) / sum exp(x - max) along the middle one of dims [outer, axis, inner] of a dense tensor, or its
/// logarithm. Vectorised along the axis where inner is 1, else across inner. Nothing to prepare; allocates nothing.
/// y may be x. A row of nothing but -inf, or with +inf or NaN, gives NaN, as in ONNX Runtime. Accurate to 2e-7 of each
/// row's largest, f64 to 1e-15; probabilities below the smallest normal number (1.2e-38, 2.2e-308) are 0.
struct Softmax {
  int64_t outer = 1, axis = 1, inner = 1;
  bool logarithm = false;

  void run(ThreadPool& pool, const float* x, float* y) const;
  void run(ThreadPool& pool, const double* x, double* y) const;

  /// Columns at a time, where a block of them stays in L2 and where it does not.
  static constexpr int64_t most_narrow = 256, most_wide = 1024;

 private:
  template <class T, class Rows, class Columns>
  void run_with(ThreadPool& pool, const T* x, T* y, Rows on_rows, Columns narrow, Columns wide) const;
};

}  // namespace camshaft::cpu
