// The largest magnitude in each channel of a tensor, over all batches of a calibration.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace camshaft {

/// The axis of a tensor that has its channels.
struct ChannelAxis {
  int64_t axis = 0;
  int64_t channels = 0;  ///< its size; 0: the tensor has none
};

/// Of f32[outer, channels, inner]. Infinities and NaN do not count.
class ChannelMagnitudes {
 public:
  explicit ChannelMagnitudes(int64_t channels = 0) : largest_(static_cast<size_t>(channels)) {}

  void add(const float* x, int64_t outer, int64_t inner, ThreadPool& pool);
  /// One for each channel; 0 where nothing else was seen.
  const std::vector<float>& largest() const { return largest_; }

 private:
  std::vector<float> largest_;
};

}  // namespace camshaft
