// Softmax and log-softmax of f32.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// y = exp(x - max) / sum exp(x - max) along the middle one of dims [outer, axis, inner] of a dense tensor, or its
/// logarithm. Vectorised along the axis where inner is 1, else across inner. Nothing to prepare; allocates nothing.
/// y may be x. A row of nothing but -inf, or with +inf or NaN, gives NaN, as in ONNX Runtime. Accurate to 2e-7 of each
/// row's largest; probabilities below 1.2e-38 are 0.
struct Softmax {
  int64_t outer = 1, axis = 1, inner = 1;
  bool logarithm = false;

  void run(ThreadPool& pool, const float* x, float* y) const;
};

}  // namespace camshaft::cpu
