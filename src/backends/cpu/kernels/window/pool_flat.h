// Maxima over small images whose results have as many pixels.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/window/pool.h"

namespace camshaft::cpu {

/// Whether pool_flat() takes the problem: maxima by steps of one, channels first, of images so small that masks of all
/// taps stay in cache.
bool can_pool_flat(const SpatialPool& problem);

/// SpatialPool::run_lines() for those. All images are one line: result i is the largest of in[i + offset] over the
/// taps, each with a mask of the pixels that have it inside of the image. 256 images of 20 x 20 by 3 x 3 taps two apart
/// took 81 us by lines.
void pool_flat(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out);

}  // namespace camshaft::cpu
