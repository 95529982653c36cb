// The tactic for determinants.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic determinant_tactic;

}  // namespace camshaft::cpu
