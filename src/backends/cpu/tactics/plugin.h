// Operators of plugins.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic plugin_tactic;

}  // namespace camshaft::cpu
