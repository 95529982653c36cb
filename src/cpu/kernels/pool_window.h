// Where the windows of pooling lie. Internal to src/cpu/kernels.
#pragma once

#include <algorithm>

#include "cpu/kernels/pool.h"

namespace camshaft::cpu {

/// The taps of a window along one axis that lie inside: [first, past); `counted` for the average.
struct Window {
  int64_t start, first, past, counted;
};

inline Window window_at(const PoolAxis& a, int64_t out, bool include_pad) {
  const int64_t start = out * a.stride - a.pad_before;
  const int64_t first = start >= 0 ? 0 : (-start + a.dilation - 1) / a.dilation;
  const int64_t past = start >= a.in ? 0 : std::min(a.kernel, (a.in - start + a.dilation - 1) / a.dilation);
  const int64_t room = a.in + a.pad_after - start;  // up to the end of the padding
  const int64_t padded = room <= 0 ? 0 : std::min(a.kernel, (room + a.dilation - 1) / a.dilation);
  return {start, std::min(first, a.kernel), past, include_pad ? padded : std::max<int64_t>(0, past - first)};
}

/// Outputs x of `outputs` for which x * stride + offset lies in [0, size): [first, past).
struct Outputs {
  int64_t first, past;
};

inline Outputs outputs_inside(int64_t offset, int64_t stride, int64_t size, int64_t outputs) {
  const int64_t first = offset >= 0 ? 0 : std::min(outputs, (-offset + stride - 1) / stride);
  const int64_t past = offset >= size ? first : std::min(outputs, (size - offset + stride - 1) / stride);
  return {first, std::max(first, past)};
}

}  // namespace camshaft::cpu
