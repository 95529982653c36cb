// Operators that choose elements, as CPU kernels.
#pragma once

#include "cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic top_k_tactic;

}  // namespace camshaft::cpu
