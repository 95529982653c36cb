// The tactic for collectives.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic collective_tactic;

}  // namespace camshaft::cpu
