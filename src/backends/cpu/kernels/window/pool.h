// Max and average pooling of f32 over one to three axes. Global pooling is a Reduce.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/row_channel_shares.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// One spatial axis; `out` is given, so that the caller's rounding (ceil mode) decides.
struct PoolAxis {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_before = 0, pad_after = 0;
};

/// One problem; fill in the fields and run. 2-D pooling has a depth of 1, 1-D a height of 1 too. Nothing to prepare;
/// allocates nothing.
struct SpatialPool {
  int64_t batch = 1, channels = 1;
  PoolAxis depth, height, width;
  bool channels_last = false;  ///< [batch, depth, height, width, channels] instead of channels before depth
  /// Channels last: floats from a pixel to the next, 0 for dense.
  int64_t in_pixel_stride = 0, out_pixel_stride = 0;
  bool average = false;  ///< else the maximum; NaN is ignored by it
  /// Average only: divide by the taps inside the padded input instead of inside the input. Taps beyond the padding
  /// (ceil mode) never count.
  bool count_include_pad = false;

  /// The maximum of a window that lies wholly in the padding is -inf, its average 0.
  void run(ThreadPool& pool, const float* in, float* out) const;
  /// How run() is cut for at most `most` threads. Rows are the lines of run_lines().
  RowChannelShares shares(int most) const;
  /// Lines [begin, end) of [batch, channels, depth.out, height.out] (channels last: without channels), on this thread.
  void run_lines(int64_t begin, int64_t end, const float* in, float* out) const;
};

}  // namespace camshaft::cpu
