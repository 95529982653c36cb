// Images sampled at positions between the pixels.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Points whose taps are found at a time.
constexpr int64_t grid_block = 128;
/// Points that are sampled together where their pixels lie side by side.
constexpr int64_t grid_group = 4;

/// The pixels that samples are sums of: of point p, weights[t * step + p] * image[pixels[t * step + p]] for t < count.
/// Taps with a pixel of -1 are left out.
struct SampleTaps {
  int64_t count, step;
  int32_t* pixels;
  float* weights;
  /// Of each group of points, if taps are even in number: whether taps 2i and 2i + 1 of each point are pixels side by
  /// side, for all i.
  uint8_t* side_by_side;
  /// From a point on that begins a group.
  SampleTaps from(int64_t point) const {
    return {count, step, pixels + point, weights + point, side_by_side + point / grid_group};
  }
};

/// Fills in taps.side_by_side for whole groups of `points`.
void find_side_by_side(const SampleTaps& taps, int64_t points);

/// out[c * out_step + p] = the sample at point p of image + c * plane, for `channels` channels and `points` points,
/// which share their taps.
void sample_block(const float* image, int64_t channels, int64_t plane, int64_t points, const SampleTaps& taps,
                  float* out, int64_t out_step);

}  // namespace camshaft::cpu
