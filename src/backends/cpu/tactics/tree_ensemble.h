// The tactic for decision trees.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic tree_ensemble_tactic;

}  // namespace camshaft::cpu
