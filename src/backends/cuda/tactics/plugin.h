// Operators of plugins, on a GPU.
#pragma once

#include "backends/cuda/tactic.h"

namespace camshaft::cuda {

extern const CudaTactic plugin_tactic;

}  // namespace camshaft::cuda
