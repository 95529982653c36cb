// Where the taps of a deformable convolution lie. Internal to deform_conv.cpp.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/window/grid_sample.h"

namespace camshaft::cpu {

/// One tap of the windows of some output pixels.
struct DeformTap {
  const int32_t* tops;   ///< of each window's first row; readable as whole vectors
  const int32_t* lefts;  ///< and column
  int32_t row, column;   ///< of the tap, from there
  const float* down;     ///< what moves it
  const float* across;
  const float* mask;      ///< what it is multiplied by, or none
  int32_t height, width;  ///< of the image; less than deform_bound each
};

/// Rows, columns and offsets beyond this are outside of any image.
constexpr int32_t deform_bound = int32_t{1} << 28;

/// The four pixels around each of `points` <= grid_block samples, and what they count, as in SampleTaps.
void deform_taps(const DeformTap& tap, int64_t points, int32_t* pixels, float* weights);

}  // namespace camshaft::cpu
