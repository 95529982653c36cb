// Images sampled at given positions, as a CPU kernel.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic grid_sample_tactic;

}  // namespace camshaft::cpu
