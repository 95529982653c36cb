// One tile of the Winograd transforms. Internal to winograd.cpp. Steps in floats.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/pointwise/activation.h"

namespace camshaft::cpu {

struct WinogradTile {
  int64_t size;                   ///< outputs along an axis, 2 or 4; the input tile has size + 2 pixels
  const float* image;             ///< of the input tile's top left pixel, which may lie outside the image
  int64_t line_step, pixel_step;  ///< between the tile's pixels: with a dilation, not neighbours
  int64_t top, left;              ///< its position, counted in those steps
  int64_t in_h, in_w;             ///< and the image's size
  int64_t in_channels;
  float* transformed;  ///< [(size + 2)^2] x in_point_step, in_channels rounded up to a vector
  int64_t in_point_step;

  const float* product;  ///< [(size + 2)^2] x out_point_step
  int64_t out_point_step;
  float* output;  ///< of the output tile's top left pixel
  int64_t out_line_step, out_pixel_step;
  int64_t rows, columns;  ///< of the output tile inside the image, at most `size`
  int64_t out_channels;
  const float* bias;
  const float* residual;
  int64_t residual_line_step, residual_pixel_step;
  float lo, hi;
  const Activation* activation;
  const float* addend;
  int64_t addend_line_step, addend_pixel_step;
};

}  // namespace camshaft::cpu
