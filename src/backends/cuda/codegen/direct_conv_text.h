// The kernels of convolutions without tensor cores as CUDA C++ text: depthwise ones and transposed ones.
#pragma once

#include <array>
#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// What is fixed of a convolution: along height and width.
struct DirectWindow {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1};
};

/// Pixels that a thread of depthwise_strip_… computes.
constexpr int depthwise_strip = 4;
/// Threads of a block.
constexpr unsigned direct_threads = 128;

/// depthwise_pixel_any, depthwise_pixel_vector, depthwise_strip_any and depthwise_strip_vector (see
/// device/depthwise.cuh). `finish`: finish_text() of what follows the sum.
std::string depthwise_text(const DirectWindow& window, DType dtype, const std::string& finish);

/// conv_transpose_any and conv_transpose_vector, which wants channels in eights (see device/conv_transpose.cuh).
std::string conv_transpose_text(const DirectWindow& window, DType dtype, const std::string& finish);

}  // namespace camshaft::cuda
