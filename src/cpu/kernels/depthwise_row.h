// Neighbouring output pixels of one row that see the same kernel positions. Internal to depthwise.cpp.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Steps in floats.
struct DepthwiseRow {
  const float* input;    ///< first kernel position inside the image, of the first pixel, channel 0
  const float* weights;  ///< of that position
  float* output;
  const float* bias;
  const float* residual;
  int64_t taps_h, taps_w;
  int64_t line_step, tap_step, pixel_step;  ///< from tap row to tap row, tap to tap, output pixel to output pixel
  int64_t output_step, residual_step;
  int64_t out_channels, weights_line;  ///< floats of weights per kernel position and per kernel row
  int64_t wrap, ring;  ///< after `wrap` tap rows the next one lies `ring` floats further up (lines in a ring buffer)
  int64_t channel0, channel1;
  float lo, hi;
};

}  // namespace camshaft::cpu
