// The kernels of operators over windows of images as CUDA C++ text.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// What is fixed of a pooling: along depth, height and width.
struct PoolWindow {
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  bool average = false;        ///< else the maximum
  bool count_padding = false;  ///< an average divides by the taps in the padding too
};

/// pool_any and pool_vector, of 16 bytes of channels at once (see device/pool.cuh).
std::string pool_text(const PoolWindow& window, DType dtype);
/// pool_indices_any (see device/pool.cuh).
std::string pool_indices_text(const PoolWindow& window, DType dtype);
/// interpolate_any and interpolate_vector, of 16 bytes at once, along `axes` axes, 1 to 3 (see device/resize.cuh).
std::string resize_text(int axes, DType dtype);

}  // namespace camshaft::cuda
