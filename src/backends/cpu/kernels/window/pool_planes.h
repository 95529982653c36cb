// Pooling of channels-first tensors whose windows move by one column or two.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/window/pool.h"

namespace camshaft::cpu {

/// Whether pool_planes() takes the problem: channels first, a stride of 1 or 2 along lines that are not very long.
bool can_pool_planes(const SpatialPool& problem);

/// SpatialPool::run_lines() for those. Lines that see the same rows of their windows are combined over these first, as
/// if they were one line, then along themselves: how short a line is does not matter then, but for the windows that
/// reach over its ends.
void pool_planes(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out);

}  // namespace camshaft::cpu
