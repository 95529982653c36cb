// Max pooling of 8-bit integers, channels-last.
#pragma once

#include "backends/cpu/kernels/window/pool.h"

namespace camshaft::cpu {

/// The problem's fields are those of f32, in bytes; a window that lies wholly in the padding gives the lowest number.
void byte_max_pool(const SpatialPool& problem, bool is_signed, const void* in, void* out, ThreadPool& pool);

}  // namespace camshaft::cpu
