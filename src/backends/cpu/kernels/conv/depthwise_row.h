// One output row of a depthwise convolution, for some of its channels. Internal to depthwise.cpp.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Channels whose weights lie side by side for each position of the kernel.
inline constexpr int64_t kDepthwiseBlock = 16;

/// Steps in floats.
struct DepthwiseRow {
  const float* input;    ///< first line of the kernel that is inside the image: pixel 0, channel 0
  const float* weights;  ///< of that line, channel 0
  float* output;         ///< pixel 0, channel 0; also of the residual
  const float* bias;     ///< or none
  const float* residual;
  int64_t in_w, out_w;
  int64_t kernel_w, stride, dilation, pad_left;
  int64_t taps_h;                 ///< lines of the kernel that are inside the image
  int64_t line_step, pixel_step;  ///< of the input: from tap line to tap line, pixel to pixel
  int64_t output_step, residual_step;
  int64_t weight_block;  ///< from the weights of a block of channels to those of the next
  int64_t wrap, ring;    ///< after `wrap` tap lines the next one lies `ring` floats further up (lines in a ring buffer)
  int64_t channel0, channel1;
  float lo, hi;

  const float* weights_of(int64_t channel) const {
    return weights + channel / kDepthwiseBlock * weight_block + channel % kDepthwiseBlock;
  }
};

}  // namespace camshaft::cpu
