// Caches of keys and values in blocks, as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic paged_store_tactic;
extern const CpuTactic paged_quantize_tactic;
extern const CpuTactic paged_attention_tactic;

}  // namespace camshaft::cpu
