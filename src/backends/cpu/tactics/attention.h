// Attention on the CPU.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic attention_tactic;
/// The same of operands and probabilities rounded to bf16, where the operator allows it and the machine multiplies
/// them.
extern const CpuTactic attention_bf16_tactic;

}  // namespace camshaft::cpu
