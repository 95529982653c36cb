// Pointwise regions as CPU kernels.
#pragma once

#include "cpu/tactic.h"

namespace camshaft::cpu {

/// Scalar programs as vector loops over tiles.
extern const CpuTactic pointwise_tactic;

}  // namespace camshaft::cpu
