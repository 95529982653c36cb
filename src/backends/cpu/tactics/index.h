// Operators that read, write or run along positions given as data, as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic find_keys_tactic;
extern const CpuTactic gather_nd_tactic;
extern const CpuTactic scatter_nd_tactic;
extern const CpuTactic scatter_elements_tactic;
extern const CpuTactic tensor_scatter_tactic;
extern const CpuTactic reverse_sequence_tactic;
extern const CpuTactic cumulative_tactic;

}  // namespace camshaft::cpu
