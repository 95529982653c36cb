// Images sampled at positions between the pixels.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Samples of a block of points share the taps of each point over all channels.
constexpr int64_t grid_block = 128;

/// out[c * out_step + p] = sum over t of weights[t][p] * image[c * plane + pixels[t][p]] for `channels` channels and
/// `points` <= grid_block points; taps with a pixel of -1 are left out. Rows of pixels and weights are grid_block
/// apart.
void sample_block(const float* image, int64_t channels, int64_t plane, int64_t points, int64_t taps,
                  const int32_t* pixels, const float* weights, float* out, int64_t out_step);

}  // namespace camshaft::cpu
