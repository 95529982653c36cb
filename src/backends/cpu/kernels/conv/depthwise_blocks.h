// f32 depthwise 2-D convolution of images with the channels first: a block of channels at a time is turned in cache,
// line by line, and its rows are turned back. What vectors of neighbouring pixels (conv_planes.h) gain where rows are
// long, vectors of channels do where these are short, or see every second pixel.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"

namespace camshaft::cpu {

/// Packed weights: for each block of 16 input channels, and each of the kernels that a channel has, what
/// pack_depthwise_weights() makes of such a block. The same on all machines.
struct DepthwiseBlockWeights {
  int64_t channels = 0, multiplier = 1;  ///< of the image; outputs of each
  int64_t kernel_h = 1, kernel_w = 1;

  int64_t floats() const;
  bool operator==(const DepthwiseBlockWeights&) const = default;
};

/// Between ONNX order, [channels * multiplier, 1, kernel_h, kernel_w], and floats() floats, exactly.
void pack_depthwise_block_weights(const DepthwiseBlockWeights& weights, const float* oihw, float* packed);
void unpack_depthwise_block_weights(const DepthwiseBlockWeights& weights, const float* packed, float* oihw);

/// What depends on the shape alone. Copyable, immutable, safe to share between threads.
class DepthwiseBlockPlan {
 public:
  DepthwiseBlockPlan() = default;
  /// Input and output are [batch, channels, h, w], dense; each channel is a group, with one output or several.
  /// Throws Error(invalid_argument) for others, or a size or stride that is not positive.
  explicit DepthwiseBlockPlan(const ConvShape& shape);

  /// Whether the lines that some pixels see stay in an L2: asks for the kernel, its strides and dilations only.
  static bool fits(const ConvShape& shape);

  int64_t workspace_bytes(int threads) const { return thread_bytes_ * threads; }

 private:
  friend void depthwise_blocks(const DepthwiseBlockPlan&, const float*, const float*, float*, const Epilogue&,
                               ThreadPool&, void*);
  class Worker;

  ConvShape shape_;
  int64_t multiplier_ = 1;            // outputs of a channel
  int64_t block_ = 0, blocks_ = 0;    // channels at once
  int64_t tile_ = 0, tiles_ = 0;      // pixels of a row of the result at once
  int64_t seen_ = 0;                  // columns of the image that these see at most
  int64_t rows_ = 0, row_steps_ = 0;  // of the result at once
  int64_t ring_lines_ = 0;            // of the image that these see
  int64_t thread_bytes_ = 0;
};

/// output[n, o, y, x] of conv(), with `epilogue` of a bias, a clamp and an activation alone. `output` must not overlap
/// `input`.
void depthwise_blocks(const DepthwiseBlockPlan& plan, const float* input, const float* packed, float* output,
                      const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
