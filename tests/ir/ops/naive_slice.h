// Slices as they are defined, one element at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace camshaft::ops {

/// ONNX's definition, element by element: clamp, then step until the end is passed.
inline std::vector<int64_t> naive(int64_t start, int64_t end, int64_t step, int64_t size) {
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, step > 0 ? size : size - 1);
  end = std::clamp<int64_t>(end, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  std::vector<int64_t> out;
  for (int64_t i = start; step > 0 ? i < end : i > end; i += step) out.push_back(i);
  return out;
}

}  // namespace camshaft::ops
