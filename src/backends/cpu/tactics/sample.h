// Operators that read images at given positions, or add windows up to images, as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic grid_sample_tactic;
extern const CpuTactic col2im_tactic;

}  // namespace camshaft::cpu
