// Pooling of channels-first tensors whose lines fit in two vectors.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/window/pool.h"

namespace camshaft::cpu {

/// SpatialPool::run_lines() of channels-first problems by lines that stay in registers: the rows of a window are
/// combined, then its columns are permutations of what came out, whatever the steps between windows and taps are.
/// False, and nothing done, where lines or windows are too wide for that.
bool pool_narrow(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out);

}  // namespace camshaft::cpu
