// Attention on the CPU.
#pragma once

#include "cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic attention_tactic;

}  // namespace camshaft::cpu
