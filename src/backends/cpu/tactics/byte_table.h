// Pointwise regions of one operand of 8 bits.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// A quantised activation, say: its 256 results are computed when the kernel is made.
extern const CpuTactic byte_table_tactic;

}  // namespace camshaft::cpu
