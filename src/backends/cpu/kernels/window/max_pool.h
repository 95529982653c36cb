// Max pooling of f64 and of integers.
#pragma once

#include "backends/cpu/kernels/window/pool.h"
#include "base/dtype.h"

namespace camshaft::cpu {

/// The problem's fields are those of f32, in elements. A window that lies wholly in the padding gives the lowest
/// number, -inf of f64; NaN is passed over.
void max_pool(const SpatialPool& problem, DType dtype, const void* in, void* out, ThreadPool& pool);

}  // namespace camshaft::cpu
