// Products whose rows choose their matrix, as a CPU kernel.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic gather_matmul_tactic;

}  // namespace camshaft::cpu
