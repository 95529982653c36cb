// Normalisations of f32: layer, RMS, group and instance norm.
//
// Variances are of distances from a number near the mean, with block sums in double. Results are as exact where the
// mean is large beside the deviation (1000 and 1: 5e-7) as elsewhere. Nothing to prepare; nothing is allocated; y may
// be x.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// y[r, i] = (x[r, i] - mean_r) / sqrt(variance_r + epsilon) * scale[i] + bias[i], over `rows` rows of `length`
/// elements (the product of the trailing axes). `scale` and `bias`: `length` elements each, or null for 1 and 0.
/// `mean`, `inverse_deviation`: null, or where to put the two figures of each row.
struct LayerNorm {
  int64_t rows = 0, length = 0;
  float epsilon = 1e-5f;

  void run(ThreadPool& pool, const float* x, const float* scale, const float* bias, float* y, float* mean = nullptr,
           float* inverse_deviation = nullptr) const;
  /// By the calling thread.
  void run_here(const float* x, const float* scale, const float* bias, float* y) const;
};

/// y[r, i] = x[r, i] / sqrt(max(mean of x[r]^2, least) + epsilon) * scale[i]; `scale` may be null.
struct RmsNorm {
  int64_t rows = 0, length = 0;
  float epsilon = 1e-5f;
  float least = 0;

  void run(ThreadPool& pool, const float* x, const float* scale, float* y) const;
  void run_here(const float* x, const float* scale, float* y) const;
};

/// Group norm, and instance norm with groups == channels. Each (batch item, group) is normalised over its channels and
/// all `spatial` positions; `scale` and `bias` are per channel, or null. `channels` is a multiple of `groups`.
/// Data is [batch, channels, spatial], or [batch, spatial, channels] with channels_last.
struct GroupNorm {
  int64_t batch = 0, channels = 0, groups = 1, spatial = 0;
  float epsilon = 1e-5f;
  bool channels_last = false;

  void run(ThreadPool& pool, const float* x, const float* scale, const float* bias, float* y) const;
};

}  // namespace camshaft::cpu
