#include "quantize/channel_magnitudes.h"

#include <cmath>
#include <limits>

namespace camshaft {

namespace {

float larger(float largest, float x) {
  const float magnitude = std::fabs(x);
  return magnitude > largest && magnitude <= std::numeric_limits<float>::max() ? magnitude : largest;
}

}  // namespace

void ChannelMagnitudes::add(const float* x, int64_t outer, int64_t inner, ThreadPool& pool) {
  const auto channels = static_cast<int64_t>(largest_.size());
  constexpr int64_t grain = 64;  // four lines of cache
  pool.parallel_for(channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = 0; o < outer; ++o) {
      const float* from = x + o * channels * inner;
      for (int64_t c = begin; c < end; ++c) {
        float largest = largest_[static_cast<size_t>(c)];
        for (int64_t i = 0; i < inner; ++i) largest = larger(largest, from[c * inner + i]);
        largest_[static_cast<size_t>(c)] = largest;
      }
    }
  });
}

}  // namespace camshaft
