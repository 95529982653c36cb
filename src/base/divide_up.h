// Division of sizes into pieces.
#pragma once

#include <cstdint>

namespace camshaft {

/// How many pieces of `piece` elements, the last one perhaps not full, hold `size` of them. `size` is 0 or more,
/// `piece` at least 1.
constexpr int64_t divide_up(int64_t size, int64_t piece) {
  return (size + piece - 1) / piece;
}

/// The least multiple of `piece` that is not below `size`.
constexpr int64_t round_up(int64_t size, int64_t piece) {
  return divide_up(size, piece) * piece;
}

}  // namespace camshaft
