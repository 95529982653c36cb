// The kernels of convolutions without tensor cores as CUDA C++ text: depthwise ones and transposed ones.
#pragma once

#include <array>
#include <optional>
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

/// One of the kernels of device/depthwise.cuh.
struct DepthwiseFunction {
  bool strips = false;  ///< of depthwise_strip pixels
  bool rows = false;    ///< a warp for each row of the windows
  bool vector = false;  ///< wants channels in eights
  int lines = 0;        ///< with strips and vector: of so many rows of pixels a thread; 0: of one, all its channels

  std::string name() const;  ///< "depthwise_strip_rows_vector"
};
/// Whether windows have rows to share out, and the threads of a block then.
bool can_share_rows(const DirectWindow& window);
unsigned threads_of_rows(const DirectWindow& window);
/// Whether a window has so few taps that threads can take several rows of pixels.
bool can_take_lines(const DirectWindow& window);
/// Channels of a block that does so, and strips of pixels.
constexpr int64_t lines_channels = 32, lines_strips = 16;

/// Those of single pixels and of strips, and a `further` one, by rows of windows or lines of pixels, with and without
/// vectors where there are both. `finish`: finish_text() of what follows the sum.
std::string depthwise_text(const DirectWindow& window, DType dtype, const std::string& finish,
                           const std::optional<DepthwiseFunction>& further = std::nullopt);

/// conv_transpose_any and conv_transpose_vector, which wants channels in eights (see device/conv_transpose.cuh).
std::string conv_transpose_text(const DirectWindow& window, DType dtype, const std::string& finish);

}  // namespace camshaft::cuda
