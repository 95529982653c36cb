// Softmax and normalisations as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic softmax_tactic;
extern const CpuTactic layer_norm_tactic;
extern const CpuTactic group_norm_tactic;

}  // namespace camshaft::cpu
