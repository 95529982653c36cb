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

  std::string name() const;  ///< "depthwise_strip_rows_vector"
};
/// Whether windows have rows to share out, and the threads of a block then.
bool can_share_rows(const DirectWindow& window);
unsigned threads_of_rows(const DirectWindow& window);

/// Those of single pixels and of strips, and of the rows of one of the two where `strips_by_rows` says which. `finish`:
/// finish_text() of what follows the sum.
std::string depthwise_text(const DirectWindow& window, DType dtype, const std::string& finish,
                           std::optional<bool> strips_by_rows = std::nullopt);

/// conv_transpose_any and conv_transpose_vector, which wants channels in eights (see device/conv_transpose.cuh).
std::string conv_transpose_text(const DirectWindow& window, DType dtype, const std::string& finish);

}  // namespace camshaft::cuda
