// The kernels of our own for attention, as others may need them.
#pragma once

#include <functional>

#include "backends/cuda/tactic.h"

namespace camshaft::cuda {

/// What compiles a kernel for the region's attention; null where we have none. It needs the workshop and nothing of the
/// region's graph.
std::function<std::shared_ptr<const Kernel>()> attention_kernel(const RegionView& region, const Workshop& workshop);

}  // namespace camshaft::cuda
