// Matrix products of 8-bit numbers, and the quantisation before them, as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// ops::IntegerMatMul with whatever is fused behind it. A constant right-hand side is packed at build time.
extern const CpuTactic integer_matmul_tactic;
extern const CpuTactic dynamic_quantize_tactic;

}  // namespace camshaft::cpu
