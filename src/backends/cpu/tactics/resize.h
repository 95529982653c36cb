// Resizing of images as a CPU kernel.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic resize_tactic;
extern const CpuTactic integer_resize_tactic;

}  // namespace camshaft::cpu
