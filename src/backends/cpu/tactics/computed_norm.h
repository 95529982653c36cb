// The tactic for layer and RMS norms of what is computed for them alone.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic computed_norm_tactic;

}  // namespace camshaft::cpu
