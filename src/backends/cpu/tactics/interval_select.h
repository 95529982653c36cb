// Pointwise regions that choose by a comparison with column numbers, as runs of each row.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic interval_select_tactic;

}  // namespace camshaft::cpu
