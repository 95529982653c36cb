// Pooling as CPU kernels.
#pragma once

#include "cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic pool_tactic;
/// Where the maxima lie.
extern const CpuTactic pool_indices_tactic;

}  // namespace camshaft::cpu
