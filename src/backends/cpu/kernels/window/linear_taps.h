// Where linear samples of an image lie.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/window/grid_sample.h"

namespace camshaft::cpu {

/// An image that is sampled linearly: of up to three axes, the slowest first.
struct LinearImage {
  int64_t axes;
  int64_t sizes[3], strides[3];  ///< fewer than 2^31 pixels in all
  bool align_corners;
  bool clamp;  ///< to the outermost pixels; else what lies outside is left out
};

/// The taps of `points` <= grid_block positions, which run from the fastest axis to the slowest, as GridSample's grid.
/// They are those that ops::taps_at() finds, in the same order. Writes whole blocks: taps.step >= grid_block.
void linear_taps(const LinearImage& image, const float* grid, int64_t points, const SampleTaps& taps);

}  // namespace camshaft::cpu
