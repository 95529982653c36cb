// Windows that are added up to images, as a CPU kernel.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic col2im_tactic;

}  // namespace camshaft::cpu
