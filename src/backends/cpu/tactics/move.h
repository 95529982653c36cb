// Operators that move elements, as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic transpose_tactic;
extern const CpuTactic expand_tactic;
extern const CpuTactic slice_tactic;
extern const CpuTactic concat_tactic;
extern const CpuTactic pad_tactic;
extern const CpuTactic index_map_tactic;
extern const CpuTactic gather_tactic;
extern const CpuTactic gather_elements_tactic;

}  // namespace camshaft::cpu
