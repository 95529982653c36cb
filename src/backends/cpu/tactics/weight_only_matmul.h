// Products of f32 rows with weights of few bits as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// ops::WeightOnlyMatMul of constant weights, packed at build time, with whatever is fused behind it.
extern const CpuTactic weight_only_matmul_tactic;

}  // namespace camshaft::cpu
