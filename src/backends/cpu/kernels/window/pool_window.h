// Where the windows of pooling lie. Internal to the kernels.
#pragma once

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

}  // namespace camshaft::cpu
