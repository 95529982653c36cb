// When a product has so few columns that gemm_core takes its elements as dot products. Internal to the kernels.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

inline constexpr int64_t kMostDotColumns = 12;
/// Weights by columns, on the stack: 24 KiB.
inline constexpr int64_t kMostDotWeights = 6 * 1024;

/// Whether dot products take fewer instructions than columns side by side, most lanes of which are none. K is `taps`
/// pieces of `depth`. A sum of lanes costs as much as four steps.
inline bool prefers_dots(int64_t n, int64_t taps, int64_t depth, int64_t lanes) {
  if (n < 1 || n > kMostDotColumns || depth < 1 || taps < 1) return false;
  const int64_t steps = taps * ((depth + lanes - 1) / lanes);
  return n * steps * lanes <= kMostDotWeights && n * (steps + 4) * 5 < taps * depth * ((n + lanes - 1) / lanes) * 4;
}

}  // namespace camshaft::cpu
