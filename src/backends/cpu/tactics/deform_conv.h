// Deformable convolutions of f32.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic deform_conv_tactic;

}  // namespace camshaft::cpu
