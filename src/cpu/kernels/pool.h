// Max and average pooling of f32, 1-D and 2-D. Global pooling is a Reduce.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// One problem; fill in the fields and run. 1-D pooling is a height of 1. Nothing to prepare; allocates nothing.
struct Pool2d {
  int64_t batch = 1, channels = 1;
  int64_t in_height = 1, in_width = 1;
  int64_t out_height = 1, out_width = 1;  ///< given, so that the caller's rounding (ceil mode) decides
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t dilation_height = 1, dilation_width = 1;
  int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  bool channels_last = false;  ///< [batch, height, width, channels] instead of [batch, channels, height, width]
  bool average = false;        ///< else the maximum; NaN is ignored by it
  /// Average only: divide by the taps inside the padded input instead of inside the input. Taps beyond the padding
  /// (ceil mode) never count.
  bool count_include_pad = false;

  /// The maximum of a window that lies wholly in the padding is -inf, its average 0.
  void run(ThreadPool& pool, const float* in, float* out) const;
};

}  // namespace camshaft::cpu
