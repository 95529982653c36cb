// How the threads share what runs over rows of pixels, each of which has all channels (depthwise and narrow grouped
// convolutions, pooling, the transforms of Winograd): a pure function of shapes, so that the balance for any number of
// cores can be told without them.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Rows [row0, row1), of each the channels [channel0, channel1).
struct RowChannelShare {
  int64_t row0 = 0, row1 = 0, channel0 = 0, channel1 = 0;

  bool is_empty() const { return row0 >= row1 || channel0 >= channel1; }
};

/// A grid of parts of the rows by parts of the channels: the rows alone where they are many, for neighbouring channels
/// lie together.
class RowChannelShares {
 public:
  RowChannelShares() = default;
  /// On at most `threads` threads. `overlap` (window_overlap): what it costs that windows see beyond a part of the
  /// rows, where computing one costs 1. Channels are cut at multiples of `grain`: by default cache lines of floats.
  RowChannelShares(int64_t rows, int64_t channels, double overlap, int threads, int64_t grain = 16);

  int threads() const { return static_cast<int>(row_parts_ * channel_parts_); }
  RowChannelShare share(int thread) const;

 private:
  int64_t rows_ = 0, channels_ = 0, grain_ = 1, row_parts_ = 1, channel_parts_ = 1;
};

/// For windows of kernel_h lines and `points` in all: reading an element once more, from L2, costs two steps.
inline double window_overlap(int64_t kernel_h, int64_t dilation_h, int64_t stride_w, int64_t points) {
  return 2.0 * static_cast<double>((kernel_h - 1) * dilation_h * stride_w) / static_cast<double>(points);
}

}  // namespace camshaft::cpu
