// Pooling of channels-first tensors line by line.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/window/pool.h"

namespace camshaft::cpu {

/// Whether pool_rows_first() takes the problem: channels first, and windows that are not too wide for its buffer.
bool can_pool_rows_first(const SpatialPool& problem);

/// SpatialPool::run_lines() for those. The rows of a window are combined first, with the padding beside them: their
/// loads are contiguous. Then the columns are, of all windows that would fit, of which those that there are are picked.
void pool_rows_first(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out);

}  // namespace camshaft::cpu
