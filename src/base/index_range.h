// Which indices along an axis lead inside it: taps of a window, outputs of a tap, windows of a line.
#pragma once

#include <algorithm>
#include <cstdint>

namespace camshaft {

/// [first, past), empty if they are equal.
struct IndexRange {
  int64_t first = 0, past = 0;
};

/// Of the indices 0 to count - 1 those for which start + index * step lies in [0, size). `step` is at least 1.
constexpr IndexRange indices_inside(int64_t start, int64_t step, int64_t size, int64_t count) {
  // How many come before a position; not by trying each, for a window may be far larger than its input.
  const auto before = [&](int64_t position) {
    const int64_t distance = position - start;
    return distance <= 0 ? 0 : std::min(count, (distance - 1) / step + 1);
  };
  const int64_t first = before(0);
  return {first, std::max(first, before(size))};
}

/// Of the windows 0 to count - 1, which begin at start + index * step and reach over `extent` positions, those that lie
/// in [0, size) as a whole.
constexpr IndexRange windows_inside(int64_t start, int64_t step, int64_t extent, int64_t size, int64_t count) {
  const int64_t first = indices_inside(start, step, size, count).first;
  return {first, std::max(first, indices_inside(start + extent - 1, step, size, count).past)};
}

}  // namespace camshaft
