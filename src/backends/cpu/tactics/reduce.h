// Reductions as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic reduce_tactic;
extern const CpuTactic arg_reduce_tactic;

}  // namespace camshaft::cpu
