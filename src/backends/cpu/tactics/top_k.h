// TopK as a CPU kernel.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic top_k_tactic;

}  // namespace camshaft::cpu
