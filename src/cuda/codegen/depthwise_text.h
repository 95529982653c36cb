// The kernels of depthwise convolutions as CUDA C++ text.
#pragma once

#include <array>
#include <string>

#include "camshaft/dtype.h"

namespace camshaft::cuda {

/// What is fixed of a depthwise convolution: along height and width.
struct DepthwiseWindow {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1};
};

/// Pixels that a thread of depthwise_strip_… computes.
constexpr int depthwise_strip = 4;
/// Threads of a block.
constexpr unsigned depthwise_threads = 128;

/// depthwise_pixel_any, depthwise_pixel_vector, depthwise_strip_any and depthwise_strip_vector (see
/// device/depthwise.cuh). `finish`: finish_text() of what follows the sum.
std::string depthwise_text(const DepthwiseWindow& window, DType dtype, const std::string& finish);

}  // namespace camshaft::cuda
