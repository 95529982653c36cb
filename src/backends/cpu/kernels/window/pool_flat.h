// Maxima and averages over small images whose results have as many pixels.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/window/pool.h"
#include "base/dtype.h"

namespace camshaft::cpu {

/// Whether pool_flat() takes the problem: steps of one, channels first, and images so small that masks of all taps stay
/// in cache. Averages are of f32.
bool can_pool_flat(const SpatialPool& problem, DType dtype);

/// SpatialPool::run_lines() for those, and the maxima of other types that max_pool() has. All images are one line:
/// result i is made of in[i + offset] over the taps, each with a mask of the pixels that have it inside of the image.
/// 256 images of 20 x 20 by 3 x 3 taps two apart took 81 us by lines; the averages of such of 5 x 5 13.5 us.
void pool_flat(const SpatialPool& problem, DType dtype, int64_t begin, int64_t end, const void* in, void* out);

}  // namespace camshaft::cpu
