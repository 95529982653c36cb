// Pooling as CPU kernels.
#pragma once

#include "backends/cpu/kernels/window/pool.h"
#include "backends/cpu/tactic.h"
#include "compile/kernel.h"
#include "ir/ops/reduce.h"

namespace camshaft::cpu {

extern const CpuTactic pool_tactic;
/// Maxima of f64 and of integers.
extern const CpuTactic max_pool_tactic;
/// Where the maxima lie.
extern const CpuTactic pool_indices_tactic;

/// The problem of one set of shapes. Throws Error(invalid_argument) for pads above 2^31.
SpatialPool spatial_pool(const ops::Pool& op, const KernelShapes& shapes);

}  // namespace camshaft::cpu
