// Where the windows of pooling lie. Internal to the kernels.
#pragma once

#include <algorithm>

#include "backends/cpu/kernels/window/pool.h"
#include "base/index_range.h"

namespace camshaft::cpu {

/// The taps of a window along one axis that lie inside: [first, past); `counted` for the average.
struct Window {
  int64_t start, first, past, counted;
};

inline Window window_at(const PoolAxis& a, int64_t out, bool include_pad) {
  const int64_t start = out * a.stride - a.pad_before;
  const IndexRange taps = indices_inside(start, a.dilation, a.in, a.kernel);
  const int64_t padded = indices_inside(start, a.dilation, a.in + a.pad_after, a.kernel).past;
  return {start, taps.first, taps.past, include_pad ? padded : taps.past - taps.first};
}

/// Windows of a line that lie inside the image.
inline IndexRange whole_windows(const PoolAxis& a) {
  return windows_inside(-a.pad_before, a.stride, (a.kernel - 1) * a.dilation + 1, a.in, a.out);
}

/// Of one tap's column of a line the outputs whose pixel lies inside: output first + i sees that at column + i *
/// stride, i < count.
struct ColumnTap {
  int64_t column, first, count;
};

/// Those of outputs [begin, begin + outputs) of a line: found once for all lines, as their divisions took longer than
/// lines of 40 pixels.
class ColumnTaps {
 public:
  ColumnTaps(const PoolAxis& w, int64_t begin, int64_t outputs)
      : axis_(w), left_(begin * w.stride - w.pad_before), outputs_(outputs) {
    // The columns that lie inside for some output: a window may be far larger than the input.
    const int64_t right = left_ + (outputs - 1) * w.stride;
    first_ = indices_inside(right, w.dilation, w.in, w.kernel).first;
    past_ = indices_inside(left_, w.dilation, w.in, w.kernel).past;
    for (int64_t c = first_; c < std::min(past_, first_ + most_listed); ++c) listed_[c - first_] = tap(c);
  }

  /// visit(ColumnTap) for those with an output, from left to right.
  template <class Visit>
  void each(Visit&& visit) const {
    for (int64_t c = first_; c < past_; ++c) {
      const ColumnTap at = c - first_ < most_listed ? listed_[c - first_] : tap(c);
      if (at.count > 0) visit(at);
    }
  }

 private:
  static constexpr int64_t most_listed = 32;
  ColumnTap tap(int64_t c) const {
    const int64_t offset = c * axis_.dilation + left_;
    const IndexRange inside = indices_inside(offset, axis_.stride, axis_.in, outputs_);
    return {offset + inside.first * axis_.stride, inside.first, inside.past - inside.first};
  }

  const PoolAxis& axis_;
  int64_t left_, outputs_, first_ = 0, past_ = 0;
  ColumnTap listed_[most_listed];
};

}  // namespace camshaft::cpu
